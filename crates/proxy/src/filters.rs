//! Changes to the head of an answer by plugins and by the gateway itself.

use tidegate_plugin_api::Request;
use tidegate_protocol::{Head, HeaderId};

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
    match repeats_a_name(&request.early_headers) {
        false => response.headers.set_distinct(&request.early_headers),
        true => set_and_add(&mut response.headers, &request.early_headers),
    }
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

/// Few fields are set early, and their names mostly differ in length.
fn repeats_a_name(fields: &Head) -> bool {
    let mut names = fields.iter().map(|(name, _)| name).enumerate();
    names.any(|(at, name)| fields.iter().take(at).any(|(other, _)| other.eq_ignore_ascii_case(name)))
}

/// The first of a name replaces those that are there, further ones come after it.
#[cold]
fn set_and_add(headers: &mut Head, fields: &Head) {
    for (at, (name, value)) in fields.iter().enumerate() {
        match fields.iter().take(at).any(|(other, _)| other.eq_ignore_ascii_case(name)) {
            true => headers.add(name, value),
            false => headers.set(name, value),
        }
    }
}
