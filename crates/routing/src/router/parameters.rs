//! Matches a whole path against a pattern with `:name` and `*name`, and captures what they match.
//!
//! Only segments that begin with `*` (or `:`, where the router knows parameters) are variables; the rest is
//! compared byte by byte. That differs from APISIX in one way, on purpose: there the rest is part of a regular
//! expression, so that a `+` or a parenthesis in a path never matches itself.
//!
//! A pattern with several `*` takes time in proportion to its `*` and to the path's slashes: whether the rest of a pattern
//! matches from some slash on does not depend on what came before, so no slash is tried twice for the same `*`.

use std::ops::Range;

use smallvec::SmallVec;

/// One captured variable: its name and the position of its value in the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Param<'r> {
    /// `:ext` for an unnamed `*`.
    pub name: &'r str,
    pub range: Range<usize>,
}

const UNNAMED: &str = ":ext";

pub(super) type Params<'r> = SmallVec<[Param<'r>; 4]>;

/// True when a path that shares the pattern's prefix still has to be captured from, or checked.
pub(super) fn has_params(pattern: &str, parameters: bool) -> bool {
    pattern.split('/').any(|segment| segment.starts_with('*') || (parameters && segment.starts_with(':')))
}

/// False when the path does not match the whole pattern; `params` is then unspecified.
pub(super) fn capture<'r>(pattern: &'r str, path: &[u8], parameters: bool, params: &mut Params<'r>) -> bool {
    if let Some(start) = pattern.strip_suffix('*').filter(|start| is_plain_folder(start)) {
        let matches = path.starts_with(start.as_bytes());
        if matches {
            params.push(Param { name: UNNAMED, range: start.len()..path.len() });
        }
        return matches;
    }
    let mut search = Search { path, parameters, failed: SmallVec::new(), params };
    search.matches(pattern, 0, 0)
}

/// Whether it ends with a slash, and has no variables: most patterns are one, and an asterisk.
fn is_plain_folder(start: &str) -> bool {
    start.ends_with('/') && memchr::memchr2(b':', b'*', start.as_bytes()).is_none()
}

struct Search<'p, 'r> {
    path: &'p [u8],
    parameters: bool,
    /// For each `*`, where the part of the path begins in which every slash has failed as its end.
    failed: SmallVec<[usize; 4]>,
    params: &'p mut Params<'r>,
}

impl<'r> Search<'_, 'r> {
    /// `pattern` begins at a segment, behind so many `*`, and has to match the path from `at` to its end.
    fn matches(&mut self, mut pattern: &'r str, mut at: usize, stars: usize) -> bool {
        loop {
            let (segment, rest) = match pattern.split_once('/') {
                Some((segment, rest)) => (segment, Some(rest)),
                None => (pattern, None),
            };
            let remaining = self.path.get(at..).unwrap_or_default();
            if let Some(name) = segment.strip_prefix('*') {
                let name = if name.is_empty() { UNNAMED } else { name };
                return self.matches_rest(name, rest, at, stars);
            }
            let length = match segment.strip_prefix(':') {
                Some(name) if self.parameters => {
                    let length = memchr::memchr(b'/', remaining).unwrap_or(remaining.len());
                    if length == 0 {
                        return false;
                    }
                    self.params.push(Param { name, range: at..at + length });
                    length
                }
                _ if remaining.starts_with(segment.as_bytes()) => segment.len(),
                _ => return false,
            };
            at += length;
            match rest {
                None => return at == self.path.len(),
                Some(rest) if self.path.get(at) == Some(&b'/') => {
                    pattern = rest;
                    at += 1;
                }
                Some(_) => return false,
            }
        }
    }

    /// A `*`: the rest of the path, or as much of it as leaves a match for what follows in the pattern.
    fn matches_rest(&mut self, name: &'r str, rest: Option<&'r str>, at: usize, star: usize) -> bool {
        let Some(rest) = rest else {
            self.params.push(Param { name, range: at..self.path.len() });
            return true;
        };
        let kept = self.params.len();
        if self.failed.len() == star {
            self.failed.push(self.path.len());
        }
        let mut end = self.failed.get(star).copied().unwrap_or(self.path.len());
        while let Some(slash) = memchr::memrchr(b'/', self.path.get(at..end).unwrap_or_default()) {
            end = at + slash;
            self.params.push(Param { name, range: at..end });
            if self.matches(rest, end + 1, star + 1) {
                return true;
            }
            self.params.truncate(kept);
        }
        if let Some(failed) = self.failed.get_mut(star) {
            *failed = at.min(*failed);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captures() {
        let check = |pattern: &str, path: &str, expected: Option<&[(&str, &str)]>| {
            let mut params = SmallVec::new();
            let matched = capture(pattern, path.as_bytes(), true, &mut params);
            let found: Vec<_> = params.iter().map(|param| (param.name, &path[param.range.clone()])).collect();
            assert_eq!(matched.then_some(found.as_slice()), expected, "{pattern} {path}");
        };
        check("/user/:id", "/user/7", Some(&[("id", "7")]));
        check("/user/:id", "/user/", None);
        check("/user/:id", "/user/7/", None);
        check("/user/:id/", "/user/7/", Some(&[("id", "7")]));
        check("/:a/:b", "/x/y", Some(&[("a", "x"), ("b", "y")]));
        check("/:a/b", "/x/bc", None);
        check("/a/*", "/a/b/c", Some(&[(":ext", "b/c")]));
        check("/a/*", "/a/", Some(&[(":ext", "")]));
        check("/a/*", "/a", None);
        check("/*", "/", Some(&[(":ext", "")]));
        check("/a:b/*", "/a:b/c", Some(&[(":ext", "c")]));
        check("/a/*rest", "/a/b/c", Some(&[("rest", "b/c")]));
        check("/a/*x/b", "/a/1/2/b", Some(&[("x", "1/2")]));
        check("/a/*x/b", "/a/1/b/c", None);
        check("/*x/b/*y", "/1/b/2/b/3", Some(&[("x", "1/b/2"), ("y", "3")]));
        check("/:id/*", "/7/x/y", Some(&[("id", "7"), (":ext", "x/y")]));
        check("*", "/x", Some(&[(":ext", "/x")]));
        check("/a+b/:c", "/a+b/1", Some(&[("c", "1")]));
    }

    #[test]
    fn hopeless_search_ends() {
        let (path, many) = ("/a".repeat(2000), format!("{}/z", "/*/a".repeat(500)));
        let mut params = SmallVec::new();
        assert!(!capture("/*a/a/*b/a/*c/a/*d/z", path.as_bytes(), true, &mut params));
        assert!(!capture(&many, path.as_bytes(), true, &mut params));
    }

    /// The greedy ends of the second `*` are thousands, and all fail before the right one.
    #[test]
    fn a_match_behind_many_failures_is_found() {
        let path = format!("/1/k/2/a/3/a/m{}", "/a".repeat(4000));
        let mut params = SmallVec::new();
        assert!(capture("/*p/k/*q/a/*r/a/m/*s", path.as_bytes(), true, &mut params));
        let found: Vec<_> = params.iter().map(|param| path.get(param.range.clone()).unwrap()).collect();
        assert_eq!(found.get(..3), Some(["1", "2", "3"].as_slice()));
    }

    #[test]
    fn results_are_those_of_trying_everything() {
        fn naive(pattern: &[&str], path: &[&str]) -> bool {
            match (pattern.split_first(), path.split_first()) {
                (None, None) => true,
                (Some((&"*", [])), _) => !path.is_empty(),
                (Some((&"*", rest)), _) => (1..path.len()).any(|taken| naive(rest, &path[taken..])),
                (Some((one, rest)), Some((other, others))) => one == other && naive(rest, others),
                _ => false,
            }
        }
        // Every pattern and path of a few segments.
        let texts = |letters: &[&'static str], length: u32| {
            let letter =
                |number: usize, place: u32| letters[number / letters.len().pow(place) % letters.len()];
            let text = |number| (0..length).map(|place| letter(number, place)).collect::<Vec<_>>();
            (0..letters.len().pow(length)).map(text).collect::<Vec<_>>()
        };
        for pattern in (1..=5).flat_map(|length| texts(&["*", "a", "b"], length)) {
            for path in (1..=5).flat_map(|length| texts(&["a", "b"], length)) {
                let found =
                    capture(&pattern.join("/"), path.join("/").as_bytes(), true, &mut SmallVec::new());
                assert_eq!(found, naive(&pattern, &path), "{pattern:?} {path:?}");
            }
        }
    }
}
