//! Explains a hypothetical request: [`crate::route::route`], as for every request, and then what each plugin of its chains says
//! it would do, in place of running them ([`walk`]). For operators; not for workers.

mod walk;

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    rc::Rc,
    sync::Arc,
};

use tidegate_model::Document;
use tidegate_plugin_api::{
    Consumer, Reply, Request, RequestBody, Route, Share, Snapshot, UpstreamHandle, Variable, WorkerSnapshot,
    connection::{ConnectionInfo, TlsFacts},
    foresight::at_once,
    upstream::Peer,
};
use tidegate_protocol::RequestHead;
use tidegate_routing::router::{CandidateResult, Router};
use tidegate_telemetry::error_log;

use crate::{
    balancer,
    matching::{input::Input, routed_path},
    phases::RequestChains,
    settings::Reading,
};

pub use self::walk::{Answer, Cause, Does, Ending, Planned};

/// The most routes of a path that are listed.
const MAX_CANDIDATES: usize = 100;

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
    /// Address of the client, as routes see it.
    pub client: IpAddr,
    /// In the order in which they were tried.
    pub candidates: Vec<Candidate>,
    /// There are more candidates than listed.
    pub more: bool,
    /// The status of a request that the gateway itself refuses: for its path, for a missing client certificate, or because of an
    /// undecided condition.
    pub refused: Option<u16>,
    /// The route that serves it.
    pub route: Option<Arc<Route>>,
    /// The node, where it does not depend on turns or load, and the upstream is known.
    pub node: Option<Peer>,
    /// Who sends it: as named in the question, or as a plugin found out.
    pub consumer: Option<Arc<Consumer>>,
    /// The plugins of its chains, in the order of their turns.
    pub plan: Vec<Planned>,
    /// Where the request ends.
    pub ending: Ending,
    /// Of each part of [`Ending::shares`], where it goes.
    pub destinations: Vec<Destination>,
    /// What the routes were asked about.
    asked: Option<Box<Request>>,
}

/// A route whose path fits.
pub struct Candidate {
    /// The id of the route.
    pub id: Arc<str>,
    /// Its name.
    pub name: Option<Arc<str>>,
    /// As it is configured.
    pub document: Document,
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

/// Where a part of the requests goes.
pub struct Destination {
    /// With its nodes.
    pub upstream: Arc<UpstreamHandle>,
    /// Of the sum of all weights.
    pub weight: u32,
    /// As [`Explanation::node`].
    pub node: Option<Peer>,
}

impl Explanation {
    /// The ids of those routes of another router whose path fits, and whether there are more; at most 100.
    pub fn others(
        &self,
        router: &Router<Variable>,
    ) -> (Vec<(u32, CandidateResult, String, Option<String>, i64)>, bool) {
        let Some(request) = &self.asked else { return Default::default() };
        let path = routed_path(request);
        let explained = router.explain(&Input::new(request, &path), MAX_CANDIDATES);
        let found = explained
            .considered
            .into_iter()
            .map(|one| (one.route, one.verdict, one.uri.into(), one.host.map(String::from), one.priority));
        (found.collect(), explained.more)
    }
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
    let mut copy = copy_of(request);
    // What is asked would log, and does not happen.
    error_log::muted(|| {
        let mut chains = RequestChains::new(request, false);
        let outcome = at_once(crate::route::route(request, reading, &mut chains, None))
            .ok_or("the body is too large to inspect here")?;
        let mut refused = outcome.err().map(|reply: Box<Reply>| reply.status);
        let (mut plan, mut ending) = (Vec::new(), Ending::default());
        match refused {
            Some(status) => ending.answer = Some(Answer::of_gateway(status, Cause::Refused)),
            None => {
                (plan, ending) = walk::walk(request, &mut chains, consumer);
                // A plugin's condition that is undecided.
                let judged = request.require_decided().and_then(|()| request.require_readable_body());
                refused = judged.err().map(|reply| reply.status);
            }
        }
        let destinations = destinations(request, &ending);
        // Conditions are evaluated that the request does not reach, and plugins have changed the request.
        let mut chains = RequestChains::new(&copy, false);
        let routed = at_once(crate::route::route(&mut copy, reading, &mut chains, None));
        let (candidates, more) = self::candidates(&copy);
        Ok(Explanation {
            method: copy.head.method.as_str().to_owned(),
            host: String::from_utf8_lossy(&copy.host).into_owned(),
            path: String::from_utf8_lossy(shown_path(&copy)).into_owned(),
            client: copy.remote_addr,
            candidates,
            more,
            refused,
            route: request.route.clone(),
            consumer: request.consumer.clone(),
            node: match destinations.as_slice() {
                [only] => only.node.clone(),
                _ => None,
            },
            plan,
            ending,
            destinations,
            asked: routed.map(|_| Box::new(copy)),
        })
    })
}

/// Of a path that the gateway refuses to read, what was asked for.
fn shown_path(request: &Request) -> &[u8] {
    let target = request.head.target();
    match request.path.is_empty() {
        true => target.split(|byte| *byte == b'?').next().unwrap_or(target),
        false => &request.path,
    }
}

fn copy_of(request: &Request) -> Request {
    let (connection, snapshot) = (request.connection.clone(), request.snapshot.clone());
    let mut copy = Request::new(request.head.clone(), connection, snapshot, request.worker);
    if let RequestBody::Collected(bytes) = &request.body {
        copy.body = RequestBody::Collected(bytes.clone());
    }
    copy
}

fn destinations(request: &Request, ending: &Ending) -> Vec<Destination> {
    let destination = |share: &Share| {
        let upstream = share.upstream.as_ref().or_else(|| request.upstream())?.clone();
        Some(Destination { node: hashed_node(request, &upstream), upstream, weight: share.weight })
    };
    ending.shares.iter().filter_map(destination).collect()
}

fn hashed_node(request: &Request, upstream: &Arc<UpstreamHandle>) -> Option<Peer> {
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
    let candidates = explained.considered.into_iter().filter_map(|considered| {
        let route = snapshot.routes.get(considered.route as usize)?;
        Some(Candidate {
            id: route.id.clone(),
            name: route.name.clone(),
            document: route.document.clone(),
            uri: considered.uri.into(),
            host: considered.host.map(String::from),
            priority: considered.priority,
            verdict: considered.verdict,
            clause: considered.clause,
        })
    });
    (candidates.collect(), explained.more)
}
