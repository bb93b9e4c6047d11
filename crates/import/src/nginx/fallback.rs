//! Where files lead that are not there: the last name of `try_files`.

use serde_json::{Map, Value, json};

use super::{
    at::{At, is_step},
    branch::Branch,
    content::content,
    files::{self, Files},
    made::{Made, Stop},
    proxy::REAL_PATH,
    variables::Variables,
};
use crate::Report;

/// Redirects within the server that follow each other.
const MAX_REDIRECTS: usize = 4;

pub fn with_fallback(
    at: &At<'_, '_>,
    mut files: Files,
    plugins: Map<String, Value>,
    variables: &Variables,
    report: &mut Report,
) -> Made<Branch> {
    let Some(path) = files.fallback.take() else {
        let mut branch = files::with_fallback(files, None);
        branch.plugins.extend(plugins);
        return Ok(branch);
    };
    if let Some(own) = own_file(at, &files, &path) {
        let attempts = files.conf.entry("try_files").or_insert_with(|| json!([]));
        if let Value::Array(attempts) = attempts {
            // nginx would look for a missing one again and again, and give up.
            attempts.extend([own.into(), "=500".into()]);
        }
        let mut branch = files::with_fallback(files, None);
        branch.plugins.extend(plugins);
        return Ok(branch);
    }
    let target = redirected(at, &path, variables, report)?;
    if let Some(own) = same_directory(&files, &target, &path) {
        if target.plugins.get("response-rewrite") != plugins.get("response-rewrite") {
            return Err(Stop::closed(format!("`{path}` has other fields in its own location")));
        }
        let attempts = files.conf.entry("try_files").or_insert_with(|| json!([]));
        if let Value::Array(attempts) = attempts {
            attempts.extend([own.into(), "=404".into()]);
        }
        let mut branch = files::with_fallback(files, None);
        branch.plugins.extend(plugins);
        return Ok(branch);
    }
    if target.closed.is_none() && target.upstream.is_none() {
        let Some(status) = target
            .plugins
            .get("fault-injection")
            .and_then(|fault| fault.pointer("/abort/http_status"))
            .filter(|_| target.plugins.len() == 1)
        else {
            return Err(Stop::closed(format!("what `{path}` answers is not converted for a fallback")));
        };
        files.conf.entry("try_files").or_insert_with(|| json!([])).as_array_mut().into_iter().for_each(
            |list| {
                list.push(format!("={status}").into());
            },
        );
        let mut branch = files::with_fallback(files, None);
        branch.plugins.extend(plugins);
        return Ok(branch);
    }
    if target.upstream.is_some() && target.plugins.get("response-rewrite") != plugins.get("response-rewrite")
    {
        return Err(Stop::closed(format!("`{path}` adds other fields to its answers")));
    }
    let mut branch = files::with_fallback(files, Some(target));
    for (name, conf) in plugins {
        branch.plugins.entry(name).or_insert(conf);
    }
    Ok(branch)
}

/// The name below the directory of the fallback of a single-page application: a file of the same place.
fn own_file(at: &At, files: &Files, target: &str) -> Option<String> {
    let path = without_query(target);
    let locations = &at.server.locations;
    let taker = locations.taker(path, true).and_then(|index| locations.all.get(index))?;
    let is_own = std::ptr::eq(&taker.place, at.place);
    let looks_itself = files.conf.get("try_files")?.as_array()?.iter().any(|attempt| attempt == "$uri");
    if !is_own || !looks_itself || path.ends_with('/') || path.contains('$') {
        return None;
    }
    match files.conf.get("strip_prefix").and_then(Value::as_str) {
        Some(prefix) => Some(path.strip_prefix(prefix)?.trim_start_matches('/').to_owned())
            .filter(|name| !name.is_empty()),
        None => Some(path.to_owned()),
    }
}

/// A file is the same for all queries.
fn without_query(target: &str) -> &str {
    let path = target.split('?').next().unwrap_or_default();
    path.strip_suffix("$is_args$args").unwrap_or(path)
}

/// The name under which the place's own directory has what an internal redirect asks for.
fn same_directory(files: &Files, target: &Branch, path: &str) -> Option<String> {
    let own = target.plugins.get("static-files")?.as_object()?;
    let is_same = own.get("root") == files.conf.get("root")
        && own.get("strip_prefix").is_none()
        && files.conf.get("strip_prefix").is_none()
        && own.get("types") == files.conf.get("types")
        && own.get("default_type") == files.conf.get("default_type")
        && target.upstream.is_none();
    // `/` would be a directory, whose index is another redirect.
    (is_same && !path.ends_with('/') && !path.contains(['?', '$'])).then(|| path.to_owned())
}

/// The single case of the place that an internal redirect leads to.
pub fn redirected(at: &At<'_, '_>, target: &str, variables: &Variables, report: &mut Report) -> Made<Branch> {
    let path = without_query(target);
    if path.contains('$') || at.redirects >= MAX_REDIRECTS {
        return Err(Stop::closed(format!("where `{target}` leads cannot be told")));
    }
    let locations = &at.server.locations;
    let index = locations.taker(path, true);
    let Some(location) = index.and_then(|index| locations.all.get(index)) else {
        return Err(Stop::closed(format!("no location takes `{target}`")));
    };
    if std::ptr::eq(&location.place, at.place) && !at.is_page {
        // In its own location: nginx would look for it there again.
        return Err(Stop::closed(format!("`{target}` leads back to its own location")));
    }
    if let Some(step) = location.directive.block.iter().find(|step| is_step(&step.name)) {
        if step.name == "return"
            && location.directive.block.iter().filter(|step| is_step(&step.name)).count() == 1
        {
            let inner = At { place: &location.place, redirects: at.redirects + 1, ..*at };
            return super::returns::returned(step, &inner, &location.chain, variables, report);
        }
        return Err(Stop::closed(format!("the location of `{target}` rewrites")));
    }
    let inner = At { place: &location.place, redirects: at.redirects + 1, ..*at };
    location.chain.take(&["internal"]);
    let mut cases = match content(&inner, &location.chain, variables, report) {
        Ok(cases) => cases,
        Err(Stop::Closed(why)) => vec![Branch::closed(why)],
        Err(split) => return Err(split),
    };
    match (cases.pop(), cases.is_empty()) {
        (Some(mut case), true) => {
            if case.upstream.is_some() && !path.starts_with('@') {
                let rewrite = case.plugins.entry("proxy-rewrite").or_insert_with(|| json!({}));
                if rewrite.get("regex_uri").is_some() || rewrite.get("uri").is_some() || target != path {
                    return Err(Stop::closed(format!("`{target}` leads to a proxy with another path")));
                }
                rewrite["uri"] = path.into();
                rewrite.as_object_mut().and_then(|rewrite| rewrite.remove(REAL_PATH));
            }
            Ok(case)
        }
        _ => Err(Stop::closed(format!("the location of `{target}` has guards of its own"))),
    }
}
