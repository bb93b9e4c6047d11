//! Sessions with a message broker (`upstream.scheme: kafka`): a WebSocket, each of whose binary messages is a command. What
//! a command does is with [`Messages`].
//!
//! A command at a time: nothing more is read before it is answered. A client that says nothing for as long as the upstream may is
//! asked whether it is there, by a ping.

use std::{future::poll_fn, io, rc::Rc, sync::Arc, task::Poll};

use tidegate_plugin_api::{Reply, Request, RequestBody, UpstreamHandle, messages::Messages};
use tidegate_protocol::{
    Method, Version,
    websocket::{
        self, BINARY, CLOSE, CONTINUATION, FIN, Frame, PING, PONG, PROTOCOL_ERROR, TEXT, TOO_BIG, written,
    },
};
use tidegate_telemetry::{
    error_log::{self, Level},
    limiter::Limiter,
};

use crate::{balancer, client::Downstream, filters, phases::RequestChains, respond};

/// Of a message of a client, as in APISIX.
const MAX_MESSAGE_BYTES: usize = 65_535;
/// Of a control frame (RFC 6455 section 5.5).
const MAX_CONTROL_BYTES: usize = 125;
const PIECE_BYTES: usize = 4096;
const VERSION: &[u8] = b"13";

/// Why a session is over.
enum End {
    /// Nothing can be said to the client any more.
    Gone,
    /// By a close frame, perhaps with a code.
    Close(Option<u16>),
}

/// Serves a request whose upstream is a message broker.
pub(crate) async fn serve(
    request: &mut Request,
    client: &Rc<Downstream>,
    chains: &RequestChains,
    upstream: &Arc<UpstreamHandle>,
) -> Result<bool, Box<Reply>> {
    let Some(open) = client.worker.settings.messages else {
        return Err(balancer::for_requests(upstream).err().unwrap_or_else(|| Box::new(Reply::page(500))));
    };
    if let Err(reason) = begin(request) {
        error_log::log(
            Level::Error,
            format_args!(
                "failed to initialize pubsub module, err: {reason}, client: {}, upstream: {}",
                request.remote_addr, upstream.name
            ),
        );
        return Err(Box::new(Reply::page(400)));
    }
    let mut messages = open(request, upstream);
    if let Err(status) = filters::header_filter(request, client, chains) {
        return Ok(Box::pin(respond::instead(request, client, status)).await);
    }
    let Ok(head_bytes) = client.start_tunnel(request).await else { return Ok(false) };
    let idle_ms = balancer::timeouts(request, upstream).read_ms;
    let mut session = Session { client, idle_ms, input: Vec::new(), message: None, sent: 0 };
    let end = session.run(&mut *messages).await;
    if let End::Close(code) = end {
        let code = code.map(u16::to_be_bytes);
        let _ = session.send(&written(FIN | CLOSE, code.as_ref().map_or(&[], |code| code))).await;
    }
    request.outcome.bytes_sent = head_bytes + session.sent;
    request.outcome.body_bytes_sent = session.sent;
    Ok(false)
}

/// Looks at the client's handshake and makes the answer to it. The error is APISIX's text.
fn begin(request: &mut Request) -> Result<(), String> {
    let head = &request.head;
    let is_stream = head.version == Version::Http2;
    let field = |name: &str| head.headers.get(name);
    let bad = |name: &str| {
        let value = field(name).map_or("nil".into(), String::from_utf8_lossy);
        format!("bad {name:?} request header: {}", value.chars().take(100).collect::<String>())
    };
    if !matches!(request.body, RequestBody::Empty) || !(is_stream || head.method == Method::Get) {
        return Err(format!("bad request: {} with or without a body", head.method.as_str()));
    }
    let mut accept = None;
    if !is_stream {
        if head.version != Version::Http11 {
            return Err("bad http version".to_owned());
        }
        if !field("upgrade").is_some_and(|value| value.eq_ignore_ascii_case(b"websocket")) {
            return Err(bad("upgrade"));
        }
        if !head.connection.upgrade {
            return Err(bad("connection"));
        }
        let key = field("sec-websocket-key").filter(|key| !key.is_empty());
        accept = Some(websocket::accept(key.ok_or_else(|| bad("sec-websocket-key"))?));
    }
    if field("sec-websocket-version") != Some(VERSION) {
        return Err(bad("sec-websocket-version"));
    }
    let offered =
        field("sec-websocket-protocol").and_then(|offered| offered.split(|byte| *byte == b',').next());
    let protocol = offered.map(|offered| offered.trim_ascii().to_vec()).filter(|one| !one.is_empty());
    let response = &mut request.response;
    response.clear();
    response.set_status(101);
    if let Some(accept) = accept {
        response.headers.set("Upgrade", "websocket");
        response.headers.set("Sec-WebSocket-Accept", accept);
    }
    if let Some(protocol) = protocol {
        response.headers.set("Sec-WebSocket-Protocol", protocol);
    }
    Ok(())
}

struct Session<'a> {
    client: &'a Downstream,
    idle_ms: u64,
    /// Received, and not yet a whole frame.
    input: Vec<u8>,
    /// The opcode and the parts of a message that has not ended.
    message: Option<(u8, Vec<u8>)>,
    sent: u64,
}

impl Session<'_> {
    async fn run(&mut self, messages: &mut dyn Messages) -> End {
        loop {
            let taken = match self.next_frame().await {
                Ok(frame) => self.take(frame).await,
                Err(end) => return end,
            };
            match taken {
                Ok(Some((BINARY, message))) => {
                    if let Err(end) = self.answer(messages, message).await {
                        return end;
                    }
                }
                Ok(Some(_)) => warn_of_text(),
                Ok(None) => {}
                Err(end) => return end,
            }
        }
    }

    async fn next_frame(&mut self) -> Result<Frame, End> {
        let mut asked = false;
        loop {
            match Frame::take(&mut self.input, MAX_MESSAGE_BYTES) {
                Some(frame) => return frame.map_err(|code| End::Close(Some(code))),
                None if self.input.is_empty() => self.input = Vec::new(),
                None => {}
            }
            self.client.timer.set(self.idle_ms);
            let read = poll_fn(|context| {
                let mut piece = [0; PIECE_BYTES];
                match self.client.poll_raw(context, &mut piece) {
                    Poll::Pending if self.client.timer.expired() => Poll::Ready(Ok(None)),
                    Poll::Pending => Poll::Pending,
                    Poll::Ready(Ok(0)) => Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                    Poll::Ready(Ok(count)) => {
                        self.input.extend_from_slice(piece.get(..count).unwrap_or_default());
                        Poll::Ready(Ok(Some(count)))
                    }
                    Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
                }
            })
            .await;
            match read {
                Ok(Some(_)) => asked = false,
                Ok(None) if !asked => {
                    asked = true;
                    self.send(&written(FIN | PING, &[])).await?;
                }
                Ok(None) | Err(_) => return Err(End::Gone),
            }
        }
    }

    /// `Some`: a message is whole.
    async fn take(&mut self, frame: Frame) -> Result<Option<(u8, Vec<u8>)>, End> {
        let wrong = End::Close(Some(PROTOCOL_ERROR));
        let opcode = frame.opcode();
        if opcode >= CLOSE && (!frame.is_last() || frame.payload.len() > MAX_CONTROL_BYTES) {
            return Err(wrong);
        }
        let (opcode, mut message) = match (opcode, self.message.take()) {
            (CLOSE, _) => return Err(End::Close(None)),
            (PING | PONG, waiting) => {
                self.message = waiting;
                if opcode == PING {
                    self.send(&written(FIN | PONG, &frame.payload)).await?;
                }
                return Ok(None);
            }
            (TEXT | BINARY, None) => (opcode, Vec::new()),
            (CONTINUATION, Some(begun)) => begun,
            _ => return Err(wrong),
        };
        if message.len() + frame.payload.len() > MAX_MESSAGE_BYTES {
            return Err(End::Close(Some(TOO_BIG)));
        }
        let is_last = frame.is_last();
        match message.is_empty() {
            true => message = frame.payload,
            false => message.extend_from_slice(&frame.payload),
        }
        if is_last {
            return Ok(Some((opcode, message)));
        }
        self.message = Some((opcode, message));
        Ok(None)
    }

    /// Ends with the client.
    async fn answer(&mut self, messages: &mut dyn Messages, message: Vec<u8>) -> Result<(), End> {
        let client = self.client;
        let mut answering = messages.answer(message);
        let answer = poll_fn(|context| match client.poll_gone(context) {
            Poll::Ready(()) => Poll::Ready(Err(End::Gone)),
            Poll::Pending => answering.as_mut().poll(context).map(Ok),
        })
        .await?;
        drop(answering);
        let Some(answer) = answer else { return Ok(()) };
        let mut head = Vec::with_capacity(10);
        websocket::write_head(FIN | BINARY, answer.len(), &mut head);
        self.send(&head).await?;
        self.send(&answer).await
    }

    async fn send(&mut self, bytes: &[u8]) -> Result<(), End> {
        self.client.write(bytes).await.map_err(|()| End::Gone)?;
        self.sent += bytes.len() as u64;
        Ok(())
    }
}

fn warn_of_text() {
    static LINES: Limiter = Limiter::new(10, 1000);
    if let Some(others) = LINES.pass() {
        error_log::log(
            Level::Warn,
            format_args!(
                "pubsub server receive non-binary data, type: text; {others} more since the previous line"
            ),
        );
    }
}
