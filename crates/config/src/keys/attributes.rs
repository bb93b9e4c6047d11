//! `plugin_attr`: what config.yaml says to single plugins, for the whole process.

use super::{
    forms,
    key::Takes::*,
    key::{COUNT, Key, PORT, key, unset},
};

const PATH: super::key::Takes = Form(&forms::URI_PATH);
const FROM_ONE: super::key::Takes = Integer(1, i64::MAX);

const ABSENT: &str = "the plugin is not available";
const NO_AI: &str = "AI plugins are not available";

#[rustfmt::skip]
pub(super) const KEYS: &[Key] = &[
    key("plugin_attr", Table, "{}", "Process-wide settings of single plugins."),
    key("plugin_attr.prometheus", Table, "{}", "Metrics."),
    key("plugin_attr.prometheus.export_uri", PATH, "\"/apisix/prometheus/metrics\"", "The path of the metrics page."),
    key("plugin_attr.prometheus.metric_prefix", Form(&forms::METRIC_PREFIX), "\"apisix_\"", "Prefix of metric names."),
    key("plugin_attr.prometheus.enable_export_server", Bool, "true",
        "Serve the page on a port of its own; otherwise plugin public-api serves it."),
    key("plugin_attr.prometheus.export_addr", Table, "{}", "Where it is served."),
    key("plugin_attr.prometheus.export_addr.ip", Form(&forms::LISTEN_IP), "\"127.0.0.1\"", "Its address."),
    key("plugin_attr.prometheus.export_addr.port", PORT, "9091", "Its port."),
    key("plugin_attr.prometheus.refresh_interval", Free, "15", "Seconds between two renderings of the page.")
        .no_effect("the page is rendered on request"),
    unset("plugin_attr.prometheus.default_buckets", List(&COUNT), "[10, 50, 100, 200, 500, 1000]", "Bounds of the latency histogram, in milliseconds."),
    unset("plugin_attr.prometheus.llm_latency_buckets", Free, "[10, 50, 100]", "Bounds of the latency histogram for AI.")
        .no_effect(NO_AI),
    unset("plugin_attr.prometheus.max_series", Integer(1, 10_000_000), "10000",
        "Combinations of values of labels that are counted by themselves, over all workers, with 6 KiB for each on average; further ones are counted together, as _overflow. Unset: 100000, and 10000 with extra_labels, whose values clients may choose. Not in APISIX."),
    unset("plugin_attr.prometheus.metrics", Table, "{}", "Families of metrics."),
    unset("plugin_attr.prometheus.metrics.http_status", Table, "{}", "Responses by status."),
    unset("plugin_attr.prometheus.metrics.http_status.extra_labels", List(&FreeTable), "[{\"host\": \"$host\"}]", "Further labels: name and variable."),
    unset("plugin_attr.prometheus.metrics.http_status.expire", COUNT, "0",
        "Seconds after which an unused series is removed; the shortest of the three families applies to all. 0: never."),
    unset("plugin_attr.prometheus.metrics.http_latency", Table, "{}", "Latencies."),
    unset("plugin_attr.prometheus.metrics.http_latency.extra_labels", List(&FreeTable), "[{\"host\": \"$host\"}]", "Further labels: name and variable."),
    unset("plugin_attr.prometheus.metrics.http_latency.expire", COUNT, "0", "As for http_status."),
    unset("plugin_attr.prometheus.metrics.bandwidth", Table, "{}", "Bytes."),
    unset("plugin_attr.prometheus.metrics.bandwidth.extra_labels", List(&FreeTable), "[{\"host\": \"$host\"}]", "Further labels: name and variable."),
    unset("plugin_attr.prometheus.metrics.bandwidth.expire", COUNT, "0", "As for http_status."),
    unset("plugin_attr.prometheus.metrics.upstream_status", Table, "{}", "Health of nodes."),
    unset("plugin_attr.prometheus.metrics.upstream_status.expire", Free, "0", "Seconds after which a series is removed.")
        .no_effect("a node's series is removed with the node"),
    key("plugin_attr.log-rotate", Table, "{}", "Rotating logs."),
    key("plugin_attr.log-rotate.interval", FROM_ONE, "3600", "Seconds between rotations."),
    key("plugin_attr.log-rotate.max_kept", COUNT, "168", "Old files that are kept of each log."),
    key("plugin_attr.log-rotate.max_size", Integer(-1, i64::MAX), "-1", "Bytes after which a log is rotated early; -1: by time only."),
    key("plugin_attr.log-rotate.enable_compression", Bool, "false", "Compress old files."),
    key("plugin_attr.log-rotate.timeout", Free, "10000", "Milliseconds for compressing a file.")
        .no_effect("compressing takes the time it needs, on a thread of its own"),
    key("plugin_attr.opentelemetry", Table, "{}", "Traces for OpenTelemetry collectors; used where the plugin has no metadata."),
    key("plugin_attr.opentelemetry.trace_id_source", Word(&["x-request-id", "random"]), "\"x-request-id\"", "x-request-id: a valid header of that name is the trace's id; random: a new one."),
    key("plugin_attr.opentelemetry.resource", FreeTable, "{\"service.name\": \"APISIX\"}", "Attributes of this process."),
    key("plugin_attr.opentelemetry.collector", Table, "{}", "The collector."),
    key("plugin_attr.opentelemetry.collector.address", Form(&forms::COLLECTOR), "\"127.0.0.1:4318\"", "Its address, or its URL."),
    key("plugin_attr.opentelemetry.collector.request_timeout", FROM_ONE, "3", "Seconds for one report."),
    key("plugin_attr.opentelemetry.collector.request_headers", FreeTable, "{\"Authorization\": \"token\"}", "Headers of reports.").secret(),
    key("plugin_attr.opentelemetry.batch_span_processor", Table, "{}", "Batches of spans."),
    key("plugin_attr.opentelemetry.batch_span_processor.drop_on_queue_full", Free, "false", "Drop spans when the queue is full.")
        .no_effect("a full queue always drops: a request never waits for a report"),
    key("plugin_attr.opentelemetry.batch_span_processor.max_queue_size", FROM_ONE, "1024", "Spans that may wait."),
    key("plugin_attr.opentelemetry.batch_span_processor.batch_timeout", Number, "2", "Seconds a batch may be open."),
    key("plugin_attr.opentelemetry.batch_span_processor.inactive_timeout", Number, "1", "Seconds after the last span until a batch is sent."),
    key("plugin_attr.opentelemetry.batch_span_processor.max_export_batch_size", FROM_ONE, "16",
        "Spans of a batch. OTEL_BSP_MAX_EXPORT_BATCH_SIZE in the environment is the default."),
    key("plugin_attr.opentelemetry.set_ngx_var", Bool, "false", "Set the variables opentelemetry_trace_id, opentelemetry_span_id and opentelemetry_context_traceparent."),
    key("plugin_attr.zipkin", Table, "{}", "Traces for Zipkin."),
    key("plugin_attr.zipkin.set_ngx_var", Bool, "false", "Set the variables zipkin_trace_id, zipkin_span_id and zipkin_context_traceparent."),
    key("plugin_attr.proxy-mirror", Table, "{}", "Mirrored requests."),
    key("plugin_attr.proxy-mirror.timeout", Table, "{}", "Time for a mirrored request: the longest of the three counts for all of it."),
    key("plugin_attr.proxy-mirror.timeout.connect", Duration, "\"60s\"", "To connect."),
    key("plugin_attr.proxy-mirror.timeout.read", Duration, "\"60s\"", "To read."),
    key("plugin_attr.proxy-mirror.timeout.send", Duration, "\"60s\"", "To send."),
    unset("plugin_attr.redirect", Table, "{}", "Redirects."),
    unset("plugin_attr.redirect.https_port", PORT, "8443", "The port that http_to_https redirects to; otherwise one of apisix.ssl.listen."),
    unset("plugin_attr.static-files", Table, "{}", "Files from a disk. Not in APISIX."),
    unset("plugin_attr.static-files.threads", Integer(1, 65_536), "4", "Threads that read files: 1 to 65536."),
    unset("plugin_attr.static-files.queue", Integer(1, 65_536), "4096", "Reads that may wait; more are answered with 503."),
    unset("plugin_attr.serverless", Table, "{}", "Lua functions. Not in APISIX."),
    unset("plugin_attr.serverless.time_limit_ms", Integer(1, 60_000), "50", "Milliseconds that one call may take."),
    unset("plugin_attr.serverless-pre-function", Table, "{}", "As serverless."),
    unset("plugin_attr.serverless-pre-function.time_limit_ms", Integer(1, 60_000), "50", "As serverless.time_limit_ms."),
    unset("plugin_attr.batch-requests", Table, "{}", "Several requests in one."),
    unset("plugin_attr.batch-requests.uri", PATH, "\"/apisix/batch-requests\"", "The path of its API, for plugin public-api."),
    unset("plugin_attr.node-status", Table, "{}", "The status page of a node."),
    unset("plugin_attr.node-status.uri", PATH, "\"/apisix/status\"", "The path of its API, for plugin public-api."),
    key("plugin_attr.ai-proxy", FreeTable, "{\"http_client\": \"ngx_http_ffi_client\"}", "ai-proxy and ai-proxy-multi.").no_effect(NO_AI),
    key("plugin_attr.skywalking", Table, "{}", "Traces for SkyWalking."),
    key("plugin_attr.skywalking.service_name", Text, "\"APISIX\"", "The service that this gateway is in traces."),
    key("plugin_attr.skywalking.service_instance_name", Text, "\"APISIX Instance Name\"", "Its instance; $hostname: the name of the machine."),
    key("plugin_attr.skywalking.endpoint_addr", Form(&forms::SERVICE_URL), "\"http://127.0.0.1:12800\"", "Where SkyWalking takes reports over HTTP."),
    key("plugin_attr.skywalking.report_interval", FROM_ONE, "3", "Seconds between two reports."),
    key("plugin_attr.server-info", Table, "{}", "Reports of this process in etcd."),
    key("plugin_attr.server-info.report_ttl", Integer(3, 86_400), "60", "Seconds that a report stays when its gateway has gone."),
    unset("plugin_attr.server-info.report_interval", Free, "60", "Seconds between two reports, in APISIX 2.")
        .no_effect("a report is renewed twice in its report_ttl"),
    key("plugin_attr.dubbo-proxy", Table, "{}", "Calls to Dubbo services."),
    key("plugin_attr.dubbo-proxy.upstream_multiplex_count", Free, "32", "Calls at a time over one connection.")
        .no_effect("each call has a connection for itself"),
    key("plugin_attr.inspect", FreeTable, "{\"delay\": 3, \"hooks_file\": \"/usr/local/apisix/plugin_inspect_hooks.lua\"}", "Breakpoints in Lua code.").no_effect(ABSENT),
    unset("plugin_attr.example-plugin", FreeTable, "{\"val\": 1}", "An example.").no_effect("the plugin here reads none"),
];
