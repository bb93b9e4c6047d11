//! Nodes in Consul's key-value store: `PREFIX/SERVICE/HOST:PORT` with a document such as `{"weight": 1}`.
//!
//! A service is named by the address of its folder: `http://127.0.0.1:8500/v1/kv/upstreams/SERVICE/`.

use std::{convert::Infallible, sync::Arc, time::Instant};

use base64::{Engine, engine::general_purpose::STANDARD};
use regex::Regex;
use serde::Deserialize;
use serde_json::{Value, json};
use tidegate_model::resources::Node;

use crate::{
    conf::typed,
    consul::{
        Collected,
        conf::{Common, Server, index_of, pause_after},
        registry::{self, Followed, Source},
    },
    http,
    known::{MOST_NODES, Services},
    registry::{Registry, Start, log_error},
    retry::Retry,
};

#[derive(Deserialize)]
struct Conf {
    #[serde(flatten)]
    common: Common,
    prefix: String,
    #[serde(default)]
    skip_keys: Vec<String>,
}

struct ConsulKv {
    prefix: String,
    skip_keys: Vec<String>,
    /// Folder, host and port of a key.
    pattern: Regex,
}

pub(crate) fn start(conf: &Value, start: &Start) -> Result<Arc<dyn Registry>, String> {
    let Conf { common, prefix, skip_keys } = typed("consul_kv", conf)?;
    let pattern = format!("({}/.*/)([a-zA-Z0-9.]+):([0-9]+)", regex::escape(&prefix));
    let pattern = Regex::new(&pattern).map_err(|error| format!("discovery.consul_kv.prefix: {error}"))?;
    registry::start(ConsulKv { prefix, skip_keys, pattern }, common, conf, start)
}

impl Source for ConsulKv {
    const KIND: &'static str = "consul_kv";

    async fn rounds(
        &self,
        followed: &Followed<Self>,
        number: usize,
        server: &Server,
        retry: &mut Retry,
    ) -> Result<Infallible, String> {
        let mut client = server.client();
        let target = format!("/v1/kv/{}?recurse=true", self.prefix);
        let mut answer = client.get(&target).await?;
        loop {
            // 404: there is no such key any more, which is an answer.
            let document = if answer.status == 404 { json!([]) } else { http::good(&answer)? };
            let services = self.services(&document, server, followed.common.weight);
            followed.learn(number, services).await;
            retry.reset();
            answer = if followed.common.keepalive {
                let (began, index) = (Instant::now(), index_of(&answer));
                let (blocking, wait) = followed.common.blocking(&format!("{target}&"), index);
                let next = client.get_slowly(&blocking, wait).await?;
                if index_of(&next) == index {
                    pause_after(began).await;
                }
                next
            } else {
                tokio::time::sleep(followed.common.interval()).await;
                client.get(&target).await?
            };
        }
    }
}

impl ConsulKv {
    fn services(&self, document: &Value, server: &Server, weight: u32) -> Services {
        let mut collected = Collected::new();
        for entry in document.as_array().into_iter().flatten() {
            match self.node(entry, weight) {
                Ok(Some((folder, node))) => {
                    let name = format!("{}/v1/kv/{folder}", server.url);
                    let nodes = collected.entry(name).or_default();
                    if nodes.len() < MOST_NODES {
                        nodes.push(node);
                    }
                }
                Ok(None) => {}
                Err(reason) => {
                    let key = entry.get("Key").and_then(Value::as_str).unwrap_or("?");
                    log_error("consul_kv", &format!("key {key}: {reason}"));
                }
            }
        }
        collected.into_iter().map(|(name, nodes)| (name, nodes.into())).collect()
    }

    /// `None`: a folder, one that is skipped, or a node that says it is not well.
    fn node(&self, entry: &Value, weight: u32) -> Result<Option<(String, Node)>, String> {
        let key = entry.get("Key").and_then(Value::as_str).unwrap_or_default();
        if key.ends_with('/') {
            return Ok(None);
        }
        let parts = self.pattern.captures(key).ok_or("is not PREFIX/SERVICE/HOST:PORT")?;
        let (_, [folder, host, port]) = parts.extract();
        if self.skip_keys.iter().any(|skipped| skipped == folder) {
            return Ok(None);
        }
        let port = port.parse().map_err(|_| format!("invalid port {port}"))?;
        let value = entry.get("Value").and_then(Value::as_str).filter(|value| !value.is_empty());
        let value = STANDARD.decode(value.ok_or("has no value")?).map_err(|error| error.to_string())?;
        let value = http::document(&value)?;
        if matches!(value.get("check_status"), Some(status) if *status == json!(false) || *status == json!("false"))
        {
            return Ok(None);
        }
        let node = Node {
            host: host.to_owned(),
            port: Some(port),
            weight: http::weight(value.get("weight"), weight),
            max_conn: None,
            priority: 0,
            metadata: None,
        };
        Ok(Some((folder.to_owned(), node)))
    }
}
