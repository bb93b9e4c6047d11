//! How attempts went, for variables and metrics.

use tidegate_plugin_api::{Request, outcome::Attempt};

use super::UpstreamConnection;

/// Records how an attempt went, for variables and metrics.
pub(super) fn record(
    request: &mut Request,
    upstream: &UpstreamConnection,
    status: u16,
    header_seconds: Option<f64>,
    response_seconds: Option<f64>,
) {
    request.outcome.attempts.push(Attempt {
        address: upstream.address,
        status,
        connect_seconds: upstream.connect_seconds,
        header_seconds,
        response_seconds: response_seconds.unwrap_or_else(|| upstream.started.elapsed().as_secs_f64()),
    });
}
