//! Error pages of places that serve files or proxy, whose errors are known when they come.

use serde_json::{Map, Value, json};

use super::entry::{Entry, Page, Status, change, entries};
use crate::{
    Report,
    nginx::{
        at::At,
        branch::Branch,
        chain::Chain,
        condition::Condition,
        fallback::with_fallback,
        files::Files,
        made::{Made, Stop},
        variables::Variables,
    },
};

/// A place that serves files, with its error pages; `error_page 404 = PLACE` is the last name of `try_files`.
pub(crate) fn files(
    at: &At<'_, '_>,
    chain: &Chain,
    files: Files,
    plugins: &Map<String, Value>,
    variables: &Variables,
    report: &mut Report,
) -> Made<Vec<Branch>> {
    let mut pages = if at.is_page { Vec::new() } else { entries(chain)? };
    chain.take(&["error_page", "recursive_error_pages"]);
    let is_fallback = |entry: &Entry| entry.codes == [404] && entry.is_internal() && entry.shows_content();
    if let Some(place) = pages.iter().position(is_fallback)
        && let Some(with) = files_with(&files, &pages[place])
    {
        let entry = pages[place].clone();
        let mut own = Report::default();
        if let Ok(made) = with_fallback(at, with, plugins, variables, &mut own)
            && let Ok([mut branch]) = <[Branch; 1]>::try_from(made)
            && fits(&entry, &branch)
        {
            report.absorb(own);
            entry.converted(report);
            pages.remove(place);
            ends_with_404(&mut branch);
            let mut plain = with_fallback(at, files, plugins, variables, report)?;
            for case in &mut plain {
                of_files(at, chain, &pages, case, variables, report)?;
            }
            if branch.upstream.is_some() {
                // With other methods nginx answers 405 whether the file is there or not.
                let asked = Condition::test("request_method", "in", json!(["GET", "HEAD", "POST"]));
                return Ok([branch.when(&asked)].into_iter().chain(plain).collect());
            }
            of_files(at, chain, &pages, &mut branch, variables, report)?;
            return Ok(vec![branch]);
        }
    }
    let mut cases = with_fallback(at, files, plugins, variables, report)?;
    for case in &mut cases {
        of_files(at, chain, &pages, case, variables, report)?;
    }
    Ok(cases)
}

/// With the page as the last name of `try_files`; `None` where something else is.
fn files_with(files: &Files, entry: &Entry) -> Option<Files> {
    let mut files = files.clone();
    let tries = files.conf.entry("try_files").or_insert_with(|| json!(["$uri", "$uri/"]));
    let tries = tries.as_array_mut()?;
    if tries.last().is_some_and(|last| last == "=404") {
        tries.pop();
    }
    let has_status = |name: &Value| name.as_str().is_some_and(|name| name.starts_with('='));
    if files.fallback.is_some() || tries.iter().any(has_status) {
        return None;
    }
    files.fallback = Some((entry.target.to_owned(), entry.directive.at.clone()));
    Some(files)
}

/// An upstream keeps its own status, and sees the method of the request only if the location is a named one.
fn fits(entry: &Entry, branch: &Branch) -> bool {
    match branch.upstream {
        Some(_) => entry.status == Status::Own && entry.target.starts_with('@'),
        None => matches!(entry.status, Status::Own | Status::Fixed(200)),
    }
}

/// A page that is not there is not looked for again.
fn ends_with_404(branch: &mut Branch) {
    let tries = branch.plugins.get_mut("static-files").and_then(|conf| conf.get_mut("try_files"));
    if let Some(last) = tries.and_then(Value::as_array_mut).and_then(|tries| tries.last_mut())
        && last == "=500"
    {
        *last = "=404".into();
    }
}

fn of_files(
    at: &At<'_, '_>,
    chain: &Chain,
    pages: &[Entry],
    branch: &mut Branch,
    variables: &Variables,
    report: &mut Report,
) -> Made<()> {
    let (limited, proxies) = (limit_statuses(chain), branch.upstream.is_some());
    let comes = |code: &u16| match *code {
        404 => !proxies,
        500..=504 => limited.contains(code),
        _ => true,
    };
    let mut ordered: Vec<&Entry> = pages.iter().collect();
    ordered.sort_by_key(|entry| !entry.codes.contains(&404));
    for entry in ordered {
        if !entry.codes.iter().any(comes) {
            report.ignored(&entry.directive.at, "error_page", "files are not answered with these");
            continue;
        }
        let page = entry.page(at, variables, report)?;
        let changed = match change(entry, page) {
            Err(why) if entry.shows_content() => return Err(entry.closed(&why)),
            Err(why) => Err(why),
            Ok(_) if proxies => Err("an upstream's would be replaced as well".to_owned()),
            Ok(_) if branch.plugins.contains_key("response-rewrite") => {
                Err("beside another page, or `add_header`".to_owned())
            }
            Ok(conf) => Ok(conf),
        };
        match changed {
            Ok(conf) => {
                branch.plugins.insert("response-rewrite".to_owned(), conf);
                entry.converted(report);
            }
            Err(why) => entry.left_out(&why, report),
        }
    }
    Ok(())
}

/// What limits answer.
fn limit_statuses(chain: &Chain) -> Vec<u16> {
    let mut all = Vec::new();
    for (name, status) in [("limit_req", "limit_req_status"), ("limit_conn", "limit_conn_status")] {
        if chain.one(name).is_some() {
            all.push(chain.word(status).parse().unwrap_or(503));
        }
    }
    all
}

/// Of a place that proxies.
pub(crate) fn proxied(
    at: &At<'_, '_>,
    chain: &Chain,
    plugins: &mut Map<String, Value>,
    variables: &Variables,
    report: &mut Report,
) -> Made<()> {
    let intercepts = chain.word("proxy_intercept_errors") == "on";
    let pages = entries(chain)?;
    if at.is_page {
        return match pages.first() {
            Some(entry) if intercepts => Err(entry.closed("its page intercepts errors itself")),
            _ => Ok(()),
        };
    }
    if intercepts {
        return intercepted(at, &pages, plugins, variables, report);
    }
    let mut own = limit_statuses(chain);
    own.extend([400, 408, 413, 414, 494, 495, 496, 497, 500, 502, 503, 504]);
    if chain.one("auth_request").is_some_and(|asked| asked.argument(0) != "off") {
        own.extend([401, 403]);
    }
    for entry in pages {
        if !entry.codes.iter().any(|code| own.contains(code)) {
            let why = "answers of upstreams pass as they are, and the gateway has none with these";
            report.ignored(&entry.directive.at, "error_page", why);
            continue;
        }
        // Without the page there is the error alone: no client sees more than with it.
        match entry.page(at, variables, report) {
            Ok(Page::Content(_)) => entry.left_out("an upstream would answer", report),
            Ok(Page::Unknown(why)) | Err(Stop::Closed(why)) => entry.left_out(&why, report),
            Err(Stop::Split(map)) => return Err(Stop::Split(map)),
            Ok(_) => entry.left_out("an upstream's with the same status would be replaced as well", report),
        }
    }
    Ok(())
}

/// What upstreams say of errors is hidden, whatever can be put in its place.
fn intercepted(
    at: &At<'_, '_>,
    pages: &[Entry],
    plugins: &mut Map<String, Value>,
    variables: &Variables,
    report: &mut Report,
) -> Made<()> {
    let Some(first) = pages.first() else { return Ok(()) };
    if plugins.contains_key("response-rewrite") {
        return Err(first.closed("upstreams' errors are hidden, beside `add_header` or `proxy_hide_header`"));
    }
    let mut changes = Vec::new();
    for entry in pages {
        let page = entry.page(at, variables, report)?;
        match change(entry, page) {
            Err(why) if entry.shows_content() => return Err(entry.closed(&why)),
            made => changes.push(made),
        }
    }
    let conf = match (changes.pop(), changes.is_empty()) {
        (Some(Ok(conf)), true) => {
            let how = "fields of the upstream's answer stay";
            report.approximated(&first.directive.at, "error_page", how);
            conf
        }
        _ => {
            if let Some(entry) = pages.iter().find(|entry| entry.status != Status::Kept) {
                return Err(entry.closed("beside other pages"));
            }
            let codes: Vec<String> =
                pages.iter().flat_map(|entry| &entry.codes).map(u16::to_string).collect();
            let how = "the upstream's page is hidden, and none is put in its place";
            report.unsupported(&first.directive.at, "error_page", how);
            json!({"vars": [["status", "in", codes]], "body": "", "headers": {"set": {"Content-Type": "text/html"}}})
        }
    };
    plugins.insert("response-rewrite".to_owned(), conf);
    Ok(())
}

/// What the question of `auth_request` would answer with a page is not its answer.
pub(crate) fn of_question(chain: &Chain) -> Result<(), Stop> {
    chain.take(&["error_page", "recursive_error_pages"]);
    match chain.word("proxy_intercept_errors") == "on" && chain.one("error_page").is_some() {
        true => Err(Stop::closed("the errors of an `auth_request` are intercepted")),
        false => Ok(()),
    }
}
