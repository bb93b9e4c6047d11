//! One connection: heads, the answers to them, and an end that the client can see.

use std::{
    convert::Infallible,
    future::{Future, poll_fn},
    net::IpAddr,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Request as HttpRequest, Response as HttpResponse, StatusCode,
    body::{Body, Incoming},
    header::{CONNECTION, CONTENT_LENGTH, HeaderName, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::watch,
    time::{Instant, sleep, sleep_until, timeout_at},
};

use super::{
    body::receive,
    bounds::{ConnectionPermit, Doors},
    clock::{Clock, Timed},
    in_turns::InTurns,
    service::{Connection, Phase, Service, closed},
    streaming::AnswerBody,
};
use crate::message::{Head, RequestBody, Response, Stream as Pieces};

/// As much of a head as a client may send, and of an answer as waits in a buffer of ours.
const BUFFER: usize = 64 * 1024;

/// How much of an unwanted body is read, so that the client sees the answer: closing with bytes unread would reset the
/// connection, and the answer might never get there.
const LINGER_BYTES: usize = 256 * 1024;
const LINGER: Duration = Duration::from_secs(1);

/// How long a connection that was accepted before the successor served may take to bring its head.
const LAST_HEAD: Duration = Duration::from_secs(2);

/// Who is at the other end.
pub(super) struct Client {
    peer: IpAddr,
    place: ConnectionPermit,
    doors: Arc<Doors>,
    clock: Arc<Clock>,
    phase: watch::Receiver<Phase>,
    /// What is to be done about the body of the last request.
    rest: Mutex<Rest>,
}

/// Of a body, after the answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rest {
    /// There is none, as far as is known.
    Nothing,
    OfStranger,
    /// Of a client that has shown a key, and may send all of a body that is too large: many programs look at the answer
    /// only after that.
    OfClient,
}

impl Client {
    pub(super) fn new(
        peer: IpAddr,
        place: ConnectionPermit,
        doors: Arc<Doors>,
        phase: watch::Receiver<Phase>,
    ) -> Arc<Client> {
        let (clock, rest) = (place.clock.clone(), Mutex::new(Rest::Nothing));
        Arc::new(Client { peer, place, doors, clock, phase, rest })
    }

    fn set_rest(&self, rest: Rest) {
        *self.rest.lock().unwrap_or_else(PoisonError::into_inner) = rest;
    }
}

type Stream = TokioIo<Timed<InTurns<Box<dyn Connection>>>>;
type Answering = Pin<Box<dyn Future<Output = Result<HttpResponse<AnswerBody>, Infallible>> + Send>>;

/// Serves a connection until it closes.
pub(super) async fn serve<S: Service>(
    stream: Box<dyn Connection>,
    client: Arc<Client>,
    service: Arc<S>,
    mut phase: watch::Receiver<Phase>,
) {
    let stream: Stream = TokioIo::new(Timed(InTurns::new(stream), client.clock.clone()));
    let (asked, now) = (client.clone(), phase.clone());
    let answer = service_fn(move |request| -> Answering {
        let (service, client, now) = (service.clone(), asked.clone(), now.clone());
        Box::pin(async move {
            let is_in_time = client.clock.request();
            let is_over = *now.borrow() == Phase::Closing;
            let refused = match is_in_time {
                true => service.handed_over().filter(|_| is_over),
                false => Some(Response::error(503, "too many connections; try again")),
            };
            let mut response = match refused {
                Some(response) => write(response, rest(request.body(), Rest::OfStranger), &client),
                None => answer(request, &client, service.as_ref()).await,
            };
            if is_over {
                // The next one goes to the successor.
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            client.clock.answered();
            Ok(response)
        })
    });
    let mut builder = http1::Builder::new();
    // Names do not depend on case, but people read them. Time is our own clock's matter.
    builder.title_case_headers(true).header_read_timeout(None).max_buf_size(BUFFER);
    let mut connection = builder.serve_connection(stream, answer);
    let clock = client.clock.clone();
    // A client that leaves in the middle of a request is not an error.
    let in_time = tokio::select! {
        _ = poll_fn(|context| connection.poll_without_shutdown(context)) => true,
        () = clock.expired() => false,
        () = closed(&mut phase) => {
            let ended = match clock.awaits_head() {
                true => tokio::select! {
                    _ = poll_fn(|context| connection.poll_without_shutdown(context)) => Some(true),
                    () = clock.expired() => Some(false),
                    () = sleep(LAST_HEAD) => None,
                },
                false => None,
            };
            Pin::new(&mut connection).graceful_shutdown();
            match ended {
                Some(in_time) => in_time,
                None => tokio::select! {
                    _ = poll_fn(|context| connection.poll_without_shutdown(context)) => true,
                    () = clock.expired() => false,
                },
            }
        }
    };
    if in_time {
        let rest = *client.rest.lock().unwrap_or_else(PoisonError::into_inner);
        linger(connection.into_parts().io, rest, client.doors.bounds.body).await;
    }
}

async fn answer<S: Service>(
    request: HttpRequest<Incoming>,
    client: &Client,
    service: &S,
) -> HttpResponse<AnswerBody> {
    let (head, body) = request.into_parts();
    let announced = head.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    let head = Head {
        method: head.method.as_str().to_owned(),
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        headers: head
            .headers
            .iter()
            .map(|(name, value)| {
                (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
            })
            .collect(),
        peer: client.peer,
    };
    let entered = match service.enter(head) {
        Ok(entered) => entered,
        Err(refused) => return write(refused, rest(&body, Rest::OfStranger), client),
    };
    let client_or_stranger = match S::showed_key(&entered) {
        true => Rest::OfClient,
        false => Rest::OfStranger,
    };
    if client_or_stranger == Rest::OfClient {
        client.place.showed_key();
    }
    match S::body_limit(&entered) {
        0 => {
            let rest = rest(&body, client_or_stranger);
            let response = service.answer(entered, Ok(RequestBody::Bytes(Bytes::new()))).await;
            write(response, rest, client)
        }
        limit => {
            let received = receive(body, announced, limit, &client.doors).await;
            let response = service.answer(entered, received.body).await;
            write(response, if received.unread { client_or_stranger } else { Rest::Nothing }, client)
        }
    }
}

fn rest(body: &Incoming, of: Rest) -> Rest {
    if body.is_end_stream() { Rest::Nothing } else { of }
}

/// With a rest of the body, the connection ends with this answer.
fn write(response: Response, rest: Rest, client: &Client) -> HttpResponse<AnswerBody> {
    let body = match response.stream.as_ref().and_then(Pieces::take) {
        Some(pieces) => AnswerBody::pieces(pieces, client.phase.clone()),
        None => AnswerBody::Whole(Full::new(response.body)),
    };
    let mut http = HttpResponse::new(body);
    *http.status_mut() = StatusCode::from_u16(response.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in response.headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            http.headers_mut().append(name, value);
        }
    }
    if rest != Rest::Nothing {
        client.set_rest(rest);
        http.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    http
}

/// Ends a connection whose client may still be sending: it sees the answer and the end of it first. `patience`: with a
/// client that has shown a key.
async fn linger(stream: Stream, rest: Rest, patience: Duration) {
    let Timed(in_turns, _) = stream.into_inner();
    let mut stream = in_turns.inner;
    let (most, limit) = match rest {
        Rest::OfClient => (usize::MAX, patience),
        Rest::Nothing | Rest::OfStranger => (LINGER_BYTES, LINGER),
    };
    let deadline = Instant::now() + limit;
    if timeout_at(deadline, stream.shutdown()).await.is_err() {
        return;
    }
    let mut buffer = vec![0; 8 * 1024];
    let mut dropped = 0;
    while dropped < most {
        match timeout_at(deadline, stream.read(&mut buffer)).await {
            Ok(Ok(count)) if count > 0 => dropped += count,
            _ => return,
        }
    }
    // No more is taken, but the answer may be on its way.
    sleep_until(deadline).await;
}
