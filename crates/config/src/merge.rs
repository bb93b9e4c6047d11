//! The user's keys over the defaults: tables merge, lists and values replace, null removes.

use serde_json::{Map, Value};

pub(crate) fn merge(base: &mut Value, over: Value) {
    match over {
        Value::Object(over) => {
            if !base.is_object() {
                *base = Value::Object(Map::new());
            }
            let Value::Object(base) = base else { return };
            for (key, value) in over {
                if value.is_null() {
                    base.shift_remove(&key);
                } else {
                    merge(base.entry(key).or_insert(Value::Null), value);
                }
            }
        }
        other => *base = other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rules() {
        for (base, over, expected) in [
            (json!({"a": 1}), json!({"b": 2}), json!({"a": 1, "b": 2})),
            (json!({"a": {"b": 1, "c": 2}}), json!({"a": {"b": 3}}), json!({"a": {"b": 3, "c": 2}})),
            (json!({"a": [1, 2]}), json!({"a": [3]}), json!({"a": [3]})),
            (json!({"a": [1], "b": 1}), json!({"a": null}), json!({"b": 1})),
            (json!({"a": [9080]}), json!({"a": 9081}), json!({"a": 9081})),
            (json!({}), json!({"a": {"b": null, "c": {}}}), json!({"a": {"c": {}}})),
        ] {
            let mut merged = base.clone();
            merge(&mut merged, over.clone());
            assert_eq!(merged, expected, "{base} {over}");
        }
    }
}
