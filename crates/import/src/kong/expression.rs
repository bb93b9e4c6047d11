//! `expression` of a route to paths and conditions.
//!
//! `strip_path` removes what the one comparison of the path matched, so that becomes the path of our route; all else
//! becomes conditions. What has no exact counterpart is an error, and the route stays closed: fields of the
//! connection's other end, ports, which need not be Kong's here, `!=` of what may be missing.

mod parse;
mod queries;

use serde_json::{Value, json};

use super::{
    order::Path,
    pattern::{self, Pattern},
};
use parse::{Comparison, Constant, Expression};

/// One of our routes: requests whose path is this, and that meet all conditions.
#[derive(Debug, PartialEq)]
pub(crate) struct Choice {
    pub path: Path,
    pub conditions: Vec<Value>,
}

pub(super) fn read(text: &str, strips_path: bool) -> Result<Vec<Choice>, String> {
    let parts = match parse::parse(text)? {
        Expression::All(parts) => parts,
        other => vec![other],
    };
    let paths: usize = parts.iter().map(count_of_paths).sum();
    let of_path = parts.iter().position(|part| alternatives(part).is_some_and(|all| all.len() == paths));
    if let Some((index, found)) = of_path.and_then(|index| Some((index, alternatives(parts.get(index)?)?))) {
        if strips_path && found.iter().any(|path| matches!(path, Path::Regex(Pattern { strip: None, .. }))) {
            return Err("what `strip_path` takes away of an escaped path is not known".to_owned());
        }
        let others = parts.iter().enumerate().filter(|(other, _)| *other != index);
        let conditions: Vec<Value> = others.map(|(_, part)| condition(part)).collect::<Result<_, _>>()?;
        return Ok(found.into_iter().map(|path| Choice { path, conditions: conditions.clone() }).collect());
    }
    if strips_path && paths > 0 {
        return Err("what `strip_path` takes away is not known".to_owned());
    }
    let conditions = parts.iter().map(condition).collect::<Result<_, _>>()?;
    Ok(vec![Choice { path: Path::Prefix("/".to_owned()), conditions }])
}

/// Whether one of its comparisons goes by what comes in several lines of a field.
pub(crate) fn looks_into_lists(text: &str) -> bool {
    fn within(expression: &Expression) -> bool {
        match expression {
            Expression::All(parts) | Expression::Any(parts) => parts.iter().any(within),
            Expression::Not(inner) => within(inner),
            // Query arguments have a separate comparison.
            Expression::Is(comparison) => comparison.any && !comparison.field.starts_with(queries::FIELDS),
        }
    }
    parse::parse(text).is_ok_and(|expression| within(&expression))
}

fn count_of_paths(expression: &Expression) -> usize {
    match expression {
        Expression::All(parts) | Expression::Any(parts) => parts.iter().map(count_of_paths).sum(),
        Expression::Not(inner) => count_of_paths(inner),
        Expression::Is(comparison) => usize::from(comparison.field.starts_with("http.path")),
    }
}

/// The paths of a comparison, or of several of which one is enough.
fn alternatives(expression: &Expression) -> Option<Vec<Path>> {
    match expression {
        Expression::Any(parts) => {
            let paths: Option<Vec<Vec<Path>>> = parts.iter().map(alternatives).collect();
            Some(paths?.into_iter().flatten().collect())
        }
        Expression::All(_) | Expression::Not(_) => None,
        Expression::Is(comparison) => path(comparison).map(|path| vec![path]),
    }
}

fn path(comparison: &Comparison) -> Option<Path> {
    let Comparison { field, any: false, lower: false, operator, constant: Constant::Text(text) } = comparison
    else {
        return None;
    };
    if field != "http.path" || !text.trim_start_matches('^').starts_with('/') {
        return None;
    }
    match *operator {
        "^=" if pattern::is_plain(text) => Some(Path::Prefix(text.clone())),
        "^=" => Some(Path::Regex(Pattern::literal(text, false))),
        "==" => Some(Path::Regex(Pattern::literal(text, true))),
        "~" if text.starts_with('^') && pattern::is_common(text) && Pattern::anchors_all(text) => {
            Pattern::of_rust(text).ok().map(Path::Regex)
        }
        _ => None,
    }
}

fn condition(expression: &Expression) -> Result<Value, String> {
    match expression {
        Expression::Is(comparison) => comparison_of(comparison),
        Expression::All(parts) => group("AND", parts),
        Expression::Any(parts) => group("OR", parts),
        Expression::Not(inner) => match &**inner {
            Expression::All(parts) => group("!AND", parts),
            Expression::Any(parts) => group("!OR", parts),
            Expression::Not(inner) => condition(inner),
            // What is missing fails, so that its negation holds: that is so for groups, and they have two members.
            Expression::Is(comparison) => {
                let held = comparison_of(comparison)?;
                Ok(json!(["!AND", held, held]))
            }
        },
    }
}

fn group(word: &str, parts: &[Expression]) -> Result<Value, String> {
    let conditions: Vec<Value> = parts.iter().map(condition).collect::<Result<_, _>>()?;
    Ok([Value::from(word)].into_iter().chain(conditions).collect())
}

fn comparison_of(comparison: &Comparison) -> Result<Value, String> {
    let Comparison { field, any, lower, operator, constant } = comparison;
    let fault = || Err(format!("`{field} {operator}` is not converted"));
    if field == "net.src.ip" {
        return match (constant, *operator) {
            (Constant::Network(network), "==" | "in") => Ok(json!(["remote_addr", "ipmatch", [network]])),
            (Constant::Network(network), "not in") => Ok(json!(["remote_addr", "!", "ipmatch", [network]])),
            _ => fault(),
        };
    }
    if field == "net.dst.port" {
        return Err(format!("`{field}` is not converted: the gateway's ports need not be Kong's"));
    }
    let Constant::Text(text) = constant else { return fault() };
    if let Some(name) = field.strip_prefix(queries::FIELDS) {
        return match lower {
            false => queries::condition(name, *any, operator, text).ok_or(()).or_else(|()| fault()),
            true => fault(),
        };
    }
    let header = field.strip_prefix("http.headers.").filter(|name| !name.contains('.'));
    let (variable, text) = match field.as_str() {
        "http.method" => ("request_method".to_owned(), text.clone()),
        "http.host" if *operator == "~" || is_host(text) => ("host".to_owned(), text.clone()),
        "http.path" => (pattern::VARIABLE.to_owned(), text.clone()),
        "net.protocol" if ["http", "https"].contains(&text.as_str()) => ("scheme".to_owned(), text.clone()),
        "tls.sni" => ("ssl_server_name".to_owned(), text.clone()),
        _ => match header {
            Some(name) => (format!("http_{}", name.to_lowercase()), text.clone()),
            None => return fault(),
        },
    };
    if *any && header.is_none() || *lower && text.chars().any(char::is_uppercase) {
        return fault();
    }
    let plain = regex::escape(&text);
    let (start, end) = if *any { ("(^|, )", "(, |\\z)") } else { ("^", "\\z") };
    let pattern = match *operator {
        "==" if !any && !lower => return Ok(json!([variable, "==", text])),
        // What is missing is neither equal nor unequal.
        "!=" if !any && !lower && header.is_none() && field != "tls.sni" => {
            return Ok(json!([variable, "~=", text]));
        }
        "==" => format!("{start}{plain}{end}"),
        "^=" => format!("{start}{plain}"),
        "=^" => format!("{plain}{end}"),
        "contains" => plain,
        "~" if !any && pattern::is_common(&text) => {
            if *lower {
                text
            } else {
                pattern::bytes(&text)?
            }
        }
        _ => return fault(),
    };
    // Small letters are those of all alphabets.
    let pattern = if *lower { pattern::bytes(&format!("(?i){pattern}"))? } else { pattern };
    Ok(json!([variable, "~~", pattern]))
}

/// Compared with hosts in lower case and without a port.
fn is_host(text: &str) -> bool {
    !text.contains(':') && !text.chars().any(char::is_uppercase)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(path: Path, conditions: Value) -> Choice {
        Choice { path, conditions: conditions.as_array().cloned().unwrap_or_default() }
    }

    #[test]
    fn a_comparison_of_the_path_is_the_path() {
        let text = r##"(http.path == "/a.b" || http.path ^= "/c") && http.host =^ ".example.com""##;
        let host = json!([["host", "~~", "\\.example\\.com\\z"]]);
        assert_eq!(
            read(text, true),
            Ok(vec![
                choice(Path::Regex(Pattern::literal("/a.b", true)), host.clone()),
                choice(Path::Prefix("/c".into()), host)
            ])
        );
        let other = r#"http.path ^= "/a" && (http.path =^ "/b" || http.method == "GET")"#;
        assert!(read(other, true).is_err());
        let conditions = json!([
            ["kong_uri", "~~", "^/a"],
            ["OR", ["kong_uri", "~~", "/b\\z"], ["request_method", "==", "GET"]]
        ]);
        assert_eq!(read(other, false), Ok(vec![choice(Path::Prefix("/".into()), conditions)]));
    }

    #[test]
    fn what_has_no_exact_counterpart_is_an_error() {
        for text in [
            r#"http.headers.a != "b""#,
            r#"any(http.path) == "/a""#,
            r#"lower(http.path) == "/A""#,
            r#"http.queries.a =^ "b""#,
            r#"lower(http.queries.a) == "b""#,
            r#"http.queries.a == "50%""#,
            "http.queries.a == 1",
            r#"http.host == "a:80""#,
            r#"http.path.segments.0 == "b""#,
            r#"http.path ~ "(?!a)""#,
            r#"net.protocol == "tcp""#,
            "net.dst.port == 80",
            "net.src.port == 80",
        ] {
            assert!(read(text, false).is_err(), "{text}");
        }
    }
}
