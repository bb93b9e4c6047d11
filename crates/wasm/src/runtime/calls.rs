//! `proxy_http_call`: requests to other services. The worker goes on with other requests meanwhile.

use std::{net::IpAddr, time::Duration};

use bytes::Bytes;
use tidegate_clients::http::{self, Body, ClientOptions, Endpoint, Incoming, Method, TlsWanted};

/// Bodies of calls, and of their answers.
const MAX_BYTES: usize = 8 << 20;
const MAX_FIELDS: usize = 256;
const MOST_TIME: Duration = Duration::from_secs(600);
const KEPT: usize = 5;

/// A call on its way.
pub(super) struct Dispatched {
    pub id: u32,
    /// The context that dispatched it, and the one of its configuration.
    pub context: u32,
    pub root: u32,
    outgoing: http::Outgoing,
    timeout: Duration,
}

/// What a module says of a call.
pub(super) struct Wanted {
    /// As in APISIX: `host:port`.
    pub upstream: String,
    pub headers: Vec<(Vec<u8>, Vec<u8>)>,
    pub body: Bytes,
    pub timeout_ms: u32,
    pub client: Option<IpAddr>,
}

impl Dispatched {
    /// `None`: something is missing, or too large.
    pub(super) fn new(id: u32, context: u32, root: u32, wanted: Wanted) -> Option<Dispatched> {
        if wanted.body.len() > MAX_BYTES || wanted.headers.len() > MAX_FIELDS {
            return None;
        }
        let text = |name: &[u8]| {
            let found = wanted.headers.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
            found.map(|(_, value)| String::from_utf8_lossy(value).into_owned())
        };
        let scheme =
            text(b":scheme").filter(|scheme| !scheme.is_empty()).unwrap_or_else(|| "http".to_owned());
        let authority = text(b":authority").or_else(|| text(b"host"));
        let server = match wanted.upstream.is_empty() {
            true => authority.clone()?,
            false => wanted.upstream,
        };
        let path = text(b":path").filter(|path| path.starts_with('/')).unwrap_or_else(|| "/".to_owned());
        let method = text(b":method").unwrap_or_else(|| "GET".to_owned());
        let mut headers: Vec<(String, Vec<u8>)> = Vec::with_capacity(wanted.headers.len());
        if let Some(authority) = authority {
            headers.push(("Host".to_owned(), authority.into_bytes()));
        }
        for (name, value) in wanted.headers {
            if !name.starts_with(b":") && !name.eq_ignore_ascii_case(b"host") {
                headers.push((String::from_utf8(name).ok()?, value));
            }
        }
        let outgoing = http::Outgoing {
            method: Method::from_bytes(method.as_bytes()).ok()?,
            endpoint: Endpoint::parse(&format!("{scheme}://{server}{path}")).ok()?,
            headers,
            body: wanted.body,
            client: wanted.client,
        };
        let timeout = Duration::from_millis(u64::from(wanted.timeout_ms.max(1))).min(MOST_TIME);
        Some(Dispatched { id, context, root, outgoing, timeout })
    }

    /// The answer, or the reason for the error log.
    pub(super) async fn send(self) -> Result<Incoming, String> {
        let options = ClientOptions {
            timeout: self.timeout,
            tls: TlsWanted { verify: true, client: None },
            keepalive: true,
            keepalive_timeout: Duration::from_secs(60),
            keepalive_pool: KEPT,
            body: Body::Whole(MAX_BYTES),
            // What a service does twice is not the same as what it does once.
            repeats: false,
            proxies: None,
        };
        // The limit of the module is for the whole call.
        match tokio::time::timeout(self.timeout, http::send(self.outgoing, &options)).await {
            Ok(answer) => answer.map_err(|error| error.to_string()),
            Err(_) => Err("timeout".to_owned()),
        }
    }
}
