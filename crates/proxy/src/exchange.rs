//! The exchange with the upstream: attempts until a node answers, then its answer to the client.

mod answer;
mod attempt;
mod connect;
mod connection;
mod failure;
mod http2;
mod http2_answer;
mod record;
mod send_limit;

use std::{rc::Rc, sync::Arc, time::Instant};

use smallvec::SmallVec;
use tidegate_balancing::{
    RetryPolicy,
    retry::{Progress, RetryDecision},
};
use tidegate_plugin_api::{
    Reply, Request, UpstreamHandle,
    upstream::{Node, Peer},
};
use tidegate_telemetry::error_log;

use crate::{
    asking::while_client_waits,
    balancer::{self, InFlight},
    boxed::boxed,
    client::Downstream,
    gather,
    phases::RequestChains,
    upstream_head,
};

pub(crate) use self::connection::UpstreamConnection;
pub(crate) use connect::crowded::Crowded;
pub(crate) use failure::{Failure, FailureKind};

/// Proxies the request. `Ok`: answered, and whether the client's connection can be reused.
pub(crate) async fn proxy(
    request: &mut Request,
    client: &Rc<Downstream>,
    chains: &RequestChains,
) -> Result<bool, Box<Reply>> {
    let first = balancer::upstream(request)?;
    if gather::is_due(request, &first) {
        gather::start_of_body(request, client).await?;
    }
    let hash_key = balancer::hash_key(request, &first);
    let mut tried: SmallVec<[u16; 4]> = SmallVec::new();
    let mut upstream = first;
    let started = (upstream.retry_timeout_ms > 0).then(Instant::now);
    // Big, so it stays here and is borrowed; as a return value it would be copied from function to function.
    let mut connection = None;
    loop {
        let now_ms = client.worker.deadlines.now_ms();
        let Some(peer) = balancer::pick(request, &upstream, hash_key.as_deref(), &tried, now_ms) else {
            return Err(no_node(&upstream, !tried.is_empty()));
        };
        let index = peer.index;
        let in_flight = InFlight::new(peer.clone(), client.worker);
        request.outcome.peer = Some(peer.clone());
        while_client_waits(client, chains.before_proxy(request, tried.is_empty())).await?;
        upstream_head::require_sendable(&request.edits)?;
        match one_attempt(request, client, &peer, &mut connection).await {
            Ok(answer) => {
                in_flight.answered(answer.header_seconds() * 1000.0);
                if upstream.balancer.has_passive_checks() {
                    let outcome = tidegate_balancing::HealthSignal::Status(request.response.status);
                    upstream.balancer.report(index, tidegate_balancing::Source::Passive, outcome);
                }
                return Ok(match answer {
                    NodeResponse::Http1(answer) => {
                        let parties = answer::Parties { request, client, chains, peer: &peer };
                        answer::deliver(parties, answer, &mut connection, in_flight).await
                    }
                    NodeResponse::Http2(answer) => {
                        let answer = *answer;
                        let way =
                            || http2_answer::deliver(request, client, chains, &upstream, answer, in_flight);
                        boxed(way).await
                    }
                });
            }
            Err(failure) => {
                drop(in_flight);
                if failure.is_client() {
                    // The client is gone or sent a bad body: no other node can help.
                    return Err(Box::new(Reply::page(failure.status())));
                }
                report_failure(&upstream, index, &failure);
                log_failure(request, &peer, &failure);
                tried.push(index);
                match verdict(request, &upstream, &failure, tried.len(), started) {
                    RetryDecision::Retry => {}
                    RetryDecision::GiveUp => return Err(Box::new(Reply::page(failure.status()))),
                    RetryDecision::TimedOut => return Err(Box::new(Reply::page(502))),
                }
                // A plugin in before_proxy may have chosen another upstream for the next try.
                if let Some(other) =
                    request.edits.upstream.as_ref().filter(|other| !Arc::ptr_eq(other, &upstream))
                {
                    upstream = balancer::for_requests(other)?;
                    tried.clear();
                }
            }
        }
    }
}

enum NodeResponse {
    Http1(attempt::Http1Response),
    Http2(Box<http2::Http2Response>),
}

impl NodeResponse {
    fn header_seconds(&self) -> f64 {
        match self {
            NodeResponse::Http1(answer) => answer.header_seconds,
            NodeResponse::Http2(answer) => answer.header_seconds,
        }
    }
}

/// By the scheme's protocol. HTTP/2's futures are boxed: those of HTTP/1 requests do not carry their size.
async fn one_attempt(
    request: &mut Request,
    client: &Rc<Downstream>,
    peer: &Peer,
    connection: &mut Option<UpstreamConnection>,
) -> Result<NodeResponse, Failure> {
    match peer.upstream.scheme.is_grpc() {
        false => attempt::attempt(request, client, peer, connection).await.map(NodeResponse::Http1),
        true => {
            let answer = boxed(|| http2::attempt(request, client, peer)).await?;
            Ok(NodeResponse::Http2(Box::new(answer)))
        }
    }
}

fn no_node(upstream: &UpstreamHandle, after_tries: bool) -> Box<Reply> {
    let full = upstream.balancer.is_limited() && !upstream.nodes.is_empty();
    let reason = match (after_tries, full) {
        (true, true) => "every node was tried or is at its max_conn",
        (true, false) => "every node was tried",
        (false, true) => "every node is at its max_conn",
        (false, false) => "no valid upstream node",
    };
    error_log::log(error_log::Level::Error, format_args!("{reason}, upstream: {}", upstream.name));
    Box::new(Reply::page(if after_tries || full { 502 } else { 503 }))
}

/// Whether another node is asked after this failure.
fn verdict(
    request: &Request,
    upstream: &UpstreamHandle,
    failure: &Failure,
    tries: usize,
    started: Option<Instant>,
) -> RetryDecision {
    let progress = match failure {
        // Bytes that went from the client's connection to a node cannot be sent again.
        Failure { body_consumed: true, .. } => Progress::Committed,
        Failure { request_sent: true, .. } => Progress::RequestSent,
        _ => Progress::NothingSent,
    };
    let elapsed_ms = started.map_or(0, |started| started.elapsed().as_millis() as u64);
    RetryPolicy::new(upstream.nodes.len(), upstream.retries, upstream.retry_timeout_ms).after_failure(
        tries,
        request.head.method.as_bytes(),
        progress,
        elapsed_ms,
    )
}

pub(crate) fn report_failure(handle: &UpstreamHandle, node: u16, failure: &Failure) {
    // A node whose streams are all taken is not unhealthy.
    if handle.balancer.has_passive_checks() && !matches!(failure.kind, FailureKind::NoStream) {
        let outcome = if failure.timed_out() {
            tidegate_balancing::HealthSignal::Timeout
        } else {
            tidegate_balancing::HealthSignal::TcpFailure
        };
        handle.balancer.report(node, tidegate_balancing::Source::Passive, outcome);
    }
}

fn log_failure(request: &Request, peer: &Peer, failure: &Failure) {
    error_log::log(
        error_log::Level::Error,
        format_args!(
            "{}, client: {}, request: \"{} {}\", upstream: {} {}",
            failure.reason(),
            request.remote_addr,
            request.head.method.as_str(),
            String::from_utf8_lossy(request.head.target()),
            peer.upstream.name,
            peer.node().map_or_else(|| "?".to_owned(), Node::to_string),
        ),
    );
}
