//! Keeps answers to GraphQL queries, in the zones of proxy-cache, by what was asked.
//!
//! It reads the request and leaves the rest to [`ProxyCache`]: a question that may change something has no key, and passes by.

use std::{any::Any, sync::Arc};

use data_encoding::HEXLOWER;
use md5::{Digest, Md5};
use serde_json::{Value, json};
use tidegate_plugin_api::{
    Api, BodyChunk, BuildContext, Foresight, Handler, Instance, Phases, Plugin, PluginDef, Reply, Request,
    SchemaKind, Step, aside,
    graphql::{Document, Kind},
    step::Verdict,
};
use tidegate_protocol::Method;
use tidegate_telemetry::error_log::{self, Level};

use super::proxy_cache::{self, ProxyCache};
use crate::common::graphql_request::{self, Question};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "graphql-proxy-cache",
    version: 0.1,
    priority: 1009,
    guards: false,
    schema: include_str!("graphql_proxy_cache.json"),
    phases: Phases::ACCESS.and(Phases::STORED).and(Phases::HEADER_FILTER).and(Phases::BODY_FILTER),
    check,
    build,
    apis: &[Api { methods: &["PURGE"], uri: PURGES, handler: Handler::Function(purge) }],
    ..PluginDef::DEFAULT
};

const PURGES: &str = "/apisix/plugin/graphql-proxy-cache/*";

const KEY_HEADER: &str = "APISIX-Cache-Key";

/// What was asked, in the key; without it there is none.
const QUESTION: &str = "graphql_proxy_cache_question";

/// The configuration as proxy-cache has it.
fn of_proxy_cache(conf: &Value, version: u64) -> Value {
    let field = |name: &str| conf.get(name).cloned().unwrap_or_default();
    json!({
        "cache_strategy": field("cache_strategy"),
        "cache_zone": field("cache_zone"),
        "cache_ttl": field("cache_ttl"),
        "consumer_isolation": field("consumer_isolation"),
        "cache_set_cookie": field("cache_set_cookie"),
        // Answers from before a change of the configuration are not given any more.
        "cache_key": [format!("{version}:"), "$host", "$request_uri", format!("${QUESTION}")],
        "cache_method": ["GET", "POST"],
        "cache_http_status": [200],
        "max_resp_body_size": 64 << 20,
        "hide_cache_headers": false,
        "cache_control": false,
    })
}

fn check(conf: &Value, kind: SchemaKind) -> Result<(), String> {
    if kind == SchemaKind::Plugin { proxy_cache::check(&of_proxy_cache(conf, 0), kind) } else { Ok(()) }
}

fn build(conf: &Value, context: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let cache = ProxyCache::new(&of_proxy_cache(conf, context.owner.version), true)?;
    Ok(Arc::new(GraphqlProxyCache(cache)))
}

struct GraphqlProxyCache(ProxyCache);

impl Plugin for GraphqlProxyCache {
    fn access<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        match request.head.method {
            Method::Get => Step::wait(async move {
                let question = Question::of_get(request)?;
                let asked = request.head.query().unwrap_or_default().to_vec();
                self.asked(request, question, asked).await
            }),
            Method::Post => Step::wait(async move {
                let question = Question::of_post(request).await?;
                let kind = request.header("Content-Type").unwrap_or_default();
                let asked = [kind, b"\n", graphql_request::body(request)].concat();
                self.asked(request, question, asked).await
            }),
            _ => Step::reply(Reply::page(405)),
        }
    }

    fn stored<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        self.0.stored(request)
    }

    fn header_filter(&self, request: &mut Request) {
        let key = self.0.looked_for(request).map(<[u8]>::to_vec);
        self.0.header_filter(request);
        if let Some(key) = key {
            request.response.headers.set(KEY_HEADER, key);
        }
    }

    fn body_filter(&self, request: &mut Request, chunk: &mut BodyChunk) {
        self.0.body_filter(request, chunk);
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }

    fn foresee(&self, phase: Phases, request: &mut Request) -> Foresight {
        match phase {
            Phases::STORED => self.0.foresee(phase, request),
            _ => Foresight::by_running(self, phase, request),
        }
    }
}

impl GraphqlProxyCache {
    async fn asked(&self, request: &mut Request, question: Question, asked: Vec<u8>) -> Verdict {
        let read = aside::run_by_size(request.remote_addr, question.text.len(), move || {
            Ok::<_, Box<Reply>>(only_queries(&graphql_request::document(&question.text)?))
        });
        if read.await.map_err(|aside::Undone| Reply::page(503))?? {
            request.set_variable(QUESTION, HEXLOWER.encode(&Md5::digest(&asked)));
        }
        match self.0.access(request) {
            Step::Reply(reply) => Err(reply),
            _ => Ok(()),
        }
    }
}

/// Whatever operation of it runs, it changes nothing.
fn only_queries(document: &Document) -> bool {
    document.operations.iter().all(|operation| operation.kind == Kind::Query)
}

/// `PURGE /apisix/plugin/graphql-proxy-cache/STRATEGY/ROUTE/KEY`
fn purge(request: &mut Request) -> Step<'_> {
    let path = String::from_utf8_lossy(&request.path).into_owned();
    let rest = path.strip_prefix(PURGES.trim_end_matches('*')).unwrap_or_default();
    let mut parts = rest.split('/');
    let (Some(strategy), Some(route), Some(key), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Step::reply(Reply::page(404));
    };
    let refused = |status: u16, reason: String| {
        error_log::log(Level::Error, format_args!("{reason}"));
        Step::reply(Reply::page(status))
    };
    if !matches!(strategy, "disk" | "memory") {
        return refused(400, format!("invalid strategy in purge request: {strategy}"));
    }
    let mut routes = request.snapshot.routes.iter();
    let found =
        routes.find(|found| *found.id == *route).and_then(|route| route.chain.find(PLUGIN.name)).cloned();
    let Some(GraphqlProxyCache(cache)) = cache_of(found.as_ref()) else {
        return refused(404, format!("failed to find graphql-proxy-cache conf, route_id: {route}"));
    };
    let configured = if cache.is_in_memory() { "memory" } else { "disk" };
    if strategy != configured {
        return refused(
            400,
            format!(
                "strategy mismatch: request strategy is {strategy} but route is configured with {configured}"
            ),
        );
    }
    let key = key.as_bytes().to_vec();
    Step::wait(async move {
        let removed = match cache_of(found.as_ref()) {
            Some(GraphqlProxyCache(cache)) => cache.remove(key).await,
            None => false,
        };
        Err(Box::new(Reply::page(if removed { 200 } else { 404 })))
    })
}

fn cache_of(instance: Option<&Arc<Instance>>) -> Option<&GraphqlProxyCache> {
    instance?.plugin.as_any()?.downcast_ref()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_kept() {
        for (text, expected) in [
            ("{a}", true),
            ("query A {a} query B {b} fragment F on T {c}", true),
            ("query{persons{id}} mutation{addTalk{id}}", false),
            ("subscription {s}", false),
        ] {
            assert_eq!(only_queries(&Document::parse(text).expect("parses")), expected, "{text}");
        }
    }
}
