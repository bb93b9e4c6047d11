//! A deserializer of JSON trees that remembers where the first fault is.
//!
//! It is one type for a whole tree, so that code that reads a type is compiled once for each type. A wrapper around serde_json's own
//! deserializer would have it compiled for maps, for lists in place of maps, and for the wrapper's layers around both.

use std::{cell::OnceCell, slice};

use serde::{
    Deserialize,
    de::{
        DeserializeSeed, Deserializer, EnumAccess, Error as _, MapAccess, SeqAccess, Unexpected,
        VariantAccess, Visitor, value::BorrowedStrDeserializer,
    },
    forward_to_deserialize_any,
};
use serde_json::{Error, Map, Value, map};

/// From the root of the tree to a value.
#[derive(Clone, Copy)]
enum Way<'a> {
    Root,
    Key(&'a Way<'a>, &'a str),
    Index(&'a Way<'a>, usize),
}

impl Way<'_> {
    /// `a.b[0].c`
    fn text(&self) -> String {
        match self {
            Way::Root => String::new(),
            Way::Key(before, key) => match before.text() {
                before if before.is_empty() => (*key).to_owned(),
                before => format!("{before}.{key}"),
            },
            Way::Index(before, index) => format!("{}[{index}]", before.text()),
        }
    }
}

/// A value of the tree.
#[derive(Clone, Copy)]
pub(super) struct Located<'de, 'a> {
    value: &'de Value,
    way: Way<'a>,
    fault: &'a OnceCell<String>,
}

impl<'de, 'a> Located<'de, 'a> {
    /// `fault` gets the way to the first value that does not fit; it is empty for the root.
    pub(super) fn root(value: &'de Value, fault: &'a OnceCell<String>) -> Self {
        Located { value, way: Way::Root, fault }
    }

    fn noted<T>(&self, read: Result<T, Error>) -> Result<T, Error> {
        if read.is_err() {
            self.fault.get_or_init(|| self.way.text());
        }
        read
    }

    fn wrong<T>(&self, expected: &dyn serde::de::Expected) -> Result<T, Error> {
        self.noted(Err(Error::invalid_type(unexpected(self.value), expected)))
    }

    fn list<V: Visitor<'de>>(self, values: &'de [Value], visitor: V) -> Result<V::Value, Error> {
        let mut items = Items { list: self, index: 0, rest: values.iter() };
        let read = visitor.visit_seq(&mut items);
        let all = items.rest.as_slice().is_empty();
        self.noted(read.and_then(|read| match all {
            true => Ok(read),
            false => Err(Error::invalid_length(values.len(), &"fewer elements in array")),
        }))
    }

    fn map<V: Visitor<'de>>(self, entries: &'de Map<String, Value>, visitor: V) -> Result<V::Value, Error> {
        let mut fields = Fields { map: self, rest: entries.iter(), value: None };
        let read = visitor.visit_map(&mut fields);
        let all = fields.rest.len() == 0;
        self.noted(read.and_then(|read| match all {
            true => Ok(read),
            false => Err(Error::invalid_length(entries.len(), &"fewer elements in map")),
        }))
    }
}

fn unexpected(value: &Value) -> Unexpected<'_> {
    match value {
        Value::Null => Unexpected::Unit,
        Value::Bool(value) => Unexpected::Bool(*value),
        Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(number), _) => Unexpected::Unsigned(number),
            (None, Some(number)) => Unexpected::Signed(number),
            (None, None) => number.as_f64().map_or(Unexpected::Other("number"), Unexpected::Float),
        },
        Value::String(text) => Unexpected::Str(text),
        Value::Array(_) => Unexpected::Seq,
        Value::Object(_) => Unexpected::Map,
    }
}

impl<'de> Deserializer<'de> for Located<'de, '_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let read = match self.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Number(number) => number.deserialize_any(visitor),
            Value::String(text) => visitor.visit_borrowed_str(text),
            Value::Array(values) => return self.list(values, visitor),
            Value::Object(entries) => return self.map(entries, visitor),
        };
        self.noted(read)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        let read = visitor.visit_newtype_struct(self);
        self.noted(read)
    }

    /// Not from a list of its fields' values, as serde would.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.value {
            Value::Object(entries) => self.map(entries, visitor),
            _ => self.wrong(&visitor),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let (name, content) = match self.value {
            Value::String(name) => (name, None),
            Value::Object(entries) => match (entries.iter().next(), entries.len()) {
                (Some((name, content)), 1) => (name, Some(content)),
                _ => {
                    let fault = Error::invalid_value(Unexpected::Map, &"map with a single key");
                    return self.noted(Err(fault));
                }
            },
            _ => return self.wrong(&"string or map"),
        };
        let way = Way::Key(&self.way, name);
        let content = content.map(|value| Located { value, way, fault: self.fault });
        let read = visitor.visit_enum(Variant { name, content });
        self.noted(read)
    }

    /// Not by number, as visitors would.
    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            Value::String(name) => self.noted(visitor.visit_borrowed_str(name)),
            _ => self.wrong(&visitor),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        unit unit_struct seq tuple tuple_struct map
    }
}

struct Items<'de, 'a> {
    list: Located<'de, 'a>,
    index: usize,
    rest: slice::Iter<'de, Value>,
}

impl<'de> SeqAccess<'de> for &mut Items<'de, '_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        let Some(value) = self.rest.next() else { return Ok(None) };
        let item = Located { value, way: Way::Index(&self.list.way, self.index), fault: self.list.fault };
        let read = item.noted(seed.deserialize(item)).map(Some);
        self.index += 1;
        read
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.rest.len())
    }
}

struct Fields<'de, 'a> {
    map: Located<'de, 'a>,
    rest: map::Iter<'de>,
    /// Of the key that was read last.
    value: Option<(&'de str, &'de Value)>,
}

impl<'de> MapAccess<'de> for &mut Fields<'de, '_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let Some((key, value)) = self.rest.next() else { return Ok(None) };
        self.value = Some((key, value));
        let field = Located { value, way: Way::Key(&self.map.way, key), fault: self.map.fault };
        field.noted(seed.deserialize(BorrowedStrDeserializer::new(key))).map(Some)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Error> {
        let Some((key, value)) = self.value.take() else { return Err(Error::custom("value is missing")) };
        let field = Located { value, way: Way::Key(&self.map.way, key), fault: self.map.fault };
        field.noted(seed.deserialize(field))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.rest.len())
    }
}

struct Variant<'de, 'a> {
    name: &'de str,
    content: Option<Located<'de, 'a>>,
}

impl<'de, 'a> EnumAccess<'de> for Variant<'de, 'a> {
    type Error = Error;
    type Variant = Content<'de, 'a>;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Content<'de, 'a>), Error> {
        let variant = seed.deserialize(BorrowedStrDeserializer::new(self.name))?;
        Ok((variant, Content(self.content)))
    }
}

/// What stands beside the name of a variant.
struct Content<'de, 'a>(Option<Located<'de, 'a>>);

impl<'de> Content<'de, '_> {
    fn wrong<T>(&self, expected: &'static str) -> Result<T, Error> {
        match &self.0 {
            Some(content) => content.wrong(&expected),
            None => Err(Error::invalid_type(Unexpected::UnitVariant, &expected)),
        }
    }
}

impl<'de> VariantAccess<'de> for Content<'de, '_> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        self.0.map_or(Ok(()), Deserialize::deserialize)
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Error> {
        match self.0 {
            Some(content) => content.noted(seed.deserialize(content)),
            None => self.wrong("newtype variant"),
        }
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            Some(content @ Located { value: Value::Array(values), .. }) => content.list(values, visitor),
            _ => self.wrong("tuple variant"),
        }
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.0 {
            Some(content @ Located { value: Value::Object(entries), .. }) => content.map(entries, visitor),
            _ => self.wrong("struct variant"),
        }
    }
}
