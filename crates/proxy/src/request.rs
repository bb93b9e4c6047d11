//! The path of a request, in the order of its steps. Each step is a file of the same name.

use std::{rc::Rc, sync::atomic::Ordering};

use tidegate_plugin_api::{Reply, Request, RequestBody};
use tidegate_protocol::{BodyLength, RequestHead, ResponseHead, Version};
use tidegate_telemetry::error_log;

use super::route::{acceptable, check_body_length, route};
use crate::{
    asking::while_client_waits, balancer, boxed::boxed, claims, client::Downstream, exchange, finish,
    matching, phases::RequestChains, pubsub, refusal, respond, stats, worker::Worker,
};

/// Serves one request whose head has been read. Returns whether the connection may carry another one.
pub(crate) async fn handle(client: &Rc<Downstream>, head: RequestHead) -> bool {
    let worker = client.worker;
    stats::add(&worker.stats.requests, 1);
    client.facts.requests.set(client.facts.requests.get() + 1);
    client.answering.set(false);

    let length = match acceptable(&head) {
        // A tunnel's bytes are not a body.
        Ok(_) if client.head_ends_stream() || (client.is_http2() && head.connection.upgrade) => {
            BodyLength::EMPTY
        }
        Ok(length) => length,
        Err(error) => {
            refusal::refuse(client, head, Vec::new(), error).await;
            return false;
        }
    };
    let mut request = Request::new(head, client.facts.clone(), worker.snapshot(), worker.index);
    (request.host, request.path) = worker.request_texts();
    request.early_headers = worker.early_headers();
    client.said_last.set(!request.head.connection.persists(request.head.version));
    let mut chains = RequestChains::new(&request, worker.settings.debug.load(Ordering::Relaxed));
    #[cfg(debug_assertions)]
    {
        chains.to_compare = crate::explain_check::begin(&request);
    }
    let served = match receive(&mut request, client, &mut chains, length).await {
        // Lines about a delivery of lines would be delivered, and so on.
        Ok(()) if chains.is_of_delivery() => {
            error_log::keeping_back(boxed(|| serve(&mut request, client, &mut chains))).await
        }
        Ok(()) => serve(&mut request, client, &mut chains).await,
        Err(reply) => Err(reply),
    };
    let keep = match served {
        Ok(keep) => keep,
        Err(reply) => respond::send(&mut request, client, &chains, *reply).await,
    };
    finish::finish(&mut request, client, &chains);
    #[cfg(debug_assertions)]
    crate::explain_check::compare(&request, &chains, &worker.settings.reading);
    recycle(&mut request, worker);
    keep && client.body_ended()
}

/// The next requests write into the same memory.
fn recycle(request: &mut Request, worker: &Worker) {
    worker.recycle_request_head(std::mem::take(&mut request.head));
    worker.recycle_request_texts(std::mem::take(&mut request.host), std::mem::take(&mut request.path));
    worker.recycle_early_headers(std::mem::take(&mut request.early_headers));
    let response = &mut request.response;
    worker.recycle_response_head(ResponseHead {
        reason: std::mem::take(&mut response.reason),
        headers: std::mem::take(&mut response.headers),
        ..ResponseHead::default()
    });
}

/// Receives a small body, and finds the route. `Err`: answer this.
async fn receive(
    request: &mut Request,
    client: &Rc<Downstream>,
    chains: &mut RequestChains,
    length: BodyLength,
) -> Result<(), Box<Reply>> {
    receive_body(request, client, length)?;
    #[cfg(debug_assertions)]
    crate::explain_check::remember_body(request, chains);
    // No buffer is held for the client while the upstream works.
    client.release_buffer();
    route(request, &client.worker.settings.reading, chains, Some(client)).await
}

/// What follows once the route is known. `Ok`: the upstream's answer is out, and whether the connection survives it. `Err`: answer
/// this instead.
async fn serve(
    request: &mut Request,
    client: &Rc<Downstream>,
    chains: &mut RequestChains,
) -> Result<bool, Box<Reply>> {
    #[cfg(debug_assertions)]
    crate::explain_check::explain_first(request, chains, &client.worker.settings.reading);
    while_client_waits(client, chains.rewrite(request)).await?;
    check_body_length(request)?;
    while_client_waits(client, chains.access(request)).await?;
    matching::require_route(request)?;
    refuse_tunnel(request)?;
    claims::drop_credentials(request, client);
    if let Some(brokers) = balancer::brokers(request) {
        return boxed(|| pubsub::serve(request, client, chains, &brokers)).await;
    }
    exchange::proxy(request, client, chains).await
}

/// Small bodies that came with the head are taken at once; others stay on the wire until they are wanted.
fn receive_body(
    request: &mut Request,
    client: &Rc<Downstream>,
    length: BodyLength,
) -> Result<(), Box<Reply>> {
    if length.is_empty() {
        client.begin_body(length, false);
        return Ok(());
    }
    let expects_continue = request.head.version >= Version::Http11
        && request.header("Expect").is_some_and(|value| value.eq_ignore_ascii_case(b"100-continue"));
    client.begin_body(length, expects_continue);
    let limit = client.worker.settings.client_max_body_size;
    let known = match length {
        BodyLength::Fixed(length) => Some(length),
        _ => None,
    };
    if limit > 0 {
        request.body_limit = Some(limit);
    }
    request.body = match client.body_at_hand() {
        Some(bytes) => RequestBody::Collected(bytes.into()),
        None => RequestBody::Unread { length: known, reader: client.clone() },
    };
    Ok(())
}

/// An extended CONNECT can only ask for a WebSocket: a route without them refuses it.
fn refuse_tunnel(request: &Request) -> Result<(), Box<Reply>> {
    let asked = request.head.version == Version::Http2 && request.head.connection.upgrade;
    let allowed = || request.route.as_ref().is_some_and(|route| route.enable_websocket);
    if asked && !allowed() { Err(Box::new(Reply::page(501))) } else { Ok(()) }
}
