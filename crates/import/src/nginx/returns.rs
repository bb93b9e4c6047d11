//! What `return` answers, and a `rewrite` that redirects.

use serde_json::{Map, Value};

use super::{
    added, answers, at::At, branch::Branch, chain::Chain, error_pages, made::Made, parse::Directive, real_ip,
    variables::Variables,
};
use crate::Report;

/// `return`, with the error page of its status.
pub(super) fn returned(
    directive: &Directive,
    at: &At,
    chain: &Chain,
    variables: &Variables,
    report: &mut Report,
) -> Made<Branch> {
    let branch = answers::returned(directive, at.is_page, chain, variables, report)?;
    let status = directive.argument(0).parse().unwrap_or(302);
    if (300..400).contains(&status) && !at.is_page {
        return without_page(status, branch, chain);
    }
    if status == 444 || status < 400 || !directive.argument(1).is_empty() {
        // A text is sent unchanged.
        chain.take(&["error_page", "recursive_error_pages"]);
        return Ok(branch);
    }
    error_pages::answered(at, chain, status, branch, variables, report)
}

/// A redirect that a `rewrite` makes, with the fields that the place around it adds.
pub(super) fn redirected(
    status: u16,
    plugins: Map<String, Value>,
    at: &At,
    chain: &Chain,
    variables: &Variables,
    report: &mut Report,
) -> Made<Branch> {
    let mut branch = Branch::new(plugins, None);
    real_ip::add(chain, &mut branch.plugins)?;
    added::headers(chain, variables, Some(status).filter(|_| !at.is_page), &mut branch.plugins, report)?;
    if at.is_page { Ok(branch) } else { without_page(status, branch, chain) }
}

fn without_page(status: u16, branch: Branch, chain: &Chain) -> Made<Branch> {
    let pages = super::error_pages::entry::entries(chain)?;
    match pages.iter().find(|entry| entry.codes.contains(&status)) {
        Some(entry) => Err(entry.closed("it is for redirects")),
        None => Ok(branch),
    }
}
