//! A server, and the routes that a location becomes.

use super::{
    branch::Branch, chain::Chain, condition::Condition, locations::Locations, parse::Directive,
    variables::Variables,
};

pub(crate) struct Server<'s, 'a> {
    pub(crate) directive: &'a Directive,
    pub http: &'s Chain<'a>,
    pub locations: Locations<'a>,
    pub variables: &'s Variables<'a>,
}

/// A block's cases, and the paths that they are for.
pub(crate) struct Block {
    pub name: String,
    /// Of which part of the file it is made, for the report.
    pub subject: String,
    pub at: crate::At,
    pub uris: Vec<String>,
    pub condition: Condition,
    /// Bands above the lowest.
    pub rank: usize,
    pub branches: Vec<Branch>,
    pub(crate) is_location: bool,
    /// Some answers are not nginx's.
    pub differs: bool,
}
