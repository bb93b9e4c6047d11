//! Claims of a client, which only the gateway may make (see [`tidegate_protocol::claims`]): dropped, counted, logged.
//!
//! They are dropped twice: when the head arrives, so that neither routes nor plugins see them, and before the request
//! goes upstream, once plugins have seen the one claim that is also a credential. The parser has already left out names
//! with `_` or another sign for a dash.

use std::{net::IpAddr, sync::Once};

use tidegate_plugin_api::{Reply, Request, hops};
use tidegate_protocol::{Head, HeaderId, claims::Claim};
use tidegate_telemetry::error_log::{self, Level};

use super::clean_trailers::count;
use crate::{client::Downstream, settings::Reading, worker::Worker};

/// Which claims of a peer are believed.
struct Trust {
    /// `apisix.trusted_addresses`; `None` without any.
    forwarding: Option<bool>,
    /// `apisix.trusted_gateways`
    identity: bool,
    /// `nginx_config.http.real_ip_from`
    address: bool,
    /// Whatever their form is.
    as_written: bool,
}

impl Trust {
    fn of(reading: &Reading, peer: IpAddr) -> Trust {
        let peer = peer.to_canonical();
        Trust {
            forwarding: reading.trusted_addresses.as_ref().map(|trusted| trusted.contains(peer)),
            identity: is_gateway(reading, peer),
            address: reading.real_ip.as_ref().is_some_and(|real_ip| real_ip.trusted.contains(peer)),
            as_written: reading.claims_as_written,
        }
    }

    /// Whether a forwarding field stays. `X-Real-IP` does in any case: plugin real-ip may read it, and it never goes
    /// upstream. `X-Forwarded-For` is extended when no trusted peers are configured.
    fn keeps(&self, id: HeaderId, value: &[u8]) -> bool {
        let says_something = || self.as_written || tidegate_protocol::forwarded::is_valid(id, value);
        match id {
            HeaderId::XRealIp => true,
            HeaderId::XForwardedFor => self.forwarding != Some(false) && says_something(),
            _ => self.forwarding == Some(true) && says_something(),
        }
    }
}

fn is_gateway(reading: &Reading, peer: IpAddr) -> bool {
    reading.trusted_gateways.as_ref().is_some_and(|trusted| trusted.contains(peer.to_canonical()))
}

/// Takes the claims out of a received head. A request that has come back too often may end here. Without a client the
/// head is only explained: nothing is counted, and its hops are not checked.
pub(crate) fn drop_untrusted(
    request: &mut Request,
    reading: &Reading,
    client: Option<&Downstream>,
) -> Result<(), Box<Reply>> {
    let left_out = request.head.left_out();
    if let Some(client) = client {
        let dropped = &client.worker.stats.dropped;
        count(&dropped.underscored_claim, left_out.claims.into());
        count(&dropped.invalid_name, left_out.invalid.into());
        count(&dropped.underscore, left_out.underscored.into());
    }
    if request.head.headers.may_have_claims() {
        drop_claims(request, reading, client);
        if client.is_some() {
            hops::check(request)?;
        }
    }
    Ok(())
}

#[cold]
fn drop_claims(request: &mut Request, reading: &Reading, client: Option<&Downstream>) {
    let (identity, forwarding) = strip(request, reading, |name| {
        client.into_iter().for_each(|client| log_dropped(client.worker, client, name));
    });
    if let Some(client) = client {
        count(&client.worker.stats.dropped.identity, identity);
        count(&client.worker.stats.dropped.forwarding, forwarding);
    }
}

/// Removes the claims that the peer may not make. Returns how many fields of identity, each of which is
/// given to `report`, and of forwarding were removed.
fn strip(request: &mut Request, reading: &Reading, mut report: impl FnMut(&[u8])) -> (usize, usize) {
    let trust = Trust::of(reading, request.connection.peer.ip());
    let (mut identity, mut forwarding) = (0, 0);
    if trust.forwarding != Some(false) && !trust.as_written {
        forwarding += usize::from(mend_forwarded_for(request));
    }
    request.head.headers.retain_claims(|id, name, value| match tidegate_protocol::claims::of(name) {
        Some(Claim::Identity) if !trust.identity => {
            identity += 1;
            report(name);
            false
        }
        Some(Claim::Forwarding) => {
            let keeps = trust.keeps(id, value);
            forwarding += usize::from(!keeps || (id == HeaderId::XRealIp && !trust.address));
            keeps
        }
        _ => true,
    });
    (identity, forwarding)
}

/// Removes malformed items from `X-Forwarded-For`, with everything before them: only what a proxy added after them counts. Returns
/// whether there were any.
fn mend_forwarded_for(request: &mut Request) -> bool {
    const ID: HeaderId = HeaderId::XForwardedFor;
    let headers = &mut request.head.headers;
    if headers.all_known(ID).all(|line| tidegate_protocol::forwarded::is_valid(ID, line)) {
        return false;
    }
    let lines: Vec<&[u8]> = headers.all_known(ID).collect();
    let kept = tidegate_protocol::forwarded::well_formed_end(lines.into_iter());
    headers.remove_known(ID);
    if !kept.is_empty() {
        headers.add(ID.name(), kept);
    }
    true
}

/// Removes the access token that the client sent, after plugins have read it. One that a plugin has set stays.
pub(crate) fn drop_credentials(request: &mut Request, client: &Downstream) {
    let sent = request.head.headers.known(HeaderId::XAccessToken).is_some();
    if !sent || is_gateway(&client.worker.settings.reading, client.facts.peer.ip()) {
        return;
    }
    let removed = request.head.headers.remove_received(HeaderId::XAccessToken);
    if removed > 0 {
        log_dropped(client.worker, client, HeaderId::XAccessToken.name().as_bytes());
        count(&client.worker.stats.dropped.identity, removed);
    }
}

/// Counts the fields that plugins dropped when they set headers.
pub(crate) fn count_of_plugins(request: &Request, client: &Downstream) {
    count(&client.worker.stats.dropped.plugin, request.asserted.others_dropped());
}

/// The part of the client's trailers that may go upstream.
pub(crate) fn trailers(request: &Request, client: &Downstream) -> Head {
    let mut trailers = client.take_trailers();
    if trailers.is_empty() {
        return trailers;
    }
    let worker = client.worker;
    let before = trailers.len();
    trailers.retain(|name, _| !request.asserted.contains(name));
    count(&worker.stats.dropped.trailer, before - trailers.len());
    trailers
}

/// Logged once as a warning, since an application may use the name for something else; then at level info.
fn log_dropped(worker: &Worker, client: &Downstream, name: &[u8]) {
    static WARNED: Once = Once::new();
    let name = String::from_utf8_lossy(name);
    let peer = client.facts.peer.ip();
    let mut level = Level::Info;
    WARNED.call_once(|| level = Level::Warn);
    let once = if level == Level::Warn {
        "; only the gateway sends this header to upstreams, unless apisix.trusted_gateways includes the \
         client's address (more are counted in request_headers_dropped_total)"
    } else {
        ""
    };
    error_log::log(level, format_args!("worker {}: dropped {name} from client {peer}{once}", worker.index));
}
