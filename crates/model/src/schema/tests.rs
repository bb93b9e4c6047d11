//! Tables of (schema, value, message); an empty message means the value passes.

use serde_json::{Value, json};

use super::rules::Schema;

#[track_caller]
fn check(schema: Value, mut value: Value, message: &str) -> Value {
    let schema = Schema::compile(&schema).expect("schema compiles");
    let error = schema.check(&mut value).err().unwrap_or_default();
    assert_eq!(error, message);
    value
}

#[test]
fn types() {
    check(json!({"type": "object"}), json!([]), "");
    check(json!({"type": "array"}), json!({}), "");
    check(json!({"type": "object"}), json!([1]), "wrong type: expected object, got table");
    check(json!({"type": "string"}), json!(null), "wrong type: expected string, got userdata");
    check(json!({"type": "integer"}), json!(1.0), "");
    check(json!({"type": "integer"}), json!(1.5), "wrong type: expected integer, got number");
    check(
        json!({"type": ["string", "number"]}),
        json!(true),
        "wrong type: expected one of string, number, got boolean",
    );
    assert_eq!(Schema::compile(&json!({"type": "text"})).unwrap_err(), "invalid JSON type: text");
}

#[test]
fn objects() {
    let schema =
        json!({"properties": {"a": {"type": "string"}, "b": {"minimum": 1}}, "required": ["a", "c"]});
    check(schema.clone(), json!({}), "property \"a\" is required");
    check(schema.clone(), json!({"a": "x"}), "property \"c\" is required");
    check(
        schema,
        json!({"a": "x", "b": 0, "c": 1}),
        "property \"b\" validation failed: expected 0 to be at least 1",
    );
    check(
        json!({"additionalProperties": false}),
        json!({"x": 1}),
        "additional properties forbidden, found x",
    );
    check(
        json!({"patternProperties": {".*": {"type": "string"}}}),
        json!({"env": {"a": 1}}),
        "failed to validate env (matching \".*\"): wrong type: expected string, got table",
    );
    check(json!({"maxProperties": 1}), json!({"a": 1, "b": 1}), "expect object to have at most 1 properties");
    check(
        json!({"dependencies": {"a": ["b"]}}),
        json!({"a": 1}),
        "property \"b\" is required when \"a\" is set",
    );
    check(
        json!({"properties": {"a": {}}, "dependencies": {"a": {"not": {"required": ["b"]}}}}),
        json!({"a": 1, "b": 1}),
        "failed to validate dependent schema for \"a\": value wasn't supposed to match schema",
    );
    check(json!({"required": []}), json!({"a": 1}), "the input data should be an empty table");
}

#[test]
fn defaults_are_filled_also_into_an_empty_array() {
    let schema = json!({"properties": {"a": {"default": 1}, "b": {"properties": {"c": {"default": [2]}}}}});
    assert_eq!(check(schema.clone(), json!({"b": {}}), ""), json!({"a": 1, "b": {"c": [2]}}));
    assert_eq!(check(schema, json!([]), ""), json!({"a": 1}));
    assert_eq!(check(json!({"properties": {}}), json!([]), ""), json!([]));
}

#[test]
fn arrays() {
    check(json!({"minItems": 1}), json!([]), "expect array to have at least 1 items");
    check(json!({"maxItems": 1}), json!([1, 2]), "expect array to have at most 1 items");
    check(
        json!({"items": {"type": "string"}}),
        json!(["a", 1]),
        "failed to validate item 2: wrong type: expected string, got number",
    );
    check(
        json!({"uniqueItems": true}),
        json!([200, "200", 200]),
        "expected unique items but items 1 and 3 are equal",
    );
    check(
        json!({"items": [{}, {}], "additionalItems": false}),
        json!([1, 2, 3]),
        "found unexpected extra items in array",
    );
}

#[test]
fn scalars() {
    check(json!({"minLength": 1}), json!(""), "string too short, expected at least 1, got 0");
    check(json!({"maxLength": 2}), json!("\u{e9}\u{e9}\u{e9}"), "string too long, expected at most 2, got 3");
    check(
        json!({"pattern": "^\\d+$"}),
        json!("a\"b"),
        "failed to match pattern \"^\\\\d+$\" with \"a\\\"b\"",
    );
    check(json!({"exclusiveMinimum": 0}), json!(0), "expected 0 to be greater than 0");
    check(json!({"maximum": 599}), json!(600), "expected 600 to be at most 599");
    check(json!({"multipleOf": 0.01}), json!(1.13), "");
    check(json!({"multipleOf": 2}), json!(3), "expected 3 to be a multiple of 2");
    check(json!({"enum": ["a", 1]}), json!("b"), "matches none of the enum values");
    check(json!({"enum": [1]}), json!(1.0), "");
    check(json!({"const": "a"}), json!("b"), "failed to check const value");
    check(json!({"format": "ipv4"}), json!("1.2.3"), "expect valid ipv4 format but got: 1.2.3");
    check(json!({"format": "made-up"}), json!("x"), "");
}

#[test]
fn combinations() {
    check(
        json!({"anyOf": [{"required": ["active"]}, {"required": ["active", "passive"]}]}),
        json!({}),
        "object matches none of the required: [\"active\"] or [\"active\",\"passive\"]",
    );
    check(
        json!({"anyOf": [{"type": "string"}, {"type": "number"}]}),
        json!({}),
        "object matches none of the required",
    );
    check(
        json!({"oneOf": [{"type": "string"}]}),
        json!(1),
        "value should match only one schema, but matches none",
    );
    check(
        json!({"oneOf": [{}, {}]}),
        json!(1),
        "value should match only one schema, but matches both schemas 1 and 2",
    );
    check(
        json!({"allOf": [{"type": "string"}]}),
        json!(1),
        "allOf 1 failed: wrong type: expected string, got number",
    );
    check(json!({"if": {}, "then": {"type": "string"}}), json!(1), "then clause did not match");
    check(json!({"not": {}}), json!(1), "value wasn't supposed to match schema");
    check(json!({"contains": {"type": "string"}}), json!([1]), "failed to check contains");
}

#[test]
fn secrets_are_not_looked_at_unless_another_type_is_wanted() {
    check(json!({"type": "string", "minLength": 100}), json!("$secret://vault/1/key"), "");
    check(json!({"enum": ["a"]}), json!("$ENV://KEY"), "");
    check(json!({"type": "integer"}), json!("$env://KEY"), "wrong type: expected integer, got string");
}

#[test]
fn data_of_clients_cannot_pass_as_a_secret() {
    let schema = Schema::from_user(&json!({"properties": {"level": {"enum": ["low"]}}})).expect("a schema");
    for level in ["$secret://vault/1/key", "$env://KEY", "high"] {
        assert!(schema.check(&mut json!({"level": level})).is_err(), "{level}");
    }
    assert_eq!(schema.check(&mut json!({"level": "low"})), Ok(()));
}

#[test]
fn limits_of_all_drafts() {
    let draft4 = json!({"minimum": 1, "exclusiveMinimum": true, "maximum": 3, "exclusiveMaximum": false});
    check(draft4.clone(), json!(1), "expected 1 to be greater than 1");
    check(draft4.clone(), json!(3), "");
    check(draft4, json!(4), "expected 4 to be at most 3");
    check(json!({"exclusiveMaximum": 3}), json!(3), "expected 3 to be smaller than 3");
    check(json!({"minLength": 3.0}), json!("ab"), "string too short, expected at least 3, got 2");
    check(json!({"const": null}), json!("a"), "failed to check const value");
    check(
        json!({"propertyNames": {"pattern": "^[a-z]+$"}}),
        json!({"A": 1}),
        "property name \"A\" is invalid: failed to match pattern \"^[a-z]+$\" with \"A\"",
    );
}

/// An unfinished check does not prove the contrary.
#[test]
fn a_check_that_gives_up_never_passes() {
    let mut deep = json!({});
    for _ in 0..120 {
        deep = json!({ "next": deep });
    }
    let no_evil = json!({"not": {"$ref": "#/definitions/any"},
        "definitions": {"any": {"properties": {"next": {"$ref": "#/definitions/any"}}, "required": ["next", "evil"]}}});
    let schema = Schema::from_user(&no_evil).expect("a schema");
    assert!(schema.check(&mut deep).is_err());
    let slow = json!({"not": {"pattern": "^(a+)\\1+(a+)\\2+(a+)\\3+(a+)\\4+b$"}});
    let schema = Schema::from_user(&slow).expect("a schema");
    assert!(schema.check(&mut json!("aaaaaaaac")).is_ok());
    assert!(schema.check(&mut json!("a".repeat(300) + "c")).is_err());
}

#[test]
fn recursion_ends() {
    let schema = json!({"properties": {"next": {"$ref": "#"}, "size": {"$ref": "#/definitions/size"}},
        "definitions": {"size": {"maximum": 1}}, "additionalProperties": false});
    check(schema.clone(), json!({"next": {"next": {"next": {}}}}), "");
    check(
        schema.clone(),
        json!({"next": {"size": 2}}),
        "property \"next\" validation failed: property \"size\" validation failed: expected 2 to be at most 1",
    );
    let compiled = Schema::compile(&json!({"$ref": "#"})).expect("compiles");
    assert!(compiled.check(&mut json!({})).is_err());
    let doubling = json!({"anyOf": [{"$ref": "#"}, {"$ref": "#"}]});
    assert!(Schema::compile(&doubling).expect("compiles").check(&mut json!({})).is_err());
    let mut deep = json!({});
    for _ in 0..200 {
        deep = json!({ "next": deep });
    }
    assert!(Schema::compile(&schema).expect("compiles").check(&mut deep).is_err());
}

#[test]
fn equal_items_are_found_whatever_they_look_like() {
    let message = |first, second| format!("expected unique items but items {first} and {second} are equal");
    for (items, expected) in [
        (json!([1, 2, 1.0]), message(1, 3)),
        (json!([0, -0.0]), message(1, 2)),
        (json!([{}, []]), message(1, 2)),
        (json!([{"a": 1, "b": [2]}, {"b": [2.0], "a": 1}]), message(1, 2)),
        (json!([[1], [1], 3, 3]), message(3, 4)),
        (json!([5, 3, 3, 5]), message(1, 4)),
        (json!(["1", 1, true, null, [1], {"1": 1}, [[1]], ["1"], "", {}, {"a": {}}]), String::new()),
        (json!([9_007_199_254_740_993_u64, 9_007_199_254_740_992_u64]), message(1, 2)),
    ] {
        check(json!({"uniqueItems": true}), items, &expected);
    }
}
