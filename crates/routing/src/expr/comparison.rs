//! One operator with its right side prepared, and how each compares a variable's value.

use serde_json::Value;

use super::{GaveUp, Pattern, SearchTime, number, operand::Operand};
use crate::address::{AddressSet, parse_address};

#[derive(Debug, PartialEq)]
pub(super) enum Comparison {
    Equal(Constant),
    NotEqual(Constant),
    Greater(f64),
    GreaterOrEqual(f64),
    Less(f64),
    LessOrEqual(f64),
    Matches(Pattern),
    /// The variable is one of these.
    In(Vec<Constant>),
    /// The variable is a list that holds this.
    Has(Constant),
    Address(AddressSet),
}

#[derive(Debug, PartialEq)]
pub(super) enum Constant {
    Nil,
    Text(Box<[u8]>),
    Number(f64),
    Boolean(bool),
}

impl Comparison {
    pub(super) fn needs_value(operator: &str) -> bool {
        matches!(operator, "==" | "~=" | ">" | ">=" | "<" | "<=" | "~~" | "~*" | "in" | "has")
    }

    /// `operator` in lower case.
    pub(super) fn new(operator: &str, value: &Value) -> Result<Self, String> {
        Ok(match operator {
            "==" => Self::Equal(constant(operator, value)?),
            "~=" => Self::NotEqual(constant(operator, value)?),
            ">" => Self::Greater(number(operator, value)?),
            ">=" => Self::GreaterOrEqual(number(operator, value)?),
            "<" => Self::Less(number(operator, value)?),
            "<=" => Self::LessOrEqual(number(operator, value)?),
            "~~" => Self::Matches(pattern(operator, value, false)?),
            "~*" => Self::Matches(pattern(operator, value, true)?),
            "in" => Self::In(list(value)?),
            "has" => Self::Has(constant(operator, value)?),
            "ipmatch" => Self::Address(addresses(value)?),
            _ => return Err(format!("invalid operator '{operator}'")),
        })
    }

    /// The regular expression that it uses.
    pub(super) fn pattern(&self) -> Option<&str> {
        if let Self::Matches(pattern) = self { Some(pattern.as_str()) } else { None }
    }

    /// The error is the pattern that gave up.
    pub(super) fn holds(&self, left: &Operand<'_>, time: Option<&SearchTime>) -> Result<bool, &str> {
        Ok(match self {
            Self::Equal(Constant::Number(right)) => to_number(left) == Some(*right),
            Self::Equal(right) => right.is(left),
            Self::NotEqual(Constant::Number(right)) => to_number(left) != Some(*right),
            Self::NotEqual(right) => !right.is(left),
            Self::Greater(right) => compare(left, *right, |left, right| left > right),
            Self::GreaterOrEqual(right) => compare(left, *right, |left, right| left >= right),
            Self::Less(right) => compare(left, *right, |left, right| left < right),
            Self::LessOrEqual(right) => compare(left, *right, |left, right| left <= right),
            Self::Matches(pattern) => {
                let matches = match left {
                    Operand::Bytes(text) => pattern.is_match(text, time),
                    Operand::Number(number) => pattern.is_match(number.to_string().as_bytes(), time),
                    Operand::Nil | Operand::Boolean(_) | Operand::List(_) => Ok(false),
                };
                return matches.map_err(|GaveUp| pattern.as_str());
            }
            Self::In(list) => list.iter().any(|item| item.is(left)),
            Self::Has(item) => match left {
                Operand::List(list) => list.iter().any(|element| item.is(element)),
                _ => false,
            },
            Self::Address(set) => match left {
                Operand::Bytes(text) => parse_address(text).is_some_and(|address| set.contains(address)),
                _ => false,
            },
        })
    }
}

impl Constant {
    /// `None`: a list or an object, which equals nothing.
    fn new(value: &Value) -> Option<Self> {
        Some(match value {
            Value::Null => Self::Nil,
            Value::Bool(value) => Self::Boolean(*value),
            Value::Number(number) => number.as_f64().map_or(Self::Nil, Self::Number),
            Value::String(text) => Self::Text(text.as_bytes().into()),
            Value::Array(_) | Value::Object(_) => return None,
        })
    }

    fn to_number(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Text(text) => number::parse(text),
            Self::Nil | Self::Boolean(_) => None,
        }
    }

    /// Equality without coercion: the text "1" is not the number 1.
    fn is(&self, operand: &Operand<'_>) -> bool {
        match (self, operand) {
            (Self::Text(text), Operand::Bytes(bytes)) => text.as_ref() == bytes.as_ref(),
            (Self::Number(left), Operand::Number(right)) => left == right,
            (Self::Boolean(left), Operand::Boolean(right)) => left == right,
            (Self::Nil, Operand::Nil) => true,
            _ => false,
        }
    }
}

fn to_number(operand: &Operand<'_>) -> Option<f64> {
    match operand {
        Operand::Number(number) => Some(*number),
        Operand::Bytes(text) => number::parse(text),
        _ => None,
    }
}

fn compare(left: &Operand<'_>, right: f64, holds: fn(f64, f64) -> bool) -> bool {
    to_number(left).is_some_and(|left| holds(left, right))
}

fn constant(operator: &str, value: &Value) -> Result<Constant, String> {
    Constant::new(value)
        .ok_or_else(|| format!("operator '{operator}' compares with one value, not with {value}"))
}

fn number(operator: &str, value: &Value) -> Result<f64, String> {
    let number = Constant::new(value).and_then(|constant| constant.to_number());
    number.ok_or_else(|| format!("operator '{operator}' compares with a number, not with {value}"))
}

fn list(value: &Value) -> Result<Vec<Constant>, String> {
    let items = value.as_array().ok_or_else(|| format!("operator 'in' needs a list, not {value}"))?;
    let constants = items.iter().map(|item| constant("in", item));
    // Lua stops reading a list at its first nil.
    let list: Vec<Constant> =
        constants.filter(|constant| !matches!(constant, Ok(Constant::Nil))).collect::<Result<_, _>>()?;
    if list.is_empty() { Err("operator 'in' needs a list that is not empty".to_owned()) } else { Ok(list) }
}

fn pattern(operator: &str, value: &Value, ignore_case: bool) -> Result<Pattern, String> {
    match value {
        Value::String(text) => Pattern::new(text, ignore_case),
        Value::Number(number) => Pattern::new(&number.to_string(), ignore_case),
        _ => Err(format!("operator '{operator}' needs a regular expression, not {value}")),
    }
}

fn addresses(value: &Value) -> Result<AddressSet, String> {
    const INVALID: &str = "invalid ip address";
    let items: Vec<&str> = match value {
        Value::String(text) => vec![text.as_str()],
        Value::Array(items) => items.iter().map(Value::as_str).collect::<Option<Vec<_>>>().ok_or(INVALID)?,
        _ => return Err(INVALID.to_owned()),
    };
    if items.is_empty() || matches!(value, Value::String(text) if text.is_empty()) {
        return Err(INVALID.to_owned());
    }
    AddressSet::parse(items)
}
