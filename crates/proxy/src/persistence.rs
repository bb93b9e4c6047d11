//! Whether a connection stays open after a request.

use tidegate_plugin_api::Request;

use crate::client::Downstream;

/// Whether the client's side of the connection may carry another request after this one.
pub(crate) fn client_persists(request: &Request, client: &Downstream) -> bool {
    request.head.connection.persists(request.head.version) && !client.worker.draining.get()
}
