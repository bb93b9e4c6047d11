//! What a rewrite or a redirect within the server changes: the path, often the arguments, and the maps that are made of them.
//!
//! nginx keeps the value that a map had when something looked at it first, so that behind a change it may be either of two: such
//! a map has no value that is known.

use super::{
    Known, Part, Query, Variables,
    moved::{ANY_ARGUMENT, Moved, PATHS},
    parts,
};
use crate::nginx::{
    made::{Made, Stop},
    map::{Map, Source},
};

/// Maps of maps that are looked through.
const MAX_DEPTH: usize = 4;

impl Variables<'_> {
    /// The request has another path, which may not be known, and other arguments.
    pub(crate) fn redirect(&mut self, path: Option<&str>, query: Query) {
        let moved = Moved { path: true, query: query != Query::Kept };
        self.forget_maps(moved);
        self.moved = Moved { path: true, query: self.moved.query || moved.query };
        for name in PATHS {
            match path {
                Some(path) => self.put(name, Known::Text(path.to_owned())),
                None => self.unclear(name, "it is another one behind a redirect"),
            }
        }
        let (query, mark) = match query {
            Query::Kept => return,
            Query::Is(query) => (Some(query), if query.is_empty() { "" } else { "?" }),
            Query::Unknown => (None, ""),
        };
        for (name, text) in [
            ("args", query),
            ("query_string", query),
            ("is_args", query.map(|_| mark)),
            (ANY_ARGUMENT, query.filter(|query| query.is_empty())),
        ] {
            match text {
                Some(text) => self.put(name, Known::Text(text.to_owned())),
                None => self.unclear(name, "arguments are other ones behind a redirect"),
            }
        }
        self.known.retain(|name, _| name == ANY_ARGUMENT || !name.starts_with(ANY_ARGUMENT));
    }

    /// For what looks at the client's request whatever became of it.
    pub(crate) fn require_unmoved(&self, name: &str) -> Made<()> {
        match self.moved.has(name) {
            true => Err(Stop::closed(format!("`${name}` is another one behind a rewrite or redirect"))),
            false => Ok(()),
        }
    }

    fn forget_maps(&mut self, moved: Moved) {
        let is_made = |known: &Known| match known {
            Known::Map(map) => self.is_made_of(map, moved, MAX_DEPTH),
            Known::Case(text, map) => {
                self.is_made_of(map, moved, MAX_DEPTH) || names(text).any(|name| moved.has(name))
            }
            Known::Text(_) | Known::Flag(_) | Known::Unclear(_) => false,
        };
        let all = self.known.iter().filter(|(_, known)| is_made(known));
        for name in all.map(|(name, _)| name.clone()).collect::<Vec<_>>() {
            self.unclear(
                &name,
                "it is made of the path or the arguments, which are other ones behind a redirect",
            );
        }
    }

    fn is_made_of(&self, map: &Map, moved: Moved, depth: usize) -> bool {
        let (Source::Text(source) | Source::Address(source)) = &map.source;
        // The address of a `geo` is written without its sign.
        let alone = matches!(map.source, Source::Address(_)).then_some(source.as_str());
        names(source).chain(alone).any(|name| {
            moved.has(name)
                || match self.known(name) {
                    Some(Known::Map(inner) | Known::Case(_, inner)) => {
                        depth == 0 || self.is_made_of(inner, moved, depth - 1)
                    }
                    Some(Known::Text(text)) => names(text).any(|name| moved.has(name)),
                    Some(Known::Flag(_) | Known::Unclear(_)) | None => false,
                }
        })
    }
}

fn names(text: &str) -> impl Iterator<Item = &str> {
    parts(text).into_iter().filter_map(|part| match part {
        Part::Variable(name) => Some(name),
        Part::Text(_) | Part::Capture(_) => None,
    })
}
