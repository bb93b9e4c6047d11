//! `vars` expressions with the meaning lua-resty-expr gives them, which routes, traffic-split, workflow and
//! `_meta.filter` share.
//!
//! A rule is parsed once: names are resolved to whatever the caller uses as a variable (`N`), numbers, regular
//! expressions and address sets are prepared. Lua's ideas that users rely on are kept: a string is compared as
//! a number only when the other side demands it, and nil fails everything but `~=` and negated forms. A rule that can
//! never hold (a broken regular expression, a list where one value is compared) is refused: a guard behind
//! such a condition would never run.

mod comparison;
mod compile;
mod number;
pub(super) mod operand;
mod pattern;
mod tree;

use self::tree::{Logic, Node};
pub use pattern::{GaveUp, MAX_STEPS, MAX_TIME, Pattern, SearchTime};

pub use self::operand::Operand;

/// A compiled rule. An empty rule is always true.
#[derive(Debug, PartialEq)]
pub struct Expression<N> {
    root: Option<Node<N>>,
}

/// The request as an expression sees it.
pub trait Variables {
    /// How the caller names variables once they are compiled.
    type Name;
    /// The value for this request; [`Operand::Nil`] if there is none.
    fn get<'a>(&'a self, name: &Self::Name) -> Operand<'a>;
    /// The time that patterns have taken for this request, where it is bounded.
    fn search_time(&self) -> Option<&SearchTime> {
        None
    }
    /// A pattern gave up on this request's text: the result of the rule is meaningless, so the request must be
    /// refused.
    fn gave_up(&self, _pattern: &str) {}
}

impl<N> Expression<N> {
    /// Parses a rule; `resolve` turns each variable name into the key for [`Variables::get`].
    /// The error is the text APISIX prints.
    pub fn compile(
        rule: &serde_json::Value,
        resolve: &mut dyn FnMut(&str) -> N,
    ) -> Result<Expression<N>, String> {
        Ok(Expression { root: compile::rule(rule, resolve)? })
    }

    /// Whether the conditions hold for these variables.
    pub fn eval<V: Variables<Name = N>>(&self, variables: &V) -> bool {
        self.root.as_ref().is_none_or(|root| eval(root, variables))
    }

    /// The first clause that does not hold, from 0, of a rule whose clauses must all hold. For explanations;
    /// requests use `eval`.
    pub(crate) fn failing_clause<V: Variables<Name = N>>(&self, variables: &V) -> Option<usize> {
        match &self.root {
            Some(Node::Group { logic: Logic::And, children }) => {
                children.iter().position(|child| !eval(child, variables))
            }
            _ => None,
        }
    }

    /// True when the rule was empty, so that a caller can skip it.
    pub fn is_always_true(&self) -> bool {
        self.root.is_none()
    }
}

/// Longer ones count in the time of a request's patterns.
const LONG_VALUE: usize = 1024;

fn eval<N, V: Variables<Name = N>>(node: &Node<N>, variables: &V) -> bool {
    match node {
        Node::Test { name, negated, comparison } => {
            let time = variables.search_time();
            // Many rules: none of the rest is worth looking its value up.
            if let Some(pattern) = comparison.pattern()
                && time.is_some_and(SearchTime::is_spent)
            {
                variables.gave_up(pattern);
                return false;
            }
            let value = variables.get(name);
            // For each condition a long value is looked up again.
            if let (Operand::Bytes(text), Some(time)) = (&value, time)
                && text.len() > LONG_VALUE
            {
                time.read(text.len());
            }
            match comparison.holds(&value, time) {
                Ok(holds) => holds != *negated,
                Err(pattern) => {
                    variables.gave_up(pattern);
                    false
                }
            }
        }
        Node::Group { logic, children } => match logic {
            Logic::And => children.iter().all(|child| eval(child, variables)),
            Logic::Or => children.iter().any(|child| eval(child, variables)),
            Logic::NotAnd => !children.iter().all(|child| eval(child, variables)),
            Logic::NotOr => !children.iter().any(|child| eval(child, variables)),
        },
    }
}

#[cfg(test)]
mod tests;
