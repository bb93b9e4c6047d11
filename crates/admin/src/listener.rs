//! HTTP/1 on a TCP listener for the Admin or Control API.

mod in_turns;

use std::{convert::Infallible, future::Future, net::IpAddr, pin::Pin, sync::Arc};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{
    Request as HttpRequest, Response as HttpResponse, StatusCode,
    body::{Body, Incoming},
    header::{CONTENT_LENGTH, HeaderName, HeaderValue},
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::watch,
};

use self::in_turns::InTurns;
use crate::{
    AdminApi, ControlApi,
    message::{Request, RequestBody, Response},
};

/// Something that answers requests: the Admin or the Control API, or what the process puts in front of them.
pub trait Service: Send + Sync + 'static {
    fn answer(&self, request: Request) -> impl Future<Output = Response> + Send;
    /// How much of a body is worth reading for that path.
    fn body_limit(&self, path: &str) -> u64;
}

impl Service for AdminApi {
    async fn answer(&self, request: Request) -> Response {
        self.handle(request).await
    }
    fn body_limit(&self, path: &str) -> u64 {
        AdminApi::body_limit(self, path)
    }
}

impl Service for ControlApi {
    async fn answer(&self, request: Request) -> Response {
        self.handle(request).await
    }
    fn body_limit(&self, _: &str) -> u64 {
        crate::api::BODY_LIMIT
    }
}

/// A connection, plain or after a TLS handshake.
pub trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

/// Turns an accepted connection into one to speak HTTP on; `None` when the handshake failed.
pub type Accept =
    Arc<dyn Fn(TcpStream) -> Pin<Box<dyn Future<Output = Option<Box<dyn Connection>>> + Send>> + Send + Sync>;

/// What a listener has to do now. Sockets are bound early, so that a port that cannot be had is known before anything is
/// served, and left when a successor accepts from them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Waiting,
    Serving,
    /// Requests under way are finished, connections without one are closed.
    Closing,
}

/// Serves plain HTTP from the phase `Serving` until `Closing`.
pub async fn serve<S: Service>(listener: TcpListener, service: Arc<S>, phase: watch::Receiver<Phase>) {
    let plain: Accept = Arc::new(|stream| {
        Box::pin(async move {
            let stream: Box<dyn Connection> = Box::new(stream);
            Some(stream)
        })
    });
    serve_with(listener, service, plain, phase).await;
}

/// As [`serve`], with a hook that may do a TLS handshake first.
pub async fn serve_with<S: Service>(
    listener: TcpListener,
    service: Arc<S>,
    accept: Accept,
    mut phase: watch::Receiver<Phase>,
) {
    if phase.wait_for(|phase| *phase != Phase::Waiting).await.is_err() {
        return;
    }
    let mut closing = phase.clone();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = closed(&mut closing) => return,
        };
        let Ok((stream, peer)) = accepted else {
            // Out of file descriptors, most likely: let other tasks close some.
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            continue;
        };
        let (service, accept, phase) = (service.clone(), accept.clone(), phase.clone());
        tokio::spawn(async move {
            let _ = stream.set_nodelay(true);
            if let Some(stream) = accept(stream).await {
                serve_connection(stream, peer.ip(), service, phase).await;
            }
        });
    }
}

async fn closed(phase: &mut watch::Receiver<Phase>) {
    if phase.wait_for(|phase| *phase == Phase::Closing).await.is_err() {
        // Nobody is left to say so.
        std::future::pending::<()>().await;
    }
}

/// Serves one connection until it closes.
async fn serve_connection<S: Service>(
    stream: Box<dyn Connection>,
    peer: IpAddr,
    service: Arc<S>,
    mut phase: watch::Receiver<Phase>,
) {
    let answer = service_fn(move |request| {
        let service = service.clone();
        async move {
            let request = read(request, peer, service.as_ref()).await;
            let response = match request {
                Some(request) => service.answer(request).await,
                None => Response::empty(400),
            };
            Ok::<_, Infallible>(write(response))
        }
    });
    let mut builder = hyper::server::conn::http1::Builder::new();
    // Names do not depend on case, but people read them.
    builder.title_case_headers(true);
    let connection = builder.timer(TokioTimer::new()).serve_connection(TokioIo::new(InTurns(stream)), answer);
    let mut connection = std::pin::pin!(connection);
    // A client that goes away in the middle of a request is nobody's error.
    tokio::select! {
        _ = connection.as_mut() => return,
        () = closed(&mut phase) => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

async fn read<S: Service>(request: HttpRequest<Incoming>, peer: IpAddr, service: &S) -> Option<Request> {
    let (head, body) = request.into_parts();
    let path = head.uri.path().to_owned();
    let limit = service.body_limit(&path);
    let announced = body.size_hint().exact().or_else(|| {
        let length = head.headers.get(CONTENT_LENGTH)?;
        length.to_str().ok()?.parse().ok()
    });
    let body = match announced {
        Some(size) if size > limit => RequestBody::TooLarge(size),
        _ => {
            let limited = Limited::new(body, usize::try_from(limit).unwrap_or(usize::MAX));
            match limited.collect().await {
                Ok(body) => RequestBody::Bytes(body.to_bytes().to_vec()),
                Err(error) if error.is::<http_body_util::LengthLimitError>() => {
                    RequestBody::TooLarge(limit + 1)
                }
                Err(_) => return None,
            }
        }
    };
    let headers = head.headers.iter();
    let headers = headers.map(|(name, value)| {
        (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
    });
    Some(Request {
        method: head.method.as_str().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        headers: headers.collect(),
        path,
        body,
        peer,
    })
}

fn write(response: Response) -> HttpResponse<Full<Bytes>> {
    let mut http = HttpResponse::new(Full::new(Bytes::from(response.body)));
    *http.status_mut() = StatusCode::from_u16(response.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in response.headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            http.headers_mut().append(name, value);
        }
    }
    http
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
        let (answer, ()) = tokio::join!(exchange, serve(listener, api, phase));
        assert!(answer.starts_with("HTTP/1.1 201 Created\r\n"), "{answer}");
        assert!(answer.contains("X-Api-Version: v3\r\n"), "{answer}");
    }
}
