//! Where in a configuration a content is looked for.

use super::{block::Server, context::Context, places::Place};

/// The place that is converted, in its server.
#[derive(Clone, Copy)]
pub struct At<'s, 'a> {
    pub server: &'s Server<'s, 'a>,
    pub context: &'s Context<'a>,
    pub place: &'s Place,
    pub redirects: usize,
    /// What it answers is the page of an error, whose errors have no pages in their turn.
    pub is_page: bool,
    /// A step of the server answers, before any location is looked for.
    pub is_server: bool,
}

pub fn is_step(name: &str) -> bool {
    ["return", "rewrite", "if", "set", "break"].contains(&name)
}
