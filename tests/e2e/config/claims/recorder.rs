//! A gRPC upstream that writes down the fields and the trailers of each request.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use h2::{RecvStream, server::SendResponse};
use http::{HeaderMap, Request, Response};
use tokio::net::{TcpListener, TcpStream};

use crate::protocols::grpc_peer::runtime;

/// A path and what came with it, trailers last.
type Call = (String, Vec<(String, String)>);

pub(super) struct Recorder {
    pub address: SocketAddr,
    calls: Arc<Mutex<Vec<Call>>>,
}

impl Recorder {
    pub(super) fn start() -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.set_nonblocking(true).expect("non-blocking");
        let address = listener.local_addr().expect("an address");
        let calls: Arc<Mutex<Vec<Call>>> = Arc::default();
        let shared = calls.clone();
        std::thread::spawn(move || {
            runtime().block_on(async move {
                let listener = TcpListener::from_std(listener).expect("a listener");
                while let Ok((stream, _)) = listener.accept().await {
                    tokio::spawn(serve(stream, shared.clone()));
                }
            });
        });
        Recorder { address, calls }
    }

    pub(super) fn take(&self) -> Vec<Call> {
        std::mem::take(&mut *self.calls.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

async fn serve(stream: TcpStream, calls: Arc<Mutex<Vec<Call>>>) {
    let Ok(mut connection) = h2::server::handshake(stream).await else { return };
    while let Some(Ok((request, respond))) = connection.accept().await {
        let calls = calls.clone();
        tokio::spawn(async move {
            // A gateway that cancelled shows as a request that is missing.
            let _ = answer(request, respond, &calls).await;
        });
    }
}

async fn answer(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    calls: &Mutex<Vec<Call>>,
) -> Result<(), h2::Error> {
    let (parts, mut body) = request.into_parts();
    while let Some(data) = body.data().await {
        body.flow_control().release_capacity(data?.len())?;
    }
    let mut fields = texts(&parts.headers);
    if let Some(trailers) = body.trailers().await? {
        fields.extend(texts(&trailers));
    }
    calls.lock().unwrap_or_else(PoisonError::into_inner).push((parts.uri.path().to_owned(), fields));
    let head = Response::builder().header("content-type", "application/grpc").header("grpc-status", "0");
    respond.send_response(head.body(()).expect("a head"), true)?;
    Ok(())
}

fn texts(fields: &HeaderMap) -> Vec<(String, String)> {
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    fields.iter().map(|(name, value)| (name.to_string(), text(value))).collect()
}
