//! Reports each request as a span to an OpenTelemetry collector (OTLP over HTTP, protobuf), and passes the trace on
//! to the upstream in `traceparent`.

mod context;
mod otlp;
mod sampler;

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tidegate_clients::{
    batch::{Batch, Lot},
    http::{self, Body, ClientOptions, Endpoint, Outgoing},
};
use tidegate_model::header_text::Text;
use tidegate_plugin_api::{
    BuildContext, Foresight, Phases, Plugin, PluginDef, Request, Source, Step, Variable, host,
    host::plugin_attribute, variables::Named,
};
use tidegate_telemetry::error_log::{self, Level};

use self::{
    context::TraceContext,
    otlp::{Attribute, Span},
    sampler::Sampler,
};
use crate::common::conf::typed;

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "opentelemetry",
    version: 0.1,
    priority: 12009,
    on_by_default: false,
    guards: false,
    schema: include_str!("opentelemetry.json"),
    metadata_schema: Some(include_str!("opentelemetry.metadata.json")),
    phases: Phases::REWRITE.and(Phases::LOG),
    headers: &[("additional_header_prefix_attributes", Text::Value)],
    metadata_headers: &[("collector.request_headers", Text::Fields)],
    remarks: sampler::remarks,
    metadata_remarks,
    build,
    ..PluginDef::DEFAULT
};

#[derive(Deserialize)]
struct Conf {
    sampler: sampler::Conf,
    #[serde(default)]
    additional_attributes: Vec<String>,
    #[serde(default)]
    additional_header_prefix_attributes: Vec<String>,
}

/// The plugin's metadata; what is missing has the defaults of APISIX's library.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Metadata {
    trace_id_source: String,
    resource: Option<Map<String, Value>>,
    collector: Collector,
    batch_span_processor: Processor,
    set_ngx_var: bool,
}

#[derive(Deserialize)]
#[serde(default)]
struct Collector {
    address: String,
    /// Seconds.
    request_timeout: u64,
    request_headers: Map<String, Value>,
}

impl Default for Collector {
    fn default() -> Collector {
        Collector { address: "127.0.0.1:4318".to_owned(), request_timeout: 3, request_headers: Map::new() }
    }
}

#[derive(Deserialize)]
#[serde(default)]
struct Processor {
    max_queue_size: u64,
    /// Seconds.
    batch_timeout: f64,
    inactive_timeout: f64,
    max_export_batch_size: u64,
}

impl Default for Processor {
    fn default() -> Processor {
        Processor {
            max_queue_size: 2048,
            batch_timeout: 5.0,
            inactive_timeout: 2.0,
            max_export_batch_size: 256,
        }
    }
}

fn metadata_remarks(conf: &Value) -> Vec<String> {
    let waits = conf.pointer("/batch_span_processor/drop_on_queue_full") == Some(&Value::Bool(false));
    let remark = "batch_span_processor.drop_on_queue_full: false has no effect: a full queue drops, and no request waits for it";
    waits.then(|| remark.to_owned()).into_iter().collect()
}

struct OpenTelemetry {
    sampler: Sampler,
    additional: Vec<(String, Variable)>,
    header_attributes: Vec<String>,
    id_from_header: bool,
    set_variables: bool,
    batch: Batch<Span>,
}

/// Without metadata there is no collector to report to: requests pass untouched, as in APISIX.
struct Idle;

impl Plugin for Idle {
    fn phases(&self) -> Phases {
        Phases::NONE
    }
}

fn build(conf: &Value, context: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let typed_conf: Conf = typed(conf)?;
    let attributes =
        plugin_attribute("opentelemetry").filter(|attributes| attributes.get("collector").is_some());
    let Some(metadata) =
        context.metadata.filter(|metadata| metadata.get("collector").is_some()).or(attributes)
    else {
        error_log::log(
            Level::Warn,
            format_args!("plugin_metadata is required for opentelemetry plugin to working properly"),
        );
        return Ok(Arc::new(Idle));
    };
    let metadata: Metadata = typed(metadata)?;
    let variables = typed_conf.additional_attributes.iter();
    Ok(Arc::new(OpenTelemetry {
        sampler: Sampler::new(&typed_conf.sampler),
        additional: variables.map(|name| (name.clone(), Variable::of_text(name))).collect(),
        header_attributes: typed_conf.additional_header_prefix_attributes,
        id_from_header: metadata.trace_id_source == "x-request-id",
        set_variables: metadata.set_ngx_var,
        batch: batch(metadata)?,
    }))
}

fn batch(metadata: Metadata) -> Result<Batch<Span>, String> {
    let collector = metadata.collector;
    let endpoint = Endpoint::at(&collector.address, "/v1/traces")?;
    let options = ClientOptions {
        timeout: Duration::from_secs(collector.request_timeout),
        body: Body::SAID,
        ..ClientOptions::default()
    };
    let headers: Vec<(String, String)> =
        collector.request_headers.iter().map(|(name, value)| (name.clone(), plain(value))).collect();
    let exporter = Arc::new((endpoint, options, headers, resource(metadata.resource.as_ref())));
    let processor = metadata.batch_span_processor;
    let conf = json!({
        "name": "opentelemetry",
        "batch_max_size": processor.max_export_batch_size.max(1),
        "max_retry_count": 0,
        "retry_delay": 1,
        "buffer_duration": processor.batch_timeout,
        "inactive_timeout": processor.inactive_timeout,
    });
    let limits = json!({ "max_pending_entries": processor.max_queue_size.max(1) });
    Batch::new(PLUGIN.name, &conf, Some(&limits), move |spans: Arc<Lot<Span>>| {
        let exporter = exporter.clone();
        Box::pin(async move {
            let (endpoint, options, headers, resource) = &*exporter;
            let body = otlp::export(resource, &spans);
            let mut outgoing = Outgoing::post(endpoint.clone(), "application/x-protobuf", body);
            for (name, value) in headers {
                outgoing = outgoing.header(name, value.as_bytes());
            }
            let answer = http::send(outgoing, options).await?;
            match answer.status {
                200..300 => Ok(()),
                status => Err(format!("collector answered {status}")),
            }
        })
    })
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn resource(configured: Option<&Map<String, Value>>) -> Vec<(String, Attribute)> {
    let hostname = host().map_or("localhost", |host| &host.hostname);
    let mut attributes = vec![("hostname".to_owned(), Attribute::Text(hostname.to_owned()))];
    let Some(configured) = configured else { return attributes };
    if !configured.contains_key("service.name") {
        attributes.push(("service.name".to_owned(), Attribute::Text("APISIX".to_owned())));
    }
    for (name, value) in configured {
        let value = match value {
            Value::Bool(value) => Attribute::Bool(*value),
            Value::Number(number) => Attribute::Double(number.as_f64().unwrap_or_default()),
            other => Attribute::Text(plain(other)),
        };
        attributes.push((name.clone(), value));
    }
    attributes
}

/// What a request keeps of its span until the log phase.
struct Started {
    context: TraceContext,
    parent: Option<String>,
}

impl Plugin for OpenTelemetry {
    fn rewrite<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        let parent = TraceContext::extract(request);
        let trace_id = match &parent {
            Some(parent) => parent.trace_id.clone(),
            None => self.new_trace_id(request),
        };
        let sampled = self.sampler.samples(&trace_id, parent.as_ref());
        let context = TraceContext { trace_id, span_id: context::new_span_id(), sampled };
        let header = context.header();
        request.head.headers.set("traceparent", &header);
        if self.set_variables {
            request.set_variable("opentelemetry_context_traceparent", header);
            request.set_variable("opentelemetry_trace_id", context.trace_id.as_str());
            request.set_variable("opentelemetry_span_id", context.span_id.as_str());
        }
        if sampled {
            let parent = parent.map(|parent| parent.span_id);
            request.extensions.insert(Started { context, parent });
        }
        Step::Next
    }

    fn log(&self, request: &mut Request) {
        let Some(Started { context, parent }) = request.extensions.take::<Started>() else { return };
        let end = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let start = end.saturating_sub(request.started.elapsed());
        let status = request.response.status;
        let mut name = text(request, Named::RequestMethod);
        if let Some(pattern) = pattern(request) {
            name = format!("{name} {pattern}");
        }
        let span = Span {
            trace_id: context.trace_id,
            span_id: context.span_id,
            parent_span_id: parent,
            trace_state: request.header_str("tracestate").unwrap_or_default().to_owned(),
            name,
            start: start.as_nanos() as u64,
            end: end.as_nanos() as u64,
            error: (status >= 500).then(|| format!("{} error: {status}", response_source(request))),
            attributes: self.attributes(request),
        };
        self.batch.push(request, span);
    }

    fn foresee(&self, _: Phases, _: &mut Request) -> Foresight {
        Foresight::Continues
    }
}

fn text(request: &Request, named: Named) -> String {
    let value = request.variable(&Variable::Named(named)).unwrap_or_default();
    String::from_utf8_lossy(&value).into_owned()
}

fn response_source(request: &Request) -> &'static str {
    match request.response.source {
        Source::Upstream => "upstream",
        Source::ErrorPage if !request.outcome.attempts.is_empty() => "nginx",
        _ => "apisix",
    }
}

/// The pattern of the route that matched.
fn pattern(request: &Request) -> Option<&str> {
    let pattern = &*request.matched.uri;
    (request.route.is_some() && !pattern.is_empty()).then_some(pattern)
}

impl OpenTelemetry {
    fn new_trace_id(&self, request: &Request) -> String {
        if self.id_from_header {
            let mut headers = request.head.headers.get_all("x-request-id");
            let id = match (headers.next(), headers.next()) {
                (Some(only), None) => String::from_utf8_lossy(only).to_lowercase(),
                (None, _) => request.request_id().to_owned(),
                _ => String::new(),
            };
            if context::is_trace_id(&id) {
                return id;
            }
        }
        context::new_trace_id()
    }

    fn attributes(&self, request: &Request) -> Vec<(String, Attribute)> {
        let mut attributes = Vec::with_capacity(24);
        let mut add = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                attributes.push((name.to_owned(), Attribute::Text(value)));
            }
        };
        let named = |named| Some(text(request, named));
        let agent = request.header("user-agent").map(|agent| String::from_utf8_lossy(agent).into_owned());
        add("net.host.name", named(Named::Host));
        add("http.method", named(Named::RequestMethod));
        add("http.scheme", named(Named::Scheme));
        add("http.target", named(Named::RequestUri));
        add("http.user_agent", agent.clone());
        add("http.request.method", named(Named::RequestMethod));
        add("url.scheme", named(Named::Scheme));
        add("url.path", named(Named::Uri));
        add("user_agent.original", agent);
        if let Some(route) = &request.route {
            add("apisix.route_id", Some(route.id.to_string()));
            add("apisix.route_name", route.name.as_deref().map(str::to_owned));
            add("http.route", pattern(request).map(str::to_owned));
            add("apisix.service_id", route.service_id().map(|id| id.to_string()));
            add("apisix.service_name", route.service_name().map(|name| name.to_string()));
        }
        add("apisix.response_source", Some(response_source(request).to_owned()));
        for (name, variable) in &self.additional {
            add(name, request.variable(variable).map(|value| String::from_utf8_lossy(&value).into_owned()));
        }
        for wanted in &self.header_attributes {
            for (name, value) in headers(request, wanted) {
                add(&name, Some(value));
            }
        }
        let status = i64::from(request.response.status);
        attributes.push(("http.status_code".to_owned(), Attribute::Int(status)));
        attributes.push(("http.response.status_code".to_owned(), Attribute::Int(status)));
        attributes
    }
}

/// The request headers that `x-*` or `x-name` means; repeated ones joined.
fn headers(request: &Request, wanted: &str) -> Vec<(String, String)> {
    let prefix = wanted.strip_suffix('*').filter(|prefix| !prefix.is_empty());
    let mut found: Vec<(String, String)> = Vec::new();
    for (name, value) in request.head.headers.iter() {
        let name = String::from_utf8_lossy(name).to_lowercase();
        let meant = match prefix {
            Some(prefix) => name.starts_with(prefix),
            None => name == wanted.to_lowercase().replace('_', "-"),
        };
        if !meant {
            continue;
        }
        let value = String::from_utf8_lossy(value);
        let name = if prefix.is_some() { name } else { wanted.to_owned() };
        match found.iter_mut().find(|(other, _)| *other == name) {
            Some((_, values)) => *values = format!("{values}, {value}"),
            None => found.push((name, value.into_owned())),
        }
    }
    found
}
