//! Reports sampled requests to Zipkin (or a collector that takes its format), and passes the trace on in B3 headers.

mod b3;

use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tidegate_clients::{
    batch::{self, Batch, Lot},
    http::{self, Body, ClientOptions, Endpoint, Outgoing},
};
use tidegate_model::random::random_fraction;
use tidegate_plugin_api::{
    BuildContext, Foresight, Phases, Plugin, PluginDef, Reply, Request, Source, Step, Variable,
    host::plugin_attribute, variables::Named,
};
use tidegate_telemetry::error_log::{self, Level};

use crate::common::conf::typed;

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "zipkin",
    version: 0.1,
    priority: 12011,
    guards: false,
    schema: include_str!("zipkin.json"),
    phases: Phases::REWRITE.and(Phases::ACCESS).and(Phases::HEADER_FILTER).and(Phases::LOG),
    build,
    ..PluginDef::DEFAULT
};

#[derive(Deserialize)]
struct Conf {
    endpoint: String,
    sample_ratio: f64,
    service_name: String,
    server_addr: Option<String>,
    span_version: u8,
}

struct Zipkin {
    conf: Conf,
    set_variables: bool,
    batch: Batch<Value>,
}

fn build(conf: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let typed: Conf = typed(conf)?;
    let endpoint = Endpoint::parse(&typed.endpoint)?;
    let url = tidegate_model::url::without_user(&typed.endpoint);
    let processor = json!({
        "name": "zipkin report",
        "batch_max_size": 1000,
        "max_retry_count": 0,
        "retry_delay": 1,
        "buffer_duration": 60,
        "inactive_timeout": 5,
    });
    let batch = Batch::new(PLUGIN.name, &processor, None, move |spans: Arc<Lot<Value>>| {
        let (endpoint, url) = (endpoint.clone(), url.clone());
        Box::pin(async move {
            let outgoing = Outgoing::post(endpoint, "application/json", batch::json(&spans, 0));
            let options = ClientOptions { body: Body::SAID, ..ClientOptions::default() };
            match http::send(outgoing, &options).await {
                Ok(answer) if (200..300).contains(&answer.status) => Ok(()),
                Ok(answer) => Err(format!("failed: {url} {}", answer.status)),
                Err(reason) => Err(format!("report zipkin span failed: {reason}, url: {url}")),
            }
        })
    })?;
    let attributes = plugin_attribute("zipkin");
    let set_variables =
        attributes.and_then(|attributes| attributes.get("set_ngx_var")).and_then(Value::as_bool);
    Ok(Arc::new(Zipkin { conf: typed, set_variables: set_variables.unwrap_or(false), batch }))
}

/// The spans of one request, until it is logged. Times in microseconds since 1970.
struct Trace {
    trace_id: String,
    parent_id: Option<String>,
    request_id: String,
    /// Of a sampled request: the span that the upstream's is a child of.
    proxy_id: String,
    sampled: bool,
    start: u64,
    rewritten: u64,
    accessed: u64,
    answered: Option<u64>,
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as u64
}

impl Plugin for Zipkin {
    fn rewrite<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        let incoming = match b3::Incoming::take(request) {
            Ok(incoming) => incoming,
            Err(reason) => {
                error_log::log(Level::Error, format_args!("invalid b3 header, ignored: {reason}"));
                return Step::reply(Reply::page(400));
            }
        };
        let dice = random_fraction();
        let sampled = incoming.decision().unwrap_or(dice < self.conf.sample_ratio);
        let (trace_id, parent_id) = match incoming.context() {
            Some((trace_id, span_id)) => (trace_id, Some(span_id)),
            None => (format!("{}{}", b3::new_id(), b3::new_id()), None),
        };
        let start = now().saturating_sub(request.started.elapsed().as_micros() as u64);
        let trace = Trace {
            trace_id,
            parent_id,
            request_id: b3::new_id(),
            proxy_id: b3::new_id(),
            sampled,
            start,
            rewritten: now(),
            accessed: start,
            answered: None,
        };
        if self.set_variables {
            let Trace { trace_id, request_id, .. } = &trace;
            let traceparent = format!("00-{trace_id}-{request_id}-{:02x}", u8::from(sampled));
            request.set_variable("zipkin_context_traceparent", traceparent);
            request.set_variable("zipkin_trace_id", trace_id.as_str());
            request.set_variable("zipkin_span_id", request_id.as_str());
        }
        request.extensions.insert(trace);
        Step::Next
    }

    fn access<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        let Some(trace) = request.extensions.get_mut::<Trace>() else { return Step::Next };
        trace.accessed = now();
        let headers = &mut request.head.headers;
        headers.set("x-b3-traceid", &trace.trace_id);
        headers.set("x-b3-sampled", if trace.sampled { "1" } else { "0" });
        if trace.sampled {
            headers.set("x-b3-parentspanid", &trace.request_id);
            headers.set("x-b3-spanid", &trace.proxy_id);
        } else {
            headers.set("x-b3-spanid", &trace.request_id);
            if let Some(parent) = &trace.parent_id {
                headers.set("x-b3-parentspanid", parent);
            }
        }
        Step::Next
    }

    fn header_filter(&self, request: &mut Request) {
        if let Some(trace) = request.extensions.get_mut::<Trace>() {
            trace.answered = Some(now());
        }
    }

    fn log(&self, request: &mut Request) {
        let Some(trace) = request.extensions.take::<Trace>().filter(|trace| trace.sampled) else { return };
        for span in self.spans(&trace, request) {
            self.batch.push(request, span);
        }
    }

    fn foresee(&self, phase: Phases, request: &mut Request) -> Foresight {
        Foresight::by_running(self, phase, request)
    }
}

impl Zipkin {
    fn spans(&self, trace: &Trace, request: &Request) -> Vec<Value> {
        let end = now();
        let address = text(request, Named::ServerAddr);
        let local = json!({
            "serviceName": self.conf.service_name,
            "ipv4": self.conf.server_addr.as_deref().filter(|address| !address.is_empty()).unwrap_or(&address),
            "port": request.connection.local.port(),
        });
        let span = |name: &str, id: &str, parent: Option<&str>, from: u64, to: u64| {
            let mut span = Map::new();
            span.insert("traceId".to_owned(), trace.trace_id.as_str().into());
            span.insert("name".to_owned(), name.into());
            if let Some(parent) = parent {
                span.insert("parentId".to_owned(), parent.into());
            }
            span.insert("id".to_owned(), id.into());
            span.insert("timestamp".to_owned(), from.into());
            span.insert("duration".to_owned(), to.saturating_sub(from).into());
            span.insert("localEndpoint".to_owned(), local.clone());
            span.insert("remoteEndpoint".to_owned(), Value::Null);
            span.insert("tags".to_owned(), json!({}));
            span
        };
        let root = Some(trace.request_id.as_str());
        let mut spans = Vec::with_capacity(5);
        if self.conf.span_version == 1 {
            spans.push(span("apisix.rewrite", &b3::new_id(), root, trace.start, trace.rewritten));
            spans.push(span("apisix.access", &b3::new_id(), root, trace.rewritten, trace.accessed));
            if let Some(answered) = trace.answered {
                let proxy = Some(trace.proxy_id.as_str());
                spans.push(span("apisix.body_filter", &b3::new_id(), proxy, answered, end));
            }
            spans.push(span("apisix.proxy", &trace.proxy_id, root, trace.accessed, end));
        } else if let Some(answered) = trace.answered {
            spans.push(span("apisix.proxy", &trace.proxy_id, root, trace.start, answered));
            spans.push(span("apisix.response_span", &b3::new_id(), root, answered, end));
        }
        let mut whole =
            span("apisix.request", &trace.request_id, trace.parent_id.as_deref(), trace.start, end);
        whole.insert("kind".to_owned(), "SERVER".into());
        whole.insert(
            "remoteEndpoint".to_owned(),
            json!({
                "ipv4": request.remote_addr.to_string(),
                "port": request.remote_port,
            }),
        );
        whole.insert(
            "tags".to_owned(),
            json!({
                "component": "apisix",
                "http.method": text(request, Named::RequestMethod),
                "http.url": text(request, Named::RequestUri),
                "http.status_code": request.response.status.to_string(),
                "apisix.response_source": response_source(request),
            }),
        );
        spans.push(whole);
        spans.into_iter().map(Value::Object).collect()
    }
}

fn text(request: &Request, named: Named) -> String {
    String::from_utf8_lossy(&request.variable(&Variable::Named(named)).unwrap_or_default()).into_owned()
}

fn response_source(request: &Request) -> &'static str {
    match request.response.source {
        Source::Upstream => "upstream",
        Source::ErrorPage if !request.outcome.attempts.is_empty() => "nginx",
        _ => "apisix",
    }
}
