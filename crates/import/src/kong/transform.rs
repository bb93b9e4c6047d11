//! Plugins that change requests and answers.

use serde_json::{Map, Value, json};

use super::converted::Converted;
use crate::{Report, fields::Fields, literal};

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
            patterns.push(whole_origin(&origin, is_plain));
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

/// Kong's patterns match all of an origin, and those without a colon its host; ours are searched for.
fn whole_origin(text: &str, is_plain: bool) -> String {
    let pattern = match is_plain {
        true => text.replace('.', "\\."),
        false => text.strip_prefix('^').unwrap_or(text).to_owned(),
    };
    match text.contains(':') {
        true => format!("^(?:{pattern})$"),
        false => {
            format!("^[a-z][a-z0-9+.-]*://(?:{})(?::[0-9]+)?$", pattern.strip_suffix('$').unwrap_or(&pattern))
        }
    }
}

/// `name:value` pairs of texts that are sent as they are.
fn pairs(conf: &Fields, key: &str, report: &mut Report) -> Vec<(String, Value)> {
    let mut pairs = Vec::new();
    for text in conf.texts(key) {
        match split(&text) {
            Some((name, value)) => pairs.push((name, literal::in_template(&value).into())),
            None => report.unsupported(conf.line(), conf.subject(), &not_a_pair(&text)),
        }
    }
    pairs
}

/// Kong leaves out all colons between the two. The whole line may be a reference to a secret, which has a colon, too.
fn split(text: &str) -> Option<(String, String)> {
    let (name, value) = text.split_once(':').filter(|(name, _)| !name.starts_with('$'))?;
    Some((name.trim().to_owned(), value.trim_start_matches(':').trim().to_owned()))
}

/// A name that comes twice has both values.
fn joined(pairs: impl IntoIterator<Item = (String, Value)>) -> Map<String, Value> {
    let mut all: Map<String, Value> = Map::new();
    for (name, value) in pairs {
        match all.get_mut(&name) {
            None => _ = all.insert(name, value),
            Some(Value::Array(values)) => values.push(value),
            Some(first) => *first = json!([first.take(), value]),
        }
    }
    all
}

fn not_a_pair(text: &str) -> String {
    format!("`{text}` is not converted; `name:value` is")
}

/// What request-transformer evaluates in a value.
const TEMPLATE: &str = "$(";

/// A value with a template would be another text for upstreams, who may take it for an identity.
fn refuse_templates(part: &Fields, report: &mut Report) {
    let (mut texts, uri) = (part.texts("headers"), part.text("uri"));
    texts.extend(uri);
    for text in texts.iter().filter(|text| text.contains(TEMPLATE)) {
        let why = format!(
            "`{text}` has a template of Kong, which is not converted: leave it out, and set it by proxy-rewrite in the \
             converted route"
        );
        report.unsupported(part.line(), part.subject(), &why);
    }
}

pub(super) fn request(conf: &Fields, report: &mut Report) -> Converted {
    let mut object = Map::new();
    let (remove, replace) = (conf.inner("remove"), conf.inner("replace"));
    let (add, append) = (conf.inner("add"), conf.inner("append"));
    for part in [&replace, &add, &append] {
        refuse_templates(part, report);
    }
    let mut headers = Map::new();
    let removed = remove.texts("headers");
    if !removed.is_empty() {
        headers.insert("remove".to_owned(), removed.into());
    }
    let replaced = pairs(&replace, "headers", report);
    if !replaced.is_empty() {
        report.approximated(replace.line(), replace.subject(), "a header is set also where it was missing");
        headers.insert("set".to_owned(), Map::from_iter(replaced).into());
    }
    let mut added = pairs(&add, "headers", report);
    if !added.is_empty() {
        report.approximated(add.line(), add.subject(), "a header is added also where there is one already");
    }
    added.extend(pairs(&append, "headers", report));
    if !added.is_empty() {
        headers.insert("add".to_owned(), joined(added).into());
    }
    if !headers.is_empty() {
        object.insert("headers".to_owned(), headers.into());
    }
    if let Some(uri) = replace.text("uri") {
        object.insert("uri".to_owned(), literal::in_template(&uri).into());
    }
    if let Some(method) = conf.text("http_method") {
        object.insert("method".to_owned(), method.into());
    }
    for part in [&remove, &replace, &add, &append] {
        part.finish(report);
    }
    if object.is_empty() { None } else { Some(vec![("proxy-rewrite", object.into())]) }
}

/// Kong evaluates no templates in responses.
pub(super) fn response(conf: &Fields, report: &mut Report) -> Converted {
    let (remove, replace) = (conf.inner("remove"), conf.inner("replace"));
    let (add, append) = (conf.inner("add"), conf.inner("append"));
    let mut headers = Map::new();
    let removed = remove.texts("headers");
    if !removed.is_empty() {
        headers.insert("remove".to_owned(), removed.into());
    }
    let mut set = Map::from_iter(pairs(&replace, "headers", report));
    if !set.is_empty() {
        report.approximated(replace.line(), replace.subject(), "a header is set also where it was missing");
    }
    let mut lines: Vec<String> = Vec::new();
    for (part, how) in [(&add, Some("a header is added also where there is one already")), (&append, None)] {
        let texts = part.texts("headers");
        if let Some(how) = how.filter(|_| !texts.is_empty()) {
            report.approximated(part.line(), part.subject(), how);
        }
        for text in texts {
            match split(&text) {
                None => report.unsupported(part.line(), part.subject(), &not_a_pair(&text)),
                // Lines of response-rewrite cannot have such a value.
                Some((name, value)) if value.is_empty() || value.contains(':') || value.ends_with('/') => {
                    let how = format!("`{name}` is set in place of one that is there already");
                    report.approximated(part.line(), part.subject(), &how);
                    set.insert(name, literal::in_template(&value).into());
                }
                Some((name, value)) => lines.push(format!("{name}:{}", literal::in_template(&value))),
            }
        }
    }
    if !set.is_empty() {
        headers.insert("set".to_owned(), set.into());
    }
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
    let location = literal::in_template(&location);
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
