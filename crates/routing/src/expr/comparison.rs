//! One operator with its right side prepared, and what each means for a variable's value.

use serde_json::Value;

use super::{Operand, number, pattern::Pattern};
use crate::address::{AddressSet, parse_address};

#[derive(Debug)]
pub(super) enum Comparison {
    Equal(Constant),
    NotEqual(Constant),
    /// `None`: the right side is no number, so the comparison never holds.
    Greater(Option<f64>),
    GreaterOrEqual(Option<f64>),
    Less(Option<f64>),
    LessOrEqual(Option<f64>),
    Matches(Option<Pattern>),
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
    /// A list or an object: equal to nothing.
    Table,
}

impl Comparison {
    pub(super) fn is_operator(operator: &str) -> bool {
        matches!(operator, "==" | "~=" | ">" | ">=" | "<" | "<=" | "~~" | "~*" | "in" | "has" | "ipmatch")
    }

    /// `operator` in lower case.
    pub(super) fn new(operator: &str, value: &Value) -> Result<Self, String> {
        Ok(match operator {
            "==" => Self::Equal(Constant::new(value)),
            "~=" => Self::NotEqual(Constant::new(value)),
            ">" => Self::Greater(Constant::new(value).to_number()),
            ">=" => Self::GreaterOrEqual(Constant::new(value).to_number()),
            "<" => Self::Less(Constant::new(value).to_number()),
            "<=" => Self::LessOrEqual(Constant::new(value).to_number()),
            "~~" => Self::Matches(pattern(value, false)),
            "~*" => Self::Matches(pattern(value, true)),
            "in" => Self::In(value.as_array().map_or_else(Vec::new, |items| constants(items))),
            "has" => Self::Has(Constant::new(value)),
            "ipmatch" => Self::Address(addresses(value)?),
            _ => return Err(format!("invalid operator '{operator}'")),
        })
    }

    pub(super) fn holds(&self, left: &Operand<'_>) -> bool {
        match self {
            Self::Equal(Constant::Number(right)) => to_number(left) == Some(*right),
            Self::Equal(right) => right.is(left),
            Self::NotEqual(Constant::Number(right)) => to_number(left) != Some(*right),
            Self::NotEqual(right) => !right.is(left),
            Self::Greater(right) => compare(left, *right, |left, right| left > right),
            Self::GreaterOrEqual(right) => compare(left, *right, |left, right| left >= right),
            Self::Less(right) => compare(left, *right, |left, right| left < right),
            Self::LessOrEqual(right) => compare(left, *right, |left, right| left <= right),
            Self::Matches(pattern) => pattern.as_ref().is_some_and(|pattern| match left {
                Operand::Bytes(text) => pattern.is_match(text),
                Operand::Number(number) => pattern.is_match(number.to_string().as_bytes()),
                Operand::Nil | Operand::Boolean(_) | Operand::List(_) => false,
            }),
            Self::In(list) => list.iter().any(|item| item.is(left)),
            Self::Has(item) => match left {
                Operand::List(list) => list.iter().any(|element| item.is(element)),
                _ => false,
            },
            Self::Address(set) => match left {
                Operand::Bytes(text) => parse_address(text).is_some_and(|address| set.contains(address)),
                _ => false,
            },
        }
    }
}

impl Constant {
    fn new(value: &Value) -> Self {
        match value {
            Value::Null => Self::Nil,
            Value::Bool(value) => Self::Boolean(*value),
            Value::Number(number) => number.as_f64().map_or(Self::Nil, Self::Number),
            Value::String(text) => Self::Text(text.as_bytes().into()),
            Value::Array(_) | Value::Object(_) => Self::Table,
        }
    }

    fn to_number(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Text(text) => number::parse(text),
            _ => None,
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

fn compare(left: &Operand<'_>, right: Option<f64>, holds: fn(f64, f64) -> bool) -> bool {
    match (right, to_number(left)) {
        (Some(right), Some(left)) => holds(left, right),
        _ => false,
    }
}

/// Lua stops reading a list at its first nil.
fn constants(items: &[Value]) -> Vec<Constant> {
    items.iter().map(Constant::new).filter(|constant| !matches!(constant, Constant::Nil)).collect()
}

fn pattern(value: &Value, ignore_case: bool) -> Option<Pattern> {
    match value {
        Value::String(text) => Pattern::new(text, ignore_case),
        Value::Number(number) => Pattern::new(&number.to_string(), ignore_case),
        _ => None,
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
