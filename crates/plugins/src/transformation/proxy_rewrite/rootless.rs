//! Pairs of `regex_uri` that make no path: one begins with `/` (RFC 9112 section 3.2.1), and requests with another target are
//! answered 500.

use serde_json::Value;

use crate::common::regexes::{Beginning, Replacement};

pub(super) fn remarks(conf: &Value) -> Vec<String> {
    let texts = conf.get("regex_uri").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let mut found = Vec::new();
    for pair in texts.chunks_exact(2) {
        if let [Value::String(pattern), Value::String(replacement)] = pair
            && is_rootless(pattern, replacement)
        {
            let remedy = match replacement.contains("://") {
                true => "another server is named by an upstream, or by redirect".to_owned(),
                false => format!("write /{replacement}"),
            };
            found.push(format!(
                "regex_uri: {pattern} with \"{replacement}\" makes a target that does not begin with /, and the request is \
                 answered 500; {remedy}"
            ));
        }
    }
    found
}

/// Whether that is certain for the paths that match. What stands before a match stays, so only one at the beginning counts.
fn is_rootless(pattern: &str, replacement: &str) -> bool {
    let Some(rest) = pattern.strip_prefix('^').filter(|rest| !rest.contains('|')) else { return false };
    match Replacement::new(replacement).beginning() {
        Beginning::Literal(text) => !text.starts_with(b"/") && !text.starts_with(b"?"),
        // What follows the match begins behind a slash, and paths have no two beside each other.
        Beginning::Nothing => rest.len() > 1 && rest.ends_with('/'),
        Beginning::Group(group) => group > 0 && begins_behind_a_slash(rest, group),
    }
}

/// Whether a group takes what is behind a slash: `(.*)` of `/a/(.*)`, not that of `/a(.*)`.
fn begins_behind_a_slash(pattern: &str, group: usize) -> bool {
    let (mut number, mut last, mut is_in_class) = (0, ' ', false);
    let mut signs = pattern.char_indices();
    while let Some((at, sign)) = signs.next() {
        match sign {
            '\\' => last = signs.next().map_or(' ', |(_, escaped)| if escaped == '/' { '/' } else { ' ' }),
            '[' => is_in_class = true,
            ']' => is_in_class = false,
            '(' if !is_in_class => {
                let inner = pattern.get(at + 1..).unwrap_or_default();
                // Names of groups are rare, and nothing is said of what is inside of others.
                if inner.starts_with('?') {
                    return false;
                }
                number += 1;
                if number == group {
                    let takes_what_follows = ['.', '[', '\\'].iter().any(|sign| inner.starts_with(*sign));
                    return last == '/' && takes_what_follows && !inner.starts_with("\\/");
                }
            }
            _ => {}
        }
        if sign != '\\' {
            last = sign;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_no_path() {
        for (pattern, replacement, expected) in [
            ("^/a/(.*)", "$1", true),
            ("^/a/(.*)$", "${1}", true),
            ("^\\/a\\/(.*)", "$1", true),
            ("^/([^/]+)/(\\d+)", "$2", true),
            ("^/a/(.*)", "b/$1", true),
            ("^/a/(.*)", "http://b.test/$1", true),
            ("^/a/", "", true),
            ("^/a", "b", true),
            ("^/a(.*)", "$1", false),
            ("^/a(/.*)", "$1", false),
            ("^/a/(.*)", "/$1", false),
            ("^/a/(.*)", "?b=$1", false),
            ("^/a", "", false),
            ("^/", "", false),
            // The match may stand behind something.
            ("/a/", "b", false),
            ("^/a/(.*)|^/b(.*)", "$1", false),
            ("^/a/(?:b)?(.*)", "$1", false),
            ("^/[(/](.*)", "$1", false),
            ("^/a/((/)?b)", "$1", false),
        ] {
            assert_eq!(is_rootless(pattern, replacement), expected, "{pattern} {replacement}");
        }
    }
}
