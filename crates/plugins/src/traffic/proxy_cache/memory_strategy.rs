//! Strategy `memory`: APISIX's own cache.

use std::sync::Arc;

use tidegate_plugin_api::{Reply, Request, Step};

use super::{
    Capture, Exchange, ProxyCache, STATUS_HEADER, entry,
    entry::{CachedResponse, Stored, Unclear, Variants, base_key, variant_key},
    memory::Memory,
    rules::{self, Directives},
};

/// Fields that belong to one connection or one delivery.
const NOT_KEPT: [&str; 10] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "te",
    "trailers",
    "transfer-encoding",
    "upgrade",
    "content-length",
    "apisix-cache-status",
];

fn is_kept(name: &str) -> bool {
    !NOT_KEPT.iter().any(|other| name.eq_ignore_ascii_case(other))
        && !name.to_ascii_lowercase().contains("ratelimit-remaining")
}

fn is_cache_header(name: &str) -> bool {
    name.eq_ignore_ascii_case("expires") || name.eq_ignore_ascii_case("cache-control")
}

impl ProxyCache {
    pub(super) fn serve_from_memory<'a>(&'a self, memory: &Memory, request: &'a mut Request) -> Step<'a> {
        let directives = Directives::of_request(&request.head.headers);
        if let Some(status) = self.not_for_the_cache(request, &directives) {
            request.early_headers.set(STATUS_HEADER, status);
            return Step::Next;
        }
        let key = self.settings.key(request);
        let Ok(found) = find(memory, request, &key) else {
            request.early_headers.set(STATUS_HEADER, "BYPASS");
            return Step::Next;
        };
        let status = match &found {
            None if self.settings.cache_control && directives.only_if_cached => {
                request.early_headers.set(STATUS_HEADER, "MISS");
                return Step::reply(Reply::page(504));
            }
            None => "MISS",
            Some(answer) if !answer.is_fresh() => "EXPIRED",
            Some(answer) if self.settings.cache_control && is_too_old(answer, &directives) => "STALE",
            Some(_) => "HIT",
        };
        let mut exchange = Exchange::new(self, key, self.settings.asked(request));
        exchange.status = Some(status);
        let reply = found.filter(|_| status == "HIT").map(|answer| self.reply(&answer, &mut exchange));
        request.extensions.insert(exchange);
        match reply {
            Some(reply) => {
                request.early_headers.remove(STATUS_HEADER);
                Step::reply(reply)
            }
            None => {
                request.early_headers.set(STATUS_HEADER, status);
                Step::Next
            }
        }
    }

    fn not_for_the_cache(&self, request: &Request, directives: &Directives) -> Option<&'static str> {
        if !self.settings.caches_method(request) {
            return Some("MISS");
        }
        let refused = self.settings.cache_control && (directives.no_store || directives.no_cache);
        (refused || self.settings.bypasses(request)).then_some("BYPASS")
    }

    fn reply(&self, answer: &CachedResponse, exchange: &mut Exchange) -> Reply {
        let mut reply = Reply::bytes(answer.status, answer.body.clone());
        exchange.typeless = true;
        for (name, value) in &answer.headers {
            let name = String::from_utf8_lossy(name);
            if is_kept(&name) && !(self.settings.hide_headers && is_cache_header(&name)) {
                exchange.typeless &= !name.eq_ignore_ascii_case("content-type");
                reply = reply.header(&*name, value);
            }
        }
        let age = answer.age().max(0.0).floor();
        reply.headers.remove("Age");
        reply.header("Age", format!("{age}")).header(STATUS_HEADER, "HIT")
    }

    pub(super) fn memory_header_filter(&self, request: &mut Request, exchange: &Exchange) -> Option<Capture> {
        if exchange.status == Some("HIT") {
            return None;
        }
        let permit = rules::permit(exchange.asked, request.response.status, &request.response.headers, false);
        if self.settings.hide_headers {
            request.response.headers.remove("Expires");
            request.response.headers.remove("Cache-Control");
        }
        let permit = permit?;
        let response = &request.response;
        let fresh_for = match permit.fresh_for {
            said if self.settings.cache_control => said.unwrap_or(0.0),
            // The configured lifetime never makes up for one that the upstream has ended.
            Some(said) => said.min(self.settings.ttl_seconds),
            None => self.settings.ttl_seconds,
        };
        let cacheable = self.settings.caches_status(response.status)
            && !self.settings.refuses_to_store(request)
            && fresh_for > 0.0
            && (self.settings.keep_set_cookie || !response.headers.contains("Set-Cookie"));
        let vary = rules::vary(&response.headers).filter(|_| cacheable)?;
        Some(Capture {
            status: response.status,
            headers: response
                .headers
                .iter()
                .filter(|(name, _)| is_kept(&String::from_utf8_lossy(name)))
                .map(|(name, value)| (name.to_vec(), value.to_vec()))
                .collect(),
            body: self.room(request),
            age: permit.age,
            fresh_for,
            vary,
        })
    }
}

/// What is stored for the request, fresh or not.
fn find(memory: &Memory, request: &Request, key: &[u8]) -> Result<Option<Arc<CachedResponse>>, Unclear> {
    let variants = match memory.get(&base_key(key)) {
        Some(Stored::Variants(variants)) => variants,
        found => return Ok(found.and_then(Stored::answer)),
    };
    let signature = Variants::signature(&variants.fields, request)?;
    Ok(memory.get(&variant_key(key, &signature)).and_then(Stored::answer))
}

/// The client wants a younger answer than this one.
fn is_too_old(answer: &entry::CachedResponse, wanted: &Directives) -> bool {
    let age = answer.age();
    wanted.max_age.is_some_and(|max_age| age > max_age)
        || wanted.max_stale.is_some_and(|max_stale| age - answer.ttl > max_stale)
        || wanted.min_fresh.is_some_and(|min_fresh| answer.ttl - age < min_fresh)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::clock::unix_seconds;

    #[test]
    fn fields_of_one_delivery_are_not_kept() {
        let cases = [
            ("Content-Type", true),
            ("Content-Length", false),
            ("X-RateLimit-Remaining", false),
            ("Apisix-Cache-Status", false),
            ("Set-Cookie", true),
        ];
        for (name, expected) in cases {
            assert_eq!(is_kept(name), expected, "{name}");
        }
    }

    #[test]
    fn clients_may_want_younger_answers() {
        let stored = unix_seconds() - 50.0;
        let answer =
            CachedResponse { status: 200, headers: Vec::new(), body: bytes::Bytes::new(), stored, ttl: 60.0 };
        let cases = [
            (Directives::default(), false),
            (Directives { max_age: Some(10.0), ..Directives::default() }, true),
            (Directives { max_age: Some(55.0), ..Directives::default() }, false),
            (Directives { min_fresh: Some(30.0), ..Directives::default() }, true),
            (Directives { max_stale: Some(0.0), ..Directives::default() }, false),
        ];
        for (wanted, expected) in cases {
            assert_eq!(is_too_old(&answer, &wanted), expected, "{wanted:?}");
        }
    }
}
