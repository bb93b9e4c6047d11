//! Values found in the bytes of a document: everything else is parsed and dropped.
//!
//! The whole document is still parsed. A body that is not JSON has no values, and of entries with one name the last
//! counts, as in a tree: gateway and upstream see the same.

use std::{cell::RefCell, collections::HashMap, fmt};

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::path::{Key, Path, Pending};
use crate::document::{Allowance, Tree, limits::Unread};

/// Beside a name: its place in the table of names, and a place in the list of values.
const NAME_BYTES: usize = 96;

/// Every value that the path selects, in the order of the document.
pub(crate) fn values(text: &[u8], path: &Path<'_>, allowance: &Allowance) -> Result<Vec<Value>, Unread> {
    let walk = Walk { path, allowance, found: RefCell::default() };
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    At { walk: &walk, pending: path.start() }
        .deserialize(&mut deserializer)
        .and_then(|()| deserializer.end())
        .map_err(|error| allowance.explain(error))?;
    Ok(walk.found.into_inner().into_iter().flatten().collect())
}

struct Walk<'p> {
    path: &'p Path<'p>,
    allowance: &'p Allowance,
    /// `None`: the entry came again, and its first values are gone.
    found: RefCell<Vec<Option<Value>>>,
}

impl Walk<'_> {
    fn add<E: serde::de::Error>(&self, value: Value) -> Result<(), E> {
        self.allowance.charge(2 * size_of::<Value>())?;
        self.found.borrow_mut().push(Some(value));
        Ok(())
    }

    /// Adds the values selected below a selected one.
    fn add_below<E: serde::de::Error>(&self, value: &Value, pending: Pending) -> Result<(), E> {
        let mut result = Ok(());
        self.path.in_tree(value, pending, &mut |value| {
            if result.is_ok() {
                result = self.allowance.charge(weight(value)).and_then(|()| self.add(value.clone()));
            }
        });
        result
    }
}

/// The memory that a copy takes.
fn weight(value: &Value) -> usize {
    let inside = match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(weight).sum(),
        Value::Object(entries) => {
            entries.iter().map(|(name, entry)| NAME_BYTES + name.len() + weight(entry)).sum()
        }
        _ => 0,
    };
    size_of::<Value>() + inside
}

/// A place in the document.
#[derive(Clone, Copy)]
struct At<'w> {
    walk: &'w Walk<'w>,
    pending: Pending,
}

impl<'de> DeserializeSeed<'de> for At<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        let selected = self.walk.path.selected();
        if self.pending & selected == 0 {
            return deserializer.deserialize_any(self);
        }
        let value = Tree(self.walk.allowance, None).deserialize(deserializer)?;
        let below = self.pending & (selected - 1);
        if below == 0 {
            return self.walk.add(value);
        }
        let copy = self.walk.found.borrow().len();
        self.walk.add(Value::Null)?;
        self.walk.add_below(&value, below)?;
        if let Some(slot) = self.walk.found.borrow_mut().get_mut(copy) {
            *slot = Some(value);
        }
        Ok(())
    }
}

impl<'de> Visitor<'de> for At<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any valid JSON value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let Walk { path, .. } = self.walk;
        let pending = |index| match self.pending {
            0 => 0,
            pending => path.follow(pending, Key::Index(index)),
        };
        let mut index = 0;
        while list.next_element_seed(At { pending: pending(index), ..self })?.is_some() {
            index += 1;
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        // Names under which something was found, and where it is.
        let mut earlier: HashMap<String, (usize, usize)> = HashMap::new();
        while let Some(name) = list.next_key_seed(Name(self))? {
            let Some((name, pending)) = name else {
                list.next_value_seed(At { pending: 0, ..self })?;
                continue;
            };
            if let Some((from, to)) = earlier.remove(&name) {
                let mut found = self.walk.found.borrow_mut();
                found.get_mut(from..to).into_iter().flatten().for_each(|value| *value = None);
            }
            let from = self.walk.found.borrow().len();
            list.next_value_seed(At { pending, ..self })?;
            let to = self.walk.found.borrow().len();
            if to > from {
                self.walk.allowance.charge(NAME_BYTES + name.len())?;
                earlier.insert(name, (from, to));
            }
        }
        Ok(())
    }
}

/// The name of an entry, and what is pending at its value; `None`: nothing.
struct Name<'w>(At<'w>);

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = Option<(String, Pending)>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = Option<(String, Pending)>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        let At { walk, pending } = self.0;
        if pending == 0 {
            return Ok(None);
        }
        let pending = walk.path.follow(pending, Key::Name(name));
        Ok((pending != 0).then(|| (name.to_owned(), pending)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes and a tree give the same values.
    #[test]
    fn the_same_as_in_a_tree() {
        let texts = [
            r#"{"a":{"b":1},"c":[{"b":2},{"b":[3,{"b":4}]}],"d":null,"":{"":5}}"#,
            r#"{"a":{"b":1},"a":2}"#,
            r#"{"a":2,"x":0,"a":{"b":1,"b":{"b":3}}}"#,
            r#"{"a":[{"b":1}],"x":{"b":9},"a":[{"c":1}]}"#,
            r#"[{"b":1},{"b":"\u00e9\n"}]"#,
            r#""b""#,
            "17",
        ];
        let paths = [
            "$..b", "a.b", "a[0].b", "..*", "*", "c[*].b", "[1]['b']", "..a..b", "c..[1]", "a", "..", "['']",
        ];
        for text in texts {
            let tree = serde_json::from_str::<Value>(text).unwrap();
            for path in paths {
                let expected: Vec<Value> = super::super::select(&tree, path).into_iter().cloned().collect();
                let Some(compiled) = Path::of_json_path(path) else { continue };
                let found = values(text.as_bytes(), &compiled, &Allowance::new(1 << 20)).unwrap();
                let sorted = |values: Vec<Value>| {
                    let mut texts: Vec<String> = values.iter().map(Value::to_string).collect();
                    texts.sort();
                    texts
                };
                assert_eq!(sorted(found), sorted(expected), "{path} of {text}");
            }
        }
    }

    #[test]
    fn a_text_that_is_no_document_has_no_values() {
        let path = Path::of_names("a").unwrap();
        for text in [
            r#"{"a":1"#,
            r#"{"a":1}x"#,
            r#"{"a":1,"b":"\ud800"}"#,
            r#"{"a":1,"b":1e999}"#,
            r#"{"a":1,"b":tru}"#,
        ] {
            assert!(values(text.as_bytes(), &path, &Allowance::new(1 << 20)).is_err(), "{text}");
        }
        let deep = format!("{{\"a\":1,\"b\":{}{}}}", "[".repeat(200), "]".repeat(200));
        assert!(values(deep.as_bytes(), &path, &Allowance::new(1 << 20)).is_err());
        let bad_utf8 = b"{\"a\":1,\"b\":\"\xff\"}";
        assert!(values(bad_utf8, &path, &Allowance::new(1 << 20)).is_err());
    }

    #[test]
    fn only_what_is_selected_takes_memory() {
        let text = format!(r#"{{"b":[{}1],"a":7}}"#, "1,".repeat(100_000));
        let find = |path: &str, bytes| {
            values(text.as_bytes(), &Path::of_names(path).unwrap(), &Allowance::new(bytes))
                .map_err(|error| error.to_string())
        };
        assert_eq!(find("a", 1024), Ok(vec![Value::from(7)]));
        assert_eq!(find("c", 0), Ok(vec![]));
        assert!(find("b", 1 << 20).unwrap_err().contains("more than 1048576 bytes"));
    }
}
