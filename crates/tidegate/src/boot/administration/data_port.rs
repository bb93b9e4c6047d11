//! The Admin API among the routes of the data plane (the layout of APISIX 2.x).

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use bytes::Bytes;
use tidegate_admin::{AdminApi, AdminHead, AdminResponse, Entered, RequestBody};
use tidegate_proxy::{Internal, InternalCall, InternalFuture, InternalHead, InternalResponse};

pub(super) struct OnDataPort {
    pub admin: Arc<AdminApi>,
    /// deployment.admin.admin_listen
    pub at: SocketAddr,
    /// What peers say of a client's address is not believed: `nginx_config.http.real_ip_from` names nearly all addresses.
    pub believes_nobody: bool,
}

impl OnDataPort {
    /// The address that allow_admin, and what signing in asks of it, is about. No other machine is this one.
    fn client(&self, head: &InternalHead) -> IpAddr {
        let (said, socket) = (head.peer.to_canonical(), head.socket.to_canonical());
        if self.believes_nobody || said.is_loopback() && !socket.is_loopback() { socket } else { said }
    }
}

impl Internal for OnDataPort {
    fn owns(&self, path: &[u8]) -> bool {
        std::str::from_utf8(path).is_ok_and(AdminApi::owns)
    }

    fn is_at(&self, local: SocketAddr) -> bool {
        let (here, wanted) = (local.ip().to_canonical(), self.at.ip());
        local.port() == self.at.port()
            && (wanted == here || wanted.is_unspecified() && wanted.is_ipv4() == here.is_ipv4())
    }

    fn enter(&self, head: InternalHead) -> Result<Box<dyn InternalCall>, InternalResponse> {
        let peer = self.client(&head);
        let (path, query) = head.target.split_once('?').unwrap_or((&head.target, ""));
        let (path, query) = (path.to_owned(), query.to_owned());
        let head = AdminHead { method: head.method, path, query, headers: head.headers, peer };
        match self.admin.enter(head) {
            Ok(entered) => Ok(Box::new(Call { admin: self.admin.clone(), entered })),
            Err(refused) => Err(internal_response(refused)),
        }
    }
}

struct Call {
    admin: Arc<AdminApi>,
    entered: Entered,
}

impl InternalCall for Call {
    /// Large bodies are for the API's own port, where they are counted.
    fn body_limit(&self) -> usize {
        self.entered.body_limit().min(2 * tidegate_admin::api::BODY_LIMIT) as usize
    }

    fn answer(self: Box<Self>, body: Result<Bytes, u64>) -> InternalFuture {
        Box::pin(async move {
            let body = body.map_or_else(RequestBody::TooLarge, RequestBody::Bytes);
            internal_response(self.admin.answer(self.entered, Ok(body)).await)
        })
    }
}

fn internal_response(answer: AdminResponse) -> InternalResponse {
    let answer = match answer.stream {
        Some(_) => AdminResponse::error(501, "streams are for a port of the Admin API's own"),
        None => answer,
    };
    InternalResponse {
        status: answer.status,
        headers: answer.headers.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        body: answer.body,
    }
}
