//! What eureka and nacos have in common: interchangeable hosts that are asked every few seconds, beginning anywhere.

use std::time::Duration;

use serde::Deserialize;
use tidegate_clients::http::{Endpoint, KeptClient};
use tidegate_model::random::random_below;

use crate::http;

#[derive(Deserialize)]
pub(crate) struct Hosts {
    host: Vec<String>,
    /// Seconds.
    fetch_interval: u64,
    #[serde(default)]
    prefix: String,
    pub weight: u32,
    timeout: Timeout,
}

/// Milliseconds.
#[derive(Clone, Copy, Deserialize)]
struct Timeout {
    connect: u64,
    read: u64,
}

impl Hosts {
    /// For each host a client, and `user:password` of its URL, made into what the registry `kind` asks with.
    pub(crate) fn clients<T>(
        &self,
        kind: &str,
        verify: bool,
        make: impl Fn(KeptClient, Option<&str>) -> T,
    ) -> Result<Vec<T>, String> {
        let one = |url: &String| {
            let (user, url) = http::split_user(url);
            let endpoint = Endpoint::parse(&format!("{url}{}", self.prefix));
            let endpoint = endpoint.map_err(|reason| format!("discovery.{kind}.host: {reason}"))?;
            Ok(make(http::client(endpoint, verify, self.timeout.connect, self.timeout.read), user))
        };
        self.host.iter().map(one).collect()
    }

    pub(crate) fn interval(&self) -> Duration {
        Duration::from_secs(self.fetch_interval)
    }
}

/// All of them once, beginning anywhere, so that many gateways spread over many hosts.
pub(crate) fn in_turn(count: usize) -> impl Iterator<Item = usize> {
    let first = random_below(count);
    (0..count).map(move |turn| (first + turn) % count)
}
