//! Asks services for their schemas: once, when the first query needs it, and again after the configuration has changed.
//!
//! Nothing of a client goes into the question: its answer counts for all clients.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use tidegate_clients::http::{self, Body, ClientOptions, Endpoint, Outgoing, TlsWanted};
use tidegate_plugin_api::{Request, aside, upstream::PassHost};
use tidegate_protocol::{HeaderId, uri};
use tokio::sync::OnceCell;

use super::schema::{QUESTION, Schema};
use crate::common::conf::typed;

const TIMEOUT: Duration = Duration::from_secs(5);

/// A failure holds so long: a service that is down is not asked for each query.
const FAILURE: Duration = Duration::from_secs(10);

/// The schemas of large services have a few megabytes.
const MOST_BYTES: usize = 16 << 20;

/// Services of one configuration; of more, the schemas are asked for again.
const MOST_SERVICES: usize = 256;

#[derive(Deserialize)]
struct Conf {
    introspection_endpoint: Option<String>,
    #[serde(default)]
    introspection_headers: serde_json::Map<String, Value>,
}

/// What was answered, and when.
type Answered = Arc<OnceCell<(Instant, Result<Arc<Schema>, String>)>>;

pub(super) struct Introspection {
    endpoint: Option<Endpoint>,
    headers: Vec<(String, Vec<u8>)>,
    options: ClientOptions,
    /// By service and upstream.
    known: Mutex<HashMap<(String, u64), Answered>>,
}

/// Refuses what could not be asked.
pub(super) fn check(conf: &Value) -> Result<(), String> {
    Introspection::new(conf).map(|_| ())
}

impl Introspection {
    pub(super) fn new(conf: &Value) -> Result<Introspection, String> {
        let conf: Conf = typed(conf)?;
        let endpoint = conf.introspection_endpoint.as_deref().map(Endpoint::parse).transpose();
        let header = |(name, value): (String, Value)| {
            let value = value.as_str().unwrap_or_default().as_bytes().to_vec();
            let is_name = !name.is_empty() && name.bytes().all(tidegate_protocol::fields::is_token_byte);
            match is_name && !value.iter().any(u8::is_ascii_control) {
                true => Ok((name, value)),
                false => Err(format!("introspection_headers: {name:?} or its value cannot be in a header")),
            }
        };
        Ok(Introspection {
            endpoint: endpoint.map_err(|reason| format!("introspection_endpoint: {reason}"))?,
            headers: conf.introspection_headers.into_iter().map(header).collect::<Result<_, _>>()?,
            options: ClientOptions {
                timeout: TIMEOUT,
                // The upstream is not verified either, unless it says so.
                tls: TlsWanted { verify: false, client: None },
                keepalive: false,
                body: Body::Whole(MOST_BYTES),
                ..ClientOptions::default()
            },
            known: Mutex::default(),
        })
    }

    /// The schema of the service that the request goes to.
    pub(super) async fn schema(&self, request: &Request) -> Result<Arc<Schema>, String> {
        let place = self.place(request);
        let answered = self.known.lock().get(&place).cloned();
        let is_over = |answered: &Answered| {
            answered.get().is_some_and(|(at, schema)| schema.is_err() && at.elapsed() > FAILURE)
        };
        let cell = answered.filter(|answered| !is_over(answered)).unwrap_or_else(|| self.begin(place));
        // Who comes while it is asked waits for the answer.
        let asked = cell.get_or_init(|| async { (Instant::now(), self.ask(request).await) });
        asked.await.1.clone()
    }

    fn begin(&self, place: (String, u64)) -> Answered {
        let mut known = self.known.lock();
        if known.len() >= MOST_SERVICES {
            known.clear();
        }
        let cell = Answered::default();
        known.insert(place, cell.clone());
        cell
    }

    fn place(&self, request: &Request) -> (String, u64) {
        let service = request.route.as_ref().and_then(|route| route.service_id()).map(|id| &**id);
        let upstream = request.upstream().map(|upstream| (upstream.name.to_string(), upstream.version));
        let (name, version) = upstream.filter(|_| self.endpoint.is_none()).unwrap_or_default();
        (format!("{} {name}", service.unwrap_or_default()), version)
    }

    async fn ask(&self, request: &Request) -> Result<Arc<Schema>, String> {
        let (endpoint, host) = match &self.endpoint {
            Some(endpoint) => (endpoint.clone(), None),
            None => of_upstream(request)?,
        };
        let asked = format!("{}{}", endpoint.host_header(), endpoint.target);
        let mut outgoing =
            Outgoing::post(endpoint, "application/json", json!({"query": QUESTION}).to_string());
        if let Some(host) = host {
            outgoing.headers.push(("Host".to_owned(), host));
        }
        for (name, value) in &self.headers {
            outgoing.headers.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
            outgoing.headers.push((name.clone(), value.clone()));
        }
        let sent = http::send(outgoing, &self.options).await;
        let answer = sent.map_err(|error| format!("failed to request {asked}: {error}"))?;
        if answer.status != 200 {
            return Err(format!("unexpected status {} from {asked}", answer.status));
        }
        let read = aside::run_by_size(aside::Whose::Ours, answer.body.len(), move || {
            Schema::of_answer(&answer.body)
        });
        read.await.unwrap_or_else(|aside::Undone| Err("it was not read".to_owned())).map(Arc::new)
    }
}

/// The first node in the order of names, with the path that the request goes to, and the `Host` that it gets.
fn of_upstream(request: &Request) -> Result<(Endpoint, Option<Vec<u8>>), String> {
    let none = "the route has no upstream nodes, set introspection_endpoint";
    let upstream = request.upstream().ok_or(none)?;
    let tls = upstream.scheme.is_tls();
    let node = upstream.nodes.iter().min_by_key(|node| (&node.host, node.port)).ok_or(none)?;
    let target = match &request.edits.target {
        Some(target) => target.split(|&byte| byte == b'?').next().unwrap_or_default().to_vec(),
        None => {
            let mut target = Vec::new();
            uri::encode_path(&request.path, &mut target);
            target
        }
    };
    let host = match &upstream.pass_host {
        PassHost::Pass => request.head.headers.known(HeaderId::Host).map(<[u8]>::to_vec),
        PassHost::Rewrite(host) => Some(host.as_bytes().to_vec()),
        // As the client of HTTP says it.
        PassHost::Node => None,
    };
    let target = String::from_utf8(target).map_err(|_| "the path is not UTF-8")?;
    let name = node.host.trim_matches(['[', ']']).to_owned();
    Ok((Endpoint { tls, host: name, port: node.port, target }, host))
}
