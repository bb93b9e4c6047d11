//! A compiled expression and its evaluation.

use super::comparison::Comparison;

#[derive(Debug, PartialEq)]
pub(super) enum Node<N> {
    Group { logic: Logic, children: Vec<Node<N>> },
    Test { name: N, negated: bool, comparison: Comparison },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Logic {
    And,
    Or,
    NotAnd,
    NotOr,
}
