//! Sends log entries to SkyWalking, with the trace that a request belongs to.

use std::{sync::Arc, time::Duration};

use serde::Deserialize;
use serde_json::{Value, json};
use tidegate_clients::{
    http::{Body, ClientOptions, Endpoint, TlsWanted},
    nginx_base64,
};
use tidegate_plugin_api::{BuildContext, Plugin, PluginDef, Request};
use tidegate_telemetry::error_log::{self, Level};

use crate::common::{
    batch_logger::BatchLogger,
    conf::typed,
    log_entry::{self, LogEntry, Made},
    skywalking,
};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "skywalking-logger",
    version: 0.1,
    priority: 408,
    guards: false,
    schema: include_str!("skywalking_logger.json"),
    metadata_schema: Some(include_str!("skywalking_logger.metadata.json")),
    phases: LogEntry::ALL_PHASES,
    check: log_entry::check,
    build,
    ..PluginDef::DEFAULT
};

#[derive(Deserialize)]
struct Conf {
    endpoint_addr: String,
    service_name: String,
    service_instance_name: String,
    /// Seconds.
    timeout: u64,
}

fn build(conf: &Value, context: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let Conf { endpoint_addr, service_name, service_instance_name, timeout } = typed(conf)?;
    let mut endpoint = Endpoint::parse(&endpoint_addr)?;
    endpoint.target = "/v3/logs".to_owned();
    let options = ClientOptions {
        timeout: Duration::from_secs(timeout),
        tls: TlsWanted { verify: true, client: None },
        body: Body::SAID,
        ..ClientOptions::default()
    };
    let receiver = Arc::new((endpoint, options));
    let make = move |entry: &LogEntry, request: &mut Request| {
        let instance = skywalking::instance(&service_instance_name);
        record(entry, request, &service_name, &instance)
    };
    BatchLogger::build(PLUGIN.name, conf, context, make, move |records| {
        let receiver = receiver.clone();
        Box::pin(async move {
            let (endpoint, options) = &*receiver;
            skywalking::collect(&records, endpoint.clone(), options).await
        })
    })
}

fn record(entry: &LogEntry, request: &mut Request, service: &str, instance: &str) -> Made<Value> {
    let trace = trace_context(request);
    let mut record = json!({
        "service": service,
        "serviceInstance": instance,
        "endpoint": String::from_utf8_lossy(&request.path),
    });
    if let Some(trace) = trace {
        record["traceContext"] = trace;
    }
    entry.entry(request).then(move |entry| {
        record["body"] = json!({ "json": { "json": Value::from(entry).to_string() } });
        record
    })
}

/// Of `sw8: 1-TRACE-SEGMENT-SPAN-SERVICE-INSTANCE-ENDPOINT-ADDRESS`, where texts are in base64.
fn trace_context(request: &Request) -> Option<Value> {
    let header = request.head.headers.get("sw8")?;
    let context = parse(header);
    if context.is_none() {
        let header = String::from_utf8_lossy(header);
        error_log::log(Level::Warn, format_args!("failed to parse trace_context header: {header}"));
    }
    context
}

fn parse(header: &[u8]) -> Option<Value> {
    let parts: Vec<&[u8]> = header.split(|&byte| byte == b'-').take(9).collect();
    let [_, trace, segment, span, _, _, _, _] = parts[..] else { return None };
    let text = |encoded| String::from_utf8(nginx_base64::decode(encoded)?).ok();
    let span: u64 = std::str::from_utf8(span).ok()?.parse().ok()?;
    Some(json!({ "traceId": text(trace)?, "traceSegmentId": text(segment)?, "spanId": span }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_of_headers() {
        let trace = json!({"traceId": "trace", "traceSegmentId": "segment", "spanId": 7});
        for (header, expected) in [
            ("1-dHJhY2U=-c2VnbWVudA==-7-QQ==-QQ==-QQ==-QQ==", Some(trace.clone())),
            ("1-dHJhY2U-c2VnbWVudA-7-----", None),
            ("1-dHJhY2U-c2VnbWVudA-7----", Some(trace)),
            ("1-dHJhY2U=-c2VnbWVudA==-seven-QQ==-QQ==-QQ==-QQ==", None),
            ("1-*-c2VnbWVudA==-7-QQ==-QQ==-QQ==-QQ==", None),
            ("", None),
        ] {
            assert_eq!(parse(header.as_bytes()), expected, "{header}");
        }
    }
}
