//! Which path of a route was probably meant, where none fits.

use std::collections::BTreeMap;

use tidegate_model::nearest::nearest;

/// The pattern of a route whose fixed part is as long as the start of this path, and nearly the same. The longest start first.
pub(super) fn nearest_path<'r>(path: &str, patterns: impl Iterator<Item = &'r str>) -> Option<&'r str> {
    let mut by_segments: BTreeMap<usize, BTreeMap<&str, &'r str>> = BTreeMap::new();
    for pattern in patterns {
        let fixed = fixed(pattern);
        by_segments.entry(segments(fixed)).or_default().entry(fixed).or_insert(pattern);
    }
    (1..=segments(path)).rev().find_map(|count| {
        let known = by_segments.get(&count)?;
        let start = start(path, count);
        let found = known.get_key_value(start).map(|(fixed, _)| *fixed);
        let found = found.or_else(|| nearest(start, known.keys().copied()))?;
        known.get(found).copied()
    })
}

/// Before the first variable.
fn fixed(pattern: &str) -> &str {
    let variable = pattern.find("/:").into_iter().chain(pattern.find('*')).min();
    variable.and_then(|at| pattern.get(..at)).unwrap_or(pattern).trim_end_matches('/')
}

fn segments(path: &str) -> usize {
    path.split('/').filter(|segment| !segment.is_empty()).count()
}

/// So many segments of it.
fn start(path: &str, count: usize) -> &str {
    let slashes = path.match_indices('/').map(|(at, _)| at);
    let end = slashes.skip(1).nth(count - 1).unwrap_or(path.len());
    path.get(..end).unwrap_or(path).trim_end_matches('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_path_is_named() {
        let check = |path: &str, expected: Option<&str>| {
            let patterns = ["/orders/*", "/orders/archive/:year", "/users", "/api/v1/products*", "/*x", "*"];
            assert_eq!(nearest_path(path, patterns.into_iter()), expected, "{path}");
        };
        check("/order/1", Some("/orders/*"));
        check("/Orders/1", Some("/orders/*"));
        check("/orders", Some("/orders/*"));
        check("/orders/archiv/2026", Some("/orders/archive/:year"));
        check("/users/", Some("/users"));
        check("/users/7", Some("/users"));
        check("/user", Some("/users"));
        check("/api/v1/product/3", Some("/api/v1/products*"));
        check("/api/v2/products", Some("/api/v1/products*"));
        check("/nothing/like/it", None);
        check("/", None);
    }
}
