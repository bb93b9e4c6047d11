//! Writes log entries to Google Cloud Logging, as a service account.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tidegate_clients::{
    google::AccountSource,
    http::{self, Body, ClientOptions, Endpoint, Outgoing, TlsWanted},
};
use tidegate_plugin_api::{BuildContext, Phases, Plugin, PluginDef, Request};
use tidegate_telemetry::clock::{self, RFC3339};

use crate::common::{
    batch_logger::BatchLogger,
    conf::typed,
    log_entry::{LogEntry, Made},
};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "google-cloud-logging",
    version: 0.1,
    priority: 407,
    guards: false,
    schema: include_str!("google_cloud_logging.json"),
    metadata_schema: Some(include_str!("google_cloud_logging.metadata.json")),
    encrypt_fields: &["auth_config.private_key"],
    phases: Phases::LOG,
    remarks,
    build,
    for_admins: Some("it reads files of the machine"),
    ..PluginDef::DEFAULT
};

/// The first entry would show it in the error log only.
fn remarks(conf: &Value) -> Vec<String> {
    let path = conf.get("auth_file").and_then(Value::as_str).filter(|_| conf.get("auth_config").is_none());
    let fault = |path: &str| std::fs::metadata(path).err().map(|error| (path.to_owned(), error));
    path.and_then(fault)
        .map(|(path, error)| {
            format!("auth_file {path}: {error}; no entry is sent until the file can be read")
        })
        .into_iter()
        .collect()
}

const ENTRIES_URI: &str = "https://logging.googleapis.com/v2/entries:write";

/// For connecting, and again for the answer.
const TIMEOUT: Duration = Duration::from_secs(10);

const MAX_ANSWER: usize = 64 << 10;

#[derive(Deserialize)]
struct Conf {
    log_id: String,
    resource: Value,
    ssl_verify: bool,
}

struct Receiver {
    source: AccountSource,
    log_id: String,
    options: ClientOptions,
}

fn build(conf: &Value, context: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let Conf { log_id, resource, ssl_verify } = typed(conf)?;
    let receiver = Arc::new(Receiver {
        source: AccountSource::new(conf)?,
        log_id,
        options: ClientOptions {
            timeout: TIMEOUT,
            tls: TlsWanted { verify: ssl_verify, client: None },
            body: Body::Whole(MAX_ANSWER),
            ..ClientOptions::default()
        },
    });
    let make = move |entry: &LogEntry, request: &mut Request| record(entry, request, &resource);
    BatchLogger::build(PLUGIN.name, conf, context, make, move |records| {
        let receiver = receiver.clone();
        Box::pin(async move { receiver.send(&records).await })
    })
}

/// A `LogEntry` of the service, but for its `logName`.
fn record(entry: &LogEntry, request: &mut Request, resource: &Value) -> Made<Map<String, Value>> {
    let mut record = Map::new();
    let payload = entry.entry_as(request, |mut fields| {
        record.insert("httpRequest".to_owned(), http_request(&fields));
        fields.retain(|name, _| matches!(name.as_str(), "route_id" | "service_id"));
        fields
    });
    record.insert("labels".to_owned(), json!({ "source": "apache-apisix-google-cloud-logging" }));
    record.insert("timestamp".to_owned(), clock::utc(clock::unix_ms(), RFC3339).into());
    record.insert("resource".to_owned(), resource.clone());
    record.insert("insertId".to_owned(), request.request_id().into());
    payload.then(move |payload| {
        record.insert("jsonPayload".to_owned(), payload.into());
        record
    })
}

/// The service's `HttpRequest` of a common entry.
fn http_request(entry: &Map<String, Value>) -> Value {
    let at = |object: &str, name: &str| entry.get(object).and_then(|object| object.get(name)).cloned();
    let user_agent = entry.get("request").and_then(|request| request.pointer("/headers/user-agent")).cloned();
    let seconds = entry.get("latency").and_then(Value::as_f64).unwrap_or_default() / 1000.0;
    let members = [
        ("requestMethod", at("request", "method")),
        ("requestUrl", at("request", "url")),
        ("requestSize", at("request", "size")),
        ("status", at("response", "status")),
        ("responseSize", at("response", "size")),
        ("userAgent", user_agent),
        ("remoteIp", entry.get("client_ip").cloned()),
        ("serverIp", entry.get("upstream").cloned()),
        ("latency", Some(format!("{seconds:.3}s").into())),
    ];
    Value::Object(members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect())
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Named<'a> {
    #[serde(flatten)]
    record: &'a Map<String, Value>,
    log_name: &'a str,
}

impl Receiver {
    async fn send(&self, records: &[Map<String, Value>]) -> Result<(), String> {
        let failed = |reason| format!("failed to fetch google-cloud-logging.oauth object: {reason}");
        let account = self.source.account().await.map_err(failed)?;
        let authorization = account
            .authorization(&self.options)
            .await
            .map_err(|reason| format!("failed to get google oauth token: {reason}"))?;
        let log_name = format!("projects/{}/logs/{}", account.project_id, self.log_id);
        let entries: Vec<Named> =
            records.iter().map(|record| Named { record, log_name: &log_name }).collect();
        let body = json!({ "entries": entries, "partialSuccess": false }).to_string();
        let endpoint = Endpoint::parse(account.entries_uri.as_deref().unwrap_or(ENTRIES_URI))?;
        let outgoing =
            Outgoing::post(endpoint, "application/json", body).header("Authorization", authorization);
        let answer = http::send(outgoing, &self.options)
            .await
            .map_err(|reason| format!("failed to write log to google, {reason}"))?;
        if answer.status == 200 {
            return Ok(());
        }
        if answer.status == 401 {
            account.forget_token(&self.options);
        }
        Err(format!("failed to write log to google, {}", answer.refusal()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::test_request;

    fn made(conf: Value) -> Value {
        let entry = LogEntry::new(&conf, None).expect("an entry");
        let mut request = test_request::request("GET /a?b=c HTTP/1.1\r\nHost: h\r\nUser-Agent: test\r\n\r\n");
        let Made::Now(record) = record(&entry, &mut request, &json!({"type": "global"})) else {
            panic!("made at once")
        };
        record.into()
    }

    #[test]
    fn records_of_requests() {
        let record = made(json!({"log_format_extra": {"client_ip": "$host", "service_id": "other"}}));
        let http = &record["httpRequest"];
        assert_eq!((&http["requestMethod"], &http["userAgent"]), (&json!("GET"), &json!("test")));
        assert!(http["latency"].as_str().is_some_and(|text| text.ends_with('s')), "{record}");
        assert_eq!(record["jsonPayload"], json!({"service_id": "h", "client_ip": "h"}));
        assert_eq!(record["resource"], json!({"type": "global"}));
        assert!(record["insertId"].as_str().is_some_and(|id| !id.is_empty()), "{record}");
    }

    #[test]
    fn records_in_a_format() {
        let record = made(json!({"log_format": {"a": "$host"}}));
        assert_eq!((record.get("httpRequest"), &record["jsonPayload"]), (None, &json!({"a": "h"})));
    }
}
