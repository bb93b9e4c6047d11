//! Matching a whole path against a pattern with `:name` and `*name` and capturing what they stand for.
//!
//! Only segments that begin with `*` (or `:`, where the router knows parameters) are variables; the rest is
//! compared byte by byte. That differs from APISIX in one way, on purpose: there the rest is part of a regular
//! expression, so that a `+` or a parenthesis in a path never matches itself.

use std::ops::Range;

use smallvec::SmallVec;

/// One captured variable: its name and where in the path its value stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Param<'r> {
    /// `:ext` for an unnamed `*`.
    pub name: &'r str,
    pub range: Range<usize>,
}

/// Several `*` in one pattern can be tried in many ways; a path that needs more than this does not match.
const MAX_STEPS: u32 = 100_000;

const UNNAMED: &str = ":ext";

pub(super) type Params<'r> = SmallVec<[Param<'r>; 4]>;

/// True when a path that shares the pattern's prefix still has to be captured from, or checked.
pub(super) fn has_params(pattern: &str, parameters: bool) -> bool {
    pattern.split('/').any(|segment| segment.starts_with('*') || (parameters && segment.starts_with(':')))
}

/// False when the path does not match the whole pattern; `params` is then unspecified.
pub(super) fn capture<'r>(pattern: &'r str, path: &[u8], parameters: bool, params: &mut Params<'r>) -> bool {
    let mut search = Search { path, parameters, steps: 0, params };
    search.matches(pattern, 0)
}

struct Search<'p, 'r> {
    path: &'p [u8],
    parameters: bool,
    steps: u32,
    params: &'p mut Params<'r>,
}

impl<'r> Search<'_, 'r> {
    /// `pattern` begins at a segment and has to match the path from `at` to its end.
    fn matches(&mut self, mut pattern: &'r str, mut at: usize) -> bool {
        loop {
            let (segment, rest) = match pattern.split_once('/') {
                Some((segment, rest)) => (segment, Some(rest)),
                None => (pattern, None),
            };
            let remaining = self.path.get(at..).unwrap_or_default();
            if let Some(name) = segment.strip_prefix('*') {
                return self.matches_rest(if name.is_empty() { UNNAMED } else { name }, rest, at);
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
    fn matches_rest(&mut self, name: &'r str, rest: Option<&'r str>, at: usize) -> bool {
        let Some(rest) = rest else {
            self.params.push(Param { name, range: at..self.path.len() });
            return true;
        };
        let kept = self.params.len();
        let mut end = self.path.len();
        while let Some(slash) = memchr::memrchr(b'/', self.path.get(at..end).unwrap_or_default()) {
            self.steps += 1;
            if self.steps > MAX_STEPS {
                return false;
            }
            end = at + slash;
            self.params.push(Param { name, range: at..end });
            if self.matches(rest, end + 1) {
                return true;
            }
            self.params.truncate(kept);
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
        let path = "/a".repeat(2000);
        let mut params = SmallVec::new();
        assert!(!capture("/*a/a/*b/a/*c/a/*d/z", path.as_bytes(), true, &mut params));
    }
}
