//! Reads values out of bodies, in memory that is counted as it is taken.
//!
//! A tree of JSON values takes up to forty times the memory of its text: 72 bytes for each `1,`. So no tree is built
//! without an allowance; where a field or two are wanted, [`crate::variables`] finds them in the bytes.

pub(super) mod limits;

use std::{
    cell::{Cell, RefCell},
    collections::HashSet,
    fmt,
    net::IpAddr,
};

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::{
    host,
    memory::{self, Lease, Spent},
};

pub use self::limits::{TooLarge, Unread};

/// The memory that one parsed body may take, unless config.yaml sets another limit.
pub(crate) const PARSED_BYTES: usize = 16 << 20;

/// Beside its name and value: the place in the list and in the table that finds it, which grow by doubling.
const ENTRY_BYTES: usize = size_of::<(u64, String, Value)>() + 48;

/// Memory that a document may take.
#[derive(Debug)]
pub struct Allowance {
    limit: usize,
    left: Cell<usize>,
    exceeded: Cell<Option<TooLarge>>,
    /// The memory also counts in the budget of all bodies, step by step.
    lease: Option<RefCell<Lease>>,
    /// Whether to give up, asked now and then.
    stop: Option<fn() -> bool>,
    entries: Cell<u32>,
}

/// Entries between two questions whether to stop.
const ENTRIES_PER_LOOK: u32 = 256;

/// How much is leased at a time.
const LEASE_STEP: usize = 256 << 10;

impl Allowance {
    /// Of that many bytes of memory, out of no budget.
    pub fn new(limit: usize) -> Allowance {
        Allowance {
            limit,
            left: Cell::new(limit),
            exceeded: Cell::default(),
            lease: None,
            stop: None,
            entries: Cell::new(0),
        }
    }

    /// Gives up once this is so.
    pub fn until(self, stop: fn() -> bool) -> Allowance {
        Allowance { stop: Some(stop), ..self }
    }

    /// For each entry of a list or object.
    fn pass<E: serde::de::Error>(&self) -> Result<(), E> {
        let entries = self.entries.get().wrapping_add(1);
        self.entries.set(entries);
        if entries.is_multiple_of(ENTRIES_PER_LOOK) && self.stop.is_some_and(|stop| stop()) {
            self.exceeded.set(Some(TooLarge::Late));
            return Err(E::custom(TooLarge::Late));
        }
        Ok(())
    }

    /// `apisix.body_memory.parsed`, out of the budget of all bodies where a client is named.
    pub fn of_a_body(client: Option<IpAddr>) -> Allowance {
        let limit = host().map_or(PARSED_BYTES, |host| host.parsed_body_bytes);
        Allowance { lease: client.map(|client| RefCell::new(Lease::new(client))), ..Allowance::new(limit) }
    }

    /// Counts bytes that a value takes in memory. After an error, each further call fails.
    pub fn take(&self, bytes: usize) -> Result<(), TooLarge> {
        let result = match self.left.get().checked_sub(bytes) {
            Some(left) => {
                self.left.set(left);
                self.lease(self.limit - left)
            }
            None => Err(TooLarge::Limit(self.limit)),
        };
        if let Err(error) = result {
            self.left.set(0);
            self.exceeded.set(Some(error));
        }
        result
    }

    fn lease(&self, taken: usize) -> Result<(), TooLarge> {
        let Some(lease) = self.lease.as_ref().filter(|_| taken > memory::UNCOUNTED) else { return Ok(()) };
        lease.borrow_mut().grow_to(taken.next_multiple_of(LEASE_STEP)).map_err(|Spent| TooLarge::Spent)
    }

    /// As [`Allowance::take`], inside of a deserializer: [`Allowance::explain`] finds the error again.
    pub(crate) fn charge<E: serde::de::Error>(&self, bytes: usize) -> Result<(), E> {
        self.take(bytes).map_err(E::custom)
    }

    pub(crate) fn explain(&self, error: serde_json::Error) -> Unread {
        self.exceeded.get().map_or(Unread::Syntax(error), Unread::TooLarge)
    }
}

/// A text from this size on is measured before it is read, so that one that is too costly takes no memory.
const LARGE_TEXT: usize = 1 << 20;

/// A whole document as `serde_json` reads it: of entries with one name the last counts.
pub fn parse(text: &[u8], allowance: &Allowance) -> Result<Value, Unread> {
    read(text, allowance, None)
}

/// As [`parse`], with the members of these names, at any depth: the others are skipped.
pub fn parse_members(text: &[u8], allowance: &Allowance, only: &HashSet<Box<str>>) -> Result<Value, Unread> {
    read(text, allowance, Some(only))
}

fn read(text: &[u8], allowance: &Allowance, only: Option<&HashSet<Box<str>>>) -> Result<Value, Unread> {
    if text.len() >= LARGE_TEXT {
        let left = Allowance::new(allowance.left.get());
        let cost = Cost(&left, only).deserialize(&mut serde_json::Deserializer::from_slice(text));
        if let Err(error) = cost {
            return Err(match left.explain(error) {
                Unread::TooLarge(_) => Unread::TooLarge(TooLarge::Limit(allowance.limit)),
                syntax => syntax,
            });
        }
    }
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let value = Tree(allowance, only).deserialize(&mut deserializer);
    value.and_then(|value| deserializer.end().map(|()| value)).map_err(|error| allowance.explain(error))
}

/// Measures a value, or its members of these names, without building it.
#[derive(Clone, Copy)]
struct Cost<'a>(&'a Allowance, Option<&'a HashSet<Box<str>>>);

impl<'de> DeserializeSeed<'de> for Cost<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Cost<'_> {
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

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<(), E> {
        self.0.charge(text.len())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let (mut items, mut room) = (0, 0);
        while list.next_element_seed(self)?.is_some() {
            if items == room {
                let more = doubled(room);
                self.0.charge(more * size_of::<Value>())?;
                room += more;
            }
            items += 1;
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(is_asked_for) = list.next_key_seed(Name(self))? {
            if is_asked_for {
                self.0.charge(ENTRY_BYTES)?;
                list.next_value_seed(self)?;
            } else {
                list.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

/// The name of a member: whether it is asked for, and then it is charged.
struct Name<'a>(Cost<'a>);

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Name<'_> {
    type Value = bool;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the name of a member")
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<bool, E> {
        let Cost(allowance, only) = self.0;
        let is_asked_for = only.is_none_or(|only| only.contains(name));
        if is_asked_for {
            allowance.charge(name.len())?;
        }
        Ok(is_asked_for)
    }
}

/// By how much a full list grows.
fn doubled(room: usize) -> usize {
    room.max(2)
}

/// A value with all that is in it, or with the members of these names.
#[derive(Clone, Copy)]
pub(crate) struct Tree<'a>(pub &'a Allowance, pub Option<&'a HashSet<Box<str>>>);

impl<'de> DeserializeSeed<'de> for Tree<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Tree<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any valid JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Value, E> {
        self.0.charge(text.len())?;
        Ok(Value::String(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element_seed(self)? {
            self.0.pass()?;
            if items.len() == items.capacity() {
                // Counted before it is allocated: the list doubles.
                let more = doubled(items.len());
                self.0.charge(more * size_of::<Value>())?;
                items.reserve_exact(more);
            }
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut entries = Map::new();
        while let Some(name) = list.next_key::<String>()? {
            self.0.pass()?;
            if self.1.is_some_and(|only| !only.contains(name.as_str())) {
                list.next_value::<IgnoredAny>()?;
                continue;
            }
            self.0.charge(ENTRY_BYTES + name.capacity())?;
            let value = list.next_value_seed(self)?;
            entries.insert(name, value);
        }
        Ok(Value::Object(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_read_as_serde_json_reads_them() {
        for text in [
            r#"{"a":1,"b":[1,-2,3.5,1e400],"a":{"c":null}}"#,
            r#"[true,"é\n\ud83d\ude00",{}, [] ,18446744073709551615,-0]"#,
            "1 2",
            "[1,]",
            "{\"a\"}",
            "\"\\ud800\"",
            "",
            "nul",
        ] {
            let ours = parse(text.as_bytes(), &Allowance::new(1 << 20)).map_err(|error| error.to_string());
            let theirs = serde_json::from_slice::<Value>(text.as_bytes()).map_err(|error| error.to_string());
            assert_eq!(ours, theirs, "{text}");
        }
        let deep = "[".repeat(129) + &"]".repeat(129);
        assert!(matches!(parse(deep.as_bytes(), &Allowance::new(1 << 20)), Err(Unread::Syntax(_))));
    }

    #[test]
    fn what_takes_too_much_is_not_built() {
        for text in [
            format!("[{}1]", "1,".repeat(100_000)),
            format!("{{{}\"\":1}}", (0..10_000).map(|at| format!("\"{at}\":1,")).collect::<String>()),
            format!("[\"{}\"]", "x".repeat(1 << 20)),
        ] {
            let read = parse(text.as_bytes(), &Allowance::new(1 << 20));
            assert!(matches!(read, Err(Unread::TooLarge(TooLarge::Limit(0x10_0000)))), "{read:?}");
        }
    }

    /// The estimate for a text equals what its tree then takes.
    #[test]
    fn the_cost_of_a_text_is_that_of_its_tree() {
        let names =
            (0..1000).map(|at| format!("\"name-{at}\":[{at},\"x\",{{}},[true]],")).collect::<String>();
        for text in
            [format!("{{{names}\"\":null}}"), format!("[{}1.5]", "1,".repeat(4095)), "[[],[[]]]".to_owned()]
        {
            let (said, taken) = (Allowance::new(1 << 24), Allowance::new(1 << 24));
            let mut deserializer = serde_json::Deserializer::from_str(&text);
            Cost(&said, None).deserialize(&mut deserializer).unwrap();
            parse(text.as_bytes(), &taken).unwrap();
            assert_eq!(said.left, taken.left, "{text:.60}");
        }
    }
}
