//! `--websocket`: upgrades in place of requests, and a message.

use tidegate_bench::{Problem, request::RequestSpec, template::Template, websocket::FIELDS};

use super::load::Load;

/// Sent where there is no `--body`.
const SHORT: &str = "tidegate";

pub(super) fn message(arguments: &Load) -> Result<String, Problem> {
    let text = super::body::body(arguments)?.unwrap_or_else(|| SHORT.into());
    // A mistake in it is reported before any connection is opened.
    Template::parse(&text).map(|_| text)
}

/// All connections of a run are alike, so there is one URL.
pub(super) fn check(arguments: &Load, requests: &[RequestSpec]) -> Result<(), Problem> {
    match requests {
        [_] if arguments.urls_from.is_none() => Ok(()),
        _ => Err(Problem::usage("--websocket measures one URL; give one, and no --urls-from")),
    }
}

/// Adds the fields of the upgrade.
pub(super) fn into_upgrade(request: &mut RequestSpec) -> Result<(), Problem> {
    for (name, value) in FIELDS {
        check_field(request, name)?;
        request.headers.push((name.into(), value.into()));
    }
    check_field(request, "Sec-WebSocket-Extensions")
}

fn check_field(request: &RequestSpec, name: &str) -> Result<(), Problem> {
    if request.headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name)) {
        return Err(Problem::usage(format!("--websocket sets {name}; leave it out of -H")));
    }
    Ok(())
}
