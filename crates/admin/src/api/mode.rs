//! `GET /mode`: what a client may expect of this API before it asks for more.

use serde_json::json;

use crate::{admin_api::AdminApi, message::Response};

impl AdminApi {
    pub(super) fn mode(&self) -> Response {
        let why = match (&self.standalone, self.store.last_good()) {
            (Some(_), _) => Some("the configuration is what PUT /apisix/admin/configs sent last".to_owned()),
            (None, Some(state)) => Some(format!(
                "the store is damaged ({}), and its copy {} is served",
                state.problem,
                state.copy.display()
            )),
            (None, None) if !self.store.is_writable() => Some("the store takes no writes".to_owned()),
            (None, None) => None,
        };
        Response::json(
            200,
            &json!({
                "provider": self.settings.mode.provider,
                "writable": why.is_none(),
                "why": why,
                "history": self.store.history().is_some(),
                "version": env!("CARGO_PKG_VERSION"),
                "node": self.settings.mode.node,
            }),
        )
    }
}
