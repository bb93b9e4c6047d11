//! Hides values that a credential is compared with: in conditions, as in `vars`, and in the schemas that plugins
//! take.

use serde_json::{Map, Value};

use super::fields::{hide, shows_scheme};
use crate::{
    encrypt::Change,
    secret::{is_credential_argument, is_credential_field},
};

/// Operators of `vars`, as APISIX's lua-resty-expr has them.
const OPERATORS: [&str; 13] =
    ["==", "~=", "!=", ">", ">=", "<", "<=", "~~", "~*", "in", "has", "ipmatch", "!"];
/// Prefixes of the variables that a client sets.
const FAMILIES: [&str; 7] = ["http_", "arg_", "raw_arg_", "cookie_", "post_arg.", "post_arg_", "uri_param_"];
/// Keywords of JSON Schema that hold possible values of a text.
const CONSTANTS: [&str; 5] = ["const", "enum", "default", "examples", "pattern"];

/// Hides the values in `["http_apikey", "==", "…"]`, and in `["http_apikey", "!", "==", "…"]`.
pub(super) fn hide_constants(items: &mut [Value], change: Change<'_>) {
    let [Value::String(name), Value::String(operator), constants @ ..] = items else { return };
    if !OPERATORS.contains(&operator.as_str()) {
        return;
    }
    let constants = if operator == "!" { constants.get_mut(1..).unwrap_or_default() } else { constants };
    let is_credential = names_credential(name);
    for constant in constants {
        if is_credential || shows_scheme(constant) {
            hide(constant, change);
        }
    }
}

fn names_credential(variable: &str) -> bool {
    let family = FAMILIES.iter().find_map(|family| variable.strip_prefix(family).map(|name| (family, name)));
    match family {
        Some((&"http_", name)) => is_credential_field(name) || words(name),
        Some((_, name)) => is_credential_argument(name) || words(name),
        None => false,
    }
}

/// In the name of a variable, `_` replaces the `-` of a header field.
fn words(name: &str) -> bool {
    is_credential_field(&name.replace('_', "-"))
}

/// Hides the values in a property of a schema: `{"properties": {"apikey": {"const": "…"}}}`.
pub(super) fn hide_in_properties(properties: &mut Map<String, Value>, change: Change<'_>) {
    for (name, property) in properties {
        let is_credential = is_credential_field(name);
        for keyword in CONSTANTS {
            if let Some(value) =
                property.get_mut(keyword).filter(|value| is_credential || shows_scheme(value))
            {
                hide(value, change);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::mask::{MASK, mask_names};

    #[test]
    fn constants_of_credentials_are_hidden() {
        let change = |_: &str| Some(MASK.to_owned());
        for (value, masked) in [
            (json!({"vars": [["http_apikey", "==", "S"]]}), json!({"vars": [["http_apikey", "==", "***"]]})),
            (
                json!({"vars": [["arg_access", "in", ["S", "T"]], ["http_x", "==", "Bearer S"]]}),
                json!({"vars": [["arg_access", "in", ["***", "***"]], ["http_x", "==", "***"]]}),
            ),
            (
                json!({"case": ["OR", ["http_x_api_key", "!", "~~", "^S"], ["arg_a", "==", "b"]]}),
                json!({"case": ["OR", ["http_x_api_key", "!", "~~", "***"], ["arg_a", "==", "b"]]}),
            ),
            (
                json!({"vars": [["cookie_session", "==", "S"]]}),
                json!({"vars": [["cookie_session", "==", "***"]]}),
            ),
            (json!({"vars": [["cookie_variant", "==", "b"], ["uri", "==", "/token"]]}), json!(null)),
            (json!({"client_headers": ["Authorization", "in", "X-Token"]}), json!(null)),
            (
                json!({"header_schema": {"properties": {"apikey": {"const": "S", "minLength": 1}}}}),
                json!({"header_schema": {"properties": {"apikey": {"const": "***", "minLength": 1}}}}),
            ),
            (
                json!({"body_schema": {"properties": {"user": {"enum": ["a"]}, "t": {"enum": ["Bearer S"]}}}}),
                json!({"body_schema": {"properties": {"user": {"enum": ["a"]}, "t": {"enum": ["***"]}}}}),
            ),
        ] {
            let mut found = value.clone();
            mask_names(&mut found, false, &change);
            assert_eq!(found, if masked.is_null() { value } else { masked });
        }
    }
}
