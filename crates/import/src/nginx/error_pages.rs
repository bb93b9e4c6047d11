//! `error_page`: what is answered in place of an error, here an answer of its own or a change to the answer.
//!
//! nginx replaces its own errors, and those of upstreams only with `proxy_intercept_errors`. The page comes from the location
//! that takes its path, with the status of the error unless `=` says another one, and is not replaced in its turn. Files are
//! read at import.

mod page;
mod places;

pub use places::{files, of_question, proxied};
use serde_json::{Map, Value, json};

use super::{
    branch::Branch,
    chain::Chain,
    content::At,
    parse::Directive,
    variables::{Made, Stop, Variables},
};
use crate::Report;

/// The status that a page has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// That of the error.
    Kept,
    /// `=`: that of the page.
    Own,
    /// `=200`
    Fixed(u16),
}

impl Status {
    fn of(self, error: u16, own: u16) -> u16 {
        match self {
            Status::Kept => error,
            Status::Own => own,
            Status::Fixed(status) => status,
        }
    }
}

#[derive(Clone, Debug)]
pub struct Entry<'a> {
    pub directive: &'a Directive,
    /// Without those that an entry before it has.
    pub codes: Vec<u16>,
    pub status: Status,
    pub target: &'a str,
}

/// What a page is.
pub enum Page {
    /// A redirect to another address.
    Url(String),
    Text {
        own: u16,
        body: String,
        kind: String,
        /// Edits of its location's `add_header`.
        fields: Option<Value>,
        is_file: bool,
    },
    /// Another error, with the gateway's page.
    Bare(u16),
    /// More than a text: what an upstream says, or what is closed.
    Content(Branch),
    /// What it would be cannot be told.
    Unknown(String),
}

pub fn entries<'a>(chain: &Chain<'a>) -> Made<Vec<Entry<'a>>> {
    chain.take(&["recursive_error_pages"]);
    let mut seen = Vec::new();
    let mut all = Vec::new();
    for directive in chain.all("error_page") {
        let bad = || Stop::closed(format!("`{}` is not converted", directive.title()));
        let (target, rest) = directive.arguments.split_last().ok_or_else(bad)?;
        let (status, codes) = match rest.split_last() {
            Some((last, codes)) if last == "=" => (Status::Own, codes),
            Some((last, codes)) if last.starts_with('=') => {
                let status = last.trim_start_matches('=').parse().map_err(|_| bad())?;
                (Status::Fixed(status), codes)
            }
            _ => (Status::Kept, rest),
        };
        let mut own = Vec::new();
        for code in codes {
            let code: u16 = code.parse().map_err(|_| bad())?;
            if !seen.contains(&code) {
                seen.push(code);
                own.push(code);
            }
        }
        all.push(Entry { directive, codes: own, status, target });
    }
    let recursive = chain.word("recursive_error_pages") == "on";
    match all.first() {
        Some(entry) if recursive => Err(Stop::closed(format!(
            "`error_page` of line {} with `recursive_error_pages` is not converted",
            entry.directive.at.line
        ))),
        _ => Ok(all),
    }
}

impl Entry<'_> {
    pub fn is_internal(&self) -> bool {
        self.target.starts_with(['/', '@'])
    }

    /// Whether clients would get something else than an error with another page.
    pub fn shows_content(&self) -> bool {
        self.is_internal() && (self.status != Status::Kept || self.target.starts_with('@'))
    }

    pub fn closed(&self, why: &str) -> Stop {
        let line = self.directive.at.line;
        Stop::closed(format!("`{}` of line {line} is not converted: {why}", self.directive.title()))
    }

    pub fn left_out(&self, why: &str, report: &mut Report) {
        let how = format!("{}: errors have the gateway's pages: {why}", self.target);
        report.unsupported(&self.directive.at, "error_page", &how);
    }

    pub fn converted(&self, report: &mut Report) {
        report.converted(&self.directive.at, &format!("error_page {}", self.target));
    }

    pub fn page(&self, at: &At<'_, '_>, variables: &Variables, report: &mut Report) -> Made<Page> {
        if !self.is_internal() {
            let text = variables.text(self.target)?;
            if text.starts_with("${") && !text.starts_with("${scheme}") {
                // A path would be an internal redirect.
                return Ok(Page::Unknown("where it leads depends on the request".to_owned()));
            }
            return Ok(Page::Url(text.replace("${", "$").replace('}', "")));
        }
        let mut own = Report::default();
        let page = page::of(self.target, at, variables, &mut own);
        if !matches!(page, Page::Unknown(_)) {
            report.absorb(own);
        }
        Ok(page)
    }
}

/// An answer that is an error from the start: of a guard, or of `return`.
pub fn answered(
    at: &At<'_, '_>,
    chain: &Chain,
    error: u16,
    plain: Branch,
    variables: &Variables,
    report: &mut Report,
) -> Made<Branch> {
    let all = entries(chain)?;
    let Some(entry) = all.iter().find(|entry| entry.codes.contains(&error)).filter(|_| !at.is_page) else {
        return Ok(plain);
    };
    let branch = match entry.page(at, variables, report)? {
        Page::Url(to) => {
            let status = redirect_status(entry.status);
            let redirect = json!({"uri": to.replace("$uri", "${uri}"), "ret_code": status});
            let mut plugins = plain.plugins;
            plugins.remove("fault-injection");
            plugins.insert("redirect".to_owned(), redirect);
            Branch::new(plugins, None)
        }
        Page::Bare(status) => Branch::status(status),
        Page::Text { own, body, kind, fields, is_file } => {
            if is_file && entry.target.starts_with('@') {
                let how = "other methods than GET and HEAD get the page too; nginx answers 405";
                report.approximated(&entry.directive.at, "error_page", how);
            }
            let status = entry.status.of(error, own);
            let abort = json!({"http_status": status, "body": body, "headers": {"Content-Type": kind}});
            let mut plugins = Map::from_iter([("fault-injection".to_owned(), json!({"abort": abort}))]);
            if let Some(fields) = fields {
                plugins.insert("response-rewrite".to_owned(), json!({"headers": fields}));
            }
            Branch::new(plugins, None)
        }
        // The method of a named location is that of the request, and its status is its own.
        Page::Content(branch) if entry.status == Status::Own && entry.target.starts_with('@') => branch,
        Page::Content(branch) if entry.shows_content() => {
            return Err(entry.closed(&branch.closed.unwrap_or_else(|| "an upstream answers".to_owned())));
        }
        Page::Unknown(why) if entry.shows_content() => return Err(entry.closed(&why)),
        Page::Content(_) => {
            entry.left_out("an upstream would answer", report);
            return Ok(plain);
        }
        Page::Unknown(why) => {
            entry.left_out(&why, report);
            return Ok(plain);
        }
    };
    entry.converted(report);
    Ok(branch)
}

fn redirect_status(status: Status) -> u16 {
    match status {
        Status::Fixed(status @ (301 | 302 | 303 | 307 | 308)) => status,
        _ => 302,
    }
}

/// An answer whose status is known when it comes: plugin response-rewrite changes those with an entry's codes.
pub fn change(entry: &Entry, page: Page) -> Result<Value, String> {
    let codes: Vec<String> = entry.codes.iter().map(u16::to_string).collect();
    let vars = json!([["status", "in", codes]]);
    let (status, body, mut fields) = match page {
        Page::Url(to) => {
            let fields = json!({"set": {"Location": to, "Content-Type": "text/html"}});
            (Some(redirect_status(entry.status)), String::new(), fields)
        }
        Page::Bare(status) => (Some(status), String::new(), json!({})),
        Page::Text { own, body, kind, fields, .. } => {
            let status = match entry.status {
                Status::Kept => None,
                Status::Own => Some(own),
                Status::Fixed(status) => Some(status),
            };
            let mut fields = fields.unwrap_or_else(|| json!({}));
            fields["set"]["Content-Type"] = kind.into();
            (status, body, fields)
        }
        Page::Content(_) => return Err("an upstream would answer".to_owned()),
        Page::Unknown(why) => return Err(why),
    };
    let mut conf = json!({"vars": vars, "body": body});
    if let Some(status) = status {
        conf["status_code"] = status.into();
    }
    if fields.as_object().is_some_and(|fields| !fields.is_empty()) {
        conf["headers"] = fields.take();
    }
    Ok(conf)
}
