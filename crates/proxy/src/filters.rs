//! Changes to the head of an answer by plugins and by the gateway itself.

use tidegate_plugin_api::Request;
use tidegate_protocol::HeaderId;

use crate::{client::Downstream, phases::RequestChains};

/// Runs the header filters over `request.response`. The error is the status of the page that replaces the
/// answer.
pub(crate) fn header_filter(
    request: &mut Request,
    client: &Downstream,
    chains: &RequestChains,
) -> Result<(), u16> {
    let response = &mut request.response;
    // The gateway signs its answers; a plugin may still set another name.
    response.headers.remove_known(HeaderId::Server);
    response.headers.set_all(&request.early_headers);
    if let Some(attempt) = request.outcome.attempts.last() {
        let show_always = client.worker.settings.show_upstream_status;
        // 0: no answer at all, which counts as 502.
        if show_always || matches!(attempt.status, 0 | 500..) {
            let list = request.variable(&tidegate_plugin_api::Variable::Named(
                tidegate_plugin_api::variables::Named::UpstreamStatus,
            ));
            if let Some(list) = list.map(std::borrow::Cow::into_owned) {
                request.response.headers.set("X-APISIX-Upstream-Status", list);
            }
        }
    }
    chains.header_filter(request);
    if let Some(executed) = chains.executed() {
        request.response.headers.set("Apisix-Plugins", executed);
    }
    request.response.take_refusal().map_or(Ok(()), Err)
}
