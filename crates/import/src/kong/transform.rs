//! Plugins that change requests and answers.

use serde_json::{Map, Value, json};

use super::converted::Converted;
use crate::{Report, fields::Fields};

pub(super) fn cors(conf: &Fields, report: &mut Report) -> Converted {
    let credentials = conf.flag("credentials").unwrap_or(false);
    let any = if credentials { "**" } else { "*" };
    let (mut plain, mut patterns) = (Vec::new(), Vec::new());
    for origin in conf.texts("origins") {
        // What is not a plain origin is a regular expression in Kong.
        let is_plain = origin.chars().all(|c| c.is_ascii_alphanumeric() || "-._:/".contains(c));
        if origin == "*" {
            plain.push(any.to_owned());
        } else if is_plain && origin.contains("://") {
            plain.push(origin);
        } else {
            patterns.push(origin);
        }
    }
    let joined = |key: &str, default: &str| {
        let texts = conf.texts(key);
        if texts.is_empty() { default.to_owned() } else { texts.join(",") }
    };
    let origins = if plain.is_empty() && patterns.is_empty() { any.to_owned() } else { plain.join(",") };
    let mut object = json!({
        "allow_methods": joined("methods", "GET,HEAD,PUT,PATCH,POST,DELETE,OPTIONS,TRACE,CONNECT"),
        "allow_headers": joined("headers", "**"),
        "allow_credential": credentials,
    });
    if !origins.is_empty() {
        object["allow_origins"] = origins.into();
    }
    if !patterns.is_empty() {
        object["allow_origins_by_regex"] = patterns.into();
    }
    let exposed = conf.texts("exposed_headers");
    if !exposed.is_empty() {
        object["expose_headers"] = exposed.join(",").into();
    }
    if let Some(seconds) = conf.integer("max_age") {
        object["max_age"] = seconds.into();
    }
    if conf.flag("preflight_continue") == Some(true) {
        report.unsupported(conf.line(), conf.subject(), "`preflight_continue`: preflights are answered here");
    }
    Some(vec![("cors", object)])
}

/// `name:value` pairs.
fn pairs(conf: &Fields, key: &str) -> Map<String, Value> {
    let split = |text: String| {
        let (name, value) = text.split_once(':')?;
        Some((name.trim().to_owned(), Value::from(value.trim())))
    };
    conf.texts(key).into_iter().filter_map(split).collect()
}

pub(super) fn request(conf: &Fields, report: &mut Report) -> Converted {
    let mut object = Map::new();
    let (remove, replace) = (conf.inner("remove"), conf.inner("replace"));
    let (add, append) = (conf.inner("add"), conf.inner("append"));
    let mut headers = Map::new();
    let removed = remove.texts("headers");
    if !removed.is_empty() {
        headers.insert("remove".to_owned(), removed.into());
    }
    let replaced = pairs(&replace, "headers");
    if !replaced.is_empty() {
        report.approximated(replace.line(), replace.subject(), "a header is set also where it was missing");
        headers.insert("set".to_owned(), replaced.into());
    }
    let added = pairs(&add, "headers");
    if !added.is_empty() {
        report.approximated(add.line(), add.subject(), "a header is added also where there is one already");
    }
    let mut all = added;
    all.extend(pairs(&append, "headers"));
    if !all.is_empty() {
        headers.insert("add".to_owned(), all.into());
    }
    if !headers.is_empty() {
        object.insert("headers".to_owned(), headers.into());
    }
    if let Some(uri) = replace.text("uri") {
        object.insert("uri".to_owned(), uri.into());
    }
    if let Some(method) = conf.text("http_method") {
        object.insert("method".to_owned(), method.into());
    }
    for part in [&remove, &replace, &add, &append] {
        part.finish(report);
    }
    if object.is_empty() { None } else { Some(vec![("proxy-rewrite", object.into())]) }
}

pub(super) fn response(conf: &Fields, report: &mut Report) -> Converted {
    let (remove, replace) = (conf.inner("remove"), conf.inner("replace"));
    let (add, append) = (conf.inner("add"), conf.inner("append"));
    let mut headers = Map::new();
    let removed = remove.texts("headers");
    if !removed.is_empty() {
        headers.insert("remove".to_owned(), removed.into());
    }
    let replaced = pairs(&replace, "headers");
    if !replaced.is_empty() {
        report.approximated(replace.line(), replace.subject(), "a header is set also where it was missing");
        headers.insert("set".to_owned(), replaced.into());
    }
    let mut lines = add.texts("headers");
    if !lines.is_empty() {
        report.approximated(add.line(), add.subject(), "a header is added also where there is one already");
    }
    lines.extend(append.texts("headers"));
    if !lines.is_empty() {
        headers.insert("add".to_owned(), lines.into());
    }
    for part in [&remove, &replace, &add, &append] {
        part.finish(report);
    }
    if headers.is_empty() { None } else { Some(vec![("response-rewrite", json!({"headers": headers}))]) }
}

pub(crate) fn correlation_id(conf: &Fields, report: &mut Report) -> Converted {
    if conf.text("generator").is_none_or(|generator| generator != "uuid") {
        let how = "an id is a UUID by itself, without a counter";
        report.approximated(conf.line(), conf.subject(), how);
    }
    let header = conf.text("header_name").unwrap_or_else(|| "Kong-Request-ID".to_owned());
    let echo = conf.flag("echo_downstream").unwrap_or(false);
    Some(vec![("request-id", json!({"header_name": header, "include_in_response": echo}))])
}

pub(super) fn redirect(conf: &Fields, report: &mut Report) -> Converted {
    let Some(location) = conf.text("location") else {
        report.unsupported(conf.line(), conf.subject(), "`location` is missing");
        return None;
    };
    let keeps = conf.flag("keep_incoming_path").unwrap_or(false);
    let uri = match keeps {
        true => format!("{}$request_uri", location.trim_end_matches('/')),
        false => location,
    };
    let status = conf.integer("status_code").unwrap_or(301);
    Some(vec![("redirect", json!({"uri": uri, "ret_code": status}))])
}

/// Code runs unchanged when it stays with ngx and ctx; what Kong adds to Lua is not here.
pub(super) fn function(kind: &str, conf: &Fields, report: &mut Report) -> Converted {
    let ours = if kind == "pre-function" { "serverless-pre-function" } else { "serverless-post-function" };
    let mut chosen: Option<(&str, Vec<String>)> = None;
    for phase in ["rewrite", "access", "header_filter", "body_filter", "log"] {
        let functions = conf.texts(phase);
        if functions.is_empty() {
            continue;
        }
        if functions.iter().any(|code| code.contains("kong.")) {
            let why = format!("{phase}: it uses `kong.`; rewrite it with ngx and ctx");
            report.unsupported(conf.line(), conf.subject(), &why);
        } else if chosen.is_some() {
            let why = format!("{phase}: functions of one phase are taken, and there are earlier ones");
            report.unsupported(conf.line(), conf.subject(), &why);
        } else {
            chosen = Some((phase, functions));
        }
    }
    let (phase, functions) = chosen?;
    let how = "it runs as a function of the plugin serverless, with what that offers";
    report.approximated(conf.line(), conf.subject(), how);
    let wrap = |code: String| format!("return function(conf, ctx)\n{code}\nend");
    let functions: Vec<String> = functions.into_iter().map(wrap).collect();
    Some(vec![(ours, json!({"phase": phase, "functions": functions}))])
}
