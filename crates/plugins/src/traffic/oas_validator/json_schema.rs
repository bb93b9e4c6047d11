//! JSON schemas inside of an OpenAPI document: draft 2020-12 for 3.1, the dialect of OpenAPI itself for 3.0.
//!
//! A schema is read where it stands: references lead through the document. What a check may take is bounded, and what a bound cuts off is
//! not judged, which counts as a failure wherever either result might let a request through.

mod compare;
mod format;
mod lists;
mod objects;
mod scalars;
mod soundness;

use std::{
    cell::Cell,
    collections::{BTreeSet, HashMap},
    fmt,
};

use serde_json::{Map, Value};
use tidegate_backtrack::SearchTime;
use tidegate_protocol::uri::percent_decode_text;

use crate::common::regexes::Regex;

/// Schemas in schemas, references included.
const MOST_DEPTH: usize = 300;

/// Visits of schemas in one check.
pub(super) const MOST_STEPS: usize = 200_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    V30,
    V31,
}

/// A document with schemas in it.
#[derive(Debug)]
pub(super) struct Schemas {
    pub root: Value,
    pub dialect: Dialect,
    patterns: HashMap<String, Regex>,
    /// Pointers of `$anchor` and `$dynamicAnchor`.
    anchors: HashMap<String, String>,
    /// Some schema asks what others have not looked at.
    has_unevaluated: bool,
}

/// Why a value is refused.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Failed {
    Invalid(String),
    /// A bound was reached.
    Unjudged,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failed::Invalid(reason) => f.write_str(reason),
            Failed::Unjudged => f.write_str("it takes too long to check"),
        }
    }
}

type Checked = Result<(), Failed>;

/// Where a value stands.
pub(super) struct At<'a> {
    around: Option<&'a At<'a>>,
    step: Step<'a>,
}

enum Step<'a> {
    Root(&'a str),
    Name(&'a str),
    Place(usize),
}

impl<'a> At<'a> {
    pub(super) fn root(name: &'a str) -> At<'a> {
        At { around: None, step: Step::Root(name) }
    }

    fn name(&'a self, name: &'a str) -> At<'a> {
        At { around: Some(self), step: Step::Name(name) }
    }

    fn place(&'a self, place: usize) -> At<'a> {
        At { around: Some(self), step: Step::Place(place) }
    }

    fn fails<T>(&self, reason: impl fmt::Display) -> Result<T, Failed> {
        Err(Failed::Invalid(format!("{self}: {reason}")))
    }
}

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(around) = self.around {
            around.fmt(f)?;
        }
        match self.step {
            Step::Root(name) => f.write_str(name),
            // What a client chose is cut.
            Step::Name(name) => write!(f, ".{}", name.chars().take(64).collect::<String>()),
            Step::Place(place) => write!(f, "[{place}]"),
        }
    }
}

/// What some schema has looked at, for `unevaluatedProperties` and `unevaluatedItems`.
#[derive(Default)]
struct Seen {
    names: BTreeSet<String>,
    places: BTreeSet<usize>,
}

impl Seen {
    fn add(&mut self, other: Seen) {
        self.names.extend(other.names);
        self.places.extend(other.places);
    }
}

/// One check: what it may still take.
pub(super) struct Check<'s> {
    schemas: &'s Schemas,
    steps: Cell<usize>,
    time: SearchTime,
}

impl Schemas {
    /// What stands at a reference within the document.
    pub(super) fn resolve(&self, reference: &str) -> Option<&Value> {
        let fragment = reference.strip_prefix('#')?;
        if fragment.is_empty() {
            return Some(&self.root);
        }
        if fragment.starts_with('/') {
            return self.root.pointer(&percent_decode_text(fragment, false));
        }
        self.root.pointer(self.anchors.get(fragment)?)
    }

    /// The object itself, where it is not a reference to another.
    pub(super) fn followed<'s>(&'s self, mut value: &'s Value) -> &'s Value {
        for _ in 0..MOST_DEPTH {
            let reference = value.get("$ref").and_then(Value::as_str);
            match reference.and_then(|reference| self.resolve(reference)) {
                Some(target) => value = target,
                None => break,
            }
        }
        value
    }

    fn pattern(&self, pattern: &str) -> Option<&Regex> {
        self.patterns.get(pattern)
    }
}

impl<'s> Check<'s> {
    pub(super) fn new(schemas: &'s Schemas, steps: usize, time: SearchTime) -> Check<'s> {
        Check { schemas, steps: Cell::new(steps), time }
    }

    pub(super) fn check(&self, schema: &Value, value: &Value, at: &At) -> Checked {
        self.visit(schema, value, at, 0, &mut Seen::default())
    }

    fn count(&self, steps: usize) -> Checked {
        self.steps.set(self.steps.get().checked_sub(steps).ok_or(Failed::Unjudged)?);
        Ok(())
    }

    fn visit(&self, schema: &Value, value: &Value, at: &At, depth: usize, seen: &mut Seen) -> Checked {
        self.count(1)?;
        if depth > MOST_DEPTH {
            return Err(Failed::Unjudged);
        }
        let rules = match schema {
            Value::Object(rules) => rules,
            Value::Bool(false) => return at.fails("nothing is allowed here"),
            _ => return Ok(()),
        };
        for keyword in ["$ref", "$dynamicRef"] {
            let Some(reference) = rules.get(keyword).and_then(Value::as_str) else { continue };
            let target = self.schemas.resolve(reference).ok_or(Failed::Unjudged)?;
            self.visit(target, value, at, depth + 1, seen)?;
            if self.schemas.dialect == Dialect::V30 {
                return Ok(());
            }
        }
        self.scalar(rules, value, at)?;
        match value {
            Value::Array(items) => self.list(rules, items, at, depth, seen)?,
            Value::Object(members) => self.object(rules, members, at, depth, seen)?,
            _ => {}
        }
        self.combined(rules, value, at, depth, seen)?;
        self.unevaluated(rules, value, at, depth, seen)
    }

    /// As a condition: whether the value fits. What fits has been looked at.
    fn fits(
        &self,
        schema: &Value,
        value: &Value,
        at: &At,
        depth: usize,
        seen: &mut Seen,
    ) -> Result<bool, Failed> {
        let mut own = Seen::default();
        match self.visit(schema, value, at, depth + 1, &mut own) {
            Ok(()) => {
                seen.add(own);
                Ok(true)
            }
            Err(Failed::Invalid(_)) => Ok(false),
            Err(Failed::Unjudged) => Err(Failed::Unjudged),
        }
    }

    fn combined(
        &self,
        rules: &Map<String, Value>,
        value: &Value,
        at: &At,
        depth: usize,
        seen: &mut Seen,
    ) -> Checked {
        let schemas = |name: &str| rules.get(name).and_then(Value::as_array);
        for schema in schemas("allOf").into_iter().flatten() {
            self.visit(schema, value, at, depth + 1, seen)?;
        }
        if let Some(any) = schemas("anyOf") {
            self.any(any, value, at, depth, seen)?;
        }
        if let Some(one) = schemas("oneOf") {
            let mut fitting = 0;
            for schema in one {
                fitting += usize::from(self.fits(schema, value, at, depth, seen)?);
            }
            match fitting {
                1 => {}
                0 => return at.fails("it fits none of oneOf"),
                several => return at.fails(format!("it fits {several} of oneOf")),
            }
        }
        if let Some(schema) = rules.get("not")
            && self.fits(schema, value, at, depth, &mut Seen::default())?
        {
            return at.fails("it is what not excludes");
        }
        if let Some(condition) = rules.get("if") {
            let branch = if self.fits(condition, value, at, depth, seen)? { "then" } else { "else" };
            if let Some(schema) = rules.get(branch) {
                self.visit(schema, value, at, depth + 1, seen)?;
            }
        }
        Ok(())
    }

    fn any(&self, schemas: &[Value], value: &Value, at: &At, depth: usize, seen: &mut Seen) -> Checked {
        let (mut fits, mut doubt) = (false, false);
        for schema in schemas {
            match self.fits(schema, value, at, depth, seen) {
                Ok(found) => fits |= found,
                Err(_) => doubt = true,
            }
            // The others matter for what has been looked at only.
            if fits && !self.schemas.has_unevaluated {
                return Ok(());
            }
        }
        match (fits, doubt) {
            (true, _) => Ok(()),
            (false, true) => Err(Failed::Unjudged),
            (false, false) => at.fails("it fits none of anyOf"),
        }
    }

    fn unevaluated(
        &self,
        rules: &Map<String, Value>,
        value: &Value,
        at: &At,
        depth: usize,
        seen: &mut Seen,
    ) -> Checked {
        if !self.schemas.has_unevaluated {
            return Ok(());
        }
        match value {
            Value::Object(members) => {
                let Some(schema) = rules.get("unevaluatedProperties") else { return Ok(()) };
                for (name, member) in members.iter().filter(|(name, _)| !seen.names.contains(*name)) {
                    self.visit(schema, member, &at.name(name), depth + 1, &mut Seen::default())?;
                }
                seen.names.extend(members.keys().cloned());
            }
            Value::Array(items) => {
                let Some(schema) = rules.get("unevaluatedItems") else { return Ok(()) };
                for (place, item) in
                    items.iter().enumerate().filter(|(place, _)| !seen.places.contains(place))
                {
                    self.visit(schema, item, &at.place(place), depth + 1, &mut Seen::default())?;
                }
                seen.places.extend(0..items.len());
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether a pattern is found in a text.
    fn matches(&self, pattern: &str, text: &str) -> Result<bool, Failed> {
        let regex = self.schemas.pattern(pattern).ok_or(Failed::Unjudged)?;
        regex.within(&self.time).is_match(text.as_bytes()).map_err(|_| Failed::Unjudged)
    }
}

#[cfg(test)]
mod tests;
