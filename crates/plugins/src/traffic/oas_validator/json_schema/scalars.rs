//! What schemas say of types, texts and numbers.

use serde_json::{Map, Number, Value};

use super::{At, Check, Checked, Dialect, compare::are_equal, format};

/// Shown of a value in messages.
const SHOWN: usize = 64;

pub(super) fn is_type(name: &str, value: &Value) -> bool {
    match (name, value) {
        ("null", Value::Null)
        | ("boolean", Value::Bool(_))
        | ("number", Value::Number(_))
        | ("string", Value::String(_))
        | ("array", Value::Array(_))
        | ("object", Value::Object(_)) => true,
        ("integer", Value::Number(number)) => is_whole(number),
        _ => false,
    }
}

fn is_whole(number: &Number) -> bool {
    number.is_i64() || number.is_u64() || number.as_f64().is_some_and(|number| number.fract() == 0.0)
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn shown(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= SHOWN { text } else { text.chars().take(SHOWN).chain(['…']).collect() }
}

impl Check<'_> {
    pub(super) fn scalar(&self, rules: &Map<String, Value>, value: &Value, at: &At) -> Checked {
        let is_nullable = || {
            self.schemas.dialect == Dialect::V30
                && rules.get("nullable").and_then(Value::as_bool) == Some(true)
        };
        if value.is_null() && is_nullable() {
            return Ok(());
        }
        let types = match rules.get("type") {
            Some(Value::String(name)) => vec![name.as_str()],
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        if !types.is_empty() && !types.iter().any(|name| is_type(name, value)) {
            return at.fails(format!("expected {}, but got {}", types.join(" or "), type_of(value)));
        }
        if let Some(allowed) = rules.get("enum").and_then(Value::as_array) {
            self.count(allowed.len())?;
            if !allowed.iter().any(|allowed| are_equal(allowed, value)) {
                return at.fails(format!("{} is none of the allowed values", shown(value)));
            }
        }
        if let Some(constant) = rules.get("const").filter(|_| self.schemas.dialect == Dialect::V31)
            && !are_equal(constant, value)
        {
            return at.fails(format!("{} is not {}", shown(value), shown(constant)));
        }
        match value {
            Value::Number(number) => self.number(rules, number, at),
            Value::String(text) => self.text(rules, text, at),
            _ => Ok(()),
        }
    }

    fn number(&self, rules: &Map<String, Value>, number: &Number, at: &At) -> Checked {
        let Some(value) = number.as_f64() else { return at.fails("the number cannot be checked") };
        let limit = |name: &str| rules.get(name).and_then(Value::as_f64);
        let excludes = |name: &str| rules.get(name).and_then(Value::as_bool) == Some(true);
        if let Some(least) = limit("minimum")
            && (value < least || (value <= least && excludes("exclusiveMinimum")))
        {
            return at.fails(format!("{number} is less than it may be"));
        }
        if let Some(most) = limit("maximum")
            && (value > most || (value >= most && excludes("exclusiveMaximum")))
        {
            return at.fails(format!("{number} is more than it may be"));
        }
        if limit("exclusiveMinimum").is_some_and(|least| value <= least) {
            return at.fails(format!("{number} is less than it may be"));
        }
        if limit("exclusiveMaximum").is_some_and(|most| value >= most) {
            return at.fails(format!("{number} is more than it may be"));
        }
        if let Some(step) = limit("multipleOf") {
            let times = value / step;
            if !times.is_finite() || (times - times.round()).abs() > 1e-9 * times.abs().max(1.0) {
                return at.fails(format!("{number} is not a multiple of {step}"));
            }
        }
        match rules.get("format").and_then(Value::as_str) {
            Some(name) if !format::fits_number(name, value) => {
                at.fails(format!("{number} does not fit {name}"))
            }
            _ => Ok(()),
        }
    }

    fn text(&self, rules: &Map<String, Value>, text: &str, at: &At) -> Checked {
        let limit = |name: &str| rules.get(name).and_then(Value::as_f64);
        let (least, most) = (limit("minLength"), limit("maxLength"));
        if least.is_some() || most.is_some() {
            let length = text.chars().count() as f64;
            if least.is_some_and(|least| length < least) {
                return at.fails("it is too short");
            }
            if most.is_some_and(|most| length > most) {
                return at.fails("it is too long");
            }
        }
        if let Some(pattern) = rules.get("pattern").and_then(Value::as_str)
            && !self.matches(pattern, text)?
        {
            return at.fails(format!("it does not match {pattern}"));
        }
        match rules.get("format").and_then(Value::as_str) {
            Some(name) if !format::fits_text(name, text) => at.fails(format!("it does not fit {name}")),
            _ => Ok(()),
        }
    }
}
