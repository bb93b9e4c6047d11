//! Every request of a test is also explained, and both results must agree. [`crate::fault`] injects faults; this finds the
//! unintended ones. Like that module it exists only with `debug_assertions`, and runs only where the environment asks for it.
//!
//! The check compares the route, the plugins that were asked to run, and the node, where it does not depend on turns. It skips
//! requests that took long (twice would be too long) and those with large bodies.

use std::{
    env,
    rc::Rc,
    sync::{Arc, OnceLock},
    time::Duration,
};

use tidegate_plugin_api::{Request, RequestBody, WorkerSnapshot, connection::ConnectionInfo};
use tidegate_protocol::RequestHead;
use tidegate_telemetry::error_log;

use crate::{
    explain::{self, Explanation},
    phases::RequestChains,
    settings::Reading,
};

const VARIABLE: &str = "TIDEGATE_TEST_EXPLAIN";
const LONG: Duration = Duration::from_millis(1);
const LARGE_BYTES: usize = 16 * 1024;

/// A request as it came.
pub(crate) struct Asked {
    head: RequestHead,
    connection: Rc<ConnectionInfo>,
    snapshot: Rc<WorkerSnapshot>,
}

impl Asked {
    /// `None` unless the environment asks for the check.
    pub(crate) fn of(request: &Request) -> Option<Box<Asked>> {
        static WANTED: OnceLock<bool> = OnceLock::new();
        WANTED.get_or_init(|| env::var_os(VARIABLE).is_some()).then(|| {
            let (connection, snapshot) = (request.connection.clone(), request.snapshot.clone());
            Box::new(Asked { head: request.head.clone(), connection, snapshot })
        })
    }
}

pub(crate) fn compare(
    asked: Option<Box<Asked>>,
    request: &Request,
    chains: &RequestChains,
    reading: &Reading,
) {
    let Some(asked) = asked else { return };
    let is_large = match &request.body {
        RequestBody::Empty => false,
        RequestBody::Unread { .. } => request.snapshot.matches_on_body,
        RequestBody::Collected(bytes) => bytes.len() > LARGE_BYTES,
    };
    let is_judged = request.require_decided().is_ok() && request.require_readable_body().is_ok();
    if is_large || !is_judged || request.search_time.has_taken(LONG) {
        return;
    }
    let mut copy = Request::new(asked.head, asked.connection, asked.snapshot, request.worker);
    if let RequestBody::Collected(bytes) = &request.body {
        copy.body = RequestBody::Collected(bytes.clone());
    }
    let consumer = request.consumer.as_ref().filter(|_| chains.has_consumer());
    let explained = match explain::of_request(&mut copy, reading, consumer) {
        Ok(explained) => difference(&explained, request, chains),
        Err(reason) => Some(reason),
    };
    if let Some(difference) = explained {
        let target = String::from_utf8_lossy(copy.head.target());
        error_log::log(
            error_log::Level::Emergency,
            format_args!(
                "explain and the request disagree about {} {target}: {difference}",
                copy.head.method.as_str()
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
    if is_served && !explained.more && won.map(|won| Arc::as_ptr(&won.route)) != told.map(Arc::as_ptr) {
        return Some(format!("route {} won, route {} serves", name(won.map(|won| &won.route)), name(told)));
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
