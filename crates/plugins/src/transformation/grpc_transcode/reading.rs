//! From JSON to a message. Fields keep the names of the definition; what it does not know is ignored.

use std::collections::HashMap;

use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, Value as Field};
use serde_json::Value;

pub(super) fn message(descriptor: MessageDescriptor, source: &Value) -> Result<DynamicMessage, String> {
    let mut message = DynamicMessage::new(descriptor.clone());
    let Value::Object(source) = source else { return Err(format!("{} needs an object", descriptor.name())) };
    for field in descriptor.fields() {
        let Some(value) = source.get(field.name()).filter(|value| !value.is_null()) else { continue };
        let named = |reason| format!("field {}: {reason}", field.name());
        if let Some(value) = self::field(&field, value).map_err(named)? {
            message.try_set_field(&field, value).map_err(|error| error.to_string())?;
        }
    }
    Ok(message)
}

fn field(field: &FieldDescriptor, value: &Value) -> Result<Option<Field>, String> {
    if field.is_map() {
        return map(field, value).map(Some);
    }
    if field.is_list() {
        return match value {
            Value::Array(items) => {
                let items = items.iter().map(|item| single(&field.kind(), item));
                items.collect::<Result<_, _>>().map(|items| Some(Field::List(items)))
            }
            // A form cannot say that one value is a list.
            Value::Object(_) => Err("needs an array".to_owned()),
            one => single(&field.kind(), one).map(|one| Some(Field::List(vec![one]))),
        };
    }
    // As in APISIX: what is not a number is not a value to a small integer.
    if matches!(field.kind(), Kind::Int32) && value.is_string() && integer(value).is_none() {
        return Ok(None);
    }
    single(&field.kind(), value).map(Some)
}

fn map(field: &FieldDescriptor, value: &Value) -> Result<Field, String> {
    let Kind::Message(entry) = field.kind() else { return Err("is not a map".to_owned()) };
    let Value::Object(items) = value else { return Err("needs an object".to_owned()) };
    let (key, kind) = (entry.map_entry_key_field().kind(), entry.map_entry_value_field().kind());
    let mut map = HashMap::new();
    for (name, value) in items {
        map.insert(map_key(&key, name)?, single(&kind, value)?);
    }
    Ok(Field::Map(map))
}

fn map_key(kind: &Kind, name: &str) -> Result<MapKey, String> {
    let text = Value::from(name);
    let key = if matches!(kind, Kind::Bool) { Field::Bool(name == "true") } else { single(kind, &text)? };
    key.into_map_key().ok_or_else(|| "is not a key".to_owned())
}

fn single(kind: &Kind, value: &Value) -> Result<Field, String> {
    let wrong = || format!("{value} does not fit");
    let whole = || integer(value).ok_or_else(wrong);
    Ok(match kind {
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => Field::I32(whole()?.try_into().map_err(|_| wrong())?),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => Field::I64(whole()?.try_into().map_err(|_| wrong())?),
        Kind::Uint32 | Kind::Fixed32 => Field::U32(whole()?.try_into().map_err(|_| wrong())?),
        Kind::Uint64 | Kind::Fixed64 => Field::U64(whole()?.try_into().map_err(|_| wrong())?),
        Kind::Double => Field::F64(number(value).ok_or_else(wrong)?),
        Kind::Float => Field::F32(number(value).ok_or_else(wrong)? as f32),
        Kind::Bool => Field::Bool(match value {
            Value::Bool(value) => *value,
            Value::Number(value) => value.as_f64() != Some(0.0),
            Value::String(text) => !matches!(text.as_str(), "" | "0" | "false"),
            _ => return Err(wrong()),
        }),
        Kind::String => Field::String(text(value).ok_or_else(wrong)?),
        Kind::Bytes => Field::Bytes(text(value).ok_or_else(wrong)?.into_bytes().into()),
        Kind::Message(descriptor) => Field::Message(message(descriptor.clone(), value)?),
        Kind::Enum(descriptor) => match value {
            Value::String(name) => match descriptor.get_value_by_name(name) {
                Some(known) => Field::EnumNumber(known.number()),
                None => Field::EnumNumber(whole()?.try_into().map_err(|_| wrong())?),
            },
            _ => Field::EnumNumber(whole()?.try_into().map_err(|_| wrong())?),
        },
    })
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// Whole numbers, also as the texts that lua-protobuf takes: `12`, `-12`, `#12`, `0xab`, `#-0xab`.
fn integer(value: &Value) -> Option<i128> {
    match value {
        Value::Number(number) => {
            if let Some(value) = number.as_i64() {
                return Some(value.into());
            }
            if let Some(value) = number.as_u64() {
                return Some(value.into());
            }
            number
                .as_f64()
                .filter(|value| value.fract() == 0.0 && value.abs() < 1e19)
                .map(|value| value as i128)
        }
        Value::String(text) => {
            let (text, outer) = sign(text.trim());
            let (text, inner) = sign(text.strip_prefix('#').unwrap_or(text));
            let digits = text.strip_prefix("0x").or(text.strip_prefix("0X"));
            let (digits, radix) = digits.map_or((text, 10), |digits| (digits, 16));
            if !digits.chars().all(|digit| digit.is_digit(radix)) {
                return None;
            }
            let value = i128::from_str_radix(digits, radix).ok()?;
            Some(if outer != inner { -value } else { value })
        }
        _ => None,
    }
}

/// The rest, and whether there was a minus.
fn sign(text: &str) -> (&str, bool) {
    text.strip_prefix('-').map_or((text, false), |rest| (rest, true))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::transformation::grpc_transcode::{proto, writing};

    const TYPES: &str = "syntax = \"proto3\";
        package p;
        enum Color { RED = 0; BLUE = 2; }
        message Inner { string name = 1; int32 age = 2; }
        message All {
            int32 small = 1; int64 large = 2; uint64 unsigned = 3; bool flag = 4; double real = 5;
            string text = 6; bytes raw = 7; Color color = 8; Inner inner = 9;
            repeated string words = 10; repeated Inner people = 11;
            map<string, Inner> by_name = 12; map<int32, string> by_number = 13;
        }";

    fn read(source: Value) -> Result<Value, String> {
        let compiled = proto::compile(TYPES).expect("a definition");
        let descriptor = compiled.pool.get_message_by_name("p.All").expect("a message");
        let options = writing::Options::new(&["no_default_values".to_owned()]);
        message(descriptor, &source).map(|message| writing::json(&message, &options))
    }

    #[test]
    fn values_of_all_kinds() {
        let cases = [
            (
                json!({"small": 1, "large": "9007199254740993"}),
                json!({"small": 1, "large": 9007199254740993_i64}),
            ),
            (
                json!({"small": "7", "unsigned": 18446744073709551615_u64}),
                json!({"small": 7, "unsigned": 18446744073709551615_u64}),
            ),
            (json!({"large": "#-0x10"}), json!({"large": -16})),
            (json!({"large": "0xabF"}), json!({"large": 2751})),
            (json!({"small": "many"}), json!({})),
            (
                json!({"flag": true, "real": 1.5, "text": 12}),
                json!({"flag": true, "real": 1.5, "text": "12"}),
            ),
            (json!({"flag": "1", "real": "2.25"}), json!({"flag": true, "real": 2.25})),
            (json!({"color": "BLUE"}), json!({"color": "BLUE"})),
            (json!({"color": 2, "raw": "ab"}), json!({"color": "BLUE", "raw": "ab"})),
            (json!({"inner": {"name": "a", "other": 1}}), json!({"inner": {"name": "a"}})),
            (
                json!({"words": ["a", "b"], "people": [{"age": 3}]}),
                json!({"words": ["a", "b"], "people": [{"age": 3}]}),
            ),
            (json!({"words": "a"}), json!({"words": ["a"]})),
            (
                json!({"by_name": {"x": {"age": 1}}, "by_number": {"5": "five"}}),
                json!({"by_name": {"x": {"age": 1}}, "by_number": {"5": "five"}}),
            ),
            (json!({"text": null, "unknown": 1}), json!({})),
        ];
        for (source, expected) in cases {
            assert_eq!(read(source.clone()), Ok(expected), "{source}");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for source in [
            json!({"large": "#a"}),
            json!({"large": "+aaa"}),
            json!({"small": 4294967296_u64}),
            json!({"unsigned": -1}),
            json!({"small": 1.5}),
            json!({"color": "GREEN"}),
            json!({"text": {"a": 1}}),
            json!({"inner": "a"}),
            json!({"people": {"a": 1}}),
            json!({"by_name": [1]}),
            json!([1]),
        ] {
            assert!(read(source.clone()).is_err(), "{source}");
        }
    }
}
