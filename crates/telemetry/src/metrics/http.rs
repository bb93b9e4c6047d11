//! APISIX's metrics of each finished HTTP request: `http_status`, `http_latency`, `bandwidth`.

use std::time::Duration;

use super::group::{CounterCell, Group, GroupBuilder, HistogramCell};
use super::registry::Registry;
use super::shard::Shard;
use super::taken::Places;
use super::{Block, Labels};

/// Labels of a request's block, in the order the labels closure must push them.
const STATUS_LABELS: [&str; 11] = [
    "code",
    "route",
    "matched_uri",
    "matched_host",
    "service",
    "consumer",
    "node",
    "request_type",
    "request_llm_model",
    "llm_model",
    "response_source",
];
/// `http_latency` and `bandwidth` leave out code, matched_uri, matched_host and response_source.
const COMMON_LABELS: [&str; 7] =
    ["route", "service", "consumer", "node", "request_type", "request_llm_model", "llm_model"];

/// The families in the order of their numbers for [`Labels::hide`], and the labels each shows.
pub const HTTP_FAMILIES: [(&str, &[&str]); 3] =
    [("http_status", &STATUS_LABELS), ("http_latency", &COMMON_LABELS), ("bandwidth", &COMMON_LABELS)];

/// The position of a built-in label in a request's block.
pub fn label_position(name: &str) -> Option<usize> {
    STATUS_LABELS.iter().position(|known| *known == name)
}

/// Handles to the per-request metrics.
#[derive(Clone, Debug)]
pub struct HttpMetrics {
    group: Group,
    extra_labels: Vec<String>,
    status: CounterCell,
    /// Types request, upstream, apisix.
    latency: [HistogramCell; 3],
    ingress: CounterCell,
    egress: CounterCell,
}

/// The values that one finished request adds.
#[derive(Clone, Copy, Debug, Default)]
pub struct HttpSample {
    /// From the first byte of the request to the last of the response.
    pub request_us: u64,
    /// None when no upstream was asked.
    pub upstream_us: Option<u64>,
    /// Received from the client, head included.
    pub ingress_bytes: u64,
    /// Sent to the client, head included.
    pub egress_bytes: u64,
}

/// Extra label names per family, from `plugin_attr.prometheus.metrics`.
#[derive(Clone, Debug, Default)]
pub struct ExtraLabels {
    /// Values for `http_status`.
    pub status: Vec<String>,
    /// Values for `http_latency`.
    pub latency: Vec<String>,
    /// Values for `bandwidth`.
    pub bandwidth: Vec<String>,
}

impl HttpMetrics {
    /// Declares the three families. `bounds_ms` is the latency buckets. A label name configured for several
    /// families has one value for all of them.
    pub fn register(
        registry: &Registry,
        bounds_ms: &[u64],
        series_limit: usize,
        expire: Duration,
        extra: &ExtraLabels,
    ) -> Self {
        let mut names: Vec<String> = STATUS_LABELS.iter().map(|name| (*name).to_owned()).collect();
        for name in extra.status.iter().chain(&extra.latency).chain(&extra.bandwidth) {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        let extra_labels = names.get(STATUS_LABELS.len()..).unwrap_or_default().to_vec();
        let mut builder = GroupBuilder::new(names).series_limit(series_limit).expire(expire);
        let with = |names: &[&str], more: &[String]| -> Vec<String> {
            names.iter().map(|name| (*name).to_owned()).chain(more.iter().cloned()).collect()
        };
        let status_labels = with(&STATUS_LABELS, &extra.status);
        let latency_labels = with(&COMMON_LABELS, &extra.latency);
        let bandwidth_labels = with(&COMMON_LABELS, &extra.bandwidth);
        let status = builder.counter("http_status", "HTTP status codes per service", &[], &status_labels);
        let mut histogram = |kind: &str| {
            let help = "HTTP request latency in milliseconds per service";
            builder.histogram("http_latency", help, &[("type", kind)], &latency_labels, (bounds_ms, 1000))
        };
        let latency_request = histogram("request");
        let latency_upstream = histogram("upstream");
        let latency_apisix = histogram("apisix");
        let mut bandwidth = |kind: &str| {
            let help = "Bytes received and sent per service";
            builder.counter("bandwidth", help, &[("type", kind)], &bandwidth_labels)
        };
        let ingress = bandwidth("ingress");
        let egress = bandwidth("egress");
        let group = registry.group(builder);
        registry.set_requests(Places {
            group: group.clone(),
            status,
            latency: latency_request.clone(),
            ingress,
            egress,
        });
        let latency = [latency_request, latency_upstream, latency_apisix];
        HttpMetrics { group, extra_labels, status, latency, ingress, egress }
    }

    /// Counts a finished request. `labels` pushes the values of code, route, matched_uri, matched_host,
    /// service, consumer, node, request_type, request_llm_model, llm_model, response_source, then those
    /// of [`HttpMetrics::extra_labels`].
    #[inline]
    pub fn record(&self, shard: &mut Shard, key: u64, labels: impl FnOnce(&mut Labels), sample: HttpSample) {
        self.add(shard.block(&self.group, key, labels), sample);
    }

    /// Adds a sample to a block the caller kept from [`HttpMetrics::group`].
    #[inline]
    pub fn add(&self, block: &Block, sample: HttpSample) {
        let [request, upstream, apisix] = &self.latency;
        block.add(self.status, 1);
        block.observe(request, sample.request_us);
        let upstream_us = sample.upstream_us.unwrap_or_default();
        if sample.upstream_us.is_some() {
            block.observe(upstream, upstream_us);
        }
        block.observe(apisix, sample.request_us.saturating_sub(upstream_us));
        block.add(self.ingress, sample.ingress_bytes);
        block.add(self.egress, sample.egress_bytes);
    }

    /// Names of configured labels, in the order their values must be pushed.
    pub fn extra_labels(&self) -> &[String] {
        &self.extra_labels
    }

    /// The group, for callers that look blocks up themselves.
    pub fn group(&self) -> &Group {
        &self.group
    }
}
