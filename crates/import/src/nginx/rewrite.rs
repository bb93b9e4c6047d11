//! `rewrite`: each becomes a route of its own above the block it stands in, for the paths that its expression matches.
//!
//! Redirects go to plugin redirect. `break` stays in its location, `last` goes to the one that takes the new path, if that
//! can be told from the text. What cannot is closed: the route answers 501, for the paths that it would have changed.

use serde_json::{Map, Value, json};

use super::{Place, not_converted, parse::Directive, places};
use crate::Report;

/// A location, and what it became.
pub struct Located<'a> {
    pub directive: &'a Directive,
    pub place: Place,
    /// `None`: it is closed.
    pub route: Option<Value>,
}

/// A rewrite as a route without its place.
pub struct Rewritten {
    pub pattern: String,
    pub route: Value,
}

enum Kind {
    Redirect(u16),
    Break,
    Last,
}

/// Those of a block that are reached: a `return` ends the list.
pub fn of(block: &[Directive]) -> Vec<&Directive> {
    let reached = block.iter().take_while(|directive| directive.name != "return");
    reached.filter(|directive| directive.name == "rewrite").collect()
}

/// `own`: the index of the location that the rewrites stand in; `None` for the server's.
pub fn convert(
    block: &[Directive],
    own: Option<usize>,
    locations: &[Located],
    guarded: bool,
    report: &mut Report,
) -> Vec<Rewritten> {
    let all = of(block);
    let mut done = Vec::new();
    for (index, rewrite) in all.iter().enumerate() {
        let is_last = index + 1 == all.len() && !block.iter().any(|directive| directive.name == "return");
        let route = match guarded {
            true => Err("it stands beside a directive that is not converted"),
            false => one(rewrite, is_last, own, locations, report),
        };
        let route = route.unwrap_or_else(|why| {
            let why = format!("{why}; the paths it matches answer 501");
            report.unsupported(rewrite.line, "rewrite", &why);
            json!({"plugins": not_converted()})
        });
        done.push(Rewritten { pattern: rewrite.argument(0).to_owned(), route });
    }
    done
}

fn one(
    rewrite: &Directive,
    is_last: bool,
    own: Option<usize>,
    locations: &[Located],
    report: &mut Report,
) -> Result<Value, &'static str> {
    let replacement = rewrite.argument(1);
    let absolute = ["http://", "https://", "$scheme"].iter().any(|start| replacement.starts_with(start));
    let kind = match rewrite.argument(2) {
        "permanent" => Kind::Redirect(301),
        "redirect" => Kind::Redirect(302),
        _ if absolute => Kind::Redirect(302),
        // The server's rewrites end, and a location is looked for.
        "break" if own.is_some() => Kind::Break,
        "break" | "last" => Kind::Last,
        "" if is_last => Kind::Last,
        _ => return Err("without a flag it is converted where it is the last one of its block"),
    };
    let subject = format!("rewrite {}", rewrite.argument(0));
    if let Kind::Redirect(status) = kind {
        let plugins = redirect(rewrite.argument(0), replacement, status)?;
        report.converted(rewrite.line, &subject);
        return Ok(json!({"plugins": plugins}));
    }
    if replacement.ends_with('?') {
        return Err("a question mark at the end, which drops the query, is converted in redirects only");
    }
    let with = captures(replacement).ok_or("variables are converted in redirects only")?;
    let (target, base) = match (kind, own) {
        (Kind::Break, Some(own)) => (locations.get(own), None),
        _ => {
            let (index, base) = target(replacement, own, locations)?;
            if Some(index) == own {
                let how = "`last` stays in its location: the new path is not rewritten a second time";
                report.approximated(rewrite.line, &subject, how);
            }
            (locations.get(index), base)
        }
    };
    let route = target.and_then(|target| target.route.as_ref());
    let route = route.ok_or("the location it leads to is not converted")?;
    let with = base.unwrap_or(with);
    let route = changed(route, rewrite.argument(0), &with).ok_or("the location it leads to serves files")?;
    report.converted(rewrite.line, &subject);
    Ok(route)
}

/// The location that takes the new path; and, where its `proxy_pass` replaces its own path, the replacement after that.
fn target(
    replacement: &str,
    own: Option<usize>,
    locations: &[Located],
) -> Result<(usize, Option<String>), &'static str> {
    let path = replacement.split('?').next().unwrap_or_default();
    let literal = path.split('$').next().unwrap_or_default();
    let places: Vec<&Place> = locations.iter().map(|location| &location.place).collect();
    let index = places::taker(&places, literal, literal == path)
        .ok_or("which location takes the new path cannot be told from it")?;
    let found = locations.get(index).ok_or("no location takes the new path")?;
    if Some(index) != own && !of(&found.directive.block).is_empty() {
        return Err("the location it leads to rewrites again");
    }
    let rewrites = found.route.as_ref().and_then(|route| route.pointer("/plugins/proxy-rewrite"));
    let Some(rewrites) = rewrites else { return Ok((index, None)) };
    let base = match (&found.place, rewrites.pointer("/regex_uri/1").and_then(Value::as_str)) {
        (Place::Prefix { path, .. }, Some(base)) => {
            let rest = replacement.strip_prefix(path.as_str()).and_then(captures);
            rest.map(|rest| format!("{}{rest}", base.trim_end_matches("$1")))
        }
        (Place::Exact(_), None) => rewrites.get("uri").and_then(Value::as_str).map(str::to_owned),
        _ => None,
    };
    Ok((index, base))
}

/// A location's route for paths that were rewritten. `None` if it takes its path from elsewhere.
fn changed(route: &Value, pattern: &str, with: &str) -> Option<Value> {
    let mut route = route.clone();
    let has_upstream = route.get("upstream").is_some();
    let plugins = route.get_mut("plugins")?.as_object_mut()?;
    if has_upstream {
        let rewrite = plugins.entry("proxy-rewrite").or_insert_with(|| json!({})).as_object_mut()?;
        rewrite.remove("uri");
        rewrite.insert("regex_uri".to_owned(), json!([whole(pattern), with]));
    } else if let Some(files) = plugins.get_mut("static-files") {
        // One name for all paths can be said in its own words.
        let is_name = !with.contains(['$', '?']) && !with.ends_with('/') && !with.contains("..");
        if !is_name || files.get("strip_prefix").is_some() {
            return None;
        }
        files["try_files"] = json!([with, "=404"]);
    }
    Some(route)
}

fn redirect(pattern: &str, replacement: &str, status: u16) -> Result<Map<String, Value>, &'static str> {
    let (text, append) = match replacement.strip_suffix('?') {
        Some(text) => (text, false),
        None => (replacement, true),
    };
    let mut conf = json!({"ret_code": status, "append_query_string": append});
    if let Some(with) = captures(text) {
        conf["regex_uri"] = json!([whole(pattern), with]);
        conf["encode_uri"] = true.into();
    } else if text.split('$').skip(1).all(|name| KNOWN.iter().any(|known| name.starts_with(known))) {
        conf["uri"] = text.into();
    } else {
        return Err("captures beside variables, and other variables, are not converted");
    }
    Ok(Map::from_iter([("redirect".to_owned(), conf)]))
}

/// Variables that mean the same here.
const KNOWN: [&str; 8] = ["host", "http_", "scheme", "request_uri", "uri", "args", "arg_", "cookie_"];

/// `$1` as `${1}`, for a digit may follow; `None` if there are other variables.
fn captures(text: &str) -> Option<String> {
    let mut out = String::new();
    for (index, part) in text.split('$').enumerate() {
        if index == 0 {
            out.push_str(part);
            continue;
        }
        let digit = part.chars().next().filter(char::is_ascii_digit)?;
        out.push_str(&format!("${{{digit}}}{}", part.get(1..).unwrap_or_default()));
    }
    Some(out)
}

/// The expression for all of the path: nginx replaces the whole, the plugins what matched.
fn whole(pattern: &str) -> String {
    format!("^(?s:.*?)(?:{pattern})(?s:.*)$")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_in_replacements() {
        let cases = [
            ("/a", Some("/a")),
            ("/$1/b$2", Some("/${1}/b${2}")),
            ("/$10", Some("/${1}0")),
            ("$uri", None),
            ("/a$", None),
        ];
        for (text, expected) in cases {
            assert_eq!(captures(text).as_deref(), expected, "{text}");
        }
    }
}
