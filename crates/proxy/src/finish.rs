//! The end of a request: log phase, access log.

use std::time::Instant;

use tidegate_plugin_api::Request;
use tidegate_telemetry::error_log;

use crate::{claims, client::Downstream, phases::RequestChains, traffic};

pub(crate) fn finish(request: &mut Request, client: &Downstream, chains: &RequestChains) {
    claims::count_of_plugins(request, client);
    let settings = &client.worker.settings;
    if chains.has_log() || settings.access_log.is_some() {
        request.outcome.finished = Some(Instant::now());
        request.outcome.request_length = request_length(request, client);
        let kept_back = chains.is_of_delivery().then(error_log::keep_back);
        chains.log(request);
        drop(kept_back);
        if let Some(log) = &settings.access_log {
            log.write(client.worker.index, request);
        }
    }
    if traffic::is_watched() {
        traffic::offer(request);
    }
}

/// The length of request line, fields and body as received; a head of another protocol counts as if written in
/// HTTP/1.
fn request_length(request: &Request, client: &Downstream) -> u64 {
    let mut head = request.head.received_len();
    if head == 0 {
        let line =
            request.head.method.as_bytes().len() + request.head.target().len() + "  HTTP/1.1\r\n".len();
        let fields = request.head.headers.iter().map(|(name, value)| name.len() + value.len() + 4);
        head = line + fields.sum::<usize>() + 2;
    }
    head as u64 + client.body_received()
}
