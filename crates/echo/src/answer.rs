//! What a request gets. Its path may ask for something else than the options say: `/status/404`, `/delay/500ms` (a number
//! alone is milliseconds), `/bytes/100000`, `/events`; so may `Accept: text/event-stream`.

use std::time::Duration;

use crate::options::Options;

/// The longest delay that can be asked for.
pub const MAX_DELAY: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    /// The request.
    Request,
    /// So many letters.
    Letters(u64),
    /// Server-sent events.
    Events,
    /// What a path should have asked for instead.
    Hint(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EchoResponse {
    pub delay: Duration,
    pub status: u16,
    pub body: Body,
}

impl EchoResponse {
    /// For a path, without the query, and the `Accept` field.
    pub(crate) fn of(path: &[u8], accept: Option<&[u8]>, options: &Options) -> EchoResponse {
        let body = options.size.map_or(Body::Request, Body::Letters);
        let mut answer = EchoResponse { delay: options.delay, status: options.status, body };
        if accept.is_some_and(|types| contains(types, b"text/event-stream")) {
            answer.body = Body::Events;
        }
        let path = str::from_utf8(path).unwrap_or_default();
        let mut parts = path.trim_start_matches('/').splitn(2, '/');
        match (parts.next(), parts.next()) {
            (Some("status"), Some(value)) => match value.parse().ok().filter(is_final) {
                Some(status) => answer.status = status,
                None => answer.hint(value, "/status/NUMBER: a number from 200 to 599\n"),
            },
            (Some("delay"), Some(value)) => match delay(value) {
                Some(delay) => answer.delay = delay,
                None => {
                    answer.hint(
                        value,
                        "/delay/TIME: milliseconds, or with a unit as in 500ms or 2s; 60s at most\n",
                    );
                }
            },
            (Some("bytes"), Some(value)) => match value.parse() {
                Ok(count) => answer.body = Body::Letters(count),
                Err(_) => answer.hint(value, "/bytes/NUMBER: a number of letters\n"),
            },
            (Some("events"), _) => answer.body = Body::Events,
            _ => {}
        }
        answer
    }

    /// For a value that looks like one to ask for; any other path is its user's own.
    fn hint(&mut self, value: &str, hint: &'static str) {
        if value.starts_with(|sign: char| sign.is_ascii_digit()) {
            *self = EchoResponse { delay: Duration::ZERO, status: 400, body: Body::Hint(hint) };
        }
    }

    /// Whether HTTP allows a body with it (RFC 9110 section 6.4.1).
    /// For its delay. The runtime's clock has milliseconds: without a delay it would wait for the next one.
    pub(crate) async fn wait(&self) {
        if !self.delay.is_zero() {
            tokio::time::sleep(self.delay).await;
        }
    }

    pub(crate) fn has_body(&self) -> bool {
        !matches!(self.status, 204 | 205 | 304)
    }

    pub(crate) fn content_type(&self) -> &'static str {
        match self.body {
            Body::Events => "text/event-stream",
            Body::Request | Body::Letters(_) | Body::Hint(_) => "text/plain; charset=utf-8",
        }
    }
}

fn is_final(status: &u16) -> bool {
    (200..=599).contains(status)
}

fn delay(text: &str) -> Option<Duration> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    let factor = match unit {
        "" | "ms" => 1,
        "s" => 1000,
        _ => return None,
    };
    Some(Duration::from_millis(number.checked_mul(factor)?).min(MAX_DELAY))
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window.eq_ignore_ascii_case(part))
}

/// The event of a number.
pub(crate) fn event(number: u32, options: &Options) -> String {
    format!("id: {number}\ndata: event {number} of {}\n\n", options.events)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_fields_choose_the_answer() {
        let options = Options {
            delay: Duration::ZERO,
            status: 200,
            size: None,
            events: 3,
            event_interval: Duration::ZERO,
            grpc_status: 0,
            tls: None,
        };
        let plain = EchoResponse { delay: Duration::ZERO, status: 200, body: Body::Request };
        const TIME: &str = "/delay/TIME: milliseconds, or with a unit as in 500ms or 2s; 60s at most\n";
        let hint = |text| EchoResponse { status: 400, body: Body::Hint(text), ..plain };
        let later = |milliseconds| EchoResponse { delay: Duration::from_millis(milliseconds), ..plain };
        for (path, accept, expected) in [
            ("/anything/1", None, plain),
            ("/status/503", None, EchoResponse { status: 503, ..plain }),
            ("/status/99", None, hint("/status/NUMBER: a number from 200 to 599\n")),
            ("/status/live", None, plain),
            ("/delay/20", None, later(20)),
            ("/delay/20ms", None, later(20)),
            ("/delay/2s", None, later(2000)),
            ("/delay/99h", None, hint(TIME)),
            ("/delay/99999999999999999999", None, hint(TIME)),
            ("/delay/no", None, plain),
            ("/bytes/10x", None, hint("/bytes/NUMBER: a number of letters\n")),
            ("/delay/86400s", None, later(60_000)),
            ("/bytes/70000", None, EchoResponse { body: Body::Letters(70_000), ..plain }),
            ("/events", None, EchoResponse { body: Body::Events, ..plain }),
            ("/x", Some("text/event-stream"), EchoResponse { body: Body::Events, ..plain }),
            ("/x", Some("text/html, */*"), plain),
        ] {
            assert_eq!(
                EchoResponse::of(path.as_bytes(), accept.map(str::as_bytes), &options),
                expected,
                "{path}"
            );
        }
        let busy = Options { status: 429, size: Some(5), delay: Duration::from_secs(1), ..options };
        let expected = EchoResponse { status: 429, body: Body::Letters(5), delay: Duration::from_secs(1) };
        assert_eq!(EchoResponse::of(b"/x", None, &busy), expected);
        assert_eq!(EchoResponse::of(b"/status/200", None, &busy), EchoResponse { status: 200, ..expected });
    }
}
