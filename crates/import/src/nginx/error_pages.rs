//! `error_page`: what is answered in place of an error, here an answer of its own or a change to the answer.
//!
//! nginx replaces its own errors, and those of upstreams only with `proxy_intercept_errors`. The page comes from the location
//! that takes its path, with the status of the error unless `=` says another one, and is not replaced in its turn. Files are
//! read at import.

pub(super) mod entry;
mod page;
mod places;

pub(crate) use places::of_question;
pub(super) use places::{files, proxied};
use serde_json::{Map, json};

use self::entry::redirect_status;
use super::{
    at::At,
    branch::Branch,
    chain::Chain,
    made::{Made, Stop},
    variables::{Variables, in_templates},
};
use crate::Report;

pub(super) use self::entry::{Entry, Page, Status, entries};

impl Entry<'_> {
    pub(crate) fn is_internal(&self) -> bool {
        self.target.starts_with(['/', '@'])
    }

    /// Whether clients would get something else than an error with another page.
    pub(crate) fn shows_content(&self) -> bool {
        self.is_internal() && (self.status != Status::Kept || self.target.starts_with('@'))
    }

    pub(super) fn closed(&self, why: &str) -> Stop {
        let line = self.directive.at.line;
        Stop::closed(format!("`{}` of line {line} is not converted: {why}", self.directive.title()))
    }

    pub(super) fn left_out(&self, why: &str, report: &mut Report) {
        let how = format!("{}: errors have the gateway's pages: {why}", self.target);
        report.unsupported(&self.directive.at, "error_page", &how);
    }

    pub(super) fn converted(&self, report: &mut Report) {
        report.converted(&self.directive.at, &format!("error_page {}", self.target));
    }

    pub(super) fn page(&self, at: &At<'_, '_>, variables: &Variables, report: &mut Report) -> Made<Page> {
        if !self.is_internal() {
            let text = variables.text(self.target)?;
            if text.starts_with("${") && !text.starts_with("${scheme}") {
                // A path would be an internal redirect.
                return Ok(Page::Unknown("where it leads depends on the request".to_owned()));
            }
            return Ok(Page::Url(in_templates(&text)));
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
pub(super) fn answered(
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
        Page::Bare(status, fields) => {
            let mut branch = Branch::status(status);
            if let Some(fields) = fields.of(status) {
                branch.plugins.insert("response-rewrite".to_owned(), json!({"headers": fields}));
            }
            branch
        }
        Page::Text { own, body, kind, fields, is_file } => {
            if is_file && entry.target.starts_with('@') {
                let how = "other methods than GET and HEAD get the page too; nginx answers 405";
                report.approximated(&entry.directive.at, "error_page", how);
            }
            let status = entry.status.of(error, own);
            let abort = json!({"http_status": status, "body": body, "headers": {"Content-Type": kind}});
            let mut plugins = Map::from_iter([("fault-injection".to_owned(), json!({"abort": abort}))]);
            if let Some(fields) = fields.of(status) {
                plugins.insert("response-rewrite".to_owned(), json!({"headers": fields}));
            }
            Branch::new(plugins, None)
        }
        // The method of a named location is that of the request, and its status is its own.
        Page::Content(branch) if entry.status == Status::Own && entry.target.starts_with('@') => *branch,
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
