//! Every request of a test is also explained, and both results must agree. [`crate::fault`] injects faults; this finds the
//! unintended ones. Like that module it exists only with `debug_assertions`, and runs only where the environment asks for it.
//!
//! The check compares the route, the plugins that were asked to run, who answered, and the node, where it does not depend on
//! turns. It skips requests that took long (twice would be too long) and those with large bodies. Sessions and tokens end while a
//! request is served: one that may carry them is explained before its plugins run, too, and either result may be the one.

use std::{
    any::Any,
    env,
    rc::Rc,
    sync::{Arc, OnceLock},
    time::Duration,
};

use bytes::Bytes;
use tidegate_plugin_api::{Request, RequestBody, WorkerSnapshot, chain::REFUSAL, connection::ConnectionInfo};
use tidegate_protocol::RequestHead;
use tidegate_telemetry::error_log;

use crate::{
    explain::{self, Answer, Cause, Does, Ending, Explanation},
    phases::RequestChains,
    settings::Reading,
};

const VARIABLE: &str = "TIDEGATE_TEST_EXPLAIN";
const LONG: Duration = Duration::from_millis(1);
const LARGE_BYTES: usize = 16 * 1024;

/// A request as it came.
struct Asked {
    head: RequestHead,
    connection: Rc<ConnectionInfo>,
    snapshot: Rc<WorkerSnapshot>,
    /// What was foreseen before the plugins ran.
    first_explained: Option<Box<Explanation>>,
}

/// What is kept of a request; `None` unless the environment asks for the check.
pub(crate) fn begin(request: &Request) -> Option<Box<dyn Any>> {
    static WANTED: OnceLock<bool> = OnceLock::new();
    WANTED.get_or_init(|| env::var_os(VARIABLE).is_some()).then(|| -> Box<dyn Any> {
        let (connection, snapshot) = (request.connection.clone(), request.snapshot.clone());
        Box::new(Asked { head: request.head.clone(), connection, snapshot, first_explained: None })
    })
}

impl Asked {
    fn kept_in(chains: &RequestChains) -> Option<&Asked> {
        chains.to_compare.as_ref()?.downcast_ref()
    }

    fn copy(&self, body: Option<Bytes>, request: &Request) -> Request {
        let (connection, snapshot) = (self.connection.clone(), self.snapshot.clone());
        let mut copy = Request::new(self.head.clone(), connection, snapshot, request.worker);
        if let Some(body) = body.filter(|body| !body.is_empty()) {
            copy.body = RequestBody::Collected(body);
        }
        copy
    }
}

/// Before plugins see it.
pub(crate) fn remember_body(request: &Request, chains: &mut RequestChains) {
    chains.first_body = match &request.body {
        RequestBody::Empty => Some(Bytes::new()),
        RequestBody::Collected(bytes) if bytes.len() <= LARGE_BYTES => Some(Bytes::copy_from_slice(bytes)),
        _ => None,
    };
}

/// After the route is known, before its plugins run.
pub(crate) fn explain_first(request: &Request, chains: &mut RequestChains, reading: &Reading) {
    let may_end = request.header("Cookie").is_some() || request.header("Authorization").is_some();
    let Some(body) = chains.first_body.clone() else { return };
    let kept = chains.to_compare.as_mut().and_then(|kept| kept.downcast_mut::<Asked>());
    let Some(asked) = kept.filter(|_| may_end && !request.search_time.has_taken(LONG)) else { return };
    let explained = explain::of_request(&mut asked.copy(Some(body), request), reading, None);
    asked.first_explained = explained.ok().map(Box::new);
}

pub(crate) fn compare(request: &Request, chains: &RequestChains, reading: &Reading) {
    let Some(asked) = Asked::kept_in(chains) else { return };
    let is_large = match &request.body {
        RequestBody::Empty => false,
        RequestBody::Unread { .. } => request.snapshot.matches_on_body,
        RequestBody::Collected(bytes) => bytes.len() > LARGE_BYTES,
    };
    let is_judged = request.require_decided().is_ok() && request.require_readable_body().is_ok();
    if is_large || !is_judged || request.search_time.has_taken(LONG) {
        return;
    }
    let body = match &request.body {
        RequestBody::Collected(bytes) => Some(bytes.clone()),
        _ => None,
    };
    let consumer = request.consumer.as_ref().filter(|_| chains.has_consumer());
    let explained = match explain::of_request(&mut asked.copy(body, request), reading, consumer) {
        Ok(explained) => difference(&explained, request, chains),
        Err(reason) => Some(reason),
    };
    // Plugins find the consumer themselves, and decide upon the body that came.
    let first_body = chains.first_body.clone().filter(|_| explained.is_none());
    let explained = first_body.map_or(explained, |body| {
        let explained = match explain::of_request(&mut asked.copy(Some(body), request), reading, None) {
            Ok(explained) => other_end(&explained, request, chains),
            Err(reason) => Some(reason),
        };
        let before = asked.first_explained.as_ref();
        explained.filter(|_| before.is_none_or(|before| other_end(before, request, chains).is_some()))
    });
    if let Some(difference) = explained {
        let target = String::from_utf8_lossy(asked.head.target());
        error_log::log(
            error_log::Level::Emergency,
            format_args!(
                "explain and the request disagree about {} {target}: {difference}",
                asked.head.method.as_str()
            ),
        );
    }
}

fn difference(explained: &Explanation, request: &Request, chains: &RequestChains) -> Option<String> {
    let name = |route: Option<&Arc<tidegate_plugin_api::Route>>| {
        route.map_or("none".to_owned(), |route| route.id.to_string())
    };
    let (told, taken) = (explained.route.as_ref(), request.route.as_ref());
    if told.map(Arc::as_ptr) != taken.map(Arc::as_ptr) {
        // The gateway's own APIs answer before routing.
        let answered_before = taken.is_none() && chains.asked().is_empty();
        return (!answered_before).then(|| format!("route {}, and route {}", name(told), name(taken)));
    }
    let won =
        explained.candidates.iter().find(|one| one.verdict == tidegate_routing::router::CandidateResult::Won);
    // A path with two readings wins a route and is refused.
    let is_served = explained.refused.is_none();
    if is_served && !explained.more && won.map(|won| &*won.id) != told.map(|route| &*route.id) {
        let won = won.map_or("none", |won| &*won.id);
        return Some(format!("route {won} won, route {} serves", name(told)));
    }
    unplanned(explained, chains).or_else(|| other_node(explained, request, chains))
}

/// A plugin that ran although it is not in the plan, or out of order.
fn unplanned(explained: &Explanation, chains: &RequestChains) -> Option<String> {
    let asked = chains.asked();
    for phase in ["rewrite", "access", "before_proxy", "header_filter", "body_filter", "log"] {
        let mut planned = explained.plan.iter().filter(|planned| planned.phase == phase);
        for (_, instance) in asked.iter().filter(|(at, _)| at.name() == phase) {
            if !planned.any(|planned| Arc::ptr_eq(&planned.instance, instance)) {
                return Some(format!("{} runs in {phase}, which is not planned there", instance.def.name));
            }
        }
    }
    None
}

/// Plugins may change what is hashed; without them the first node must be the explained one.
fn other_node(explained: &Explanation, request: &Request, chains: &RequestChains) -> Option<String> {
    let (told, taken) = (explained.node.as_ref()?, request.outcome.peer.as_ref()?);
    let is_first = request.outcome.attempts.len() <= 1 && chains.asked().is_empty();
    let is_same = Arc::ptr_eq(&told.upstream, &taken.upstream) && told.index == taken.index;
    (is_first && !is_same).then(|| format!("node {}, and node {}", told.index, taken.index))
}

/// Another one answers than was said.
fn other_end(explained: &Explanation, request: &Request, chains: &RequestChains) -> Option<String> {
    if explained.refused.is_some() {
        return None;
    }
    let Ending { answer, maybe, .. } = &explained.ending;
    let told = || match answer {
        None => "the upstream answers".to_owned(),
        Some(answer) => format!("{:?} answers with {:?}", answer.cause, answer.status),
    };
    let Some((instance, status)) = chains.answered() else {
        let went_up = !request.outcome.attempts.is_empty();
        return answer.as_ref().filter(|_| went_up).map(|_| format!("{}, and it went upstream", told()));
    };
    let is_it = |at: &usize| {
        let planned = explained.plan.get(*at);
        planned.is_some_and(|planned| planned.instance.def.name == instance.def.name)
    };
    let may_be_it = |at: &usize| {
        is_it(at)
            || matches!(explained.plan.get(*at).map(|planned| &planned.does),
                Some(Does::MayAnswer(foreseen)) if foreseen.why.leaves_open())
    };
    let is_told = match answer {
        _ if maybe.iter().any(may_be_it) => true,
        Some(Answer { status: None, cause: Cause::Plugin(at) }) => is_it(at),
        Some(Answer { status: Some(told), cause: Cause::Plugin(at) | Cause::Condition(at) }) => {
            is_it(at) && *told == status
        }
        Some(Answer { status: Some(told), cause: Cause::Broken }) => {
            instance.def.name == REFUSAL && *told == status
        }
        _ => false,
    };
    (!is_told).then(|| format!("{}, and {} with {status}", told(), instance.def.name))
}
