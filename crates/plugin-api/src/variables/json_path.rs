//! The part of JSONPath (RFC 9535) that `post_arg.` paths use: names, `*`, `..`, `[index]`, `['name']`, `[*]`.
//!
//! A path is a list of steps. A place in a document is characterised by the steps that remain from it, so one
//! walk finds everything the path selects, each value once, in a tree ([`select`]) as in bytes (`in_bytes.rs`).

mod in_bytes;
pub(super) mod path;

use serde_json::Value;

pub(super) use in_bytes::values;

use self::path::{Path, next_selector};
use crate::document::{Allowance, PARSED_BYTES};

/// Every value the path selects, in document order; none for a path that is not understood.
pub fn select<'a>(document: &'a Value, path: &str) -> Vec<&'a Value> {
    let mut found = Vec::new();
    if let Some(path) = Path::of_json_path(path) {
        path.in_tree(document, path.start(), &mut |value| found.push(value));
    }
    found
}

/// As [`select`], without a tree; `None` if the path or the document is invalid. For the fuzz targets.
#[doc(hidden)]
pub fn select_in_text(text: &[u8], path: &str) -> Option<Vec<Value>> {
    values(text, &Path::of_json_path(path)?, &Allowance::new(PARSED_BYTES)).ok()
}

/// Whether [`select`] understands the path.
pub fn is_valid(path: &str) -> bool {
    check(path).is_ok()
}

/// Refuses a text that is not a JSONPath; the error names where parsing fails.
pub fn check(path: &str) -> Result<(), String> {
    let mut rest = path.strip_prefix('$').unwrap_or(path);
    while !rest.is_empty() {
        rest = rest.trim_start_matches('.');
        // Filters, slices and unions are JSONPath as well, even if they select nothing here.
        let other = rest
            .strip_prefix('[')
            .and_then(|inner| inner.split_once(']'))
            .filter(|(body, _)| body.contains(['?', ':', ',', '(']))
            .map(|(_, after)| after);
        let next = next_selector(rest).map(|(_, after)| after).or(other);
        rest = next.ok_or_else(|| format!("invalid expression near \"{rest}\""))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selections() {
        let document = serde_json::json!({"m":[{"c":[{"t":"a"},{"t":"b"}]},{"c":"x"}],"t":"z"});
        let cases = [
            ("m[*].c[*].t", r#"["a","b"]"#),
            ("m[1].c", r#"["x"]"#),
            ("m..t", r#"["a","b"]"#),
            ("$..t", r#"["z","a","b"]"#),
            ("m[*]..t", r#"["a","b"]"#),
            ("$..c", r#"[[{"t":"a"},{"t":"b"}],"x"]"#),
            ("m..*..t", r#"["a","b"]"#),
            ("['m'][0]", r#"[{"c":[{"t":"a"},{"t":"b"}]}]"#),
            ("m[9]", "[]"),
            ("m[x", "[]"),
        ];
        for (path, expected) in cases {
            let mut texts = serde_json::to_value(select(&document, path)).unwrap();
            let mut expected: Value = serde_json::from_str(expected).unwrap();
            for list in [&mut texts, &mut expected] {
                list.as_array_mut().unwrap().sort_by_key(Value::to_string);
            }
            assert_eq!(texts, expected, "{path}");
        }
    }

    #[test]
    fn broken_paths_are_named() {
        for (path, valid) in [
            ("model", true),
            ("m[*].c[0].t", true),
            ("m[?(@.t=='a')].c", true),
            ("m[0:2]", true),
            ("messages[.content[*].type", false),
            ("m[x]", false),
            ("m.", false),
        ] {
            assert_eq!(check(path).is_ok(), valid, "{path}");
        }
    }
}
