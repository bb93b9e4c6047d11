//! A connection of HTTP/2 with one stream at a time: requests come as HTTP/1.1 writes them, answers leave so.

use bytes::Bytes;
use h2::{
    RecvStream,
    client::{ResponseFuture, SendRequest},
};
use http::{HeaderName, HeaderValue, Method, Request, Uri, header};

use crate::engine::{
    failure::{Broken, Failure, malformed},
    http2::CONNECTION_FIELDS,
};

pub(crate) struct Streams {
    sender: SendRequest<Bytes>,
    scheme: &'static str,
    /// Of the request that was sent, until its head is there.
    answer: Option<ResponseFuture>,
    body: Option<RecvStream>,
    pub(crate) is_unanswered: bool,
}

impl Streams {
    pub(super) fn new(sender: SendRequest<Bytes>, is_tls: bool) -> Streams {
        let scheme = if is_tls { "https" } else { "http" };
        Streams { sender, scheme, answer: None, body: None, is_unanswered: false }
    }

    pub(super) async fn send(&mut self, bytes: &[u8]) -> Result<(), Broken> {
        let (request, body) = request(bytes, self.scheme)
            .ok_or_else(|| Broken::new(Failure::Write, "write: the request cannot be sent with HTTP/2"))?;
        let mut sender =
            self.sender.clone().ready().await.map_err(|error| broken(&error, &mut self.is_unanswered))?;
        let sent = sender.send_request(request, body.is_empty());
        let (answer, mut stream) = sent.map_err(|error| broken(&error, &mut self.is_unanswered))?;
        if !body.is_empty() {
            stream.send_data(body, true).map_err(|error| broken(&error, &mut self.is_unanswered))?;
        }
        (self.answer, self.body) = (Some(answer), None);
        Ok(())
    }

    /// More of the answer: its head, then pieces of its body, then their end. 0 when the server has closed.
    pub(super) async fn receive(&mut self, into: &mut Vec<u8>) -> Result<usize, Broken> {
        let before = into.len();
        if let Some(answer) = self.answer.take() {
            let (head, body) =
                answer.await.map_err(|error| broken(&error, &mut self.is_unanswered))?.into_parts();
            write_head(&head, into);
            self.body = Some(body);
        } else if let Some(body) = &mut self.body {
            // The last frame of a body may be empty.
            let data = loop {
                match body.data().await {
                    Some(Ok(data)) if data.is_empty() => {}
                    data => break data.transpose(),
                }
            };
            match data.map_err(|error| broken(&error, &mut self.is_unanswered))? {
                Some(data) => {
                    // The window is given back at once; it is the connection's end if that fails.
                    let _ = body.flow_control().release_capacity(data.len());
                    into.extend_from_slice(format!("{:x}\r\n", data.len()).as_bytes());
                    into.extend_from_slice(&data);
                    into.extend_from_slice(b"\r\n");
                }
                None => {
                    self.body = None;
                    into.extend_from_slice(b"0\r\n\r\n");
                }
            }
        } else if self.sender.clone().ready().await.is_ok() {
            // Nothing was asked, and the connection is there.
            std::future::pending::<()>().await;
        }
        Ok(into.len() - before)
    }
}

fn broken(error: &h2::Error, is_unanswered: &mut bool) -> Broken {
    *is_unanswered = error.is_go_away() && error.reason() == Some(h2::Reason::NO_ERROR);
    match error.is_reset() {
        true => malformed(&format!("http/2: {error}")),
        false => Broken::new(Failure::Closed, format!("closed early: http/2: {error}")),
    }
}

fn write_head(head: &http::response::Parts, into: &mut Vec<u8>) {
    into.extend_from_slice(format!("HTTP/1.1 {}\r\n", head.status.as_u16()).as_bytes());
    for (name, value) in &head.headers {
        if *name == header::CONTENT_LENGTH || CONNECTION_FIELDS.contains(&name.as_str()) {
            continue;
        }
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            into.extend_from_slice(part);
        }
    }
    // A stream has an end of its own.
    into.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
}

/// From the bytes of a request as this tool writes them.
fn request(bytes: &[u8], scheme: &str) -> Option<(Request<()>, Bytes)> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let (head, body) = (bytes.get(..end)?, bytes.get(end + 4..)?);
    let mut lines = head.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end);
    let mut words = lines.next()?.split(|byte| *byte == b' ');
    let (method, target) = (Method::from_bytes(words.next()?).ok()?, words.next()?);
    let mut request = Request::new(());
    let mut authority = None;
    for line in lines {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let (name, value) = (HeaderName::from_bytes(line.get(..colon)?).ok()?, line.get(colon + 1..)?);
        let value = value.trim_ascii();
        if name == header::HOST {
            authority = Some(value);
        } else if !CONNECTION_FIELDS.contains(&name.as_str()) {
            request.headers_mut().append(name, HeaderValue::from_bytes(value).ok()?);
        }
    }
    let mut uri = format!("{scheme}://").into_bytes();
    uri.extend_from_slice(authority?);
    uri.extend_from_slice(target);
    *request.uri_mut() = Uri::from_maybe_shared(uri).ok()?;
    *request.method_mut() = method;
    Some((request, Bytes::copy_from_slice(body)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_of_http1_becomes_one_of_http2() {
        let bytes =
            b"POST /a?b HTTP/1.1\r\nHost: h:81\r\nConnection: close\r\nX-A: 1\r\nContent-Length: 2\r\n\r\nhi";
        let (request, body) = request(bytes, "https").expect("it is one");
        assert_eq!((request.method(), request.uri()), (&Method::POST, &Uri::from_static("https://h:81/a?b")));
        assert_eq!(
            request.headers().keys().map(HeaderName::as_str).collect::<Vec<_>>(),
            ["x-a", "content-length"]
        );
        assert_eq!(&body[..], b"hi");
        assert!(super::request(b"GET / HTTP/1.1\r\n\r\n", "http").is_none(), "it has no Host");
    }

    #[test]
    fn an_answer_has_the_form_of_http1() {
        let answer = http::Response::builder().status(204).header("content-length", "3").header("a", "b");
        let (head, ()) = answer.body(()).expect("an answer").into_parts();
        let mut text = Vec::new();
        write_head(&head, &mut text);
        assert_eq!(text, b"HTTP/1.1 204\r\na: b\r\nTransfer-Encoding: chunked\r\n\r\n");
    }
}
