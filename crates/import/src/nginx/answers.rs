//! What is done to answers: `add_header`, `expires`, `proxy_hide_header` and `gzip`; and `return`, which makes one.

use serde_json::{Map, Value, json};

use super::{
    branch::Branch,
    chain::Chain,
    files,
    made::{Made, Stop},
    parse::Directive,
    time::time,
    variables::Variables,
};
use crate::Report;

/// Without `always` nginx adds fields to these only.
const GOOD: [&str; 10] = ["200", "201", "204", "206", "301", "302", "303", "304", "307", "308"];

pub(super) fn headers(
    chain: &Chain,
    variables: &Variables,
    plugins: &mut Map<String, Value>,
    report: &mut Report,
) -> Made<()> {
    let fields = chain.all("add_header");
    let mut always = fields.iter().filter(|header| header.argument(2) == "always").count();
    let (mut add, mut set) = (Vec::new(), Map::new());
    for header in &fields {
        let (name, value) = (header.argument(0), plain(&variables.text(header.argument(1))?));
        if value.is_empty() {
            // nginx sends no field without a value.
            continue;
        }
        if always > 0 && always < fields.len() && header.argument(2) != "always" {
            let how = "beside one with `always` it is added to answers of errors too";
            report.approximated(&header.at, "add_header", how);
        }
        // The plugin's form for adding, `name: value`, has no room for these.
        if value.contains(':') || value.ends_with('/') {
            report.approximated(&header.at, "add_header", "it replaces a field of the same name");
            set.insert(name.to_owned(), value.into());
        } else {
            add.push(format!("{name}: {value}"));
        }
    }
    let mut edits = Map::new();
    let hidden: Vec<&str> = chain.all("proxy_hide_header").iter().map(|header| header.argument(0)).collect();
    chain.take(&["proxy_pass_header"]);
    if !hidden.is_empty() {
        edits.insert("remove".to_owned(), json!(hidden));
        // What is hidden is hidden on every answer.
        always = always.max(1);
    }
    expires(chain, &mut set, report);
    if !add.is_empty() {
        edits.insert("add".to_owned(), add.into());
    }
    if !set.is_empty() {
        edits.insert("set".to_owned(), set.into());
    }
    if edits.is_empty() {
        return Ok(());
    }
    let mut conf = Map::from_iter([("headers".to_owned(), Value::Object(edits))]);
    if always == 0 {
        conf.insert("vars".to_owned(), json!([["status", "in", GOOD]]));
    }
    plugins.insert("response-rewrite".to_owned(), conf.into());
    Ok(())
}

/// As plugins write variables.
fn plain(text: &str) -> String {
    text.replace("${", "$").replace('}', "")
}

fn expires(chain: &Chain, set: &mut Map<String, Value>, report: &mut Report) {
    let Some(expires) = chain.one("expires") else { return };
    let word = expires.argument(0);
    let (date, control) = match word {
        "off" => return,
        "epoch" => (Some("Thu, 01 Jan 1970 00:00:01 GMT"), "no-cache".to_owned()),
        "max" => (Some("Thu, 31 Dec 2037 23:55:55 GMT"), "max-age=315360000".to_owned()),
        _ => match time(word.trim_start_matches('-')).filter(|_| expires.arguments.len() == 1) {
            Some(_) if word.starts_with('-') => (None, "no-cache".to_owned()),
            Some(seconds) => (None, format!("max-age={seconds:.0}")),
            None => {
                return report.unsupported(&expires.at, "expires", "no Expires and Cache-Control are added");
            }
        },
    };
    match date {
        Some(date) => _ = set.insert("Expires".to_owned(), date.into()),
        None => report.approximated(&expires.at, "expires", "Cache-Control without Expires"),
    }
    set.insert("Cache-Control".to_owned(), control.into());
}

const GZIP: [&str; 7] = [
    "gzip",
    "gzip_types",
    "gzip_comp_level",
    "gzip_min_length",
    "gzip_vary",
    "gzip_http_version",
    "gzip_proxied",
];

pub(super) fn gzip(chain: &Chain, plugins: &mut Map<String, Value>, report: &mut Report) {
    chain.take(&GZIP);
    if chain.word("gzip") != "on" {
        return;
    }
    let mut conf = Map::new();
    if let Some(types) = chain.one("gzip_types") {
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
    let number = |name: &'static str| chain.word(name).parse::<u32>().ok().filter(|number| *number > 0);
    if let Some(level) = number("gzip_comp_level") {
        conf.insert("comp_level".to_owned(), level.min(9).into());
    }
    if let Some(length) = number("gzip_min_length") {
        conf.insert("min_length".to_owned(), length.into());
    }
    if chain.word("gzip_vary") == "on" {
        conf.insert("vary".to_owned(), true.into());
    }
    if chain.word("gzip_http_version") == "1.0" {
        conf.insert("http_version".to_owned(), json!(1.0));
    }
    // Compressed or not, the content is the same.
    if let Some(proxied) = chain.one("gzip_proxied").filter(|found| found.argument(0) != "off") {
        let how = "answers to requests with a field Via are not compressed";
        report.ignored(&proxied.at, "gzip_proxied", how);
    }
    plugins.insert("gzip".to_owned(), conf.into());
}

/// `return`, in a place with these blocks around it.
pub(super) fn returned(
    directive: &Directive,
    chain: &Chain,
    variables: &Variables,
    report: &mut Report,
) -> Made<Branch> {
    let (first, second) = (directive.argument(0), directive.argument(1));
    let (status, text) = match first.parse::<u16>() {
        Ok(status) => (status, second),
        Err(_) => (302, first),
    };
    if !(200..600).contains(&status) {
        return Err(Stop::closed(format!("`{}` is not converted", directive.title())));
    }
    let text = plain(&variables.text(text)?);
    let mut branch = match status {
        301 | 302 | 303 | 307 | 308 if !text.is_empty() => {
            let redirect = json!({"uri": text.replace("$uri", "${uri}"), "ret_code": status});
            Branch::new(Map::from_iter([("redirect".to_owned(), redirect)]), None)
        }
        // Where nginx has no page of its own, the answer is an empty one.
        _ if text.is_empty() && (status == 204 || status >= 300) => Branch::status(status),
        _ => {
            let (kind, same) = files::type_of_text(chain);
            if !same && !text.is_empty() {
                let how = format!("Content-Type is {kind} for all paths; nginx goes by their endings");
                report.approximated(&directive.at, "return", &how);
            }
            let abort = json!({"http_status": status, "body": text, "headers": {"Content-Type": kind}});
            Branch::new(Map::from_iter([("fault-injection".to_owned(), json!({"abort": abort}))]), None)
        }
    };
    if status != 444 {
        headers(chain, variables, &mut branch.plugins, report)?;
    }
    chain.take(&GZIP);
    Ok(branch)
}
