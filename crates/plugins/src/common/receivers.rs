//! Receivers that take batches as JSON, each as good as the others.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use tidegate_clients::http::{self, Body, ClientOptions, Endpoint, Outgoing, TlsWanted};
use tidegate_model::random::random_below;

/// The fields that name them.
#[derive(Deserialize)]
pub(crate) struct Addresses {
    endpoint_addrs: Vec<String>,
    endpoint_uri: String,
    ssl_verify: bool,
    /// Milliseconds.
    timeout: u64,
    keepalive: bool,
    keepalive_timeout: u64,
    keepalive_pool: usize,
}

pub(crate) struct Receivers {
    /// As errors call one.
    name: &'static str,
    endpoints: Vec<Endpoint>,
    headers: Vec<(String, String)>,
    options: ClientOptions,
}

impl Receivers {
    /// `headers` go with each batch.
    pub(crate) fn new(
        name: &'static str,
        conf: &Addresses,
        headers: Vec<(String, String)>,
    ) -> Result<Receivers, String> {
        let endpoints = conf
            .endpoint_addrs
            .iter()
            .map(|address| Endpoint::parse(&format!("{address}{}", conf.endpoint_uri)));
        Ok(Receivers {
            name,
            endpoints: endpoints.collect::<Result<_, _>>()?,
            headers,
            options: ClientOptions {
                repeats: true,
                proxies: None,
                timeout: Duration::from_millis(conf.timeout),
                tls: TlsWanted { verify: conf.ssl_verify, client: None },
                keepalive: conf.keepalive,
                keepalive_timeout: Duration::from_millis(conf.keepalive_timeout),
                keepalive_pool: conf.keepalive_pool,
                body: Body::SAID,
            },
        })
    }

    /// To one of them, by chance.
    pub(crate) async fn send(&self, batch: &Value) -> Result<(), String> {
        let at = random_below(self.endpoints.len());
        let endpoint = self.endpoints.get(at).ok_or("no endpoint is configured")?;
        let mut outgoing = Outgoing::post(endpoint.clone(), "application/json", batch.to_string());
        for (name, value) in &self.headers {
            outgoing = outgoing.header(name, value.as_bytes());
        }
        let answer = http::send(outgoing, &self.options).await?;
        if answer.status < 300 {
            return Ok(());
        }
        let body = String::from_utf8_lossy(&answer.body);
        Err(format!("{} returned status: {}, body: {body}", self.name, answer.status))
    }
}
