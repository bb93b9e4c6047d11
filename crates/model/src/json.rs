//! A JSON reader that loses nothing: a duplicate key is an error, where other readers keep the last one and drop the
//! first, which may have been the guard.

use std::{
    cell::{Cell, RefCell},
    fmt,
};

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Why a text is refused.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// It is not JSON.
    #[error("{0}")]
    Syntax(serde_json::Error),
    /// A key of an object is there a second time.
    #[error("key {key:?} is given twice{}", within(.path))]
    Twice {
        /// Unescaped.
        key: String,
        /// Of the object, such as `routes[0].plugins`; empty for the outermost one.
        path: String,
        /// Of the end of the second key, from 1.
        line: usize,
        /// Of the end of the second key, from 1.
        column: usize,
    },
    /// It has more than this number of values.
    #[error("it has more than {0} values")]
    TooMany(usize),
}

fn within(path: &str) -> String {
    if path.is_empty() { String::new() } else { format!(" in {path}") }
}

/// Reads a whole text.
pub fn parse(bytes: &[u8]) -> Result<Value, Fault> {
    parse_within(bytes, usize::MAX)
}

/// Reads a whole text that has no more values than this, itself and members of members included.
pub fn parse_within(bytes: &[u8], most: usize) -> Result<Value, Fault> {
    let walk = Walk { left: Cell::new(most), ..Walk::default() };
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let read = Node(&walk).deserialize(&mut reader).and_then(|value| reader.end().map(|()| value));
    read.map_err(|error| match walk.twice.take() {
        _ if walk.spent.get() => Fault::TooMany(most),
        Some(key) => {
            let (line, column) = (error.line(), error.column());
            Fault::Twice { key, path: path(&walk.steps.borrow()), line, column }
        }
        None => Fault::Syntax(error),
    })
}

/// The most values that a text can hold: what parts values is counted outside of strings, and nothing is built.
pub fn most_values(text: &[u8]) -> usize {
    let (mut values, mut rest) = (1, text);
    while let Some(at) = rest.iter().position(|byte| matches!(byte, b',' | b'[' | b'{' | b'"')) {
        let (here, after) = (rest.get(at), rest.get(at + 1..).unwrap_or_default());
        if here == Some(&b'"') {
            rest = after_string(after);
        } else {
            values += 1;
            rest = after;
        }
    }
    values
}

/// What follows a string that has begun.
fn after_string(mut text: &[u8]) -> &[u8] {
    while let Some(at) = text.iter().position(|byte| matches!(byte, b'"' | b'\\')) {
        let skipped = if text.get(at) == Some(&b'"') { 1 } else { 2 };
        text = text.get(at + skipped..).unwrap_or_default();
        if skipped == 1 {
            return text;
        }
    }
    &[]
}

/// Where the reader is, and the key that it found twice.
#[derive(Default)]
struct Walk {
    steps: RefCell<Vec<Step>>,
    twice: RefCell<Option<String>>,
    left: Cell<usize>,
    spent: Cell<bool>,
}

enum Step {
    Key(String),
    Item(usize),
}

fn path(steps: &[Step]) -> String {
    let mut path = String::new();
    for step in steps {
        match step {
            Step::Key(key) if path.is_empty() => path.push_str(key),
            Step::Key(key) => path.extend([".", key]),
            Step::Item(index) => path.push_str(&format!("[{index}]")),
        }
    }
    path
}

struct Node<'a>(&'a Walk);

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        let Some(left) = self.0.left.get().checked_sub(1) else {
            self.0.spent.set(true);
            return Err(D::Error::custom("too many values"));
        };
        self.0.left.set(left);
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any valid JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        loop {
            self.0.steps.borrow_mut().push(Step::Item(items.len()));
            let Some(item) = access.next_element_seed(Node(self.0))? else { break };
            self.0.steps.borrow_mut().pop();
            items.push(item);
        }
        self.0.steps.borrow_mut().pop();
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            if fields.contains_key(&key) {
                self.0.twice.replace(Some(key));
                return Err(A::Error::custom("a key is given twice"));
            }
            self.0.steps.borrow_mut().push(Step::Key(key.clone()));
            let value = access.next_value_seed(Node(self.0))?;
            self.0.steps.borrow_mut().pop();
            fields.insert(key, value);
        }
        Ok(Value::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::{most_values, parse};

    #[test]
    fn reads_what_other_readers_read() {
        for text in [
            r#"{"a":[1,-2,2.5,1e300,18446744073709551615,-9223372036854775808],"b":{"c":null,"d":[true,"\u00e9"]}}"#,
            "[]",
            "5",
            r#""x""#,
            r#"[{"a":1},{"a":1}]"#,
        ] {
            let expected: serde_json::Value = serde_json::from_str(text).expect("JSON");
            assert_eq!(parse(text.as_bytes()).expect("JSON"), expected);
        }
        for text in ["", "{", "[1,]", "{} x", r#"{"a" 1}"#, "\"a\nb\""] {
            let error = serde_json::from_str::<serde_json::Value>(text).expect_err("no JSON").to_string();
            assert_eq!(parse(text.as_bytes()).expect_err("no JSON").to_string(), error);
        }
        assert!(parse("[".repeat(100_000).as_bytes()).is_err());
    }

    #[test]
    fn keys_given_twice() {
        for (text, fault) in [
            (r#"{"a":1,"a":2}"#, "key \"a\" is given twice"),
            (r#"{"a":1,"\u0061":1}"#, "key \"a\" is given twice"),
            (
                r#"{"routes":[{},{"plugins":{"x":1,"y":2,"x":3}}]}"#,
                "key \"x\" is given twice in routes[1].plugins",
            ),
        ] {
            assert_eq!(parse(text.as_bytes()).expect_err(text).to_string(), fault);
        }
    }

    #[test]
    fn values_are_counted_without_reading_them() {
        for (text, most) in [
            ("", 1),
            ("[1,1,1]", 4),
            (r#"{"a":[],"b":{"c":"[,,,"},"d":"\"[,"}"#, 6),
            (r#"["\\",1]"#, 3),
            (r#"["\"#, 2),
            (r#"[",,"#, 2),
        ] {
            assert_eq!(most_values(text.as_bytes()), most, "{text}");
        }
    }
}
