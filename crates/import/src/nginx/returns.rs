//! What `return` answers.

use super::{
    answers, at::At, branch::Branch, chain::Chain, error_pages, made::Made, parse::Directive,
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
        let pages = super::error_pages::entry::entries(chain)?;
        return match pages.iter().find(|entry| entry.codes.contains(&status)) {
            Some(entry) => Err(entry.closed("it is for redirects")),
            None => Ok(branch),
        };
    }
    if status == 444 || status < 400 || !directive.argument(1).is_empty() {
        // A text is sent unchanged.
        chain.take(&["error_page", "recursive_error_pages"]);
        return Ok(branch);
    }
    error_pages::answered(at, chain, status, branch, variables, report)
}
