//! A path, step by step.

use serde_json::Value;

#[derive(Debug)]
pub(super) enum Selector<'a> {
    Name(&'a str),
    Index(usize),
    Any,
}

#[derive(Debug)]
pub(super) struct Step<'a> {
    /// Also from everything below.
    descends: bool,
    selector: Selector<'a>,
}

/// Each step leads a level down, and documents nest 128 deep at most: longer paths select nothing.
const MOST_STEPS: usize = 127;

#[derive(Debug)]
pub(in crate::variables) struct Path<'a> {
    steps: Vec<Step<'a>>,
}

/// The steps that are still to be taken from a value, one bit each; bit `steps.len()`: the value is selected.
pub(super) type Pending = u128;

/// How a value is reached from the one that holds it.
#[derive(Clone, Copy)]
pub(super) enum Key<'a> {
    Name(&'a str),
    Index(usize),
}

impl<'a> Path<'a> {
    /// Names with dots between them, without any other meaning.
    pub(crate) fn of_names(path: &'a str) -> Option<Path<'a>> {
        let steps = path.split('.').map(|name| Step { descends: false, selector: Selector::Name(name) });
        Path::new(steps.collect())
    }

    pub(crate) fn of_json_path(path: &'a str) -> Option<Path<'a>> {
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

    pub(super) fn new(steps: Vec<Step<'a>>) -> Option<Path<'a>> {
        (steps.len() <= MOST_STEPS).then_some(Path { steps })
    }

    pub(super) fn start(&self) -> Pending {
        1
    }

    pub(super) fn selected(&self) -> Pending {
        1 << self.steps.len()
    }

    /// The steps that are pending at the value behind `key`.
    pub(super) fn follow(&self, pending: Pending, key: Key<'_>) -> Pending {
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
    pub(super) fn in_tree<'v>(&self, value: &'v Value, pending: Pending, found: &mut dyn FnMut(&'v Value)) {
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

pub(super) fn next_selector(text: &str) -> Option<(Selector<'_>, &str)> {
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
