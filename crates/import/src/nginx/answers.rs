//! What is done to answers: `add_header` and `gzip`; and `return`, which makes one.

use serde_json::{Map, Value, json};

use super::{parse::Directive, proxy::effective};
use crate::Report;

/// Without `always` nginx adds fields to these only.
const GOOD: [&str; 10] = ["200", "201", "204", "206", "301", "302", "303", "304", "307", "308"];

pub fn headers(scopes: &[&[Directive]; 3], plugins: &mut Map<String, Value>, report: &mut Report) {
    let fields = effective(scopes, "add_header");
    let always = fields.iter().filter(|header| header.argument(2) == "always").count();
    let (mut add, mut set) = (Vec::new(), Map::new());
    for header in &fields {
        let (name, value) = (header.argument(0), header.argument(1));
        if value.is_empty() {
            // nginx sends no field without a value.
            continue;
        }
        if always > 0 && always < fields.len() && header.argument(2) != "always" {
            let how = "beside one with `always` it is added to answers of errors too";
            report.approximated(header.line, "add_header", how);
        }
        // The plugin's form for adding, `name: value`, has no room for these.
        if value.contains(':') || value.ends_with('/') {
            report.approximated(header.line, "add_header", "it replaces a field of the same name");
            set.insert(name.to_owned(), value.into());
        } else {
            add.push(format!("{name}: {value}"));
        }
    }
    let mut conf = Map::new();
    let mut edits = Map::new();
    if !add.is_empty() {
        edits.insert("add".to_owned(), add.into());
    }
    if !set.is_empty() {
        edits.insert("set".to_owned(), set.into());
    }
    if edits.is_empty() {
        return;
    }
    conf.insert("headers".to_owned(), edits.into());
    if always == 0 {
        conf.insert("vars".to_owned(), json!([["status", "in", GOOD]]));
    }
    plugins.insert("response-rewrite".to_owned(), conf.into());
}

pub fn gzip(scopes: &[&[Directive]; 3], plugins: &mut Map<String, Value>, report: &mut Report) {
    let value = |name: &str| effective(scopes, name).first().map(|found| found.argument(0).to_owned());
    if value("gzip").as_deref() != Some("on") {
        return;
    }
    let mut conf = Map::new();
    if let Some(types) = effective(scopes, "gzip_types").first() {
        let types = match types.arguments.iter().any(|name| name == "*") {
            true => "*".into(),
            // nginx always compresses this one.
            false => {
                let mut types = types.arguments.clone();
                types.push("text/html".to_owned());
                types.into()
            }
        };
        conf.insert("types".to_owned(), types);
    }
    let number =
        |name: &str| value(name).and_then(|text| text.parse::<u32>().ok()).filter(|number| *number > 0);
    for (name, field) in [("gzip_comp_level", "comp_level"), ("gzip_min_length", "min_length")] {
        if let Some(number) = number(name) {
            conf.insert(field.to_owned(), number.into());
        }
    }
    if value("gzip_vary").as_deref() == Some("on") {
        conf.insert("vary".to_owned(), true.into());
    }
    if value("gzip_http_version").as_deref() == Some("1.0") {
        conf.insert("http_version".to_owned(), json!(1.0));
    }
    if let Some(proxied) =
        effective(scopes, "gzip_proxied").first().filter(|found| found.argument(0) != "off")
    {
        let how = "answers to requests with a field Via are not compressed";
        report.approximated(proxied.line, "gzip_proxied", how);
    }
    plugins.insert("gzip".to_owned(), conf.into());
}

pub fn answered(directive: &Directive, report: &mut Report) -> Option<Map<String, Value>> {
    let (first, second) = (directive.argument(0), directive.argument(1));
    let (status, text) = match first.parse::<u16>() {
        Ok(status) => (status, second),
        Err(_) => (302, first),
    };
    if !(200..600).contains(&status) || status == 444 {
        report.unsupported(directive.line, "return", &format!("status {first} is left out"));
        return None;
    }
    let conf = match status {
        301 | 302 | 303 | 307 | 308 if !text.is_empty() => {
            let uri = text.replace("$uri", "${uri}");
            ("redirect", json!({"uri": uri, "ret_code": status}))
        }
        _ if text.is_empty() => ("fault-injection", json!({"abort": {"http_status": status}})),
        _ => ("fault-injection", json!({"abort": {"http_status": status, "body": text}})),
    };
    let mut plugins = Map::new();
    plugins.insert(conf.0.to_owned(), conf.1);
    report.converted(directive.line, "return");
    Some(plugins)
}
