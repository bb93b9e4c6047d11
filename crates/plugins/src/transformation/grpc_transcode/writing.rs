//! From a message to JSON, in the shapes that lua-protobuf's options choose.

use std::collections::BTreeMap;

use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MapKey, ReflectMessage, Syntax, Value as Field};
use serde_json::{Map, Number, Value};

/// `pb_option` of the plugin.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options {
    enums: Enums,
    integers: Integers,
    defaults: Defaults,
}

#[derive(Clone, Copy, Debug)]
enum Enums {
    Names,
    Numbers,
}

/// How integers are shown that need more than 32 bits.
#[derive(Clone, Copy, Debug)]
enum Integers {
    Numbers,
    /// `"#123"`
    Text,
    /// `"#0x7b"`
    Hexadecimal,
}

/// Which fields that were not sent are shown.
#[derive(Clone, Copy, Debug)]
enum Defaults {
    /// Those of proto3.
    Automatic,
    All,
    None,
}

impl Default for Options {
    fn default() -> Options {
        Options { enums: Enums::Names, integers: Integers::Numbers, defaults: Defaults::Automatic }
    }
}

impl Options {
    /// Those that are not named keep their defaults. Of two that contradict each other the last counts.
    pub(super) fn new(names: &[String]) -> Options {
        let mut options = Options::default();
        for name in names {
            match name.as_str() {
                "enum_as_name" => options.enums = Enums::Names,
                "enum_as_value" => options.enums = Enums::Numbers,
                "int64_as_number" => options.integers = Integers::Numbers,
                "int64_as_string" => options.integers = Integers::Text,
                "int64_as_hexstring" => options.integers = Integers::Hexadecimal,
                "auto_default_values" => options.defaults = Defaults::Automatic,
                "use_default_values" => options.defaults = Defaults::All,
                "no_default_values" | "use_default_metatable" => options.defaults = Defaults::None,
                // Hooks are Lua functions: there are none.
                _ => {}
            }
        }
        options
    }
}

pub(super) fn json(message: &DynamicMessage, options: &Options) -> Value {
    let mut object = Map::new();
    for field in message.descriptor().fields() {
        if message.has_field(&field) || is_shown(&field, options) {
            object.insert(field.name().to_owned(), value(&field, &message.get_field(&field), options));
        }
    }
    Value::Object(object)
}

/// Whether a field that was not sent is shown with its default. Messages and members of a `oneof` have none.
fn is_shown(field: &FieldDescriptor, options: &Options) -> bool {
    let wanted = match options.defaults {
        Defaults::None => false,
        Defaults::All => true,
        Defaults::Automatic => field.parent_file().syntax() == Syntax::Proto3,
    };
    let has_default = field.is_list()
        || field.is_map()
        || (field.containing_oneof().is_none() && !matches!(field.kind(), Kind::Message(_)));
    wanted && has_default
}

fn value(field: &FieldDescriptor, from: &Field, options: &Options) -> Value {
    match (from, field.kind()) {
        (Field::List(items), kind) => items.iter().map(|item| single(&kind, item, options)).collect(),
        (Field::Map(items), Kind::Message(entry)) => {
            let kind = entry.map_entry_value_field().kind();
            // In order, so that the same message always looks the same.
            let items: BTreeMap<String, Value> =
                items.iter().map(|(key, item)| (key_text(key), single(&kind, item, options))).collect();
            items.into_iter().collect::<Map<_, _>>().into()
        }
        (one, kind) => single(&kind, one, options),
    }
}

fn key_text(key: &MapKey) -> String {
    match key {
        MapKey::Bool(key) => key.to_string(),
        MapKey::I32(key) => key.to_string(),
        MapKey::I64(key) => key.to_string(),
        MapKey::U32(key) => key.to_string(),
        MapKey::U64(key) => key.to_string(),
        MapKey::String(key) => key.clone(),
    }
}

fn single(kind: &Kind, from: &Field, options: &Options) -> Value {
    match from {
        Field::Bool(value) => (*value).into(),
        Field::I32(value) => (*value).into(),
        Field::U32(value) => (*value).into(),
        Field::I64(value) => integer(i128::from(*value), options),
        Field::U64(value) => integer(i128::from(*value), options),
        Field::F32(value) => real(f64::from(*value)),
        Field::F64(value) => real(*value),
        Field::String(text) => text.as_str().into(),
        // JSON is text: what is not UTF-8 cannot be shown as it is.
        Field::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned().into(),
        Field::EnumNumber(number) => match (options.enums, kind) {
            (Enums::Names, Kind::Enum(descriptor)) => {
                descriptor.get_value(*number).map_or_else(|| (*number).into(), |value| value.name().into())
            }
            _ => (*number).into(),
        },
        Field::Message(message) => json(message, options),
        Field::List(_) | Field::Map(_) => Value::Null,
    }
}

fn integer(value: i128, options: &Options) -> Value {
    let short = i128::from(i32::MIN) <= value && value <= i128::from(u32::MAX);
    let sign = if value < 0 { "-" } else { "" };
    match options.integers {
        Integers::Text if !short => format!("#{value}").into(),
        Integers::Hexadecimal if !short => format!("#{sign}0x{:x}", value.unsigned_abs()).into(),
        _ => i64::try_from(value).map_or_else(|_| (value as u64).into(), Value::from),
    }
}

/// A whole number is written without a fraction, as Lua does.
fn real(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        return (value as i64).into();
    }
    Number::from_f64(value).map_or(Value::Null, Value::Number)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::transformation::grpc_transcode::{proto, reading};

    const TYPES: &str = "syntax = \"proto3\";
        enum Color { RED = 0; BLUE = 2; }
        message Inner { repeated string tags = 1; }
        message Reply {
            string text = 1; int64 large = 2; Color color = 3; Inner inner = 4; repeated Inner list = 5;
            map<string, Inner> members = 6; optional int32 maybe = 7; oneof one { int32 left = 8; int32 right = 9; }
        }";

    fn write(source: Value, options: &[&str]) -> Value {
        let compiled = proto::compile(TYPES).expect("a definition");
        let descriptor = compiled.pool.get_message_by_name("Reply").expect("a message");
        let message = reading::message(descriptor, &source).expect("fits");
        let options: Vec<String> = options.iter().map(|name| (*name).to_owned()).collect();
        super::json(&message, &Options::new(&options))
    }

    #[test]
    fn defaults() {
        let empty = json!({"text": "", "large": 0, "color": "RED", "list": [], "members": {}});
        assert_eq!(write(json!({}), &[]), empty);
        assert_eq!(write(json!({}), &["use_default_values"]), empty);
        assert_eq!(write(json!({}), &["no_default_values"]), json!({}));
        let nested = write(json!({"inner": {}, "list": [{}], "members": {"a": {}}, "right": 0}), &[]);
        assert_eq!(nested["inner"], json!({"tags": []}));
        assert_eq!(nested["list"], json!([{"tags": []}]));
        assert_eq!(nested["members"], json!({"a": {"tags": []}}));
        assert_eq!(nested["right"], json!(0));
    }

    #[test]
    fn shapes_of_numbers_and_enums() {
        let check = |large: Value, options: &[&str], expected: Value| {
            let written = write(json!({"large": large, "color": 2}), options);
            assert_eq!((&written["large"], &written["color"]), (&expected[0], &expected[1]), "{options:?}");
        };
        check(json!(3), &["int64_as_string"], json!([3, "BLUE"]));
        check(json!(2251799813685261_i64), &["int64_as_number"], json!([2251799813685261_i64, "BLUE"]));
        check(json!(2251799813685261_i64), &["int64_as_string"], json!(["#2251799813685261", "BLUE"]));
        check(json!(-4294967296_i64), &["int64_as_hexstring"], json!(["#-0x100000000", "BLUE"]));
        check(json!(1), &["enum_as_value"], json!([1, 2]));
    }
}
