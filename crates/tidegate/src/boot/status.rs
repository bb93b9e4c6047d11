//! `/status` and `/status/ready`, for load balancers and orchestrators.

use std::sync::Arc;

use anyhow::Context;
use serde_json::json;
use tidegate_admin::{AdminHead, AdminResponse};
use tidegate_config::Settings;
use tidegate_proxy::Workers;
use tokio::{net::TcpListener, runtime::Runtime};

use super::{control::Control, ending, provider::Provider, sockets::Sockets};

struct Status {
    workers: Arc<Workers>,
    control: Arc<Control>,
    provider: Arc<Provider>,
}

/// The socket, before there are workers to report on.
pub(super) fn bind(settings: &Settings, sockets: &Sockets) -> anyhow::Result<Option<TcpListener>> {
    let Some(listener) = &settings.apisix.status else { return Ok(None) };
    let address = super::addresses::address(listener)?;
    sockets.bind(address).context("status (apisix.status)")
}

pub(super) fn serve(
    settings: &Settings,
    listener: TcpListener,
    runtime: &Runtime,
    sockets: &Sockets,
    workers: &Arc<Workers>,
    control: &Arc<Control>,
    provider: &Arc<Provider>,
) {
    let (workers, control, provider) = (workers.clone(), control.clone(), provider.clone());
    let status = Arc::new(Status { workers, control, provider });
    let bounds = super::bounds::bounds(settings);
    sockets.spawn(runtime, tidegate_admin::listener::serve(listener, status, bounds, sockets.phase()));
}

impl tidegate_admin::listener::Page for Status {
    async fn answer(&self, request: AdminHead) -> AdminResponse {
        match request.path.as_str() {
            "/status" => AdminResponse::json(200, &json!({ "status": "ok" })),
            "/status/ready" => {
                if ending::has_begun() {
                    return AdminResponse::json(503, &json!({ "status": "error", "error": ending::REASON }));
                }
                // Workers start with the first snapshot; only ones that died are not ready.
                if self.workers.finished() || self.control.publisher.generation() == 0 {
                    let body = json!({ "status": "error", "error": "no worker is serving" });
                    return AdminResponse::json(503, &body);
                }
                // As APISIX: the client that drives the API has to send the configuration first.
                if self.provider.api_driven().is_some_and(|store| !store.has_document()) {
                    let error = "no configuration yet: it comes with PUT /apisix/admin/configs";
                    return AdminResponse::json(503, &json!({ "status": "error", "error": error }));
                }
                // As APISIX: without the endpoints of Kubernetes every request would be a 503.
                if let Err(reason) = self.control.nodes.is_ready() {
                    return AdminResponse::json(503, &json!({ "status": "error", "error": reason }));
                }
                AdminResponse::json(200, &json!({ "status": "ok" }))
            }
            _ => AdminResponse::page(404),
        }
    }
}
