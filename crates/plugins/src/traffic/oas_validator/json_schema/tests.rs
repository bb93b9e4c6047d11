use serde_json::json;

use super::*;

fn result(dialect: Dialect, schema: Value, value: Value) -> Result<(), Failed> {
    let schemas = Schemas::new(schema, dialect).unwrap_or_else(|error| panic!("{error}"));
    let check = Check::new(&schemas, MOST_STEPS, SearchTime::default());
    check.check(&schemas.root, &value, &At::root("body"))
}

#[track_caller]
fn fits(schema: Value, value: Value, expected: bool) {
    let result = result(Dialect::V31, schema.clone(), value.clone());
    assert_eq!(result.is_ok(), expected, "{schema} {value}: {result:?}");
}

#[test]
fn scalars() {
    let cases = [
        (json!({"type": "integer"}), json!(1.0), true),
        (json!({"type": "integer"}), json!(1.5), false),
        (json!({"type": ["string", "null"]}), json!(null), true),
        (json!({"type": "object"}), json!([]), false),
        (json!({"enum": [1, "a"]}), json!(1.0), true),
        (json!({"const": {"a": [1]}}), json!({"a": [1.0]}), true),
        (json!({"const": 1}), json!(true), false),
        (json!({"minimum": 0, "exclusiveMaximum": 100}), json!(0), true),
        (json!({"minimum": 0, "exclusiveMaximum": 100}), json!(100), false),
        (json!({"multipleOf": 0.1}), json!(0.3), true),
        (json!({"multipleOf": 10}), json!(15), false),
        (json!({"minLength": 2, "maxLength": 3}), json!("äö"), true),
        (json!({"maxLength": 1}), json!("äö"), false),
        (json!({"pattern": "^a+$"}), json!("aaa"), true),
        (json!({"pattern": "^a+$"}), json!("ab"), false),
        (json!({"format": "date-time"}), json!("2026-11-26T08:00:00Z"), true),
        (json!({"format": "date-time"}), json!("2026-11-26"), false),
        (json!({"format": "int32"}), json!(3_000_000_000_u64), false),
        (json!({"format": "uuid"}), json!("123e4567-e89b-12d3-a456-426614174000"), true),
        (json!({"format": "of-mine"}), json!("anything"), true),
        (json!(true), json!(1), true),
        (json!(false), json!(1), false),
    ];
    for (schema, value, expected) in cases {
        fits(schema, value, expected);
    }
}

#[test]
fn lists_and_objects() {
    let prefix = json!({"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": {"type": "boolean"}});
    fits(prefix.clone(), json!(["a", 1, true]), true);
    fits(prefix.clone(), json!(["a", 1, 2]), false);
    fits(prefix, json!([1]), false);
    let contains = json!({"contains": {"type": "integer"}, "minContains": 2, "maxContains": 3});
    fits(contains.clone(), json!([1, "a", 2]), true);
    fits(contains.clone(), json!([1]), false);
    fits(contains, json!([1, 2, 3, 4]), false);
    fits(json!({"uniqueItems": true}), json!([{"a": 1, "b": 2}, {"b": 2, "a": 1.0}]), false);
    let object = json!({
        "properties": {"a": {"type": "string"}}, "required": ["a"], "patternProperties": {"^I_": {"type": "integer"}},
        "additionalProperties": false, "dependentRequired": {"I_x": ["I_y"]}, "propertyNames": {"maxLength": 3},
    });
    fits(object.clone(), json!({"a": "x", "I_x": 1, "I_y": 2}), true);
    for value in [
        json!({}),
        json!({"a": 1}),
        json!({"a": "x", "b": 1}),
        json!({"a": "x", "I_x": 1}),
        json!({"a": "x", "I_long": 1}),
    ] {
        fits(object.clone(), value, false);
    }
    let dependent = json!({"dependentSchemas": {"a": {"required": ["b"]}}});
    fits(dependent.clone(), json!({"a": 1}), false);
    fits(dependent, json!({"c": 1}), true);
}

#[test]
fn combinations() {
    let shape = json!({
        "if": {"properties": {"kind": {"const": "circle"}}, "required": ["kind"]},
        "then": {"required": ["radius"]}, "else": {"required": ["width"]},
    });
    fits(shape.clone(), json!({"kind": "circle", "radius": 1}), true);
    fits(shape.clone(), json!({"kind": "circle", "width": 1}), false);
    fits(shape, json!({"width": 1}), true);
    let one = json!({"oneOf": [{"required": ["a"]}, {"required": ["b"]}]});
    fits(one.clone(), json!({"a": 1}), true);
    fits(one.clone(), json!({"a": 1, "b": 1}), false);
    fits(one, json!({}), false);
    fits(json!({"anyOf": [{"type": "string"}, {"minimum": 3}]}), json!(2), false);
    fits(json!({"allOf": [{"type": "integer"}, {"minimum": 3}]}), json!(2), false);
    fits(json!({"not": {"type": "integer"}}), json!(2), false);
}

#[test]
fn what_nobody_looked_at() {
    let schema = json!({
        "allOf": [{"properties": {"a": true}}], "anyOf": [{"required": ["b"], "properties": {"b": true}}, true],
        "unevaluatedProperties": false,
    });
    fits(schema.clone(), json!({"a": 1, "b": 2}), true);
    fits(schema, json!({"a": 1, "c": 2}), false);
    let items = json!({"allOf": [{"prefixItems": [true]}], "unevaluatedItems": {"type": "string"}});
    fits(items.clone(), json!([1, "a"]), true);
    fits(items, json!([1, 2]), false);
}

#[test]
fn references() {
    let tree = json!({"properties": {"next": {"$ref": "#"}, "n": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"type": "integer"}}});
    fits(tree.clone(), json!({"next": {"next": {"n": 1}}}), true);
    fits(tree, json!({"next": {"next": {"n": "1"}}}), false);
    let dynamic = json!({"items": {"$dynamicRef": "#item"}, "$defs": {"d": {"$dynamicAnchor": "item", "type": "string"}}});
    fits(dynamic.clone(), json!(["a"]), true);
    fits(dynamic, json!([1]), false);
    fits(
        json!({"$ref": "#/$defs/a", "maxLength": 1, "$defs": {"a": {"type": "string"}}}),
        json!("ab"),
        false,
    );
    for schema in [json!({"$ref": "#/no"}), json!({"$ref": "http://a.test/x.json"}), json!({"pattern": "("})]
    {
        assert!(Schemas::new(schema.clone(), Dialect::V31).is_err(), "{schema}");
    }
    let circle =
        json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}});
    assert_eq!(result(Dialect::V31, circle, json!(1)), Err(Failed::Unjudged));
}

#[test]
fn the_dialect_of_version_3_0() {
    let v30 = |schema: Value, value: Value| result(Dialect::V30, schema, value).is_ok();
    assert!(v30(json!({"type": "string", "nullable": true}), json!(null)));
    assert!(!v30(json!({"type": "string"}), json!(null)));
    assert!(!v30(json!({"minimum": 0, "exclusiveMinimum": true}), json!(0)));
    let read_only = json!({"required": ["id", "name"], "properties": {"id": {"readOnly": true}, "name": {}}});
    assert!(v30(read_only.clone(), json!({"name": 1})));
    assert!(!v30(read_only, json!({"id": 1})));
    let beside = json!({"$ref": "#/d", "maxLength": 1, "d": {"type": "string"}});
    assert!(v30(beside, json!("ab")), "what stands beside a reference does not count");
}

#[test]
fn what_takes_too_long_is_not_judged() {
    let schema =
        json!({"anyOf": [{"items": {"not": {"type": "string"}}}], "not": {"items": {"type": "string"}}});
    let value = Value::Array(vec![json!(1); MOST_STEPS]);
    assert_eq!(result(Dialect::V31, schema, value), Err(Failed::Unjudged));
}

#[test]
fn messages_name_the_place() {
    let schema = json!({"properties": {"tags": {"items": {"required": ["id"]}}}});
    let error = result(Dialect::V31, schema, json!({"tags": [{"id": 1}, {}]})).expect_err("an error");
    assert_eq!(error.to_string(), "body.tags[1]: property \"id\" is required");
}
