//! The part of JSONPath (RFC 9535) that `post_arg.` paths use: names, `*`, `..`, `[index]`, `['name']`, `[*]`.
//!
//! A path is a list of steps. What matters of a place in a document is which steps are still to be taken from it, so one
//! walk finds everything the path selects, each value once, in a tree ([`select`]) as in bytes (`in_bytes.rs`).

mod in_bytes;

use serde_json::Value;

pub(super) use in_bytes::values;

use crate::document::{Allowance, PARSED_BYTES};

#[derive(Debug)]
enum Selector<'a> {
    Name(&'a str),
    Index(usize),
    Any,
}

#[derive(Debug)]
struct Step<'a> {
    /// Also from everything below.
    descends: bool,
    selector: Selector<'a>,
}

/// Each step leads a level down, and documents nest 128 deep at most: longer paths select nothing.
const MOST_STEPS: usize = 127;

#[derive(Debug)]
pub(super) struct Path<'a> {
    steps: Vec<Step<'a>>,
}

/// The steps that are still to be taken from a value, one bit each; bit `steps.len()`: the value is selected.
type Pending = u128;

/// How a value is reached from the one that holds it.
#[derive(Clone, Copy)]
enum Key<'a> {
    Name(&'a str),
    Index(usize),
}

impl<'a> Path<'a> {
    /// Names with dots between them, without any other meaning.
    pub fn of_names(path: &'a str) -> Option<Path<'a>> {
        let steps = path.split('.').map(|name| Step { descends: false, selector: Selector::Name(name) });
        Path::new(steps.collect())
    }

    pub fn of_json_path(path: &'a str) -> Option<Path<'a>> {
        let mut rest = path.strip_prefix('$').unwrap_or(path);
        let mut steps = Vec::new();
        while !rest.is_empty() {
            let descends = rest.starts_with("..");
            let (selector, after) = next_selector(rest.trim_start_matches('.'))?;
            steps.push(Step { descends, selector });
            rest = after;
        }
        Path::new(steps)
    }

    fn new(steps: Vec<Step<'a>>) -> Option<Path<'a>> {
        (steps.len() <= MOST_STEPS).then_some(Path { steps })
    }

    fn start(&self) -> Pending {
        1
    }

    fn selected(&self) -> Pending {
        1 << self.steps.len()
    }

    /// What is pending at the value that `key` leads to.
    fn follow(&self, pending: Pending, key: Key<'_>) -> Pending {
        let (mut left, mut next) = (pending & (self.selected() - 1), 0);
        while left != 0 {
            let bit = left & left.wrapping_neg();
            left ^= bit;
            let Some(step) = self.steps.get(bit.trailing_zeros() as usize) else { continue };
            if step.descends {
                next |= bit;
            }
            let leads = match (&step.selector, key) {
                (Selector::Any, _) => true,
                (Selector::Name(wanted), Key::Name(name)) => *wanted == name,
                (Selector::Index(wanted), Key::Index(index)) => *wanted == index,
                _ => false,
            };
            if leads {
                next |= bit << 1;
            }
        }
        next
    }

    /// Finds values in a tree, in the order of the document. Trees nest 128 deep at most.
    fn in_tree<'v>(&self, value: &'v Value, pending: Pending, found: &mut dyn FnMut(&'v Value)) {
        if pending & self.selected() != 0 {
            found(value);
        }
        if pending & (self.selected() - 1) == 0 {
            return;
        }
        match value {
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.in_tree(item, self.follow(pending, Key::Index(index)), found);
                }
            }
            Value::Object(entries) => {
                for (name, entry) in entries {
                    self.in_tree(entry, self.follow(pending, Key::Name(name)), found);
                }
            }
            _ => {}
        }
    }
}

/// Every value the path selects, in document order; none for a path that is not understood.
pub fn select<'a>(document: &'a Value, path: &str) -> Vec<&'a Value> {
    let mut found = Vec::new();
    if let Some(path) = Path::of_json_path(path) {
        path.in_tree(document, path.start(), &mut |value| found.push(value));
    }
    found
}

/// As [`select`], without a tree; `None` for what is neither a path nor a document. For the fuzz targets.
#[doc(hidden)]
pub fn select_in_text(text: &[u8], path: &str) -> Option<Vec<Value>> {
    values(text, &Path::of_json_path(path)?, &Allowance::new(PARSED_BYTES)).ok()
}

/// Whether [`select`] understands the path.
pub fn is_valid(path: &str) -> bool {
    check(path).is_ok()
}

/// Refuses what is not a JSONPath at all; the error names where it stops making sense.
pub fn check(path: &str) -> Result<(), String> {
    let mut rest = path.strip_prefix('$').unwrap_or(path);
    while !rest.is_empty() {
        rest = rest.trim_start_matches('.');
        // Filters, slices and unions are JSONPath as well, even if they select nothing here.
        let other = rest
            .strip_prefix('[')
            .and_then(|inner| inner.split_once(']'))
            .filter(|(body, _)| body.contains(['?', ':', ',', '(']))
            .map(|(_, after)| after);
        let next = next_selector(rest).map(|(_, after)| after).or(other);
        rest = next.ok_or_else(|| format!("invalid expression near \"{rest}\""))?;
    }
    Ok(())
}

fn next_selector(text: &str) -> Option<(Selector<'_>, &str)> {
    if let Some(inner) = text.strip_prefix('[') {
        let end = inner.find(']')?;
        let (body, rest) = (inner[..end].trim(), &inner[end + 1..]);
        if body == "*" {
            return Some((Selector::Any, rest));
        }
        if let Some(name) = body.strip_prefix(['\'', '"']) {
            return Some((Selector::Name(name.trim_end_matches(['\'', '"'])), rest));
        }
        return Some((Selector::Index(body.parse().ok()?), rest));
    }
    let end = text.find(['.', '[']).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    match name {
        "" => None,
        "*" => Some((Selector::Any, rest)),
        name => Some((Selector::Name(name), rest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selections() {
        let document = serde_json::json!({"m":[{"c":[{"t":"a"},{"t":"b"}]},{"c":"x"}],"t":"z"});
        let cases = [
            ("m[*].c[*].t", r#"["a","b"]"#),
            ("m[1].c", r#"["x"]"#),
            ("m..t", r#"["a","b"]"#),
            ("$..t", r#"["z","a","b"]"#),
            ("m[*]..t", r#"["a","b"]"#),
            ("$..c", r#"[[{"t":"a"},{"t":"b"}],"x"]"#),
            ("m..*..t", r#"["a","b"]"#),
            ("['m'][0]", r#"[{"c":[{"t":"a"},{"t":"b"}]}]"#),
            ("m[9]", "[]"),
            ("m[x", "[]"),
        ];
        for (path, expected) in cases {
            let mut texts = serde_json::to_value(select(&document, path)).unwrap();
            let mut expected: Value = serde_json::from_str(expected).unwrap();
            for list in [&mut texts, &mut expected] {
                list.as_array_mut().unwrap().sort_by_key(Value::to_string);
            }
            assert_eq!(texts, expected, "{path}");
        }
    }

    #[test]
    fn broken_paths_are_named() {
        for (path, valid) in [
            ("model", true),
            ("m[*].c[0].t", true),
            ("m[?(@.t=='a')].c", true),
            ("m[0:2]", true),
            ("messages[.content[*].type", false),
            ("m[x]", false),
            ("m.", false),
        ] {
            assert_eq!(check(path).is_ok(), valid, "{path}");
        }
    }
}
