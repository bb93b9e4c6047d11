//! Strategy `disk`: what nginx's proxy cache does, in front of the upstream.

use std::sync::Arc;

use tidegate_plugin_api::{Reply, Request, Source, Step};
use tidegate_protocol::Method;

use super::{
    Capture, Exchange, ProxyCache, STATUS_HEADER,
    disk::Disk,
    entry::{CachedResponse, Stored, Unclear, Variants, base_key, variant_key},
    rules,
    zones::{self, Zone},
};

/// Fields that nginx does not pass on from an upstream, or that belong to one delivery.
const NOT_KEPT: [&str; 12] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authentication-info",
    "proxy-authorization",
    "te",
    "transfer-encoding",
    "upgrade",
    "content-length",
    "date",
    "apisix-cache-status",
    "x-apisix-upstream-status",
];

impl ProxyCache {
    pub(super) fn serve_from_disk<'a>(&'a self, disk: &'a Arc<Disk>, request: &'a mut Request) -> Step<'a> {
        let bypass = !self.settings.caches_method(request) || self.settings.bypasses(request);
        let known = matches!(request.head.method, Method::Get | Method::Head | Method::Post);
        let (key, asked) = (self.settings.key(request), self.settings.asked(request));
        let mut exchange = Exchange::new(self, key.clone(), asked);
        if known && bypass {
            exchange.status = Some("BYPASS");
        }
        request.extensions.insert(exchange);
        if !known || bypass {
            return Step::Next;
        }
        Step::wait(async move {
            let found = find(disk, request, &key).await;
            let Some(exchange) = request.extensions.get_mut::<Exchange>() else { return Ok(()) };
            match found {
                Err(Unclear) => exchange.status = Some("BYPASS"),
                Ok(None) => exchange.status = Some("MISS"),
                Ok(Some(answer)) if !answer.is_fresh() => exchange.status = Some("EXPIRED"),
                Ok(Some(answer)) => {
                    exchange.status = Some("HIT");
                    return Err(Box::new(reply(&answer, exchange)));
                }
            }
            Ok(())
        })
    }

    pub(super) fn disk_header_filter(&self, request: &mut Request, exchange: &Exchange) -> Option<Capture> {
        let capture = self.captured(request, exchange);
        let headers = &mut request.response.headers;
        if self.settings.hide_headers {
            headers.remove("Cache-Control");
            headers.remove("Expires");
        }
        match exchange.status {
            Some(status) => headers.set(STATUS_HEADER, status),
            None => {
                headers.remove(STATUS_HEADER);
            }
        }
        capture
    }

    fn captured(&self, request: &Request, exchange: &Exchange) -> Option<Capture> {
        let response = &request.response;
        let storable = exchange.status.is_some_and(|status| status != "HIT")
            && response.source == Source::Upstream
            && self.settings.caches_method(request)
            && self.settings.caches_status(response.status)
            && !self.settings.refuses_to_store(request)
            && !response.headers.contains("Set-Cookie");
        if !storable {
            return None;
        }
        let accelerated = rules::accel_lifetime(&response.headers);
        let permit =
            rules::permit(exchange.asked, response.status, &response.headers, accelerated.is_some())?;
        let default = || zones::zones().map_or(10.0, |zones| zones.default_ttl_seconds);
        let fresh_for = accelerated.or(permit.fresh_for).unwrap_or_else(default);
        let vary = rules::vary(&response.headers).filter(|_| fresh_for > 0.0)?;
        let kept = |name: &[u8]| !NOT_KEPT.iter().any(|other| name.eq_ignore_ascii_case(other.as_bytes()));
        let headers = response.headers.iter().filter(|(name, _)| kept(name));
        Some(Capture {
            status: response.status,
            headers: headers.map(|(name, value)| (name.to_vec(), value.to_vec())).collect(),
            body: self.room(request),
            age: permit.age,
            fresh_for,
            vary,
        })
    }
}

fn reply(answer: &CachedResponse, exchange: &mut Exchange) -> Reply {
    let mut reply = Reply::bytes(answer.status, answer.body.clone());
    exchange.typeless = true;
    for (name, value) in &answer.headers {
        exchange.typeless &= !name.eq_ignore_ascii_case(b"content-type");
        reply = reply.header(name, value);
    }
    let age = answer.age().max(0.0).floor();
    reply.headers.remove("Age");
    reply.header("Age", format!("{age}"))
}

async fn load(disk: &Arc<Disk>, key: Vec<u8>) -> Option<Stored> {
    if let Some(stored) = disk.written(&key) {
        return stored;
    }
    Zone::with_disk(disk, move |disk| disk.get(&key)).await?
}

async fn find(
    disk: &Arc<Disk>,
    request: &Request,
    key: &[u8],
) -> Result<Option<Arc<CachedResponse>>, Unclear> {
    let variants = match load(disk, base_key(key)).await {
        Some(Stored::Variants(variants)) => variants,
        found => return Ok(found.and_then(Stored::answer)),
    };
    let signature = Variants::signature(&variants.fields, request)?;
    Ok(load(disk, variant_key(key, &signature)).await.and_then(Stored::answer))
}
