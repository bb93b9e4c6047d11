//! The target of a request, in normal form, and the route for it.

pub(super) mod input;
mod readings;
mod servlet;

use std::rc::Rc;

use tidegate_plugin_api::{Reply, Request, RequestBody, route::Matched};
use tidegate_protocol::HeaderId;
use tidegate_routing::router::without_port;
use tidegate_telemetry::error_log;

use self::input::Input;
pub(crate) use self::readings::routed_path;
use crate::{claims, client::Downstream, phases::RequestChains, prefetch, settings::Reading};

/// Fills host and path, and drops claims of the client. Without a client (explain) nothing is counted or logged.
pub(crate) fn prepare(
    request: &mut Request,
    reading: &Reading,
    client: Option<&Downstream>,
) -> Result<(), Box<Reply>> {
    if let Err(reason) = prepare_target(request) {
        if client.is_some() {
            let client = request.remote_addr;
            error_log::log(error_log::Level::Info, format_args!("{reason}, client: {client}"));
        }
        return Err(Box::new(Reply::page(400)));
    }
    claims::drop_untrusted(request, reading, client)?;
    // Fields that `Connection` names are for this hop.
    if request.head.connection.nominates {
        tidegate_protocol::framing::remove_nominated(&mut request.head.headers);
    }
    Ok(())
}

/// Host and path as routes see them.
fn prepare_target(request: &mut Request) -> Result<(), &'static str> {
    let mut host = std::mem::take(&mut request.host);
    host.clear();
    // Checked when the head came.
    if let Some(value) = request.head.headers.known(HeaderId::Host) {
        host.extend_from_slice(without_port(value));
        host.make_ascii_lowercase();
        while host.len() > 1 && host.last() == Some(&b'.') {
            host.pop();
        }
    }
    request.host = host;
    let mut path = std::mem::take(&mut request.path);
    normalize(request, &mut path)?;
    request.path = path;
    let raw = request.head.raw_path();
    // Servlets resolve them as the gateway does then.
    let is_resolved_there = request.snapshot.options.normalize_uri_like_servlet;
    if request.path != raw && !is_resolved_there && has_dot_segment(raw) {
        // Many upstreams do not resolve dot segments: to them, `/admin/../pub` is below /admin, which no guard has seen.
        request.edits.target = Some(request.canonical_target());
    }
    Ok(())
}

fn normalize(request: &Request, path: &mut Vec<u8>) -> Result<(), &'static str> {
    let options = request.snapshot.options;
    let raw = request.head.raw_path();
    if raw == b"*" {
        path.clear();
        path.extend_from_slice(b"*");
        return Ok(());
    }
    if options.normalize_uri_like_servlet {
        servlet::normalize(raw, path)?;
    } else if options.match_uri_encoded_slash && !has_dot_segment(raw) {
        // Not where dot segments have to be resolved: the result would depend on how the slash is read.
        readings::normalize_with_encoded_slashes(raw, path)?;
    } else {
        tidegate_protocol::uri::normalize_path(raw, path)?;
    }
    Ok(())
}

fn has_dot_segment(raw: &[u8]) -> bool {
    tidegate_protocol::uri::percent_decode(raw, false)
        .split(|&byte| byte == b'/')
        .any(|segment| segment == b"." || segment == b"..")
}

/// The route of a request with another path.
pub(crate) fn route_of(request: &Request, path: &[u8]) -> Option<u32> {
    request.snapshot.router.find(&Input::new(request, path)).map(|found| found.route)
}

/// Finds the route and remembers what matched.
pub(crate) async fn find_route(
    request: &mut Request,
    reading: &Reading,
    client: Option<&Rc<Downstream>>,
    chains: &mut RequestChains,
) -> Result<(), Box<Reply>> {
    let snapshot = request.snapshot.clone();
    let found = if snapshot.matches_on_body {
        if let (RequestBody::Unread { .. }, Some(client)) = (&request.body, client) {
            client.timer.set(client.worker.settings.client_body_timeout_ms);
        }
        // A body that no route of this place depends on stays on the wire.
        request.ask_with_body(reading.matched_body_bytes, search).await?
    } else {
        search(request)
    };
    request.require_decided()?;
    let Some(found) = found else { return Ok(()) };
    // A route that came before it might have had the request, and its guards.
    request.require_readable_body()?;
    if found.is_ambiguous {
        return Err(readings::refuse_encoded_slash(request));
    }
    let Some(route) = snapshot.routes.get(found.route as usize).cloned() else { return Ok(()) };
    prefetch::upstream(&route);
    request.matched = found.matched;
    chains.set_route(&route);
    request.route = Some(route);
    Ok(())
}

struct Found {
    /// Its number in the snapshot.
    route: u32,
    matched: Matched,
    /// Another reading of the path leads to another route.
    is_ambiguous: bool,
}

/// Changes nothing, because it may be called twice. Inlined, so that the match is not copied from call to call.
#[inline(always)]
fn search(request: &Request) -> Option<Found> {
    let path = routed_path(request);
    let found = request.snapshot.router.find(&Input::new(request, &path))?;
    prefetch::route(&request.snapshot, found.route);
    let matched = Matched {
        uri: found.matched_uri.into(),
        host: found.matched_host.unwrap_or_default().into(),
        parameters: found
            .params
            .iter()
            .map(|param| (param.name.into(), path.get(param.range.clone()).unwrap_or_default().into()))
            .collect(),
    };
    let is_ambiguous = readings::has_ambiguous_slash(request, found.route);
    Some(Found { route: found.route, matched, is_ambiguous })
}

/// After the global rules have run: without a route this is the end, and with a broken one too.
pub(crate) fn require_route(request: &Request) -> Result<(), Box<Reply>> {
    match &request.route {
        // RFC 9110 section 9.3.7: a question to the server as a whole, which is what a ping is. The path can only have come
        // with OPTIONS.
        None if request.path == b"*" => Err(Box::new(Reply::page(200))),
        None => Err(Box::new(Reply::error_msg(404, "404 Route Not Found"))),
        Some(route) => match route.broken {
            Some(status) => Err(Box::new(Reply::page(status))),
            None => Ok(()),
        },
    }
}
