//! Where in a configuration a content is looked for.

use super::{
    block::Server, branch::Branch, context::Context, locations::Location, made::Made, places::LocationMatch,
    variables::Variables,
};
use crate::Report;

/// Converts the location that a redirect within the server leads to.
///
/// The content of a place may ask for that of another, at any depth. What makes contents is above the files that ask, so they
/// get it from those who begin.
pub(crate) type Arrived = fn(&Location<'_>, &At<'_, '_>, &Variables, &mut Report) -> Made<Vec<Branch>>;

/// The place that is converted, in its server.
#[derive(Clone, Copy)]
pub(crate) struct At<'s, 'a> {
    pub server: &'s Server<'s, 'a>,
    pub context: &'s Context<'a>,
    pub place: &'s LocationMatch,
    pub redirects: usize,
    /// What it answers is the page of an error, whose errors have no pages in their turn.
    pub is_page: bool,
    /// A step of the server answers, before any location is looked for.
    pub(crate) is_server: bool,
    pub arrived: Arrived,
}

pub(crate) fn is_step(name: &str) -> bool {
    ["return", "rewrite", "if", "set", "break"].contains(&name)
}
