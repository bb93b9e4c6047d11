//! What an explanation cannot know, and what is amiss beyond the request.

use std::net::IpAddr;

use tidegate_plugin_api::{Snapshot, chain::REFUSAL};
use tidegate_proxy::explain::{Answer, Cause, Ending, Explanation, Question};

use super::{nearest_path::nearest_path, reason::Reason};

pub(super) fn notes(question: &Question, snapshot: &Snapshot, explanation: &Explanation) -> Vec<Reason> {
    if let Some(status) = explanation.refused {
        return vec![refused(status, explanation.route.is_some())];
    }
    let mut notes: Vec<Reason> = without_certificate(question, snapshot, explanation).into_iter().collect();
    let is_answered =
        |ending: &Ending| matches!(&ending.answer, Some(Answer { cause: Cause::Plugin(_), .. }));
    if explanation.route.is_none() && !is_answered(&explanation.ending) {
        notes.push(Reason::new(
            "note_no_route",
            "no route: answered with 404 after the global rules' rewrite and access phases",
        ));
        let meant = nearest_path(&explanation.path, snapshot.router.patterns());
        notes.extend(meant.filter(|_| explanation.candidates.is_empty()).map(|pattern| {
            let path = &*explanation.path;
            let text = format!("no route has a path that fits {path}; did you mean {pattern}?");
            Reason::new("note_meant", text).with("path", path).with("meant", pattern)
        }));
    }
    let globals = snapshot.globals.instances().first();
    if let Some(refusal) = globals.filter(|instance| instance.def.name == REFUSAL) {
        let id = &*refusal.owner.id;
        let text = format!(
            "global rule {id} cannot be built: every request is answered with 503; see GET /v1/rejected of the Control API"
        );
        notes.push(Reason::new("note_global", text).with("id", id));
    }
    if let Some(status) = explanation.route.as_ref().and_then(|route| route.broken) {
        let text = format!(
            "the route cannot be built, or refers to something that does not exist: answered with {status}; \
             see GET /v1/rejected of the \
             Control API"
        );
        notes.push(Reason::new("note_broken", text).with("status", status.to_string()));
    }
    let authenticates = explanation.route.as_ref().is_some_and(|route| {
        route.chain.instances().iter().any(|instance| instance.def.kind == Some("auth"))
    });
    // A key in the question may have named one.
    if authenticates && question.consumer.is_none() && explanation.consumer.is_none() {
        let text = "plugins of consumers are not included; name one with consumer";
        notes.push(Reason::new("note_consumer", text));
    }
    if snapshot.matches_on_body && question.body.is_empty() {
        let text = "some routes inspect bodies; this request was assumed to have none";
        notes.push(Reason::new("note_body", text));
    }
    notes
}

/// Clients send no address as a server name, and find the certificate of `fallback_sni` then.
fn without_certificate(
    question: &Question,
    snapshot: &Snapshot,
    explanation: &Explanation,
) -> Option<Reason> {
    let host = &*explanation.host;
    let is_name = host.parse::<IpAddr>().is_err() && !host.starts_with('[');
    let has_one = || snapshot.certificates.find(host).is_some_and(|entry| entry.server.is_ok());
    if !question.https || !is_name || has_one() {
        return None;
    }
    let text = format!("no certificate matches {host}: the TLS handshake fails before any request");
    Some(Reason::new("note_certificate", text).with("host", host))
}

fn refused(status: u16, has_route: bool) -> Reason {
    let (code, text) = match has_route {
        false => (
            "note_refused",
            format!(
                "the request is refused with {status} before a route is chosen: its path cannot be read, a \
                 route's condition cannot be evaluated, or the host requires a client certificate, which \
                 explain cannot present; see the error log"
            ),
        ),
        true => (
            "note_condition",
            format!(
                "a plugin's condition cannot be evaluated: the request is refused with {status} when the \
                 plugin's turn comes, unless another one answers first"
            ),
        ),
    };
    Reason::new(code, text).with("status", status.to_string())
}
