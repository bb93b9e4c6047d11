//! Fields that are accepted because configurations of APISIX have them, and that have no effect here. They are warned of where they
//! say something else than their default: APISIX stores defaults.

use serde_json::Value;

/// A field at the top of a configuration, and why it has no effect.
pub(crate) type Idle = (&'static str, &'static str);

/// The remarks about those that `conf` has. `schema`: the plugin's.
pub(crate) fn remarks(conf: &Value, schema: &str, fields: &[Idle]) -> Vec<String> {
    let mut present = fields.iter().filter(|(name, _)| conf.get(name).is_some()).peekable();
    if present.peek().is_none() {
        return Vec::new();
    }
    let schema: Value = serde_json::from_str(schema).unwrap_or_default();
    let said = present.filter(|(name, _)| !is_default(&schema, name, conf.get(name)));
    said.map(|(name, why)| format!("{name} has no effect: {why}")).collect()
}

/// Whether any branch of the schema has the value as the field's default.
fn is_default(schema: &Value, name: &str, value: Option<&Value>) -> bool {
    let rules = schema.get("properties").and_then(|properties| properties.get(name));
    let default = rules.and_then(|rules| rules.get("default"));
    (default.is_some() && default == value)
        || ["then", "else"]
            .iter()
            .filter_map(|branch| schema.get(branch))
            .any(|branch| is_default(branch, name, value))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_not_a_default_is_said() {
        let schema = r#"{"properties": {"a": {"default": 1}, "b": {}},
            "then": {"properties": {"c": {"default": 7}}}, "else": {"then": {"properties": {"c": {"default": 8}}}}}"#;
        let fields = [("a", "of a"), ("b", "of b"), ("c", "of c"), ("d", "of d")];
        assert_eq!(remarks(&json!({"a": 1, "c": 8, "e": 1}), schema, &fields), Vec::<String>::new());
        let said = remarks(&json!({"a": 2, "b": null, "c": 9}), schema, &fields);
        assert_eq!(said, ["a has no effect: of a", "b has no effect: of b", "c has no effect: of c"]);
    }
}
