//! Explains a hypothetical request: [`crate::route::route`], as for every request, and then the plan of its chains in
//! place of running them. Only conditions are evaluated. For operators; not for workers.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    pin::pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use tidegate_plugin_api::{
    Consumer, Instance, Phases, Reply, Request, RequestBody, Route, Snapshot, WorkerSnapshot,
    connection::{ConnectionInfo, TlsFacts},
    upstream::Peer,
};
use tidegate_protocol::RequestHead;
use tidegate_routing::router::CandidateResult;

use crate::{
    balancer,
    matching::{input::Input, routed_path},
    phases::{RequestChains, applies, joining},
    settings::Reading,
};

/// The most routes of a path that are listed.
const MAX_CANDIDATES: usize = 100;

const PHASES: [(Phases, &str); 8] = [
    (Phases::REWRITE, "rewrite"),
    (Phases::ACCESS, "access"),
    (Phases::BEFORE_PROXY, "before_proxy"),
    (Phases::STORED, "stored"),
    (Phases::DEPARTING, "departing"),
    (Phases::HEADER_FILTER, "header_filter"),
    (Phases::BODY_FILTER, "body_filter"),
    (Phases::LOG, "log"),
];

/// The request in question.
pub struct Question {
    /// Request line and fields, as they would be sent.
    pub head: Vec<u8>,
    /// Conditions may look into it.
    pub body: Vec<u8>,
    /// Address of the client.
    pub client: IpAddr,
    /// Whether it came over TLS.
    pub https: bool,
    /// Of the gateway, that it came to.
    pub port: u16,
    /// The consumer that an authentication plugin would recognise.
    pub consumer: Option<String>,
}

/// What would become of a request.
pub struct Explanation {
    /// Of the request.
    pub method: String,
    /// Of the request, as routes see it.
    pub host: String,
    /// Of the request, as routes see it.
    pub path: String,
    /// In the order in which they were tried.
    pub candidates: Vec<Candidate>,
    /// There are more candidates than listed.
    pub more: bool,
    /// The status of a request that the gateway itself refuses: for its path, for a missing client certificate, or because of an
    /// undecided condition.
    pub refused: Option<u16>,
    /// The route that serves it.
    pub route: Option<Arc<Route>>,
    /// The node, where it does not depend on turns or load, as long as no plugin changes the upstream or what is hashed.
    pub node: Option<Peer>,
    /// The plugins that would run, in order.
    pub plan: Vec<Planned>,
}

/// A route whose path fits.
pub struct Candidate {
    /// The route.
    pub route: Arc<Route>,
    /// The path of the route that came into question.
    pub uri: String,
    /// The host of the route that came into question; `None`: any.
    pub host: Option<String>,
    /// Of the route.
    pub priority: i64,
    /// Whether it won, or why not.
    pub verdict: CandidateResult,
    /// Which clause of `vars` does not hold.
    pub clause: Option<usize>,
}

/// A plugin in a phase, in the order of running.
pub struct Planned {
    /// Name of the phase.
    pub phase: &'static str,
    /// The plugin with its configuration.
    pub instance: Arc<Instance>,
    /// Whether `_meta.filter` lets it run.
    pub runs: bool,
}

/// The error describes what is wrong with the question.
pub fn explain(
    snapshot: &Arc<Snapshot>,
    reading: &Reading,
    question: &Question,
) -> Result<Explanation, String> {
    let mut head = RequestHead::default();
    let parsed = head.parse(&question.head, &mut 0, &reading.limits);
    parsed.map_err(|error| error.reason.to_string())?.ok_or("incomplete request head")?;
    crate::route::acceptable(&head).map_err(|error| error.reason.to_string())?;
    let tls = question.https.then(|| Rc::new(TlsFacts { protocol: "TLSv1.3", ..TlsFacts::default() }));
    let local = SocketAddr::from((Ipv4Addr::LOCALHOST, question.port));
    let connection = ConnectionInfo {
        id: 0,
        peer: SocketAddr::new(question.client, 0),
        local,
        tls,
        rare: Default::default(),
        requests: 1.into(),
    };
    let worker_snapshot = Rc::new(WorkerSnapshot::new(snapshot.clone()));
    let mut request = Request::new(head, Rc::new(connection), worker_snapshot, 0);
    if !question.body.is_empty() {
        request.body = RequestBody::Collected(question.body.clone().into());
    }
    let consumer = match &question.consumer {
        None => None,
        Some(name) => {
            let found = snapshot.consumers.by_name.get(name.as_str());
            Some(found.cloned().ok_or_else(|| format!("consumer {name} not found"))?)
        }
    };
    of_request(&mut request, reading, consumer.as_ref())
}

/// Explains a request of which only the head was processed.
pub(crate) fn of_request(
    request: &mut Request,
    reading: &Reading,
    consumer: Option<&Arc<Consumer>>,
) -> Result<Explanation, String> {
    let mut chains = RequestChains::new(request, false);
    let outcome = at_once(crate::route::route(request, reading, &mut chains, None))
        .ok_or("the body is too large to inspect here")?;
    let mut refused = outcome.err().map(|reply: Box<Reply>| reply.status);
    let mut plan = Vec::new();
    if refused.is_none() {
        plan = self::plan(request, &mut chains, consumer);
        // A plugin's condition that is undecided.
        let judged = request.require_decided().and_then(|()| request.require_readable_body());
        refused = judged.err().map(|reply| reply.status);
    }
    // Last, because it evaluates conditions that the request does not reach.
    let (candidates, more) = self::candidates(request);
    Ok(Explanation {
        method: request.head.method.as_str().to_owned(),
        host: String::from_utf8_lossy(&request.host).into_owned(),
        path: String::from_utf8_lossy(&request.path).into_owned(),
        candidates,
        more,
        refused,
        route: request.route.clone(),
        node: hashed_node(request),
        plan,
    })
}

/// The result of a future that never has to wait, because no I/O is involved.
fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => Some(result),
        Poll::Pending => None,
    }
}

fn hashed_node(request: &Request) -> Option<Peer> {
    let tidegate_plugin_api::route::RouteUpstream::Some(upstream) = &request.route.as_ref()?.upstream else {
        return None;
    };
    let index = match balancer::hash_key(request, upstream) {
        Some(key) => upstream.balancer.preview(&key, 0)?,
        None if upstream.nodes.len() == 1 => 0,
        None => return None,
    };
    Some(Peer { upstream: upstream.clone(), index })
}

fn candidates(request: &Request) -> (Vec<Candidate>, bool) {
    let path = routed_path(request);
    let snapshot = &request.snapshot;
    let explained = snapshot.router.explain(&Input::new(request, &path), MAX_CANDIDATES);
    let candidates = explained.considered.iter().filter_map(|considered| {
        Some(Candidate {
            route: snapshot.routes.get(considered.route as usize)?.clone(),
            uri: considered.uri.to_string(),
            host: considered.host.as_deref().map(str::to_owned),
            priority: considered.priority,
            verdict: considered.verdict,
            clause: considered.clause,
        })
    });
    (candidates.collect(), explained.more)
}

/// The plugins that would run, unless one of them answers first.
fn plan(request: &mut Request, chains: &mut RequestChains, consumer: Option<&Arc<Consumer>>) -> Vec<Planned> {
    let route = request.route.clone();
    let mut plan = Vec::new();
    for (phase, name) in PHASES {
        plan.extend(chains.of_phase(phase).map(|instance| planned(name, instance, request)));
        if phase == Phases::REWRITE
            && let (Some(route), Some(consumer)) = (&route, consumer)
        {
            request.consumer = Some(consumer.clone());
            plan.extend(joining(route, consumer).map(|instance| planned(name, instance, request)));
            chains.set_consumer(consumer);
        }
    }
    plan
}

fn planned(phase: &'static str, instance: &Arc<Instance>, request: &Request) -> Planned {
    Planned { phase, instance: instance.clone(), runs: applies(instance, request) }
}
