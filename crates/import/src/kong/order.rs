//! Under which paths our router has to find a route, so that routes are asked in Kong's order.
//!
//! Our router takes the longest path, and among equal ones the highest priority. So a route that Kong asks earlier than one
//! with a longer path is entered under that path too. Where that would be too much, all routes stand under one path and
//! conditions distinguish them.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

use super::pattern::Pattern;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Path {
    /// Of the path as the gateway has it.
    Prefix(String),
    /// Of the path as Kong has it.
    Regex(Pattern),
}

impl Path {
    /// The prefix, or the expression.
    pub(super) fn text(&self) -> &str {
        match self {
            Path::Prefix(prefix) => prefix,
            Path::Regex(pattern) => &pattern.text,
        }
    }
}

/// Paths that all routes may have together, for each of them.
const PATHS_PER_ROUTE: usize = 4;
const MORE_PATHS: usize = 2_000;

pub(super) struct Order {
    /// For each path of the file the last route that has it, in Kong's order.
    last: BTreeMap<String, usize>,
    pub is_flat: bool,
}

impl Order {
    /// Paths in Kong's order.
    pub(super) fn of<'p>(paths: impl Iterator<Item = &'p Path> + Clone) -> Order {
        let mut last = BTreeMap::new();
        for (index, path) in paths.clone().enumerate() {
            last.insert(base(path), index);
        }
        let mut order = Order { last, is_flat: false };
        let mut budget = paths.clone().count() * PATHS_PER_ROUTE + MORE_PATHS;
        for (index, path) in paths.enumerate() {
            let Some(left) = budget.checked_sub(order.below(path, index, budget + 1)) else {
                order.is_flat = true;
                break;
            };
            budget = left;
        }
        order
    }

    fn later(&self, path: &Path, index: usize) -> impl Iterator<Item = &String> {
        let base = base(path);
        let from = (Bound::Excluded(base.clone()), Bound::Unbounded);
        self.last
            .range(from)
            .take_while(move |(other, _)| other.starts_with(&base))
            .filter(move |(_, last)| **last > index)
            .map(|(other, _)| other)
    }

    fn below(&self, path: &Path, index: usize, most: usize) -> usize {
        1 + self.later(path, index).take(most).count()
    }

    /// The paths of a route in our router.
    pub(super) fn uris(&self, path: &Path, index: usize) -> Vec<String> {
        if self.is_flat {
            return vec!["/*".to_owned()];
        }
        let mut uris = vec![format!("{}*", base(path))];
        uris.extend(self.later(path, index).map(|other| format!("{other}*")));
        let unique: BTreeSet<&String> = uris.iter().collect();
        if unique.len() < uris.len() { unique.into_iter().cloned().collect() } else { uris }
    }
}

/// What every path that matches begins with.
fn base(path: &Path) -> String {
    match path {
        Path::Prefix(prefix) => prefix.clone(),
        Path::Regex(pattern) => pattern.base.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn regex(pattern: &str) -> Path {
        Path::Regex(Pattern::of_rust(&format!("^{pattern}")).expect("a pattern"))
    }

    #[test]
    fn earlier_routes_are_under_later_longer_paths() {
        let paths = [
            regex("/a/.*"),
            Path::Prefix("/a/b".into()),
            Path::Prefix("/a".into()),
            Path::Prefix("/c".into()),
        ];
        let order = Order::of(paths.iter());
        assert_eq!(order.uris(&paths[0], 0), ["/a/*", "/a/b*"]);
        assert_eq!(order.uris(&paths[2], 2), ["/a*"], "/a/b comes first");
        assert!(!order.is_flat);
    }

    #[test]
    fn too_many_pairs_are_flat() {
        let mut paths: Vec<Path> = (0..500).map(|number| regex(&format!("/[xy]{number}"))).collect();
        paths.extend((0..500).map(|number| Path::Prefix(format!("/p{number}/"))));
        let order = Order::of(paths.iter());
        assert!(order.is_flat);
        assert_eq!(order.uris(&paths[0], 0), ["/*"]);
    }
}
