//! What an etcd, or a proxy of it, says of itself: the metrics of its process.

use std::{io, time::Duration};

use tidegate_bench::Problem;
use tidegate_clients::verbatim::Excess;

use crate::cli::exchange::{Bounds, exchange};

/// etcd's page has some hundred kilobytes.
const PAGE_BYTES: usize = 16 << 20;
const WAIT: Duration = Duration::from_secs(10);

pub(super) struct Server {
    pub(super) url: String,
    address: String,
}

impl Server {
    pub(super) fn new(url: &str) -> Result<Server, Problem> {
        let address = url.strip_prefix("http://").map(|rest| rest.trim_end_matches('/').to_owned());
        let address = address.filter(|address| address.contains(':') && !address.contains('/'));
        match address {
            Some(address) => Ok(Server { url: url.to_owned(), address }),
            None => Err(Problem::usage(format!(
                "{url}: this is not http://HOST:PORT, whose /metrics can be read; see --server"
            ))),
        }
    }

    /// (CPU seconds since its start, resident memory in MiB)
    pub(super) fn usage(&self) -> Result<(f64, f64), Problem> {
        let page =
            self.page().map_err(|error| Problem::unreachable(format!("{}/metrics: {error}", self.url)))?;
        let value = |name: &str| {
            let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.and_then(|value| value.trim().parse::<f64>().ok())
                .ok_or_else(|| Problem::failed(format!("{}/metrics has no {name}", self.url)))
        };
        Ok((value("process_cpu_seconds_total")?, value("process_resident_memory_bytes")? / 1024.0 / 1024.0))
    }

    fn page(&self) -> io::Result<String> {
        let request = format!("GET /metrics HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.address);
        let bounds = Bounds { wait: WAIT, body_bytes: PAGE_BYTES, excess: Excess::Refused };
        let answer = exchange(self.address.as_str(), "GET", request.as_bytes(), bounds)?;
        Ok(String::from_utf8_lossy(&answer.body).into_owned())
    }
}
