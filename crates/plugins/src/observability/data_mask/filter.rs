//! Filters of a JSONPath: `?(@.type == 'card' && !@.shown)`.

use std::cmp::Ordering;

use serde_json::Value;

use super::reader::Reader;

/// Conditions in each other.
const MOST_DEPTH: usize = 16;

pub(super) enum Filter {
    Any(Vec<Filter>),
    All(Vec<Filter>),
    Not(Box<Filter>),
    Exists(Operand),
    Compare(Operand, Comparison, Operand),
}

pub(super) enum Operand {
    /// From the value that is judged.
    Path(Vec<Step>),
    Literal(Value),
}

pub(super) enum Step {
    Name(String),
    Index(i64),
}

#[derive(Clone, Copy)]
pub(super) enum Comparison {
    Equal,
    Unequal,
    Less,
    AtMost,
    More,
    AtLeast,
}

/// Longer ones first.
const COMPARISONS: [(&str, Comparison); 7] = [
    ("==", Comparison::Equal),
    ("!=", Comparison::Unequal),
    ("<=", Comparison::AtMost),
    (">=", Comparison::AtLeast),
    ("<", Comparison::Less),
    (">", Comparison::More),
    ("=", Comparison::Equal),
];

impl Filter {
    pub(super) fn read(reader: &mut Reader) -> Result<Filter, String> {
        any(reader, 0)
    }

    pub(super) fn holds(&self, value: &Value) -> bool {
        match self {
            Filter::Any(filters) => filters.iter().any(|filter| filter.holds(value)),
            Filter::All(filters) => filters.iter().all(|filter| filter.holds(value)),
            Filter::Not(filter) => !filter.holds(value),
            Filter::Exists(operand) => operand.value(value).is_some(),
            Filter::Compare(one, comparison, other) => comparison.holds(one.value(value), other.value(value)),
        }
    }
}

fn any(reader: &mut Reader, depth: usize) -> Result<Filter, String> {
    if depth > MOST_DEPTH {
        return Err(reader.unexpected());
    }
    let mut filters = vec![all(reader, depth)?];
    while reader.take("||") {
        filters.push(all(reader, depth)?);
    }
    Ok(Filter::Any(filters))
}

fn all(reader: &mut Reader, depth: usize) -> Result<Filter, String> {
    let mut filters = vec![one(reader, depth)?];
    while reader.take("&&") {
        filters.push(one(reader, depth)?);
    }
    Ok(Filter::All(filters))
}

fn one(reader: &mut Reader, depth: usize) -> Result<Filter, String> {
    if depth > MOST_DEPTH {
        return Err(reader.unexpected());
    }
    if reader.take("!") {
        return Ok(Filter::Not(Box::new(one(reader, depth + 1)?)));
    }
    if reader.take("(") {
        let filter = any(reader, depth + 1)?;
        reader.expect(")")?;
        return Ok(filter);
    }
    let first = operand(reader)?;
    match COMPARISONS.iter().find(|(sign, _)| reader.take(sign)) {
        Some((_, comparison)) => Ok(Filter::Compare(first, *comparison, operand(reader)?)),
        None => Ok(Filter::Exists(first)),
    }
}

fn operand(reader: &mut Reader) -> Result<Operand, String> {
    if reader.take("@") {
        let mut steps = Vec::new();
        loop {
            if reader.take(".") {
                steps.push(Step::Name(reader.name()?.to_owned()));
            } else if reader.take("[") {
                steps.push(match reader.quoted()? {
                    Some(name) => Step::Name(name),
                    None => Step::Index(reader.integer().ok_or_else(|| reader.unexpected())?),
                });
                reader.expect("]")?;
            } else {
                return Ok(Operand::Path(steps));
            }
        }
    }
    if let Some(text) = reader.quoted()? {
        return Ok(Operand::Literal(text.into()));
    }
    for (word, value) in [("true", Value::Bool(true)), ("false", Value::Bool(false)), ("null", Value::Null)] {
        if reader.take(word) {
            return Ok(Operand::Literal(value));
        }
    }
    let number = reader.number().ok_or_else(|| reader.unexpected())?;
    Ok(Operand::Literal(Value::Number(number)))
}

impl Operand {
    fn value<'v>(&'v self, of: &'v Value) -> Option<&'v Value> {
        match self {
            Operand::Literal(value) => Some(value),
            Operand::Path(steps) => steps.iter().try_fold(of, |value, step| match step {
                Step::Name(name) => value.get(name),
                Step::Index(at) => {
                    let items = value.as_array()?;
                    let length = i64::try_from(items.len()).ok()?;
                    items.get(usize::try_from(if *at < 0 { at + length } else { *at }).ok()?)
                }
            }),
        }
    }
}

impl Comparison {
    fn holds(self, one: Option<&Value>, other: Option<&Value>) -> bool {
        let order = match (one, other) {
            (Some(Value::Number(one)), Some(Value::Number(other))) => {
                one.as_f64().zip(other.as_f64()).and_then(|(one, other)| one.partial_cmp(&other))
            }
            (Some(Value::String(one)), Some(Value::String(other))) => Some(one.cmp(other)),
            (one, other) => (one == other).then_some(Ordering::Equal),
        };
        match self {
            Comparison::Equal => order == Some(Ordering::Equal),
            Comparison::Unequal => order != Some(Ordering::Equal),
            Comparison::Less => order == Some(Ordering::Less),
            Comparison::AtMost => matches!(order, Some(Ordering::Less | Ordering::Equal)),
            Comparison::More => order == Some(Ordering::Greater),
            Comparison::AtLeast => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
        }
    }
}
