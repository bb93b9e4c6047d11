//! Bounds the work of one check. References, alternatives and patterns can make a small schema do exponential work on a
//! small value, so every check counts its steps: one for each visit of a node, others for what is in proportion to the
//! size of texts and rules. A step is some ten nanoseconds.

use std::{cell::Cell, ops::Add};

use tidegate_backtrack::SearchTime;

use super::pattern::Pattern;

/// Bytes of a text that cost one step to measure, copy or compare.
const TEXT_BYTES_PER_STEP: usize = 64;

const PATTERN_GAVE_UP: &str = "a pattern takes too long to match";

/// Why a value did not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The library's message, without any prefix.
    Invalid(String),
    /// A limit ended the check: whether the value is valid is not known.
    Spent(String),
}

impl Failure {
    /// The text for a user.
    pub fn into_message(self) -> String {
        match self {
            Failure::Invalid(message) | Failure::Spent(message) => message,
        }
    }
}

pub(super) struct Budget<'t> {
    limit: u32,
    left: Cell<u32>,
    spent: Cell<bool>,
    /// A limit ended a part of the check.
    unfinished: Cell<bool>,
    /// The time that its patterns may take.
    searches: &'t SearchTime,
}

impl<'t> Budget<'t> {
    pub(super) fn new(limit: u32, searches: &'t SearchTime) -> Budget<'t> {
        Budget {
            limit,
            left: Cell::new(limit),
            spent: Cell::default(),
            unfinished: Cell::default(),
            searches,
        }
    }

    pub(super) fn depth(&'t self) -> Depth<'t> {
        Depth { level: 0, budget: self }
    }

    pub(super) fn is_spent(&self) -> bool {
        self.spent.get()
    }

    pub(crate) fn is_unfinished(&self) -> bool {
        self.unfinished.get()
    }

    pub(super) fn message(&self) -> String {
        match self.searches.is_spent() {
            true => PATTERN_GAVE_UP.to_owned(),
            false => format!("schema takes more than {} steps to check", self.limit),
        }
    }
}

/// The depth of a check, and its remaining budget.
#[derive(Clone, Copy)]
pub(super) struct Depth<'a> {
    pub level: usize,
    pub budget: &'a Budget<'a>,
}

impl Depth<'_> {
    /// The message of the error is never seen: `check_root` gives its own.
    pub(super) fn spend(self, steps: usize) -> Result<(), String> {
        let left = self.budget.left.get();
        match u32::try_from(steps).ok().and_then(|steps| left.checked_sub(steps)) {
            Some(left) => {
                self.budget.left.set(left);
                Ok(())
            }
            None => {
                self.budget.left.set(0);
                self.budget.spent.set(true);
                Err(String::new())
            }
        }
    }

    pub(crate) fn spend_on_text(self, text: &str) -> Result<(), String> {
        self.spend(text.len() / TEXT_BYTES_PER_STEP)
    }

    pub(super) fn give_up(self, reason: String) -> Result<(), String> {
        self.budget.unfinished.set(true);
        Err(reason)
    }

    /// Whether the pattern matches; an error when the budget is spent.
    pub(super) fn matches(self, pattern: &Pattern, text: &str) -> Result<bool, String> {
        let searches = self.budget.searches;
        let found = pattern.find(text, searches, &mut |steps| self.spend(steps).is_ok());
        if found.is_none() {
            self.budget.unfinished.set(true);
            if searches.is_spent() {
                self.budget.spent.set(true);
            }
        }
        found.ok_or_else(|| PATTERN_GAVE_UP.to_owned())
    }
}

impl Add<usize> for Depth<'_> {
    type Output = Self;

    fn add(self, levels: usize) -> Self {
        Depth { level: self.level + levels, ..self }
    }
}
