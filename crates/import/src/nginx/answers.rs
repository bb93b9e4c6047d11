//! `gzip`; and `return`, which makes an answer.

use serde_json::{Map, Value, json};

use super::{
    added,
    branch::Branch,
    chain::Chain,
    files,
    made::{Made, Stop},
    parse::Directive,
    variables::{Variables, in_templates},
};
use crate::Report;

pub(super) const GZIP: [&str; 7] = [
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

/// `return`, in a place with these blocks around it. `is_page`: it may be sent with the status of an error.
pub(super) fn returned(
    directive: &Directive,
    is_page: bool,
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
    let text = in_templates(&variables.text(text)?);
    let mut branch = match status {
        301 | 302 | 303 | 307 | 308 if !text.is_empty() => {
            if text.starts_with(['/', '$']) && !text.starts_with("$scheme") {
                chain.redirects_to_path(report);
            }
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
    if status == 444 {
        // Nothing is sent.
        chain.take(&["add_header", "expires"]);
    } else {
        let known = Some(status).filter(|_| !is_page);
        added::headers(chain, variables, known, &mut branch.plugins, report)?;
    }
    chain.take(&GZIP);
    Ok(branch)
}
