//! Counts requests, latencies and bytes under APISIX's metric names, in the worker's own shard.
//!
//! The text is made on the control thread from relaxed reads; a scrape never touches a worker.

use std::{
    cell::RefCell,
    sync::{Arc, OnceLock},
    time::Duration,
};

use ahash::RandomState;
use serde::Deserialize;
use serde_json::Value;
use tidegate_plugin_api::{
    Api, BuildContext, Handler, Phases, Plugin, PluginDef, Reply, Request, Source, Step, Variable, host,
    upstream::Peer,
};
use tidegate_telemetry::metrics::{
    ExtraLabels, Form, Format, HTTP_FAMILIES, HTTP_LATENCY_BUCKETS_MS, HttpMetrics, HttpSample, Labels,
    Shard, label_position,
};

use crate::common::{compression::client_accepts, conf::typed};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "prometheus",
    version: 0.2,
    priority: 500,
    guards: false,
    schema: include_str!("prometheus.json"),
    metadata_schema: Some(include_str!("prometheus.metadata.json")),
    phases: Phases::LOG,
    prefer_route: true,
    build,
    apis: &[Api {
        methods: &["GET"],
        uri: "/apisix/prometheus/metrics",
        handler: Handler::Function(metrics_api),
    }],
    start: Some(start),
    ..PluginDef::DEFAULT
};

/// What config.yaml's `plugin_attr.prometheus` says, and the families made from it.
struct Exporter {
    metrics: HttpMetrics,
    /// Values of the extra labels, in the order the families declare them.
    extra: Vec<Variable>,
    hasher: RandomState,
}

/// Positions of labels in a request's block.
const STATUS: usize = 0;
const SOURCE: usize = 10;

static EXPORTER: OnceLock<Exporter> = OnceLock::new();

thread_local! {
    static SHARD: RefCell<Option<Shard>> = const { RefCell::new(None) };
}

/// Sets of labels, over all workers; more share one overflow series that is visible in the output.
const SERIES_LIMIT: usize = 100_000;
/// The same where clients may choose values of labels.
const SERIES_LIMIT_WITH_EXTRA_LABELS: usize = 10_000;

fn start(attributes: &Value) -> Result<(), String> {
    let Some(host) = host() else { return Ok(()) };
    let families = attributes.get("metrics");
    let mut variables: Vec<(String, Variable)> = Vec::new();
    let mut labels = |family: &str| -> Vec<String> {
        let list =
            families.and_then(|families| families.get(family)).and_then(|family| family.get("extra_labels"));
        let mut names = Vec::new();
        for entry in list.and_then(Value::as_array).into_iter().flatten() {
            for (name, value) in entry.as_object().into_iter().flatten() {
                let variable = value.as_str().unwrap_or_default().trim_start_matches('$');
                if !variables.iter().any(|(known, _)| known == name) {
                    variables.push((name.clone(), Variable::resolve(variable)));
                }
                names.push(name.clone());
            }
        }
        names
    };
    let extra = ExtraLabels {
        status: labels("http_status"),
        latency: labels("http_latency"),
        bandwidth: labels("bandwidth"),
    };
    // The three families share their blocks, and with them one time: the shortest that is set.
    let expire = HTTP_FAMILIES
        .iter()
        .filter_map(|(family, _)| families?.get(family)?.get("expire")?.as_u64())
        .filter(|seconds| *seconds > 0)
        .min()
        .unwrap_or(0);
    let buckets: Vec<u64> = attributes
        .get("default_buckets")
        .and_then(Value::as_array)
        .map(|list| list.iter().filter_map(Value::as_u64).collect())
        .unwrap_or_else(|| HTTP_LATENCY_BUCKETS_MS.to_vec());
    let usual = if variables.is_empty() { SERIES_LIMIT } else { SERIES_LIMIT_WITH_EXTRA_LABELS };
    let limit = attributes.get("max_series").and_then(Value::as_u64);
    let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usual);
    let metrics = HttpMetrics::register(&host.metrics, &buckets, limit, Duration::from_secs(expire), &extra);
    let extra = variables.into_iter().map(|(_, variable)| variable).collect();
    let _ = EXPORTER.set(Exporter { metrics, extra, hasher: RandomState::new() });
    Ok(())
}

#[derive(Deserialize)]
struct Conf {
    prefer_name: bool,
}

#[derive(Default)]
struct Prometheus {
    prefer_name: bool,
    /// `disabled_labels` of the metadata: per family of [`HTTP_FAMILIES`] a bit for each label that stays empty.
    hidden: [u64; 3],
    /// Labels that no family shows: they distinguish no series.
    unseen: u64,
}

fn build(conf: &Value, context: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let conf: Conf = typed(conf)?;
    let disabled = context.metadata.and_then(|metadata| metadata.get("disabled_labels"));
    let mut hidden = [0; 3];
    let mut seen = 0;
    for (hidden, (family, shown)) in hidden.iter_mut().zip(HTTP_FAMILIES) {
        let list = disabled.and_then(|disabled| disabled.get(family)).and_then(Value::as_array);
        let names = list.into_iter().flatten().filter_map(Value::as_str);
        *hidden = bits(names);
        seen |= bits(shown.iter().copied()) & !*hidden;
    }
    Ok(Arc::new(Prometheus { prefer_name: conf.prefer_name, hidden, unseen: !seen }))
}

fn bits<'a>(names: impl Iterator<Item = &'a str>) -> u64 {
    names.filter_map(label_position).fold(0, |bits, position| bits | 1 << position)
}

impl Plugin for Prometheus {
    fn log(&self, request: &mut Request) {
        let Some(exporter) = EXPORTER.get() else { return };
        let upstream = request.upstream_seconds();
        let micros = |seconds: f64| (seconds * 1_000_000.0) as u64;
        let sample = HttpSample {
            request_us: micros(request.elapsed_seconds()),
            upstream_us: upstream.map(micros),
            ingress_bytes: request.outcome.request_length,
            egress_bytes: request.outcome.bytes_sent,
        };
        SHARD.with_borrow_mut(|shard| {
            let Some(shard) = shard.get_or_insert_with_host() else { return };
            self.record(exporter, request, shard, &sample);
        });
    }
}

trait HostShard {
    fn get_or_insert_with_host(&mut self) -> Option<&mut Shard>;
}

impl HostShard for Option<Shard> {
    fn get_or_insert_with_host(&mut self) -> Option<&mut Shard> {
        if self.is_none() {
            *self = Some(host()?.metrics.shard());
        }
        self.as_mut()
    }
}

impl Prometheus {
    fn record(&self, exporter: &Exporter, request: &Request, shard: &mut Shard, sample: &HttpSample) {
        let (route, service) = self.owners(request);
        // In the order of the block's labels, from the second.
        let names = [
            route,
            &request.matched.uri,
            &request.matched.host,
            service,
            request.consumer.as_deref().map_or("", |consumer| &consumer.username),
            request.outcome.peer.as_ref().and_then(Peer::node).map_or("", |node| &node.ip),
        ];
        let is_seen = |position: usize| self.unseen >> position & 1 == 0;
        let mut hashed = names;
        for (at, name) in hashed.iter_mut().enumerate() {
            if !is_seen(at + 1) {
                *name = "";
            }
        }
        let (status, source) = (request.response.status, request.response.source);
        let extra: Vec<String> = exporter
            .extra
            .iter()
            .map(|variable| {
                request.variable(variable).map_or_else(String::new, |v| String::from_utf8_lossy(&v).into())
            })
            .collect();
        let numbers = (if is_seen(STATUS) { status } else { 0 }, is_seen(SOURCE).then_some(source as u8));
        let key = exporter.hasher.hash_one((&hashed, numbers, &extra, &self.hidden));
        let describe = |labels: &mut Labels| {
            let source = match source {
                Source::Gateway => "apisix",
                Source::ErrorPage => "nginx",
                Source::Upstream => "upstream",
            };
            let mut digits = itoa::Buffer::new();
            let first = [digits.format(status)].into_iter().chain(names);
            let values = first.chain(["traditional_http", "", "", source]);
            for (position, value) in values.enumerate() {
                labels.push(if is_seen(position) { value } else { "" });
            }
            extra.iter().for_each(|value| labels.push(value));
            for (family, positions) in self.hidden.iter().enumerate() {
                labels.hide(family, *positions);
            }
        };
        exporter.metrics.record(shard, key, describe, *sample);
    }

    /// Route and service as the labels name them.
    fn owners<'a>(&self, request: &'a Request) -> (&'a str, &'a str) {
        let Some(route) = request.route.as_deref() else { return ("", "") };
        let service = route.service_id().map_or("", |id| id);
        if !self.prefer_name {
            return (&route.id, service);
        }
        (route.name.as_deref().unwrap_or(&route.id), route.service_name().map_or(service, |name| name))
    }
}

/// The metrics through `public-api`, rendered on a thread for blocking work of the control runtime.
fn metrics_api<'a>(request: &'a mut Request) -> Step<'a> {
    let accept = request.head.headers.get_all("accept");
    let form = Form { format: Format::accepted(accept), gzip: client_accepts(request, "gzip", false) };
    Step::wait(async move {
        let Some(host) = host() else { return Err(Box::new(Reply::page(503))) };
        let Ok(text) = host.background.spawn_blocking(move || (host.metrics_page)(form)).await else {
            return Err(Box::new(Reply::page(500)));
        };
        let reply = Reply::bytes(200, text)
            .content_type(form.format.content_type())
            .header("Vary", "Accept, Accept-Encoding");
        Err(Box::new(if form.gzip { reply.header("Content-Encoding", "gzip") } else { reply }))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_those_of_the_labels() {
        assert_eq!([label_position("code"), label_position("response_source")], [Some(STATUS), Some(SOURCE)]);
    }
}
