//! Executable documents of GraphQL (October 2021 edition, section 2.2), and what runs of one.
//!
//! A parser of ours, because clients choose the documents: nesting and the number of nodes are bounded before memory is
//! taken, and the tree borrows its texts. graphql-parser bounds neither, and the trees of apollo-parser hold every token.

mod lexer;
mod parser;
pub mod weights;

use std::fmt;

use ahash::AHashMap;

/// Selections, values and variables of one document: some megabytes.
pub const MOST_NODES: usize = 50_000;

/// Selections in selections, and values in values.
pub const MOST_DEPTH: usize = 128;

/// Why a document cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is not GraphQL, or has more than operations and fragments. From 1.
    Syntax {
        /// Where it is found.
        line: usize,
    },
    /// Nothing in it could run.
    NoOperation,
    /// Beyond [`MOST_NODES`].
    TooLarge,
    /// Beyond [`MOST_DEPTH`].
    TooDeep,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Syntax { line } => write!(f, "Syntax error near line {line}"),
            Fault::NoOperation => f.write_str("empty query"),
            Fault::TooLarge => write!(f, "the document has more than {MOST_NODES} nodes"),
            Fault::TooDeep => write!(f, "the document is nested more than {MOST_DEPTH} levels deep"),
        }
    }
}

impl std::error::Error for Fault {}

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Reads.
    Query,
    /// Changes.
    Mutation,
    /// Keeps telling.
    Subscription,
}

impl Kind {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Query => "query",
            Kind::Mutation => "mutation",
            Kind::Subscription => "subscription",
        }
    }
}

/// Operations and fragments, as they come.
#[derive(Debug)]
pub struct Document<'t> {
    /// At least one.
    pub operations: Vec<Operation<'t>>,
    /// Of several with one name the last counts.
    pub fragments: AHashMap<&'t str, Fragment<'t>>,
}

impl<'t> Document<'t> {
    /// The operations with this name; all of them if none has it, or no name is given.
    pub fn running(&self, name: Option<&str>) -> impl Iterator<Item = &Operation<'t>> {
        let is_there = self.operations.iter().any(|operation| Some(operation.name) == name);
        self.operations.iter().filter(move |operation| !is_there || Some(operation.name) == name)
    }
}

/// One that may run.
#[derive(Debug)]
pub struct Operation<'t> {
    /// `query` where nothing is written.
    pub kind: Kind,
    /// Empty: it has none.
    pub name: &'t str,
    /// Declared variables with their defaults.
    pub variables: Vec<(&'t str, Option<Value<'t>>)>,
    /// At least one.
    pub selections: Vec<Selection<'t>>,
}

/// A part that operations spread.
#[derive(Debug)]
pub struct Fragment<'t> {
    /// The type that it is for.
    pub on: &'t str,
    /// At least one.
    pub selections: Vec<Selection<'t>>,
}

/// What stands between braces.
#[derive(Debug)]
pub enum Selection<'t> {
    /// `alias: name(argument: 1) { … }`
    Field(Field<'t>),
    /// `...name`
    Spread(&'t str),
    /// `... on Type { … }`
    Inline {
        /// `None`: of the type around it.
        on: Option<&'t str>,
        /// At least one.
        selections: Vec<Selection<'t>>,
    },
}

/// A field that is asked for. Its alias does not matter here.
#[derive(Debug)]
pub struct Field<'t> {
    /// Of the schema.
    pub name: &'t str,
    /// In order; names may repeat.
    pub arguments: Vec<(&'t str, Value<'t>)>,
    /// Empty for a leaf.
    pub selections: Vec<Selection<'t>>,
}

/// A value of an argument or default.
#[derive(Debug, PartialEq)]
pub enum Value<'t> {
    /// `$name`
    Variable(&'t str),
    /// As it is written.
    Number(&'t str),
    /// What stands between the quotes, escapes unread.
    Text(&'t str),
    /// `true`, `false`, `null`, or a name of an enum.
    Name(&'t str),
    /// `[1, 2]`
    List(Vec<Value<'t>>),
    /// `{a: 1}`
    Object(Vec<(&'t str, Value<'t>)>),
}

impl<'t> Document<'t> {
    /// The operation that runs (section 6.1): the one with the wanted name, or the only one. `None`: it is not clear which.
    pub fn operation(&self, wanted: Option<&str>) -> Option<&Operation<'t>> {
        match (wanted, self.operations.as_slice()) {
            (_, [only]) => Some(only),
            (Some(wanted), several) => {
                let mut named = several.iter().filter(|operation| operation.name == wanted);
                named.next().filter(|_| named.next().is_none())
            }
            (None, _) => None,
        }
    }
}

#[cfg(test)]
mod tests;
