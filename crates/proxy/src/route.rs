//! From a head to a route and its plugins, for requests and for explain.

use std::rc::Rc;

use tidegate_plugin_api::{Reply, Request, RequestBody};
use tidegate_protocol::{BodyLength, Method, ParseError, RequestHead};

use crate::{
    client::Downstream, client_address, handshake, matching, phases::RequestChains, respond,
    settings::Reading,
};

/// Refuses a head that parsed but is unusable: after that the connection cannot be trusted and is closed.
pub(crate) fn acceptable(head: &RequestHead) -> Result<BodyLength, ParseError> {
    head.host()?;
    if head.method == Method::Trace {
        return Err(ParseError::with_status(405, "TRACE is not supported"));
    }
    tidegate_protocol::framing::request_body(head)
}

/// From the head to the route and its plugins. Without a client the request is only explained (see [`crate::explain`]): nothing
/// is answered, counted or logged.
pub(crate) async fn route(
    request: &mut Request,
    reading: &Reading,
    chains: &mut RequestChains,
    client: Option<&Rc<Downstream>>,
) -> Result<(), Box<Reply>> {
    if let Some(real_ip) = &reading.real_ip {
        client_address::set(request, real_ip);
    }
    matching::prepare(request, reading, client.map(Rc::as_ref))?;
    chains.set_origin(request);
    handshake::check_client(request)?;
    if let Some(internal) = client.and_then(|client| client.worker.settings.internal.as_ref())
        && internal.owns(&request.path)
        && internal.is_at(request.connection.local)
    {
        return Err(respond::internal(request, internal.clone()).await);
    }
    matching::find_route(request, reading, client, chains).await?;
    chains.received(request);
    Ok(())
}

/// Refuses a body whose announced length is over the limit. After the rewrite phase, because plugin `client-control`
/// sets limits there; a body of unknown length is counted as it passes.
pub(crate) fn check_body_length(request: &Request) -> Result<(), Box<Reply>> {
    let length = match &request.body {
        RequestBody::Empty => 0,
        RequestBody::Unread { length, .. } => length.unwrap_or(0),
        RequestBody::Collected(bytes) => bytes.len() as u64,
    };
    match request.body_limit {
        Some(limit) if length > limit => Err(Box::new(Reply::page(413))),
        _ => Ok(()),
    }
}
