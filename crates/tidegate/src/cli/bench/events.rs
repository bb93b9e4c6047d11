//! `--sse`: streams of events in place of answers.

use tidegate_bench::{Problem, request::RequestSpec};

use super::load::{Load, StyleName};

/// Refuses what says nothing of streams.
pub(super) fn check(arguments: &Load) -> Result<(), Problem> {
    if arguments.sse && !matches!(arguments.style, StyleName::Text | StyleName::Json) {
        return Err(Problem::usage(
            "this --style does not report streams; with --sse use --style text or --style json",
        ));
    }
    Ok(())
}

/// Adds what a request for events has.
pub(super) fn into_stream(request: &mut RequestSpec) -> Result<(), Problem> {
    if request.method == "HEAD" {
        return Err(Problem::usage("-m HEAD has no events in its answer; leave it out with --sse"));
    }
    if !request.headers.iter().any(|(given, _)| given.eq_ignore_ascii_case("accept")) {
        request.headers.push(("Accept".into(), "text/event-stream".into()));
    }
    Ok(())
}
