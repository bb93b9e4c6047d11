//! List, then watch from the list's version on: the protocol of Kubernetes' API for followers.
//!
//! ```text
//! list (pages) -> watch -> end of the watch: watch again from the last version
//!   ^                 `--> 410 Gone: the version is too old, list again
//!   `-- pause <-- any failure; what is known stays
//! ```

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use serde_json::Value;
use tidegate_clients::http::KeptClient;
use tidegate_model::random::random_below;
use tidegate_protocol::uri::encoded_component;

use super::{
    conf::Cluster,
    endpoints::{Objects, part},
};
use crate::{
    http::{self, document},
    known::Known,
    registry::log_error,
    retry::Retry,
};

/// Objects per page of a list.
const PAGE: usize = 120;
/// More pages than a cluster has objects for.
const MAX_PAGES: usize = 100_000;
/// Seconds after which the server ends a watch; spread, so that gateways do not all come back at once.
const WATCH_SECONDS: [u64; 2] = [1809, 990];
/// Beyond the end of a watch.
const GRACE: Duration = Duration::from_secs(120);
/// A watch that ends so early is followed by a pause.
const SHORT: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(200);
/// One event; etcd, where objects lie, takes no more than 1.5 MiB for one.
const MAX_EVENT_BYTES: usize = 8 << 20;

enum End {
    /// The time of the watch was over.
    Over,
    /// The version is no longer known.
    Gone,
}

pub(super) async fn follow(followed: Arc<Followed>) {
    let mut retry = Retry::default();
    loop {
        if let Err(reason) = list_and_watch(&followed, &mut retry).await {
            if retry.is_first() {
                log_error("kubernetes", &reason);
            }
            followed.known.failed(0);
            retry.wait().await;
        }
    }
}

async fn list_and_watch(followed: &Followed, retry: &mut Retry) -> Result<(), String> {
    let mut client = followed.cluster.client().await?;
    let (mut objects, mut version) = list(followed, &mut client).await?;
    followed.known.set(0, objects.services(None));
    followed.listed.store(true, Ordering::Relaxed);
    loop {
        // The token may be another one by now.
        let mut client = followed.cluster.client().await?;
        let began = Instant::now();
        let end = watch(followed, &mut client, &mut objects, &mut version, retry).await?;
        if began.elapsed() < SHORT {
            // Something between here and the server ends watches: it must not become a busy loop.
            tokio::time::sleep(PAUSE).await;
        }
        if matches!(end, End::Gone) {
            return Ok(());
        }
    }
}

/// All objects, and the version they have.
async fn list(followed: &Followed, client: &mut KeptClient) -> Result<(Objects, String), String> {
    let cluster = &followed.cluster;
    let mut objects = Objects::default();
    let mut next = String::new();
    for _ in 0..MAX_PAGES {
        let target = format!("{}?limit={PAGE}{}{next}", cluster.path(), cluster.selectors);
        let answer = client.get(&target).await?;
        let page = http::good(&answer).map_err(|reason| format!("{}: list: {reason}", client.server()))?;
        if page.get("kind").and_then(Value::as_str) != Some(cluster.list_kind()) {
            return Err(format!("{}: list: response is not a {}", client.server(), cluster.list_kind()));
        }
        for object in page.get("items").and_then(Value::as_array).into_iter().flatten() {
            if let Some(part) = part(object, cluster) {
                objects.put(part).map_err(|reason| format!("{}: list: {reason}", client.server()))?;
            }
        }
        let metadata = |name: &str| {
            page.pointer("/metadata").and_then(|it| it.get(name)).and_then(Value::as_str).unwrap_or_default()
        };
        match metadata("continue") {
            "" => return Ok((objects, metadata("resourceVersion").to_owned())),
            token => next = format!("&continue={}", encoded_component(token)),
        }
    }
    Err(format!("{}: list: endless pagination", client.server()))
}

async fn watch(
    followed: &Followed,
    client: &mut KeptClient,
    objects: &mut Objects,
    version: &mut String,
    retry: &mut Retry,
) -> Result<End, String> {
    let cluster = &followed.cluster;
    let seconds = WATCH_SECONDS[0] + random_below(WATCH_SECONDS[1] as usize) as u64;
    let target = format!(
        "{}?watch=true&allowWatchBookmarks=true&timeoutSeconds={seconds}&resourceVersion={}{}",
        cluster.path(),
        encoded_component(version),
        cluster.selectors,
    );
    let mut stream = client.stream(&target).await?;
    match stream.status {
        200 => retry.reset(),
        410 => return Ok(End::Gone),
        status => return Err(format!("{}: watch: status {status}", client.server())),
    }
    let wrong = |reason: &str| format!("{}: watch: {reason}", client.server());
    let mut pending: Vec<u8> = Vec::new();
    let limit = Duration::from_secs(seconds) + GRACE;
    loop {
        let piece = tokio::time::timeout(limit, stream.next()).await.map_err(|_| wrong("silence"))?;
        let Some(piece) = piece.map_err(|reason| wrong(&reason))? else { return Ok(End::Over) };
        pending.extend_from_slice(&piece);
        // Of many short lines, the bytes behind them are moved once.
        let complete = pending.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let rest = pending.split_off(complete);
        let lines = std::mem::replace(&mut pending, rest);
        for line in lines.split(|byte| *byte == b'\n') {
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let event = document(line).map_err(|reason| wrong(&reason))?;
            if let Some(end) = take(followed, objects, version, &event).map_err(|reason| wrong(&reason))? {
                return Ok(end);
            }
        }
        if pending.len() > MAX_EVENT_BYTES {
            return Err(wrong("an event is too long"));
        }
    }
}

fn take(
    followed: &Followed,
    objects: &mut Objects,
    version: &mut String,
    event: &Value,
) -> Result<Option<End>, String> {
    let object = event.get("object").ok_or("an event has no object")?;
    let kind = event.get("type").and_then(Value::as_str).unwrap_or_default();
    if kind == "ERROR" {
        if object.get("code").and_then(Value::as_u64) == Some(410) {
            return Ok(Some(End::Gone));
        }
        let message = object.get("message").and_then(Value::as_str).unwrap_or("error without message");
        return Err(message.to_owned());
    }
    if let Some(newer) = object.pointer("/metadata/resourceVersion").and_then(Value::as_str) {
        *version = newer.to_owned();
    }
    let Some(part) = part(object, &followed.cluster) else { return Ok(None) };
    let service = part.service.clone();
    match kind {
        "ADDED" | "MODIFIED" => objects.put(part)?,
        "DELETED" => objects.remove(&part),
        // BOOKMARK: only the version.
        _ => return Ok(None),
    }
    let now = objects.services(Some(&service));
    followed.known.update(0, |services| {
        services.retain(|name, _| name.rsplit_once(':').is_none_or(|(of, _)| of != service));
        services.extend(now);
    });
    Ok(None)
}

/// A cluster and its last observed state. Services are `NAMESPACE/NAME:PORT`.
pub(super) struct Followed {
    pub(super) cluster: Cluster,
    pub(super) known: Known,
    /// The first list has come.
    pub(super) listed: std::sync::atomic::AtomicBool,
}
