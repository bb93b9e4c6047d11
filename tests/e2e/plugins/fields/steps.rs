//! Steps of a table.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidegate_testkit::{Client, Message, PATIENCE};

use super::{Scene, list};

/// A request as it is sent.
struct Request {
    method: String,
    text: String,
}

impl Request {
    /// `TARGET`, `METHOD TARGET` or a whole first line; then fields, and behind an empty line the body.
    fn new(send: &str) -> Request {
        let (head, body) = send.split_once("\n\n").unwrap_or((send, ""));
        let mut lines: Vec<String> = head.trim_end().lines().map(str::to_owned).collect();
        let first = &mut lines[0];
        if first.starts_with('/') {
            *first = format!("GET {first}");
        }
        if !first.contains(" HTTP/1.") {
            first.push_str(" HTTP/1.1");
        }
        let method = first.split(' ').next().unwrap_or_default().to_owned();
        let has = |name: &str, lines: &[String]| {
            lines.iter().any(|line| line.to_ascii_lowercase().starts_with(name))
        };
        if !has("host:", &lines) {
            lines.push("Host: a.test".to_owned());
        }
        let body = body.trim_end_matches('\n');
        if !body.is_empty() && !has("content-length:", &lines) {
            lines.push(format!("Content-Length: {}", body.len()));
        }
        Request { method, text: format!("{}\r\n\r\n{body}", lines.join("\r\n")) }
    }
}

fn number(step: &Value, name: &str, default: u64) -> u64 {
    step[name].as_u64().unwrap_or(default)
}

impl Scene {
    /// What is not as the step expects.
    pub(super) fn wrong(&mut self, step: &Value) -> Vec<String> {
        let send = step["send"].as_str().expect("what to send");
        let send = send.replace("{state}", &self.state).replace("{cookies}", &self.cookies);
        let fill = usize::try_from(number(step, "fill", 0)).expect("a size");
        let request = Request::new(&(send + &"x".repeat(fill)));
        self.upstreams.iter().for_each(super::Upstream::forget);
        let (begun, opened) = (Instant::now(), self.opened());
        let mut wrong;
        loop {
            wrong = self.once(step, &request);
            if wrong.is_empty() || begun.elapsed() >= Duration::from_secs(number(step, "within", 0)) {
                break;
            }
            // Nothing announces that a window has ended.
            std::thread::park_timeout(Duration::from_millis(20));
        }
        let took = begun.elapsed().as_millis();
        if took < number(step, "least_ms", 0).into() || took > number(step, "most_ms", u64::MAX).into() {
            wrong.push(format!("it took {took} ms"));
        }
        wrong.extend(list(&step["seen"]).iter().filter_map(|text| self.unseen(&as_text(text))));
        wrong.extend(list(&step["log"]).iter().filter_map(|text| {
            let text = as_text(text);
            let is_there = holds(|| self.gateway.error_log().contains(&text));
            (!is_there).then(|| format!("the error log lacks {text:?}"))
        }));
        let opened = self.opened() - opened;
        if step["opened"].as_u64().is_some_and(|expected| expected != opened as u64) {
            wrong.push(format!("{opened} connections were opened"));
        }
        wrong
    }

    fn opened(&self) -> usize {
        self.upstreams.iter().map(super::Upstream::opened).sum()
    }

    fn seen(&self) -> Vec<String> {
        self.upstreams.iter().flat_map(super::Upstream::seen).collect()
    }

    fn unseen(&self, text: &str) -> Option<String> {
        let is_seen = |text: &str| self.seen().iter().any(|seen| seen.contains(text));
        let is_right = match text.strip_prefix('!') {
            Some(text) => !is_seen(text),
            None => holds(|| is_seen(text)),
        };
        (!is_right).then(|| format!("the upstream: {text:?}; seen: {:?}", self.seen()))
    }

    /// As a browser does: the cookies, and the state of a login that it is sent to.
    fn keep(&mut self, answer: &Message) {
        let state = answer
            .header("Location")
            .and_then(|url| url.split(['?', '&']).find_map(|pair| pair.strip_prefix("state=")));
        if let Some(state) = state {
            self.state = state.to_owned();
        }
        let set = answer
            .headers
            .iter()
            .filter(|(name, value)| name == "Set-Cookie" && !value.contains("Max-Age=0"));
        let pairs: Vec<&str> = set.filter_map(|(_, value)| value.split(';').next()).collect();
        if !pairs.is_empty() {
            self.cookies = pairs.join("; ");
        }
    }

    fn once(&mut self, step: &Value, request: &Request) -> Vec<String> {
        let address = match step["to"].as_str() {
            Some("METRICS") => self.gateway.metrics,
            Some("CONTROL") => self.gateway.control,
            _ => self.gateway.http,
        };
        let send_text = |text: &str| {
            let from =
                step["from"].as_str().map(|from| SocketAddr::new(from.parse().expect("an address"), 0));
            let connected =
                from.map_or_else(|| Client::connect(address), |from| Client::connect_from(from, address));
            let mut client = connected.expect("it listens");
            client.send(text.as_bytes()).expect("it reads");
            client
        };
        let send = || send_text(&request.text);
        if step["background"] == json!(true) {
            self.background.push(send());
            return Vec::new();
        }
        if let Some(expected) = step["together"].as_array() {
            let clients: Vec<Client> = expected.iter().map(|_| send()).collect();
            let status =
                |mut client: Client| client.response_to(&request.method).map_or(0, |answer| answer.status());
            let mut found: Vec<u16> = clients.into_iter().map(status).collect();
            found.sort_unstable();
            let is_right = json!(found) == json!(expected);
            return if is_right { Vec::new() } else { vec![format!("statuses: {found:?}")] };
        }
        let mut text = String::new();
        let is_numbered = request.text.contains("{n}");
        for turn in 0..number(step, "times", 1) {
            let sent = request.text.replace("{n}", &turn.to_string());
            let answer = match send_text(&sent).response_to(&request.method) {
                Ok(answer) => {
                    self.keep(&answer);
                    String::from_utf8_lossy(&answer.head).into_owned() + &answer.body_text()
                }
                Err(error) => format!("{error}"),
            };
            text = if is_numbered { text + &answer } else { answer };
        }
        let is_wrong = |expected: &&Value| match expected {
            Value::Number(status) => !text.starts_with(&format!("HTTP/1.1 {status} ")),
            other => match as_text(other).strip_prefix('!') {
                Some(unexpected) => text.contains(unexpected),
                None => !text.contains(&as_text(other)),
            },
        };
        let wrong = list(&step["expect"]).iter().filter(is_wrong);
        wrong.map(|expected| format!("expected {expected}; the response: {text}")).collect()
    }
}

fn as_text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

/// Whether it comes to hold; a field without effect is seen by that it does not.
fn holds(mut condition: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    while !condition() {
        if begun.elapsed() >= PATIENCE {
            return false;
        }
        std::thread::park_timeout(Duration::from_millis(5));
    }
    true
}
