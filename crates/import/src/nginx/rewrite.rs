//! `rewrite`: each becomes cases above the block it stands in, for the paths that its expression matches.
//!
//! Redirects go to plugin redirect. `break` stays in its location, `last` goes to the one that takes the new path, if
//! the text determines which one that is. All others are closed: the cases answer 501, for the paths that it would have
//! changed.

use serde_json::{Map, Value, json};

use super::{
    at::{At, is_step},
    branch::{Branch, Sent, all_when},
    chain::Chain,
    condition::Condition,
    locations::Location,
    made::{Made, Stop},
    parse::Directive,
    patterns,
    proxy::REAL_PATH,
    returns::redirected,
    variables::{Part, Query, Variables, behind_backslash, in_templates, parts},
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
    /// The blocks around it.
    pub chain: &'s Chain<'a>,
    /// Of an `if` before it that has settings: when it holds, and the blocks around a redirect then.
    pub settings: Option<(&'s Condition, Chain<'a>)>,
    /// An `if` with settings came before.
    pub has_settings: bool,
}

/// Whether the steps behind it see the new path.
pub(super) fn goes_on(rewrite: &Directive) -> bool {
    rewrite.argument(2).is_empty() && !is_absolute(rewrite.argument(1))
}

fn is_absolute(replacement: &str) -> bool {
    ["http://", "https://", "$scheme"].iter().any(|start| replacement.starts_with(start))
}

/// What the location does with requests whose steps end at a rewrite: with their variables, and whether an `if` with settings
/// came before.
pub(crate) type Rest<'r, 'a> = &'r dyn Fn(&Variables<'a>, bool, &mut Report) -> Made<Vec<Branch>>;

pub(crate) fn convert<'a>(
    rewrite: &Rewrite<'_, 'a>,
    rest: Rest<'_, 'a>,
    variables: &Variables<'a>,
    report: &mut Report,
) -> Made<Vec<Branch>> {
    let directive = rewrite.directive;
    let matched = patterns::matches("uri", directive.argument(0)).map_err(Stop::Closed)?;
    let made = one(rewrite, rest, variables, report).or_else(|stop| match stop {
        Stop::Closed(why) => Ok(vec![Branch::closed(format!("`{}`: {why}", directive.title()))]),
        // The server's steps are not converted once for each value.
        Stop::Split(map) if rewrite.own.is_none() => {
            Ok(vec![Branch::closed(format!("`{}`: `${map}` is made by a map", directive.title()))])
        }
        split => Err(split),
    })?;
    Ok(all_when(made, &matched))
}

fn one<'a>(
    rewrite: &Rewrite<'_, 'a>,
    rest: Rest<'_, 'a>,
    variables: &Variables<'a>,
    report: &mut Report,
) -> Made<Vec<Branch>> {
    let Rewrite { directive, is_last, own, at, chain, settings, has_settings } = rewrite;
    let replacement = resolved(directive.argument(1), variables)?;
    let kind = match directive.argument(2) {
        "permanent" => Kind::Redirect(301),
        "redirect" => Kind::Redirect(302),
        _ if is_absolute(&replacement) => Kind::Redirect(302),
        "break" => Kind::Break,
        "last" => Kind::Last,
        "" if *is_last => Kind::Last,
        _ => {
            return Err(Stop::closed(
                "without a flag it is converted where it is the last step of its block",
            ));
        }
    };
    let subject = format!("rewrite {}", directive.argument(0));
    if let Kind::Redirect(status) = kind {
        if !is_absolute(&replacement) {
            chain.redirects_to_path(report);
        }
        let plugins = redirect(directive.argument(0), &replacement, status)?;
        let mut branches = Vec::new();
        if let Some((held, chain)) = settings {
            let branch = redirected(status, plugins.clone(), at, chain, variables, report)?;
            branches.extend(all_when(vec![branch], held));
        }
        branches.push(redirected(status, plugins, at, chain, variables, report)?);
        report.converted(&directive.at, &subject);
        return Ok(branches);
    }
    if replacement.ends_with('?') {
        return Err(Stop::closed(
            "a question mark at the end, which drops the query, is converted in redirects only",
        ));
    }
    let path = captures(&replacement).ok_or(Stop::closed("variables are converted in redirects only"))?;
    let new = New { pattern: directive.argument(0), path: &path, ends: matches!(kind, Kind::Break) };
    let variables = &new.variables(variables);
    let branches = match (kind, own) {
        (Kind::Break, Some(_)) => rest(variables, *has_settings, report)?,
        _ => {
            let (index, location) = target(&replacement, at)?;
            if Some(index) == *own {
                leaves_at_once(location, &replacement)?;
                rest(variables, *has_settings, report)?
            } else {
                let inner =
                    At { place: &location.place, redirects: at.redirects + 1, is_server: false, ..**at };
                (at.arrived)(location, &inner, variables, report)?
            }
        }
    };
    let changed: Made<Vec<Branch>> = branches.into_iter().map(|branch| new.changed(branch)).collect();
    let changed = changed?;
    report.converted(&directive.at, &subject);
    Ok(changed)
}

/// Whether the location that a rewrite stands in does nothing to the new path when nginx runs its steps again.
fn leaves_at_once(found: &Location, replacement: &str) -> Made<()> {
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
        true => Ok(()),
        false => Err(Stop::closed("the new path comes back to its own location, whose steps run again")),
    }
}

/// The location that takes the new path.
fn target<'s, 'a>(replacement: &str, at: &At<'s, 'a>) -> Made<(usize, &'s Location<'a>)> {
    let path = replacement.split('?').next().unwrap_or_default();
    let literal = path.split('$').next().unwrap_or_default();
    at.server.locations.found(literal, literal == path)
}

/// What a rewrite makes of paths.
pub(crate) struct New<'r> {
    pub pattern: &'r str,
    /// The replacement, with captures as plugins write them.
    pub path: &'r str,
    /// With `break`: nginx forgets which part of the path is the location's.
    pub ends: bool,
}

impl New<'_> {
    fn known_path(&self) -> Option<&str> {
        let path = self.path.split('?').next().unwrap_or_default();
        (!path.contains('$')).then_some(path)
    }

    /// Behind the rewrite; the arguments of the client stand behind new ones.
    pub(crate) fn variables<'a>(&self, variables: &Variables<'a>) -> Variables<'a> {
        let mut variables = variables.clone();
        let query = if self.path.contains('?') { Query::Unknown } else { Query::Kept };
        variables.redirect(self.known_path(), query);
        variables
    }

    /// A place's case for paths that were rewritten before they came there.
    pub(crate) fn changed(&self, mut branch: Branch) -> Made<Branch> {
        // It was written for the old path.
        if branch.condition.names("uri") || (self.path.contains('?') && branch.condition.names("args")) {
            return Err(Stop::closed("the place it leads to looks at the path"));
        }
        let has_upstream = branch.upstream.is_some();
        if let Some(files) = branch.plugins.get_mut("static-files") {
            let attempts = match has_upstream {
                true => None,
                false => self.attempts(files),
            };
            let why = "the location it leads to serves files that are not known";
            files["try_files"] = attempts.ok_or_else(|| Stop::closed(why))?;
        } else if has_upstream && branch.sent != Sent::Decided {
            let with = match &branch.sent {
                Sent::Behind { location, base } if !self.ends => {
                    let rest = self.path.strip_prefix(location.as_str());
                    let rest = rest.ok_or(Stop::closed("the new path is shorter than its location's"))?;
                    format!("{base}{rest}")
                }
                _ => self.path.to_owned(),
            };
            let rewrite = branch.plugins.entry("proxy-rewrite").or_insert_with(|| json!({}));
            let Some(rewrite) = rewrite.as_object_mut() else { return Ok(branch) };
            rewrite.remove("uri");
            rewrite.remove(REAL_PATH);
            rewrite.insert("regex_uri".to_owned(), json!([whole(self.pattern), with]));
            if self.known_path().is_some() {
                branch.sent = Sent::Decided;
            }
        } else if has_upstream && self.path.contains('?') {
            return Err(Stop::closed("its arguments, and a path that is rewritten again"));
        }
        Ok(branch)
    }

    /// The names that are looked for: one name for all paths can be said in its own words.
    fn attempts(&self, files: &Value) -> Option<Value> {
        let path = self.path;
        let is_name = !path.contains(['$', '?']) && !path.ends_with('/') && !path.contains("..");
        if !is_name || files.get("strip_prefix").is_some() {
            return None;
        }
        let Some(given) = files.get("try_files") else { return Some(json!([path, "=404"])) };
        let one = |attempt: &Value| match attempt.as_str()?.strip_prefix("$uri") {
            // A directory of this name would be another redirect.
            Some(rest) if rest.ends_with('/') => None,
            Some(rest) => Some(Value::from(format!("{path}{rest}"))),
            None => Some(attempt.clone()),
        };
        let mut all = given.as_array()?.iter().map(one).collect::<Option<Vec<_>>>()?;
        if all.iter().all(|attempt| attempt.as_str().is_some_and(|attempt| attempt.starts_with('/'))) {
            all.push("=404".into());
        }
        Some(all.into())
    }
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
            Part::Variable(_) if out.ends_with('\\') => return Err(behind_backslash(text)),
            Part::Variable(name) => {
                out.push_str(&variables.text(&format!("${{{name}}}"))?);
            }
        }
    }
    Ok(in_templates(&out))
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
