//! What must keep a location closed where it is not converted.

use serde_json::{Value, json};

use super::parse::Directive;

/// Directives that say who may come in, or that choose by request. None is converted: without them a location would let
/// in more than it did.
const GUARDS: [&str; 12] = [
    "allow",
    "deny",
    "satisfy",
    "auth_basic",
    "auth_request",
    "auth_jwt",
    "internal",
    "if",
    "limit_except",
    "valid_referers",
    "secure_link",
    "ssl_verify_client",
];

pub fn guard<'a>(scopes: &[&'a [Directive]; 3]) -> Option<&'a Directive> {
    let opens = |directive: &Directive| match directive.name.as_str() {
        "allow" | "satisfy" => directive.argument(0) == "all",
        _ => directive.argument(0) == "off",
    };
    let mut all = scopes.iter().flat_map(|scope| scope.iter());
    all.find(|directive| GUARDS.contains(&directive.name.as_str()) && !opens(directive))
}

pub fn not_converted() -> Value {
    json!({"fault-injection": {"abort": {"http_status": 501, "body": "this location was not converted"}}})
}
