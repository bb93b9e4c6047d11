//! Where files lead that are not there: the last name of `try_files`.

use serde_json::{Map, Value, json};

use super::{
    again::{Redirected, decided, split},
    at::At,
    branch::Branch,
    files::Files,
    locations::Location,
    made::{Made, Stop},
    patterns,
    proxy::REAL_PATH,
    real_ip,
    variables::{Query, Variables},
};
use crate::Report;

/// Redirects within the server that follow each other.
const MAX_REDIRECTS: usize = 4;

/// The cases of a place that serves files.
pub(crate) fn with_fallback(
    at: &At<'_, '_>,
    mut files: Files,
    plugins: &Map<String, Value>,
    variables: &Variables,
    report: &mut Report,
) -> Made<Vec<Branch>> {
    let Some((path, line)) = files.fallback.take() else { return Ok(vec![ending_with(files, plugins, &[])]) };
    if let Some((own, location)) = own_file(at, &files, &path) {
        Redirected::to(&path)
            .variables(at.server, Some(location), variables)
            .map_err(|step| decided(step, &path))?;
        // nginx would look for a missing one again and again, and give up.
        return Ok(vec![ending_with(files, plugins, &[&own, "=500"])]);
    }
    let target = redirected(at, &path, variables, report)?;
    if let Some(why) = &target.closed {
        report.closed(&line, &format!("try_files {path}"), why);
        return Ok(vec![ending_with(files, plugins, &["=501"])]);
    }
    let only_of = |mut plugins: Map<String, Value>| {
        plugins.remove("static-files");
        plugins
    };
    if same_directory(&files, &target, &path) {
        if only_of(target.plugins) != *plugins {
            return Err(Stop::closed(format!("`{path}` has other guards or fields in its own location")));
        }
        return Ok(vec![ending_with(files, plugins, &[&path, "=404"])]);
    }
    let Some(upstream) = target.upstream else {
        let status = bare_status(&target)
            .ok_or_else(|| Stop::closed(format!("what `{path}` answers is not converted for a fallback")))?;
        return Ok(vec![ending_with(files, plugins, &[&format!("={status}")])]);
    };
    let mut whole = target.plugins;
    if whole.get("response-rewrite") != plugins.get("response-rewrite") {
        return Err(Stop::closed(format!("`{path}` adds other fields to its answers")));
    }
    compare_guards(&whole, plugins, &path, &line, report)?;
    let drops_arguments = path.starts_with('/') && split(&path).1 != Query::Kept;
    let mut cases = Vec::new();
    if drops_arguments {
        let why = "nginx drops the arguments of the client on this way; requests with some are not served";
        report.closed(&line, &format!("try_files {path}"), why);
        let has_some = patterns::is_empty("args").negated();
        cases.push(ending_with(files.clone(), plugins, &["=501"]).when(&has_some));
    }
    for (name, conf) in plugins {
        whole.entry(name.clone()).or_insert_with(|| conf.clone());
    }
    let mut branch = ending_with(files, &whole, &["@upstream"]);
    branch.upstream = Some(upstream);
    cases.push(branch);
    Ok(cases)
}

/// The status of an answer that has nothing else; an error's text is one more page.
fn bare_status(target: &Branch) -> Option<u64> {
    let others = target.plugins.keys().filter(|name| *name != "fault-injection" && *name != real_ip::NAME);
    let abort = target.plugins.get("fault-injection").filter(|_| others.count() == 0)?.get("abort")?;
    let status = abort.get("http_status")?.as_u64()?;
    let is_bare = abort.get("body").and_then(Value::as_str).is_none_or(str::is_empty);
    (is_bare && (status == 204 || status >= 300)).then_some(status)
}

/// A route has one plugin of a kind.
fn compare_guards(
    theirs: &Map<String, Value>,
    own: &Map<String, Value>,
    path: &str,
    line: &crate::At,
    report: &mut Report,
) -> Made<()> {
    for name in GUARDS {
        match (theirs.get(name), own.get(name)) {
            (Some(theirs), Some(own)) if theirs != own => {
                return Err(Stop::closed(format!("`{path}` and this place have guards of one kind")));
            }
            (Some(_), None) => {
                let how = format!("{path}: guards of its location hold for the files of this place as well");
                report.approximated(line, "try_files", &how);
            }
            _ => {}
        }
    }
    Ok(())
}

/// Plugins that turn clients away.
const GUARDS: [&str; 4] = ["forward-auth", "ip-restriction", "limit-conn", "limit-req"];

/// Files, with these names at the end of the list.
fn ending_with(mut files: Files, plugins: &Map<String, Value>, names: &[&str]) -> Branch {
    if !names.is_empty() {
        let attempts = files.conf.entry("try_files").or_insert_with(|| json!([]));
        attempts
            .as_array_mut()
            .into_iter()
            .for_each(|list| list.extend(names.iter().map(|name| json!(name))));
    }
    let mut branch = Branch::new(plugins.clone(), None);
    branch.plugins.insert("static-files".to_owned(), files.conf.into());
    branch
}

/// The name below the directory of the fallback of a single-page application: a file of the same place.
fn own_file<'s, 'a>(at: &At<'s, 'a>, files: &Files, target: &str) -> Option<(String, &'s Location<'a>)> {
    let (path, _) = split(target);
    let (_, taker) = at.server.locations.found(path, true).ok()?;
    let is_own = std::ptr::eq(&taker.place, at.place);
    let looks_itself = files.conf.get("try_files")?.as_array()?.iter().any(|attempt| attempt == "$uri");
    if !is_own || !looks_itself || path.ends_with('/') || path.contains('$') {
        return None;
    }
    let name = match files.conf.get("strip_prefix").and_then(Value::as_str) {
        Some(prefix) => Some(path.strip_prefix(prefix)?.trim_start_matches('/').to_owned())
            .filter(|name| !name.is_empty())?,
        None => path.to_owned(),
    };
    Some((name, taker))
}

/// Whether the place's own directory has what a redirect within the server asks for, under its path.
fn same_directory(files: &Files, target: &Branch, path: &str) -> bool {
    let Some(own) = target.plugins.get("static-files").and_then(Value::as_object) else { return false };
    let looks_itself =
        own.get("try_files").is_none_or(|attempts| attempts.get(0).is_some_and(|attempt| attempt == "$uri"));
    // `/` would be a directory, whose index is another redirect.
    let is_file = path.starts_with('/') && !path.ends_with('/') && !path.contains(['?', '$']);
    own.get("root") == files.conf.get("root")
        && own.get("strip_prefix").is_none()
        && files.conf.get("strip_prefix").is_none()
        && own.get("types") == files.conf.get("types")
        && own.get("default_type") == files.conf.get("default_type")
        && target.upstream.is_none()
        && looks_itself
        && is_file
}

/// The single case of the place that a redirect within the server leads to.
pub(super) fn redirected(
    at: &At<'_, '_>,
    target: &str,
    variables: &Variables,
    report: &mut Report,
) -> Made<Branch> {
    let (path, query) = split(target);
    if path.contains('$') || at.redirects >= MAX_REDIRECTS {
        return Err(Stop::closed(format!("where `{target}` leads is unknown")));
    }
    let (_, location) = at.server.locations.found(path, true)?;
    if std::ptr::eq(&location.place, at.place) && !at.is_page {
        // In its own location: nginx would look for it there again.
        return Err(Stop::closed(format!("`{target}` leads back to its own location")));
    }
    let mut variables = variables.clone();
    if !location.is_named() {
        let redirected = match (at.is_page, at.is_server) {
            (true, is_server) => Redirected::to(target).for_page(is_server),
            (false, _) => Redirected::to(target),
        };
        let made = redirected.variables(at.server, None, &variables);
        variables = made.map_err(|step| decided(step, target))?;
    }
    let inner = At { place: &location.place, redirects: at.redirects + 1, is_server: false, ..*at };
    let mut cases = match (at.arrived)(location, &inner, &variables, report) {
        Err(Stop::Closed(why)) => vec![Branch::closed(why)],
        made => made?,
    };
    let (Some(mut case), true) = (cases.pop(), cases.is_empty()) else {
        return Err(Stop::closed(format!("the location of `{target}` has guards of its own")));
    };
    if case.upstream.is_some() && !location.is_named() {
        let rewrite = case.plugins.entry("proxy-rewrite").or_insert_with(|| json!({}));
        if rewrite.get("regex_uri").is_some()
            || rewrite.get("uri").is_some()
            || !matches!(query, Query::Kept | Query::Is(""))
        {
            return Err(Stop::closed(format!("`{target}` leads to a proxy with another path")));
        }
        rewrite["uri"] = path.into();
        rewrite.as_object_mut().and_then(|rewrite| rewrite.remove(REAL_PATH));
    }
    Ok(case)
}
