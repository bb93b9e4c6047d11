//! What a gateway says of itself below the prefix, under a lease: the report goes when its gateway does.

use std::{sync::Arc, time::Duration};

use serde_json::Value;
use tidegate_telemetry::error_log::{self, Level};
use tonic::Status;

use super::{
    connection,
    rpc::{
        Client,
        messages::{PutRequest, RangeRequest},
    },
    shared::Shared,
};

/// A report that is to be kept in etcd.
pub struct Report {
    /// Below the prefix.
    pub key: String,
    /// How long it stays when its gateway has gone.
    pub ttl: Duration,
    /// What it says to an etcd of this version; `None`: it is not wanted at the moment.
    pub make: Box<dyn Fn(&str) -> Option<Value> + Send + Sync>,
}

/// Looks after it twice in its time to live.
pub(super) async fn keep(shared: Arc<Shared>, report: Report) {
    let mut ticks = tokio::time::interval(report.ttl / 2);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let (mut version, mut lease) = (None, None);
    loop {
        ticks.tick().await;
        let Some(client) = shared.client.borrow().clone() else { continue };
        let refreshed = refresh(&shared, &client, &report, &mut version, &mut lease);
        if let Ok(Err(status)) = tokio::time::timeout(shared.options.timeout, refreshed).await {
            let reason = connection::reason(&status);
            error_log::log(Level::Error, format_args!("failed to report server_info to etcd: {reason}"));
        }
    }
}

async fn refresh(
    shared: &Shared,
    client: &Client,
    report: &Report,
    version: &mut Option<String>,
    lease: &mut Option<i64>,
) -> Result<(), Status> {
    let version = match version {
        Some(version) => version,
        None => version.insert(client.version().await?),
    };
    let Some(value) = (report.make)(version) else { return Ok(()) };
    let key = format!("{}/{}", shared.options.prefix, report.key).into_bytes();
    let answer = client.range(RangeRequest { key: key.clone(), ..RangeRequest::default() }).await?;
    let there = answer.kvs.first().and_then(|entry| serde_json::from_slice::<Value>(&entry.value).ok());
    // The process that took this one's place has said so itself.
    let boot_time = |report: &Value| report.get("boot_time").and_then(Value::as_u64);
    if there.as_ref().and_then(boot_time) > boot_time(&value) {
        return Ok(());
    }
    if let Some(lease) = *lease
        && there.as_ref() == Some(&value)
        && client.keep_alive(lease).await? > 0
    {
        return Ok(());
    }
    let seconds = i64::try_from(report.ttl.as_secs()).unwrap_or(i64::MAX);
    let granted = client.grant(seconds).await?.id;
    *lease = Some(granted);
    let value = value.to_string().into_bytes();
    client.put(PutRequest { key, value, lease: granted, prev_kv: false }).await.map(drop)
}
