//! HTTP/1 on a TCP listener for the Admin API, the Control API and the pages of the process.
//!
//! A peer is bounded before it is trusted: by its address when it connects ([`bounds`]), by time ([`clock`]), and its
//! body is read only when the head of its request was let in ([`connection`]).

mod body;
mod bounds;
mod clock;
mod connection;
mod in_turns;
mod service;
mod streaming;

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use tidegate_telemetry::{
    error_log::{Level, log},
    limiter::Limiter,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
};

pub use self::{
    bounds::Bounds,
    service::{Connection, Phase},
};
use self::{
    bounds::Doors,
    service::{Service, closed},
};
use crate::{
    AdminApi, ControlApi, Entered,
    message::{Head, RequestBody, Response},
};

/// One line in ten seconds.
static NOT_ACCEPTED: Limiter = Limiter::new(1, 10_000);

impl Service for AdminApi {
    type Entered = Entered;

    fn enter(&self, head: Head) -> Result<Entered, Response> {
        AdminApi::enter(self, head)
    }

    fn body_limit(entered: &Entered) -> u64 {
        entered.body_limit()
    }

    fn showed_key(entered: &Entered) -> bool {
        entered.showed_key()
    }

    /// What this process knows may be old, and writes are not its matter.
    fn handed_over(&self) -> Option<Response> {
        let response = Response::error(503, "another process has taken over; try again");
        Some(response.with_header("Retry-After", "1"))
    }

    async fn answer(&self, entered: Entered, body: Result<RequestBody, Response>) -> Response {
        AdminApi::answer(self, entered, body).await
    }
}

/// A service for every client that reaches it. It has no use for bodies: none is ever read.
pub trait Page: Send + Sync + 'static {
    /// The response to one request. Bodies are not read.
    fn answer(&self, head: Head) -> impl Future<Output = Response> + Send;
}

impl Page for ControlApi {
    async fn answer(&self, head: Head) -> Response {
        self.handle(head).await
    }
}

impl<P: Page> Service for P {
    type Entered = Head;

    fn enter(&self, head: Head) -> Result<Head, Response> {
        Ok(head)
    }

    fn body_limit(_: &Head) -> u64 {
        0
    }

    fn showed_key(_: &Head) -> bool {
        false
    }

    /// A page is of its process.
    fn handed_over(&self) -> Option<Response> {
        None
    }

    async fn answer(&self, head: Head, _: Result<RequestBody, Response>) -> Response {
        Page::answer(self, head).await
    }
}

/// Turns an accepted connection into one to speak HTTP on; `None` when the handshake failed.
pub type Accept =
    Arc<dyn Fn(TcpStream) -> Pin<Box<dyn Future<Output = Option<Box<dyn Connection>>> + Send>> + Send + Sync>;

/// Serves plain HTTP from the phase `Serving` until `Closing`.
pub async fn serve<S: Service>(
    listener: TcpListener,
    service: Arc<S>,
    bounds: Bounds,
    phase: watch::Receiver<Phase>,
) {
    let plain: Accept = Arc::new(|stream| {
        Box::pin(async move {
            let stream: Box<dyn Connection> = Box::new(stream);
            Some(stream)
        })
    });
    serve_with(listener, service, plain, bounds, phase).await;
}

/// As [`serve`], with a hook that may do a TLS handshake first.
pub async fn serve_with<S: Service>(
    listener: TcpListener,
    service: Arc<S>,
    accept: Accept,
    bounds: Bounds,
    mut phase: watch::Receiver<Phase>,
) {
    if phase.wait_for(|phase| *phase != Phase::Waiting).await.is_err() {
        return;
    }
    let doors = Doors::new(bounds);
    let mut closing = phase.clone();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = closed(&mut closing) => return,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of file descriptors, most likely: let other tasks close some.
                if NOT_ACCEPTED.pass().is_some() {
                    log(
                        Level::Error,
                        format_args!("the Admin API or a page cannot accept connections: {error}"),
                    );
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let Some(place) = doors.admit(peer.ip()) else { continue };
        let (service, accept, phase) = (service.clone(), accept.clone(), phase.clone());
        let doors = doors.clone();
        tokio::spawn(async move {
            let _ = stream.set_nodelay(true);
            let accepted = tokio::select! {
                accepted = accept(stream) => accepted,
                () = place.clock.expired() => {
                    if !place.clock.is_closed() {
                        let limit = doors.bounds.head.as_secs_f64();
                        log(Level::Info, format_args!("TLS handshake with {peer} not finished within {limit} s"));
                    }
                    None
                }
            };
            if let Some(stream) = accepted {
                let client = connection::Client::new(peer.ip(), place, doors, phase.clone());
                connection::serve(stream, client, service, phase).await;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::testing::{open, parts};

    #[tokio::test(flavor = "current_thread")]
    async fn requests_come_in_over_tcp() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("port");
        let address = listener.local_addr().expect("address");
        let api = Arc::new(AdminApi::new(parts(open())));
        let (doors, phase) = watch::channel(Phase::Waiting);
        let exchange = async {
            let mut client = TcpStream::connect(address).await.expect("connected");
            let mut idle = TcpStream::connect(address).await.expect("connected");
            doors.send_replace(Phase::Serving);
            let head = "PUT /apisix/admin/routes/1 HTTP/1.1\r\nHost: a\r\n";
            let body = r#"{"uri":"/a","plugins":{}}"#;
            let request = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
            client.write_all(request.as_bytes()).await.expect("sent");
            let mut start = [0; 22];
            client.read_exact(&mut start).await.expect("answered");
            // Both connections are kept alive; they end with the phase.
            doors.send_replace(Phase::Closing);
            let mut rest = String::new();
            client.read_to_string(&mut rest).await.expect("closed");
            idle.read_to_string(&mut rest).await.expect("closed");
            String::from_utf8_lossy(&start).into_owned() + &rest
        };
        let (answer, ()) = tokio::join!(exchange, serve(listener, api, Bounds::default(), phase));
        assert!(answer.starts_with("HTTP/1.1 201 Created\r\n"), "{answer}");
        assert!(answer.contains("X-Api-Version: v3\r\n"), "{answer}");
    }
}
