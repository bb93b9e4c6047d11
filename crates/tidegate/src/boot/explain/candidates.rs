//! The routes whose path fits, each with the reason why it does not have the request.

use std::sync::Arc;

use serde_json::{Value, json};
use tidegate_plugin_api::{Snapshot, Variable};
use tidegate_proxy::explain::{Candidate, Explanation};
use tidegate_routing::router::{CandidateResult, First, Loss, Mode, Place, Router, first};

use super::reason::{Reason, condition};

/// Disabled routes, as if they were enabled.
pub(crate) struct Disabled {
    pub router: Router<Variable>,
    /// Number in the router, id and name of each.
    pub routes: Vec<(u32, Arc<str>, Option<String>)>,
}

/// The candidates as JSON, and whether there are more.
pub(super) fn shown(
    snapshot: &Snapshot,
    explanation: &Explanation,
    disabled: &Disabled,
) -> (Vec<Value>, bool) {
    let won = explanation.candidates.iter().find(|candidate| candidate.verdict == CandidateResult::Won);
    let mode = snapshot.router.mode();
    let mut all: Vec<Value> =
        explanation.candidates.iter().map(|candidate| of(candidate, won, mode, explanation)).collect();
    let (off, more) = explanation.others(&disabled.router);
    for (number, verdict, uri, host, priority) in off {
        // One for other requests would not have this one if it were enabled.
        let is_for_it = matches!(verdict, CandidateResult::Won | CandidateResult::Shadowed);
        let Some((_, id, name)) = disabled.routes.iter().find(|(other, ..)| *other == number) else {
            continue;
        };
        if is_for_it {
            let reason = Reason::new("disabled", "the route is disabled: its status is 0");
            all.push(json!({
                "route": id.as_ref(),
                "name": name,
                "uri": uri,
                "host": host,
                "priority": priority,
                "verdict": "disabled",
                "shadowed_by": null,
                "reason": reason.text,
                "cause": reason.cause(),
            }));
        }
    }
    (all, explanation.more || more)
}

fn of(candidate: &Candidate, won: Option<&Candidate>, mode: Mode, explanation: &Explanation) -> Value {
    let (verdict, by) = match candidate.verdict {
        CandidateResult::Won => ("won", None),
        CandidateResult::Shadowed => ("shadowed", won.map(|won| won.id.to_string())),
        CandidateResult::Lost(_) => ("lost", None),
    };
    let reason = reason(candidate, won, mode, explanation);
    json!({
        "route": candidate.id.as_ref(),
        "name": candidate.name.as_deref(),
        "uri": candidate.uri,
        "host": candidate.host,
        "priority": candidate.priority,
        "verdict": verdict,
        "shadowed_by": by,
        "reason": reason.as_ref().map(|reason| &reason.text),
        "cause": reason.as_ref().map(Reason::cause),
    })
}

fn reason(
    candidate: &Candidate,
    won: Option<&Candidate>,
    mode: Mode,
    explanation: &Explanation,
) -> Option<Reason> {
    let value = &*candidate.document.value();
    let listed = |names: &[&str]| listed(names.iter().find_map(|name| value.get(*name)));
    let differs = |code, what: &str, is: &str, takes: String| {
        let text = format!("{what} is {is}, the route takes only {takes}");
        Reason::new(code, text).with("is", is).with("takes", takes)
    };
    Some(match candidate.verdict {
        CandidateResult::Won => return None,
        CandidateResult::Shadowed => shadowed(won?, candidate, mode),
        CandidateResult::Lost(Loss::Method) => {
            differs("method", "the method", &explanation.method, listed(&["methods"]))
        }
        CandidateResult::Lost(Loss::RemoteAddr) => {
            let takes = listed(&["remote_addrs", "remote_addr"]);
            differs("remote_addr", "the client's address", &explanation.client.to_string(), takes)
        }
        CandidateResult::Lost(Loss::Host) => {
            let takes = candidate.host.clone().unwrap_or_else(|| listed(&["hosts", "host"]));
            let is = if explanation.host.is_empty() { "empty" } else { &explanation.host };
            let text = format!("the host is {is}, the route is for {takes}");
            Reason::new("host", text).with("is", is).with("takes", takes)
        }
        CandidateResult::Lost(Loss::Vars) => {
            let clause = condition(clause(value, candidate.clause));
            Reason::new("vars", format!("the condition {clause} does not hold")).with("clause", clause)
        }
        CandidateResult::Lost(Loss::FilterFunction) => {
            Reason::new("filter_func", "its filter_func returned false")
        }
        CandidateResult::Lost(Loss::Parameters) => {
            let text = format!("the path does not fit {}", candidate.uri);
            Reason::new("parameters", text).with("uri", &*candidate.uri)
        }
    })
}

fn shadowed(won: &Candidate, candidate: &Candidate, mode: Mode) -> Reason {
    let why = first(place(won), place(candidate), mode);
    let text = format!("route {} {why}", won.id);
    let reason = |code| Reason::new(code, text.clone()).with("by", &*won.id);
    match why {
        First::Host(host) => reason("first_host").with("value", host),
        First::Path(uri) => reason("first_path").with("value", uri),
        First::Priority(theirs, own) => {
            reason("first_priority").with("theirs", theirs.to_string()).with("own", own.to_string())
        }
        First::Pattern(uri) => reason("first_pattern").with("value", uri),
        First::Tried => reason("first_tried"),
        First::Stored => reason("first_stored"),
    }
}

fn listed(value: Option<&Value>) -> String {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    match value {
        Some(Value::Array(items)) => items.iter().map(text).collect::<Vec<_>>().join(", "),
        Some(one) => text(one),
        None => String::new(),
    }
}

/// The part of `vars` that failed, or all of it where the parts are joined otherwise than by AND.
fn clause(route: &Value, clause: Option<usize>) -> &Value {
    let Some(vars) = route.get("vars") else { return &Value::Null };
    let items = vars.as_array().map(Vec::as_slice).unwrap_or_default();
    // `["AND", ...]` has its name in front.
    let offset = usize::from(items.first().is_some_and(Value::is_string));
    clause.and_then(|clause| items.get(clause + offset)).unwrap_or(vars)
}

fn place(candidate: &Candidate) -> Place<'_> {
    Place { uri: &candidate.uri, host: candidate.host.as_deref(), priority: candidate.priority }
}
