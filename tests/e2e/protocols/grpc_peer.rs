//! gRPC on both sides of the gateway: a server whose methods do what their names say, and a client that shows all.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use h2::{Reason, RecvStream, server::SendResponse};
use http::{HeaderMap, Request, Response};
use tidegate_testkit::PATIENCE;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};

pub(crate) fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// One message as it stands in a body.
pub(crate) fn message(bytes: &[u8]) -> Vec<u8> {
    let mut framed = vec![0];
    framed.extend((bytes.len() as u32).to_be_bytes());
    framed.extend(bytes);
    framed
}

/// A listening server. Its thread lives as long as the test.
pub(crate) struct Server {
    pub address: SocketAddr,
    connections: Arc<AtomicUsize>,
    calls: Arc<AtomicUsize>,
}

impl Server {
    pub(crate) fn start() -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.set_nonblocking(true).expect("non-blocking");
        let address = listener.local_addr().expect("an address");
        let (connections, calls) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (counted, served) = (connections.clone(), calls.clone());
        std::thread::spawn(move || {
            runtime().block_on(async move {
                let listener = TcpListener::from_std(listener).expect("a listener");
                while let Ok((stream, _)) = listener.accept().await {
                    counted.fetch_add(1, SeqCst);
                    tokio::spawn(serve(stream, served.clone()));
                }
            });
        });
        Server { address, connections, calls }
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(SeqCst)
    }

    /// Requests that came, the refused ones too.
    pub(crate) fn calls(&self) -> usize {
        self.calls.load(SeqCst)
    }
}

async fn serve(stream: TcpStream, calls: Arc<AtomicUsize>) {
    let Ok(mut connection) = h2::server::handshake(stream).await else { return };
    while let Some(Ok((request, respond))) = connection.accept().await {
        let number = calls.fetch_add(1, SeqCst);
        if request.uri().path().ends_with("/Goodbye") {
            // Answers this one and takes no more.
            connection.graceful_shutdown();
        }
        tokio::spawn(async move {
            // A gateway that cancelled shows as an error, and that is a test's matter elsewhere.
            let _ = answer(request, respond, number).await;
        });
    }
}

async fn answer(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    number: usize,
) -> Result<(), h2::Error> {
    let (parts, mut body) = request.into_parts();
    let head = Response::builder().header("content-type", "application/grpc").header("x-call", number);
    let head = match parts.headers.get("grpc-timeout") {
        Some(time) => head.header("x-timeout", time),
        None => head,
    };
    let method = parts.uri.path().rsplit('/').next().unwrap_or_default().to_owned();
    match method.as_str() {
        "Fail" => {
            let head = head.header("grpc-status", "9").header("grpc-message", "as asked");
            respond.send_response(head.body(()).expect("a head"), true)?;
            return Ok(());
        }
        // With a `google.rpc.Status` that has one detail.
        "FailWithDetails" => {
            let detail = b"\x0a\x0atest/Reply\x12\x05\x0a\x03why";
            let status = [b"\x08\x09\x12\x08as asked\x1a", &[detail.len() as u8][..], detail].concat();
            let head = head.header("grpc-status", "9").header("grpc-message", "as asked");
            let head = head.header("grpc-status-details-bin", STANDARD.encode(status));
            respond.send_response(head.body(()).expect("a head"), true)?;
            return Ok(());
        }
        "FailSome" if number % 4 == 3 => {
            let head = head.header("grpc-status", "5").header("grpc-message", "not here");
            respond.send_response(head.body(()).expect("a head"), true)?;
            return Ok(());
        }
        "RefuseFirst" if number == 0 => {
            respond.send_reset(Reason::REFUSED_STREAM);
            return Ok(());
        }
        "RefuseLate" if number == 0 => {
            while let Some(data) = body.data().await {
                data?;
            }
            respond.send_reset(Reason::REFUSED_STREAM);
            return Ok(());
        }
        "Silent" => {
            std::future::poll_fn(|context| respond.poll_reset(context)).await?;
            return Ok(());
        }
        _ => {}
    }
    let mut send = respond.send_response(head.body(()).expect("a head"), false)?;
    match method.as_str() {
        "Break" => {
            send.send_data(Bytes::from(message(b"half")), false)?;
            tokio::task::yield_now().await;
            send.send_reset(Reason::INTERNAL_ERROR);
            return Ok(());
        }
        "Fields" => {
            let field =
                |name: &str| parts.headers.get(name).map_or("-", |value| value.to_str().unwrap_or("?"));
            let authority = parts.uri.authority().map_or("-", |authority| authority.as_str());
            let names = ["te", "content-type", "grpc-timeout", "x-mine", "connection", "transfer-encoding"];
            let values: Vec<&str> = names.iter().map(|name| field(name)).collect();
            send.send_data(
                Bytes::from(message(format!("{authority} {}", values.join(" ")).as_bytes())),
                false,
            )?;
        }
        // A stream of ten messages, cut in the middle of one.
        "Ten" => {
            while let Some(data) = body.data().await {
                data?;
            }
            let all: Vec<u8> = (0..10).flat_map(|number| message(&vec![b'm'; number * 100])).collect();
            let all = Bytes::from(all);
            send.send_data(all.slice(..1203), false)?;
            send.send_data(all.slice(1203..), false)?;
        }
        "Watch" => {
            send.send_data(Bytes::from(message(b"and no end")), false)?;
            std::future::poll_fn(|context| send.poll_reset(context)).await?;
            return Ok(());
        }
        "Cut" => {
            while let Some(data) = body.data().await {
                data?;
            }
            send.send_data(Bytes::from_static(&[0, 0, 0, 0, 9, b'x']), false)?;
        }
        "SayHello" => {
            let mut received = Vec::new();
            while let Some(data) = body.data().await {
                received.extend_from_slice(&data?);
            }
            // Field 1 of both messages is a text.
            let name = received.get(7..).unwrap_or_default();
            let text = [b"Hello ", name].concat();
            let reply = [&[0x0a, text.len() as u8], text.as_slice()].concat();
            send.send_data(Bytes::from(message(&reply)), false)?;
        }
        _ => {
            while let Some(data) = body.data().await {
                let data = data?;
                body.flow_control().release_capacity(data.len())?;
                send.reserve_capacity(data.len());
                send.send_data(data, false)?;
            }
        }
    }
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", "0".parse().expect("a value"));
    let more = method.strip_prefix("Trailers").and_then(|count| count.parse().ok()).unwrap_or(0);
    for number in 0..more {
        let name = http::HeaderName::try_from(format!("x-{number}")).expect("a name");
        trailers.insert(name, number.into());
    }
    if let Some(sent) = body.trailers().await? {
        trailers.extend(sent);
    }
    send.send_trailers(trailers)
}

/// What came back.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub status: u16,
    pub headers: HashMap<String, String>,
    pub body: Vec<u8>,
    pub trailers: HashMap<String, String>,
    /// The stream ended with this instead of an end.
    pub reset: Option<Reason>,
}

/// A connection to the gateway; the calls on it share it.
#[derive(Clone)]
pub(crate) struct Caller(h2::client::SendRequest<Bytes>);

impl Caller {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.expect("connects");
        let (send, connection) = h2::client::handshake(stream).await.expect("shakes hands");
        tokio::spawn(connection);
        Caller(send)
    }

    /// Sends the messages, waiting after each for as much to come back if `in_turn`; then reads to the end.
    pub(crate) async fn call(&self, path: &str, messages: &[&[u8]], in_turn: bool) -> Answer {
        let called = tokio::time::timeout(PATIENCE, self.exchange(path, messages, in_turn)).await;
        called.unwrap_or_else(|_| panic!("{path} does not end"))
    }

    async fn exchange(&self, path: &str, messages: &[&[u8]], in_turn: bool) -> Answer {
        let request = Request::post(format!("http://grpc.test{path}"))
            .header("content-type", "application/grpc+proto")
            .header("te", "trailers")
            .header("grpc-timeout", "1234m")
            .header("x-mine", "kept");
        let mut sender = self.0.clone().ready().await.expect("ready");
        let request = request.body(()).expect("a request");
        let (response, mut send) = sender.send_request(request, messages.is_empty()).expect("sends");
        let mut answer = Answer::default();
        let mut unsent = messages.iter();
        if !in_turn || messages.len() == 1 {
            for message in unsent.by_ref() {
                send.send_data(Bytes::from(self::message(message)), false).expect("sends");
            }
            finish(&mut send, messages);
        } else if let Some(first) = unsent.next() {
            send.send_data(Bytes::from(message(first)), false).expect("sends");
        }
        let response = match response.await {
            Ok(response) => response,
            Err(error) => return Answer { reset: error.reason(), ..answer },
        };
        answer.status = response.status().as_u16();
        answer.headers = texts(response.headers());
        let mut body = response.into_body();
        let mut echoed = 0;
        while let Some(data) = body.data().await {
            match data {
                Ok(data) => {
                    let _ = body.flow_control().release_capacity(data.len());
                    answer.body.extend_from_slice(&data);
                }
                Err(error) => return Answer { reset: error.reason(), ..answer },
            }
            let sent: usize = messages.iter().take(echoed + 1).map(|sent| sent.len() + 5).sum();
            if in_turn && messages.len() > 1 && answer.body.len() >= sent {
                echoed += 1;
                match unsent.next() {
                    Some(next) => send.send_data(Bytes::from(message(next)), false).expect("sends"),
                    None => finish(&mut send, messages),
                }
            }
        }
        match body.trailers().await {
            Ok(trailers) => answer.trailers = trailers.map(|trailers| texts(&trailers)).unwrap_or_default(),
            Err(error) => answer.reset = error.reason(),
        }
        answer
    }
}

/// With trailers, so that their way is seen too.
fn finish(send: &mut h2::SendStream<Bytes>, messages: &[&[u8]]) {
    if !messages.is_empty() {
        let mut trailers = HeaderMap::new();
        trailers.insert("x-sent", messages.len().into());
        send.send_trailers(trailers).expect("sends");
    }
}

fn texts(fields: &HeaderMap) -> HashMap<String, String> {
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    fields.iter().map(|(name, value)| (name.to_string(), text(value))).collect()
}
