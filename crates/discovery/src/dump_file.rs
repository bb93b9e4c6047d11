//! The last answers on disk (`dump` of consul and consul_kv), so that a gateway can start while the registry is down.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use serde::Deserialize;
use serde_json::{Value, json};
use tidegate_model::resources::Node;

use crate::{http, known::Services, registry::log_error, shown};

#[derive(Clone, Deserialize)]
pub(crate) struct Dump {
    pub path: PathBuf,
    pub(crate) load_on_init: bool,
    /// Seconds; 0: for ever.
    pub expire: i64,
}

impl Dump {
    /// The services of the file, unless there is none, it is broken or too old.
    pub(crate) fn read(&self, kind: &str) -> Option<Services> {
        let wrong = |reason: &str| {
            log_error(kind, &format!("dump file {} is not used: {reason}", self.path.display()));
            None
        };
        let text = match std::fs::read(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
            Err(error) => return wrong(&error.to_string()),
        };
        let document: Value = match serde_json::from_slice(&text) {
            Ok(document) => document,
            Err(error) => return wrong(&error.to_string()),
        };
        let services = document.get("services").and_then(Value::as_object);
        let updated = document.get("last_update").and_then(Value::as_f64);
        let (Some(services), Some(updated)) = (services, updated) else {
            return wrong("services or last_update is missing");
        };
        if self.expire != 0 && updated + (self.expire as f64) < now() as f64 {
            return wrong("it has expired");
        }
        Some(services.iter().map(|(name, list)| (name.clone(), nodes(list))).collect())
    }

    /// A new file takes the place of the old one: a crash leaves one of them.
    pub(crate) async fn write(&self, kind: &'static str, services: &Services) {
        let document = json!({
            "services": shown::services(services),
            "last_update": now(),
            "expire": self.expire,
        });
        let path = self.path.clone();
        let written = tokio::task::spawn_blocking(move || {
            let fresh = path.with_extension("new");
            std::fs::write(&fresh, document.to_string())?;
            std::fs::rename(&fresh, &path)
        });
        if let Ok(Err(error)) = written.await {
            log_error(kind, &format!("cannot write dump file {}: {error}", self.path.display()));
        }
    }

    pub(crate) fn below(mut self, prefix: &Path) -> Dump {
        self.path = prefix.join(&self.path);
        self
    }
}

fn nodes(list: &Value) -> Arc<[Node]> {
    let read = |node: &Value| {
        Some(Node {
            host: node.get("host")?.as_str()?.to_owned(),
            port: http::port(node.get("port")),
            weight: http::weight(node.get("weight"), 1),
            max_conn: None,
            priority: node
                .get("priority")
                .and_then(|priority| i32::try_from(priority.as_i64()?).ok())
                .unwrap_or_default(),
            metadata: node.get("metadata").cloned(),
        })
    };
    list.as_array().into_iter().flatten().filter_map(read).collect()
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}
