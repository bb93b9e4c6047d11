//! An entry of `error_page`, and what its page is.

use serde_json::{Value, json};

use super::super::{
    branch::Branch,
    chain::Chain,
    made::{Made, Stop},
    parse::Directive,
};

/// The status that a page has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// That of the error.
    Kept,
    /// `=`: that of the page.
    Own,
    /// `=200`
    Fixed(u16),
}

impl Status {
    pub(super) fn of(self, error: u16, own: u16) -> u16 {
        match self {
            Status::Kept => error,
            Status::Own => own,
            Status::Fixed(status) => status,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Entry<'a> {
    pub(crate) directive: &'a Directive,
    /// Without those that an entry before it has.
    pub codes: Vec<u16>,
    pub status: Status,
    pub target: &'a str,
}

/// Edits of `add_header` in the location of a page, as plugin response-rewrite has them.
pub(crate) struct Fields(pub Option<Value>);

impl Fields {
    /// Those that nginx makes to an answer with this status.
    pub(super) fn of(&self, status: u16) -> Option<Value> {
        let edits = self.0.as_ref()?;
        let is_for = |vars: &Value| {
            vars.pointer("/0/2")?.as_array()?.contains(&status.to_string().into()).then_some(())
        };
        match edits.get("vars") {
            Some(vars) if is_for(vars).is_none() => None,
            _ => edits.get("headers").cloned(),
        }
    }
}

/// What a page is.
pub(crate) enum Page {
    /// A redirect to another address.
    Url(String),
    Text {
        own: u16,
        body: String,
        kind: String,
        fields: Fields,
        is_file: bool,
    },
    /// Another error, with the gateway's page.
    Bare(u16, Fields),
    /// More than a text: what an upstream says, or what is closed.
    Content(Box<Branch>),
    /// What it would be cannot be determined.
    Unknown(String),
}

pub(crate) fn entries<'a>(chain: &Chain<'a>) -> Made<Vec<Entry<'a>>> {
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

pub(super) fn redirect_status(status: Status) -> u16 {
    match status {
        Status::Fixed(status @ (301 | 302 | 303 | 307 | 308)) => status,
        _ => 302,
    }
}

/// An answer whose status is known when it comes: plugin response-rewrite changes those with an entry's codes.
pub(crate) fn change(entry: &Entry, page: Page) -> Result<Value, String> {
    let codes: Vec<String> = entry.codes.iter().map(u16::to_string).collect();
    let vars = json!([["status", "in", codes]]);
    let (status, body, mut fields) = match page {
        Page::Url(to) => {
            let fields = json!({"set": {"Location": to, "Content-Type": "text/html"}});
            (Some(redirect_status(entry.status)), String::new(), fields)
        }
        Page::Bare(status, fields) => {
            (Some(status), String::new(), fields.of(status).unwrap_or_else(|| json!({})))
        }
        Page::Text { own, body, kind, fields, .. } => {
            let status = match entry.status {
                Status::Kept => None,
                Status::Own => Some(own),
                Status::Fixed(status) => Some(status),
            };
            // Errors alone keep their status.
            let mut fields = fields.of(status.unwrap_or(500)).unwrap_or_else(|| json!({}));
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
