//! What would become of a request that nobody sent: the way of [`crate::request`] as far as its plan, with the same
//! normal form, the same router and the same chains. Nothing is run but conditions. For people; not for workers.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    rc::Rc,
    sync::Arc,
};

use plugin::{
    Consumer, Instance, Owner, Phases, Request, Route, Snapshot, WorkerSnapshot,
    request::{Connection, TlsFacts},
};
use routing::router::Verdict;
use wire::RequestHead;

use crate::{
    claims, client_address,
    matching::{Input, drop_nominated, prepare_target, routed_path},
    phases::{Chains, applies, joining},
    settings::Reading,
};

/// Routes of a path that are told about, at most.
const MAX_CANDIDATES: usize = 100;

const PHASES: [(Phases, &str); 7] = [
    (Phases::REWRITE, "rewrite"),
    (Phases::ACCESS, "access"),
    (Phases::BEFORE_PROXY, "before_proxy"),
    (Phases::STORED, "stored"),
    (Phases::HEADER_FILTER, "header_filter"),
    (Phases::BODY_FILTER, "body_filter"),
    (Phases::LOG, "log"),
];

/// The request in question.
pub struct Question {
    /// Request line and fields, as they would be sent.
    pub head: Vec<u8>,
    pub client: IpAddr,
    pub https: bool,
    /// Whom an authentication plugin would recognise.
    pub consumer: Option<String>,
}

pub struct Explanation {
    pub method: String,
    pub host: String,
    pub path: String,
    pub candidates: Vec<Candidate>,
    /// There are more candidates than listed.
    pub more: bool,
    pub route: Option<Arc<Route>>,
    pub plan: Vec<Planned>,
}

/// A route whose path fits.
pub struct Candidate {
    pub route: Arc<Route>,
    pub uri: String,
    pub host: Option<String>,
    pub priority: i64,
    pub verdict: Verdict,
    /// Which clause of `vars` does not hold.
    pub clause: Option<usize>,
}

/// A plugin in a phase, in the order of running.
pub struct Planned {
    pub phase: &'static str,
    pub plugin: &'static str,
    pub priority: i64,
    pub owner: Owner,
    /// Whether `_meta.filter` lets it run.
    pub runs: bool,
}

/// The error says what is wrong with the request.
pub fn explain(
    snapshot: &Arc<Snapshot>,
    reading: &Reading,
    question: &Question,
) -> Result<Explanation, String> {
    let mut head = RequestHead::default();
    let parsed = head.parse(&question.head, &mut 0, &reading.limits);
    parsed.map_err(|error| error.reason.to_string())?.ok_or("the request's head is not complete")?;
    head.host().map_err(|error| error.reason.to_string())?;
    let tls = question.https.then(|| Rc::new(TlsFacts { protocol: "TLSv1.3", ..TlsFacts::default() }));
    let local = SocketAddr::from((Ipv4Addr::LOCALHOST, if question.https { 443 } else { 80 }));
    let connection = Connection {
        id: 0,
        peer: SocketAddr::new(question.client, 0),
        local,
        inner_client: None,
        tls,
        announced: None,
        at_end: Default::default(),
        requests: 1.into(),
    };
    let worker_snapshot = Rc::new(WorkerSnapshot::new(snapshot.clone()));
    let mut request = Request::new(head, Rc::new(connection), worker_snapshot, 0);
    if let Some(real_ip) = &reading.real_ip {
        client_address::set(&mut request, real_ip);
    }
    prepare_target(&mut request)?;
    claims::strip(&mut request, reading, |_| ());
    drop_nominated(&mut request);
    let (candidates, more) = candidates(snapshot, &request);
    let won = candidates.iter().find(|candidate| candidate.verdict == Verdict::Won);
    let route = won.map(|candidate| candidate.route.clone());
    let consumer = match &question.consumer {
        None => None,
        Some(name) => {
            let found = snapshot.consumers.by_name.get(name.as_str());
            Some(found.cloned().ok_or_else(|| format!("there is no consumer {name}"))?)
        }
    };
    let plan = plan(&mut request, route.as_ref(), consumer.as_ref());
    if request.require_decided().is_err() || request.require_readable_body().is_err() {
        return Err("a condition cannot be judged on this request, which is refused; the error log says why"
            .to_owned());
    }
    Ok(Explanation {
        method: request.head.method.as_str().to_owned(),
        host: String::from_utf8_lossy(&request.host).into_owned(),
        path: String::from_utf8_lossy(&request.path).into_owned(),
        candidates,
        more,
        route,
        plan,
    })
}

fn candidates(snapshot: &Snapshot, request: &Request) -> (Vec<Candidate>, bool) {
    let path = routed_path(request);
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

/// What would run, as far as nothing answers before.
fn plan(request: &mut Request, route: Option<&Arc<Route>>, consumer: Option<&Arc<Consumer>>) -> Vec<Planned> {
    let mut chains = Chains::new(request, false);
    if let Some(route) = route {
        chains.set_route(route);
    }
    request.route = route.cloned();
    chains.received(request);
    let mut plan = Vec::new();
    for (phase, name) in PHASES {
        plan.extend(chains.of_phase(phase).map(|instance| planned(name, instance, request)));
        if phase == Phases::REWRITE
            && let (Some(route), Some(consumer)) = (route, consumer)
        {
            request.consumer = Some(consumer.clone());
            plan.extend(joining(route, consumer).map(|instance| planned(name, instance, request)));
            chains.set_consumer(consumer);
        }
    }
    plan
}

fn planned(phase: &'static str, instance: &Instance, request: &Request) -> Planned {
    Planned {
        phase,
        plugin: instance.def.name,
        priority: instance.priority,
        owner: instance.owner.clone(),
        runs: applies(instance, request),
    }
}
