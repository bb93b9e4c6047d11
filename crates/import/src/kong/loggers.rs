//! Plugins that report requests to other systems.

use serde_json::{Value, json};

use super::converted::Converted;
use crate::{
    Report,
    fields::{self, Fields},
    imported::Imported,
};

/// Whether it keeps fields out of its records, which ours would have.
fn hides(conf: &Fields, report: &mut Report) -> bool {
    let hides = conf.get("custom_fields_by_lua").is_some_and(|fields| !fields::is_empty(fields));
    if hides {
        let how = "`custom_fields_by_lua` is not converted, and may keep secrets out; nothing is logged";
        report.unsupported(conf.line(), conf.subject(), how);
    }
    hides
}

const FORMAT: &str = "entries have the form of our loggers; `log_format` changes it";

/// How records are collected before they are sent.
fn batching(conf: &Fields, object: &mut Value) {
    let queue = conf.inner("queue");
    let number = |new: &str, old: &str| {
        let before = conf.number(old);
        queue.number(new).or(before)
    };
    conf.skip(&["retry_count"]);
    conf.skip(&["queue", "keepalive", "content_type", "method", "headers"]);
    if let Some(size) = number("max_batch_size", "queue_size") {
        object["batch_max_size"] = json!(size.max(1.0) as i64);
    }
    if let Some(delay) = number("max_coalescing_delay", "flush_timeout") {
        object["inactive_timeout"] = json!(delay.max(1.0) as i64);
    }
}

/// Milliseconds, rounded up to the seconds that the plugins count in.
fn seconds(conf: &Fields) -> Option<i64> {
    conf.integer("timeout").map(|ms| ms.saturating_add(999) / 1000).map(|seconds| seconds.max(1))
}

pub(super) fn http(conf: &Fields, report: &mut Report) -> Converted {
    if hides(conf, report) {
        return None;
    }
    let Some(uri) = conf.text("http_endpoint") else {
        report.unsupported(conf.line(), conf.subject(), "`http_endpoint` is missing");
        return None;
    };
    report.approximated(conf.line(), conf.subject(), FORMAT);
    let mut object = json!({"uri": uri});
    if let Some(seconds) = seconds(conf) {
        object["timeout"] = seconds.into();
    }
    batching(conf, &mut object);
    Some(vec![("http-logger", object)])
}

pub(super) fn socket(conf: &Fields, ours: &'static str, report: &mut Report) -> Converted {
    if hides(conf, report) {
        return None;
    }
    let (Some(host), Some(port)) = (conf.text("host"), conf.integer("port")) else {
        report.unsupported(conf.line(), conf.subject(), "`host` or `port` is missing");
        return None;
    };
    report.approximated(conf.line(), conf.subject(), FORMAT);
    let mut object = json!({"host": host, "port": port});
    if ours == "tcp-logger" {
        object["timeout"] = conf.integer("timeout").unwrap_or(10_000).into();
        object["tls"] = conf.flag("tls").unwrap_or(false).into();
    } else if let Some(seconds) = seconds(conf) {
        object["timeout"] = seconds.into();
    }
    batching(conf, &mut object);
    Some(vec![(ours, object)])
}

/// Kong writes to the machine's own daemon, ours over the network.
pub(super) fn syslog(conf: &Fields, report: &mut Report) -> Converted {
    if hides(conf, report) {
        return None;
    }
    let how = "it is sent to UDP port 514 of 127.0.0.1, where the machine's daemon must listen; severities are ours";
    report.approximated(conf.line(), conf.subject(), how);
    conf.skip(&[
        "facility",
        "log_level",
        "successful_severity",
        "client_errors_severity",
        "server_errors_severity",
    ]);
    Some(vec![("syslog", json!({"host": "127.0.0.1", "port": 514, "sock_type": "udp"}))])
}

pub(super) fn file(conf: &Fields, report: &mut Report) -> Converted {
    if hides(conf, report) {
        return None;
    }
    let Some(path) = conf.text("path") else {
        report.unsupported(conf.line(), conf.subject(), "`path` is missing");
        return None;
    };
    conf.skip(&["reopen"]);
    report.approximated(conf.line(), conf.subject(), FORMAT);
    Some(vec![("file-logger", json!({"path": path}))])
}

pub(super) fn prometheus(conf: &Fields, report: &mut Report) -> Converted {
    let how = "metrics have our names, at plugin_attr.prometheus.export_addr and not at Kong's status port";
    report.approximated(conf.line(), conf.subject(), how);
    conf.skip(&["per_consumer", "status_code_metrics", "latency_metrics", "bandwidth_metrics"]);
    conf.skip(&["upstream_health_metrics"]);
    Some(vec![("prometheus", json!({"prefer_name": true}))])
}

pub(super) fn zipkin(conf: &Fields, report: &mut Report) -> Converted {
    let Some(endpoint) = conf.text("http_endpoint") else {
        report.unsupported(conf.line(), conf.subject(), "`http_endpoint` is missing");
        return None;
    };
    conf.skip(&["queue"]);
    propagation(conf, "b3", report);
    let name = conf.text("local_service_name").unwrap_or_else(|| "kong".to_owned());
    // Ratios here are above zero: the least.
    let ratio = conf.number("sample_ratio").unwrap_or(0.001).max(0.00001);
    Some(vec![("zipkin", json!({"endpoint": endpoint, "sample_ratio": ratio, "service_name": name}))])
}

/// Which headers carry a trace: as the file has it by default.
fn propagation(conf: &Fields, default: &str, report: &mut Report) {
    let given = conf.inner("propagation");
    given.skip_defaults(&[("default_format", default)]);
    given.finish(report);
}

pub(super) fn opentelemetry(conf: &Fields, imported: &mut Imported) -> Converted {
    let ratio = conf.number("sampling_rate").unwrap_or(1.0);
    let sampler = match ratio >= 1.0 {
        true => json!({"name": "always_on"}),
        false => json!({"name": "trace_id_ratio", "options": {"fraction": ratio}}),
    };
    let endpoint = conf.text("traces_endpoint").or_else(|| conf.text("endpoint")).unwrap_or_default();
    conf.skip(&["endpoint", "queue"]);
    propagation(conf, "w3c", &mut imported.report);
    let authority = endpoint.split_once("://").map_or(endpoint.as_str(), |(_, rest)| rest);
    let address = authority.split('/').next().unwrap_or_default();
    if !address.is_empty() && imported.output.id("plugin_metadata", "opentelemetry") == "opentelemetry" {
        imported.output.add("plugin_metadata", "opentelemetry", json!({"collector": {"address": address}}));
    }
    let how = format!(
        "one collector for all routes: {address}, by OTLP over HTTP at /v1/traces; \
         config.yaml must have opentelemetry in its plugins unless --from serves this"
    );
    imported.report.approximated(conf.line(), conf.subject(), &how);
    Some(vec![("opentelemetry", json!({"sampler": sampler}))])
}
