//! The part of JSONPath (RFC 9535) that `post_arg.` paths use: names, `*`, `..`, `[index]`, `['name']`, `[*]`.

use serde_json::Value;

enum Selector<'a> {
    Name(&'a str),
    Index(usize),
    Any,
}

/// Every value the path selects, in document order; none for a path that is not understood.
pub fn select<'a>(document: &'a Value, path: &str) -> Vec<&'a Value> {
    let mut rest = path.strip_prefix('$').unwrap_or(path);
    let mut found = vec![document];
    while !rest.is_empty() {
        let descend = rest.starts_with("..");
        rest = rest.trim_start_matches('.');
        let Some((selector, after)) = next_selector(rest) else { return Vec::new() };
        rest = after;
        if descend {
            found = found.into_iter().flat_map(descendants).collect();
        }
        found = found.into_iter().flat_map(|value| apply(value, &selector)).collect();
    }
    found
}

/// Whether [`select`] understands the path.
pub fn is_valid(path: &str) -> bool {
    check(path).is_ok()
}

/// Refuses what is no JSONPath at all; the error names where it stops making sense.
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

fn next_selector(text: &str) -> Option<(Selector<'_>, &str)> {
    if let Some(inner) = text.strip_prefix('[') {
        let end = inner.find(']')?;
        let (body, rest) = (inner[..end].trim(), &inner[end + 1..]);
        if body == "*" {
            return Some((Selector::Any, rest));
        }
        if let Some(name) = body.strip_prefix(['\'', '"']) {
            return Some((Selector::Name(name.trim_end_matches(['\'', '"'])), rest));
        }
        return Some((Selector::Index(body.parse().ok()?), rest));
    }
    let end = text.find(['.', '[']).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    match name {
        "" => None,
        "*" => Some((Selector::Any, rest)),
        name => Some((Selector::Name(name), rest)),
    }
}

fn apply<'a>(value: &'a Value, selector: &Selector) -> Vec<&'a Value> {
    match (selector, value) {
        (Selector::Name(name), Value::Object(map)) => map.get(*name).into_iter().collect(),
        (Selector::Index(index), Value::Array(items)) => items.get(*index).into_iter().collect(),
        (Selector::Any, Value::Array(items)) => items.iter().collect(),
        (Selector::Any, Value::Object(map)) => map.values().collect(),
        _ => Vec::new(),
    }
}

/// The value and everything below it. Documents parsed by serde_json nest 128 deep at most.
fn descendants(value: &Value) -> Vec<&Value> {
    let mut all = vec![value];
    match value {
        Value::Array(items) => all.extend(items.iter().flat_map(descendants)),
        Value::Object(map) => all.extend(map.values().flat_map(descendants)),
        _ => {}
    }
    all
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
