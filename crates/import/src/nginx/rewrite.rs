//! `rewrite`: each becomes cases above the block it stands in, for the paths that its expression matches.
//!
//! Redirects go to plugin redirect. `break` stays in its location, `last` goes to the one that takes the new path, if
//! the text determines which one that is. All others are closed: the cases answer 501, for the paths that it would have
//! changed.

use serde_json::{Map, Value, json};

use super::{
    at::{At, is_step},
    branch::{Branch, all_when},
    locations::Location,
    made::{Made, Stop},
    parse::Directive,
    patterns,
    places::Place,
    proxy::REAL_PATH,
    variables::{Part, Variables, parts},
};
use crate::{
    Report,
    reach::{self, Piece},
};

enum Kind {
    Redirect(u16),
    Break,
    Last,
}

/// A rewrite in a place.
pub(super) struct Rewrite<'s, 'a> {
    pub(crate) directive: &'a Directive,
    /// No other step follows.
    pub is_last: bool,
    /// The index of the location that it stands in; `None` for the server's.
    pub own: Option<usize>,
    pub at: &'s At<'s, 'a>,
}

/// Whether the steps behind it see the new path.
pub(super) fn goes_on(rewrite: &Directive) -> bool {
    rewrite.argument(2).is_empty() && !is_absolute(rewrite.argument(1))
}

fn is_absolute(replacement: &str) -> bool {
    ["http://", "https://", "$scheme"].iter().any(|start| replacement.starts_with(start))
}

/// `rest`: what the location does with paths that are not rewritten.
pub(super) fn convert(
    rewrite: &Rewrite,
    rest: &[Branch],
    variables: &Variables,
    report: &mut Report,
) -> Made<Vec<Branch>> {
    let directive = rewrite.directive;
    let matched = patterns::matches("uri", directive.argument(0)).map_err(Stop::Closed)?;
    let made = one(rewrite, rest, variables, report).or_else(|stop| match stop {
        Stop::Closed(why) => Ok(vec![Branch::closed(format!("`{}`: {why}", directive.title()))]),
        split => Err(split),
    })?;
    Ok(all_when(made, &matched))
}

fn one(rewrite: &Rewrite, rest: &[Branch], variables: &Variables, report: &mut Report) -> Made<Vec<Branch>> {
    let Rewrite { directive, is_last, own, at } = rewrite;
    let replacement = resolved(directive.argument(1), variables)?;
    let kind = match directive.argument(2) {
        "permanent" => Kind::Redirect(301),
        "redirect" => Kind::Redirect(302),
        _ if is_absolute(&replacement) => Kind::Redirect(302),
        // The server's rewrites end, and a location is looked for.
        "break" if own.is_some() => Kind::Break,
        "break" | "last" => Kind::Last,
        "" if *is_last => Kind::Last,
        _ => {
            return Err(Stop::closed(
                "without a flag it is converted where it is the last step of its block",
            ));
        }
    };
    let subject = format!("rewrite {}", directive.argument(0));
    if let Kind::Redirect(status) = kind {
        let plugins = redirect(directive.argument(0), &replacement, status)?;
        report.converted(&directive.at, &subject);
        return Ok(vec![Branch::new(plugins, None)]);
    }
    if replacement.ends_with('?') {
        return Err(Stop::closed(
            "a question mark at the end, which drops the query, is converted in redirects only",
        ));
    }
    let with = captures(&replacement).ok_or(Stop::closed("variables are converted in redirects only"))?;
    let (branches, with) = match (kind, own) {
        (Kind::Break, Some(_)) => (rest.to_vec(), with),
        _ => {
            let (index, location, base) = target(&replacement, at)?;
            let branches = match Some(index) == *own {
                true => again(location, &replacement, rest)?,
                false => {
                    let inner =
                        At { place: &location.place, redirects: at.redirects + 1, is_server: false, ..**at };
                    (at.arrived)(location, &inner, variables, report)?
                }
            };
            let base = match base {
                Base::Whole => with,
                Base::Text(text) => text,
            };
            (branches, base)
        }
    };
    let changed: Option<Vec<Branch>> =
        branches.into_iter().map(|branch| changed(branch, directive.argument(0), &with)).collect();
    let changed =
        changed.ok_or(Stop::closed("the location it leads to serves files, or looks at the path"))?;
    report.converted(&directive.at, &subject);
    Ok(changed)
}

/// What the location that a rewrite stands in does with the new path: nginx runs its steps again.
fn again(found: &Location, replacement: &str, rest: &[Branch]) -> Made<Vec<Branch>> {
    let path = replacement.split('?').next().unwrap_or_default();
    let all = parts(path);
    let pieces: Vec<Piece> = all
        .iter()
        .map(|part| match part {
            Part::Text(text) => Piece::Text(text),
            Part::Capture(_) | Part::Variable(_) => Piece::Any,
        })
        .collect();
    let ends_here = |step: &Directive| step.name == "rewrite" && !reach::may_match(step.argument(0), &pieces);
    match found.directive.block.iter().filter(|step| is_step(&step.name)).all(ends_here) {
        true => Ok(rest.to_vec()),
        false => Err(Stop::closed("the new path comes back to its own location, whose steps run again")),
    }
}

enum Base {
    /// The replacement is the path that the upstream gets.
    Whole,
    Text(String),
}

/// The location that takes the new path; and, where its `proxy_pass` replaces its own path, the replacement after that.
fn target<'s, 'a>(replacement: &str, at: &At<'s, 'a>) -> Made<(usize, &'s Location<'a>, Base)> {
    let path = replacement.split('?').next().unwrap_or_default();
    let literal = path.split('$').next().unwrap_or_default();
    let (index, found) = at.server.locations.found(literal, literal == path)?;
    let base = found.directive.one("proxy_pass").map(|pass| pass.argument(0)).and_then(|url| {
        let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
        rest.find('/').map(|start| rest.get(start..).unwrap_or_default())
    });
    let Some(base) = base else { return Ok((index, found, Base::Whole)) };
    match &found.place {
        Place::Prefix { path, .. } => {
            let rest = replacement.strip_prefix(path.as_str()).and_then(captures);
            let rest = rest.ok_or(Stop::closed("the new path is shorter than its location's"))?;
            Ok((index, found, Base::Text(format!("{base}{rest}"))))
        }
        Place::Exact(_) => Ok((index, found, Base::Text(base.to_owned()))),
        _ => Err(Stop::closed("the location it leads to has a path of its own")),
    }
}

/// A location's case for paths that were rewritten. `None` if it takes its path from elsewhere.
pub(super) fn changed(mut branch: Branch, pattern: &str, with: &str) -> Option<Branch> {
    // It was written for the old path.
    if branch.condition.names("uri") {
        return None;
    }
    let has_upstream = branch.upstream.is_some();
    if let Some(files) = branch.plugins.get_mut("static-files") {
        // One name for all paths can be said in its own words.
        let is_name = !with.contains(['$', '?']) && !with.ends_with('/') && !with.contains("..");
        if !is_name || files.get("strip_prefix").is_some() || has_upstream {
            return None;
        }
        files["try_files"] = json!([with, "=404"]);
    } else if has_upstream {
        let rewrite = branch.plugins.entry("proxy-rewrite").or_insert_with(|| json!({})).as_object_mut()?;
        rewrite.remove("uri");
        rewrite.remove(REAL_PATH);
        rewrite.insert("regex_uri".to_owned(), json!([whole(pattern), with]));
    }
    Some(branch)
}

fn redirect(pattern: &str, replacement: &str, status: u16) -> Made<Map<String, Value>> {
    let (text, append) = match replacement.strip_suffix('?') {
        Some(text) => (text, false),
        None => (replacement, true),
    };
    if text.starts_with("//") || text.contains("/./") || text.contains("/../") {
        return Err(Stop::closed(
            "a path with `//` at its start, or with dots, is sent in another form here",
        ));
    }
    let mut conf = json!({"ret_code": status, "append_query_string": append});
    if let Some(with) = captures(text) {
        conf["regex_uri"] = json!([whole(pattern), with]);
        conf["encode_uri"] = true.into();
    } else if !parts(text).iter().any(|part| matches!(part, Part::Capture(_))) {
        conf["uri"] = text.into();
    } else {
        return Err(Stop::closed("captures beside variables are not converted"));
    }
    Ok(Map::from_iter([("redirect".to_owned(), conf)]))
}

/// Texts in place of variables that the file sets; captures and variables of requests stay.
fn resolved(text: &str, variables: &Variables) -> Made<String> {
    let mut out = String::new();
    for part in parts(text) {
        match part {
            Part::Text(text) => out.push_str(text),
            Part::Capture(digit) => out.extend(['$', digit]),
            Part::Variable(name) => {
                let text = variables.text(&format!("${{{name}}}"))?;
                out.push_str(&text.replace("${", "$").replace('}', ""));
            }
        }
    }
    Ok(out)
}

/// `$1` as `${1}`, for a digit may follow; `None` if there are other variables.
fn captures(text: &str) -> Option<String> {
    let mut out = String::new();
    for part in parts(text) {
        match part {
            Part::Text("$") | Part::Variable(_) => return None,
            Part::Text(text) => out.push_str(text),
            Part::Capture(digit) => out.push_str(&format!("${{{digit}}}")),
        }
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
