//! JSONPath (RFC 9535) for edits: names, indexes, slices, unions, `*`, `..` and filters.

use std::cell::Cell;

use serde_json::Value;

use super::{filter::Filter, reader::Reader};

/// Values that one edit passes through: a few milliseconds.
const MOST_VALUES: usize = 500_000;

pub(super) struct JsonPath(Vec<Segment>);

struct Segment {
    /// `..`: from each value below as well.
    is_deep: bool,
    selectors: Vec<Selector>,
}

enum Selector {
    All,
    Name(String),
    Index(i64),
    Slice { from: Option<i64>, to: Option<i64>, step: i64 },
    Filter(Filter),
}

/// What becomes of a value.
pub(super) enum Edit {
    Keep,
    Remove,
}

/// The path passes through too many values of a document.
#[derive(Debug)]
pub(super) struct TooMany;

impl JsonPath {
    /// The `$` at the beginning may be left out.
    pub(super) fn new(text: &str) -> Result<JsonPath, String> {
        let mut reader = Reader::new(text);
        reader.take("$");
        let mut segments = Vec::new();
        while !reader.is_at_end() {
            segments.push(segment(&mut reader, segments.is_empty())?);
        }
        if segments.is_empty() {
            return Err(format!("invalid JSONPath \"{text}\": it selects nothing below the root"));
        }
        Ok(JsonPath(segments))
    }

    /// Edits all values that the path selects.
    pub(super) fn edit(
        &self,
        document: &mut Value,
        edit: &mut dyn FnMut(&mut Value) -> Edit,
    ) -> Result<(), TooMany> {
        Walk { edit, left: Cell::new(MOST_VALUES) }.visit(document, &self.0)
    }
}

fn segment(reader: &mut Reader, is_first: bool) -> Result<Segment, String> {
    let is_deep = reader.take("..");
    let is_child = is_deep || reader.take(".");
    if reader.take("[") {
        let mut selectors = vec![selector(reader)?];
        while reader.take(",") {
            selectors.push(selector(reader)?);
        }
        reader.expect("]")?;
        return Ok(Segment { is_deep, selectors });
    }
    if !is_child && !is_first {
        return Err(reader.unexpected());
    }
    let selector = if reader.take("*") { Selector::All } else { Selector::Name(reader.name()?.to_owned()) };
    Ok(Segment { is_deep, selectors: vec![selector] })
}

fn selector(reader: &mut Reader) -> Result<Selector, String> {
    if reader.take("*") {
        return Ok(Selector::All);
    }
    if reader.take("?") {
        return Ok(Selector::Filter(Filter::read(reader)?));
    }
    if let Some(name) = reader.quoted()? {
        return Ok(Selector::Name(name));
    }
    let from = reader.integer();
    if !reader.take(":") {
        return from.map(Selector::Index).ok_or_else(|| reader.unexpected());
    }
    let to = reader.integer();
    let step = if reader.take(":") { reader.integer() } else { None };
    Ok(Selector::Slice { from, to, step: step.unwrap_or(1) })
}

struct Walk<'e> {
    edit: &'e mut dyn FnMut(&mut Value) -> Edit,
    left: Cell<usize>,
}

impl Walk<'_> {
    fn count(&self, values: usize) -> Result<(), TooMany> {
        self.left.set(self.left.get().checked_sub(values).ok_or(TooMany)?);
        Ok(())
    }

    fn visit(&mut self, value: &mut Value, segments: &[Segment]) -> Result<(), TooMany> {
        let Some((segment, rest)) = segments.split_first() else { return Ok(()) };
        self.count(1)?;
        if segment.is_deep {
            match value {
                Value::Array(items) => items.iter_mut().try_for_each(|item| self.visit(item, segments))?,
                Value::Object(members) => {
                    members.values_mut().try_for_each(|member| self.visit(member, segments))?;
                }
                _ => {}
            }
        }
        match value {
            Value::Array(items) => {
                let mut selected = vec![false; items.len()];
                for selector in &segment.selectors {
                    self.count(items.len())?;
                    selector.in_list(items, &mut selected);
                }
                self.visit_list(items, &selected, rest)
            }
            Value::Object(members) => {
                let mut kept = serde_json::Map::with_capacity(members.len());
                for (name, mut member) in std::mem::take(members) {
                    self.count(1)?;
                    let is_selected = segment.selectors.iter().any(|each| each.is_member(&name, &member));
                    if !is_selected || self.edited(&mut member, rest)? {
                        kept.insert(name, member);
                    }
                }
                *members = kept;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn visit_list(
        &mut self,
        items: &mut Vec<Value>,
        selected: &[bool],
        rest: &[Segment],
    ) -> Result<(), TooMany> {
        let mut kept = Vec::with_capacity(items.len());
        for (mut item, is_selected) in std::mem::take(items).into_iter().zip(selected) {
            if !is_selected || self.edited(&mut item, rest)? {
                kept.push(item);
            }
        }
        *items = kept;
        Ok(())
    }

    /// Whether a selected value stays.
    fn edited(&mut self, value: &mut Value, rest: &[Segment]) -> Result<bool, TooMany> {
        if rest.is_empty() {
            return Ok(matches!((self.edit)(value), Edit::Keep));
        }
        self.visit(value, rest).map(|()| true)
    }
}

impl Selector {
    fn is_member(&self, name: &str, member: &Value) -> bool {
        match self {
            Selector::All => true,
            Selector::Name(wanted) => wanted == name,
            Selector::Filter(filter) => filter.holds(member),
            Selector::Index(_) | Selector::Slice { .. } => false,
        }
    }

    fn in_list(&self, items: &[Value], selected: &mut [bool]) {
        let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
        let from_start = |at: i64| if at < 0 { at.saturating_add(length) } else { at };
        let mut select = |at: i64| {
            if let Some(place) = usize::try_from(at).ok().and_then(|at| selected.get_mut(at)) {
                *place = true;
            }
        };
        match self {
            Selector::All => selected.fill(true),
            Selector::Index(at) => select(from_start(*at)),
            Selector::Filter(filter) => {
                for (place, item) in selected.iter_mut().zip(items) {
                    *place |= filter.holds(item);
                }
            }
            Selector::Slice { step: 0, .. } | Selector::Name(_) => {}
            Selector::Slice { from, to, step } if *step > 0 => {
                let begin = from.map_or(0, from_start).clamp(0, length);
                let end = to.map_or(length, from_start).clamp(0, length);
                (begin..end).step_by(usize::try_from(*step).unwrap_or(usize::MAX)).for_each(select);
            }
            Selector::Slice { from, to, step } => {
                let begin = from.map_or(length - 1, from_start).clamp(-1, length - 1);
                let end = to.map_or(-1, from_start).clamp(-1, length - 1);
                let step = usize::try_from(step.unsigned_abs()).unwrap_or(usize::MAX);
                (end + 1..=begin).rev().step_by(step).for_each(select);
            }
        }
    }
}
