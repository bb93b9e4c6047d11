//! Numbers in a configuration that may depend on the request.

use serde_json::Value;
use tidegate_plugin_api::{Request, Template};

use crate::common::number;

/// The largest whole number a double holds exactly: APISIX refuses more.
const MAX_SAFE_INTEGER: f64 = 9_007_199_254_740_991.0;

/// A number, or a text with variables that becomes one per request.
pub(crate) enum Amount {
    Fixed(f64),
    Template(Template),
}

impl Amount {
    pub(crate) fn new(value: Option<&Value>) -> Result<Amount, String> {
        match value {
            Some(Value::String(text)) => Ok(Amount::Template(Template::compile(text))),
            Some(value) => value.as_f64().map(Amount::Fixed).ok_or_else(|| "must be a number".to_owned()),
            None => Err("object matches none of the required".to_owned()),
        }
    }

    /// A positive whole number.
    pub(crate) fn positive(&self, request: &Request) -> Result<f64, String> {
        let value = self.not_negative(request)?;
        if value <= 0.0 {
            return Err(format!("resolved value must be a positive number, got: {}", number::lua(value)));
        }
        Ok(value)
    }

    /// A whole number from zero on.
    pub(crate) fn not_negative(&self, request: &Request) -> Result<f64, String> {
        match self {
            Amount::Fixed(value) => Ok(*value),
            Amount::Template(template) => parse(&template.render_string(request)),
        }
    }
}

fn parse(text: &str) -> Result<f64, String> {
    let value: f64 = text
        .trim()
        .parse()
        .ok()
        .filter(|value: &f64| value.is_finite())
        .ok_or_else(|| format!("resolved value is not a number: {text}"))?;
    if value < 0.0 {
        return Err(format!("resolved value must be a positive number, got: {text}"));
    }
    if value.fract() != 0.0 {
        return Err(format!("resolved value must be an integer, got: {text}"));
    }
    if value > MAX_SAFE_INTEGER {
        return Err(format!("resolved value exceeds safe integer range (2^53-1), got: {text}"));
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_numbers_count() {
        let cases = [
            ("5", Some(5.0)),
            (" 7 ", Some(7.0)),
            ("0", Some(0.0)),
            ("1.5", None),
            ("-1", None),
            ("x", None),
            ("", None),
            ("1e300", None),
            ("inf", None),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text).ok(), expected, "{text}");
        }
    }
}
