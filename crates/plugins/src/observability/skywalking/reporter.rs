//! What goes to SkyWalking besides segments, and how often: that this instance is there.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use serde::Deserialize;
use serde_json::{Value, json};
use tidegate_clients::{
    batch::{self, Batch, Lot},
    http::{self, Body, ClientOptions, Endpoint, Outgoing},
};
use tidegate_plugin_api::host;
use tidegate_telemetry::error_log::{self, Level};

use super::instance;
use crate::common::conf::typed;

#[derive(Deserialize)]
#[serde(default)]
struct Attributes {
    service_name: String,
    service_instance_name: String,
    endpoint_addr: String,
    report_interval: u64,
}

impl Default for Attributes {
    fn default() -> Attributes {
        Attributes {
            service_name: "APISIX".to_owned(),
            service_instance_name: "APISIX Instance Name".to_owned(),
            endpoint_addr: "http://127.0.0.1:12800".to_owned(),
            report_interval: 3,
        }
    }
}

/// `plugin_attr.skywalking`, one for the process.
pub(super) struct Reporter {
    pub(super) service: String,
    pub(super) instance: String,
    address: String,
    interval_seconds: u64,
    has_begun: AtomicBool,
}

pub(super) fn of(attributes: Option<&Value>) -> Result<&'static Reporter, String> {
    static REPORTER: OnceLock<Result<Reporter, String>> = OnceLock::new();
    let made = REPORTER.get_or_init(|| {
        let attributes =
            attributes.filter(|value| value.is_object()).map_or_else(|| Ok(Attributes::default()), typed)?;
        Endpoint::parse(&attributes.endpoint_addr)?;
        Ok(Reporter {
            service: attributes.service_name,
            instance: instance(&attributes.service_instance_name),
            address: attributes.endpoint_addr.trim_end_matches('/').to_owned(),
            interval_seconds: attributes.report_interval.max(1),
            has_begun: AtomicBool::new(false),
        })
    });
    made.as_ref().map_err(|reason| format!("plugin_attr.skywalking: {reason}"))
}

impl Reporter {
    pub(super) fn batch(&self, name: &'static str) -> Result<Batch<Value>, String> {
        let processor = json!({
            "name": "skywalking report",
            "batch_max_size": 1000,
            "max_retry_count": 0,
            "retry_delay": 1,
            "buffer_duration": self.interval_seconds,
            "inactive_timeout": self.interval_seconds,
        });
        let url = format!("{}/v3/segments", self.address);
        Batch::new(name, &processor, None, move |segments: Arc<Lot<Value>>| {
            let url = url.clone();
            Box::pin(async move { post(&url, batch::json(&segments, 0)).await })
        })
    }

    /// With the first segment: this instance is there, and says so again in each interval.
    pub(super) fn begin(&'static self) {
        let Some(host) = host().filter(|_| !self.has_begun.swap(true, Relaxed)) else { return };
        host.background.spawn(async move {
            let mut is_known = false;
            loop {
                match self.show(is_known).await {
                    Ok(()) => is_known = true,
                    Err(reason) => error_log::log(Level::Error, format_args!("skywalking: {reason}")),
                }
                tokio::time::sleep(Duration::from_secs(self.interval_seconds)).await;
            }
        });
    }

    async fn show(&self, is_known: bool) -> Result<(), String> {
        let mut body = json!({"service": self.service, "serviceInstance": self.instance});
        let path = if is_known { "keepAlive" } else { "reportProperties" };
        if !is_known {
            body["properties"] = json!([{"key": "language", "value": "rust"}]);
        }
        post(&format!("{}/v3/management/{path}", self.address), body.to_string().into_bytes()).await
    }
}

async fn post(url: &str, body: Vec<u8>) -> Result<(), String> {
    let outgoing = Outgoing::post(Endpoint::parse(url)?, "application/json", body);
    let options = ClientOptions { body: Body::SAID, ..ClientOptions::default() };
    let shown = tidegate_model::url::without_user(url);
    match http::send(outgoing, &options).await {
        Ok(answer) if (200..300).contains(&answer.status) => Ok(()),
        Ok(answer) => Err(format!("{shown} answered {}", answer.status)),
        Err(reason) => Err(format!("{shown}: {reason}")),
    }
}
