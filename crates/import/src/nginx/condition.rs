//! What must hold of a request, in the form of `vars`.

use serde_json::{Value, json};

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Condition {
    Always,
    Never,
    /// `[name, operator, value]`
    Test(String, &'static str, Value),
    All(Vec<Condition>),
    Any(Vec<Condition>),
    Not(Box<Condition>),
}

use Condition::{All, Always, Any, Never, Not, Test};

/// A rule with more tests than this is not worth the time that each request would spend on it.
pub(crate) const MAX_TESTS: usize = 2_000;

impl Condition {
    pub(crate) fn test(name: &str, operator: &'static str, value: impl Into<Value>) -> Condition {
        Test(name.to_owned(), operator, value.into())
    }

    pub(crate) fn all(parts: impl IntoIterator<Item = Condition>) -> Condition {
        let mut kept = Vec::new();
        for part in parts {
            match part {
                Always => {}
                Never => return Never,
                All(inner) => kept.extend(inner),
                other => kept.push(other),
            }
        }
        match kept.len() {
            0 => Always,
            1 => kept.remove(0),
            _ => All(kept),
        }
    }

    pub(crate) fn any(parts: impl IntoIterator<Item = Condition>) -> Condition {
        let mut kept = Vec::new();
        for part in parts {
            match part {
                Never => {}
                Always => return Always,
                Any(inner) => kept.extend(inner),
                other => kept.push(other),
            }
        }
        match kept.len() {
            0 => Never,
            1 => kept.remove(0),
            _ => Any(kept),
        }
    }

    pub(crate) fn negated(self) -> Condition {
        match self {
            Always => Never,
            Never => Always,
            Not(inner) => *inner,
            other => Not(Box::new(other)),
        }
    }

    pub(crate) fn count(&self) -> usize {
        match self {
            Always | Never => 0,
            Test(..) => 1,
            All(parts) | Any(parts) => parts.iter().map(Condition::count).sum(),
            Not(inner) => inner.count(),
        }
    }

    /// Whether a test of this variable is part of it.
    pub(crate) fn names(&self, variable: &str) -> bool {
        match self {
            Always | Never => false,
            Test(name, ..) => name == variable,
            All(parts) | Any(parts) => parts.iter().any(|part| part.names(variable)),
            Not(inner) => inner.names(variable),
        }
    }

    /// The list of `vars`, empty for what always holds. What never holds has no route; see [`Condition::Never`].
    pub(crate) fn vars(&self) -> Vec<Value> {
        match self {
            Always => Vec::new(),
            All(parts) => parts.iter().map(Condition::rule).collect(),
            other => vec![other.rule()],
        }
    }

    fn rule(&self) -> Value {
        let group = |logic: &str, parts: &[Condition]| {
            Value::Array([logic.into()].into_iter().chain(parts.iter().map(Condition::rule)).collect())
        };
        match self {
            // Constants stand alone: groups leave them out.
            Always => json!(["OR", ["scheme", "==", "http"], ["scheme", "!", "==", "http"]]),
            Never => json!(["AND", ["scheme", "==", "http"], ["scheme", "!", "==", "http"]]),
            Test(name, operator, value) => json!([name, operator, value]),
            All(parts) => group("AND", parts),
            Any(parts) => group("OR", parts),
            Not(inner) => match &**inner {
                Test(name, operator, value) => json!([name, "!", operator, value]),
                All(parts) => group("!AND", parts),
                Any(parts) => group("!OR", parts),
                other => Condition::clone(other).negated().rule(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_as_vars_writes_them() {
        let one = || Condition::test("host", "==", "a");
        let two = || Condition::test("uri", "~~", "^/x");
        assert_eq!(Condition::all([Always, one()]).vars(), [json!(["host", "==", "a"])]);
        assert_eq!(Condition::all([one(), two()]).vars().len(), 2);
        assert_eq!(Condition::all([one(), Never]), Never);
        assert_eq!(Condition::any([one(), Always]), Always);
        assert_eq!(one().negated().vars(), [json!(["host", "!", "==", "a"])]);
        let either = Condition::any([one(), two()]);
        assert_eq!(
            either.clone().negated().vars(),
            [json!(["!OR", ["host", "==", "a"], ["uri", "~~", "^/x"]])]
        );
        assert_eq!(either.negated().negated().count(), 2);
        assert!(Condition::all([one(), two()]).names("uri"));
    }
}
