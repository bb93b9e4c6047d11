//! One request to the Admin API of the gateway that config.yaml describes.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::{TcpStream, ToSocketAddrs},
    time::Duration,
};

use anyhow::{Context, bail};
use serde_json::Value;
use tidegate_config::{Settings, settings::AdminKey};

const TIMEOUT: Duration = Duration::from_secs(30);

/// Larger answers are none of ours.
const MAX_ANSWER_BYTES: u64 = 256 << 20;

/// What is asked of the Admin API.
pub struct Question<'a> {
    pub method: &'a str,
    /// Below `/apisix/admin/`, with its query.
    pub path: &'a str,
    pub content_type: &'a str,
    pub body: &'a str,
    /// What to do when the gateway cannot be asked.
    pub instead: &'a str,
}

/// Posts JSON and returns the answer's; an answer that is not a success is an error with its message.
pub fn post(settings: &Settings, path: &str, body: &Value) -> anyhow::Result<Value> {
    let body = body.to_string();
    let question = Question {
        method: "POST",
        path,
        content_type: "application/json",
        body: &body,
        instead: "--offline does without it",
    };
    let answer = ask(settings, &question)?;
    serde_json::from_str(&answer).context("the Admin API answered without JSON")
}

/// The answer's body; an answer that is not a success is an error with its message.
pub fn ask(settings: &Settings, question: &Question<'_>) -> anyhow::Result<String> {
    let Question { method, path, content_type, body, instead } = question;
    let Some(listen) = &settings.admin.listen else {
        bail!("the Admin API is off; {instead}");
    };
    if settings.admin.https {
        bail!(
            "the Admin API speaks HTTPS, which this command does not; {instead}, or use curl with {method} /apisix/admin/{path}"
        );
    }
    let ip = match listen.ip.as_str() {
        "0.0.0.0" => "127.0.0.1",
        "::" => "::1",
        ip => ip,
    };
    let key = settings.admin.access.admin_key().and_then(AdminKey::value);
    let place = format!("{ip}:{}", listen.port);
    let mut request = format!(
        "{method} /apisix/admin/{path} HTTP/1.0\r\nHost: {place}\r\nContent-Type: {content_type}\r\n\
         Content-Length: {}\r\n",
        body.len()
    );
    if let Some(key) = key {
        request.push_str(&format!("X-API-KEY: {key}\r\n"));
    }
    request.push_str("\r\n");
    request.push_str(body);
    let (status, answer) = exchange((ip, listen.port), request.as_bytes())
        .with_context(|| format!("cannot ask the Admin API at {place}; is the gateway running? {instead}"))?;
    if status != "200" && status != "201" {
        let json: Value = serde_json::from_str(&answer)
            .with_context(|| format!("the Admin API at {place} answered {status} without JSON"))?;
        bail!("the Admin API at {place} answered {status}: {}", reason(&json));
    }
    Ok(answer)
}

/// The message, and what is wrong with which object beyond the first.
fn reason(answer: &Value) -> String {
    let message = answer.get("error_msg").or_else(|| answer.get("description")).and_then(Value::as_str);
    let mut text = message.unwrap_or("no reason given").to_owned();
    let errors = answer.get("errors").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for error in errors.iter().skip(1) {
        let part = |name: &str| error.get(name).and_then(Value::as_str).unwrap_or_default();
        text.push_str(&format!("\n  {}: {}", part("path"), part("error")));
    }
    if let Some(more) = answer.get("more").and_then(Value::as_u64) {
        text.push_str(&format!("\n  and {more} more"));
    }
    text
}

/// With HTTP/1.0, so that the answer ends where the connection does. Returns status and body.
fn exchange(to: (&str, u16), request: &[u8]) -> anyhow::Result<(String, String)> {
    let address = to.to_socket_addrs()?.next().context("no address")?;
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let answer = answer_to(&mut stream, request)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("the answer is cut off")?;
    let length = head.lines().filter_map(|line| line.split_once(':'));
    let length = length.filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let length = length.filter_map(|(_, value)| value.trim().parse::<usize>().ok()).next();
    if length.is_some_and(|length| length != body.len()) {
        bail!("the answer is cut off after {} bytes", body.len());
    }
    Ok((head.split(' ').nth(1).unwrap_or_default().to_owned(), body.to_owned()))
}

/// What comes until the connection ends. A gateway that refuses a request by its head takes no more of it: then the answer
/// tells more than the end of the writing.
pub fn answer_to(stream: &mut TcpStream, request: &[u8]) -> io::Result<String> {
    let sent = stream.write_all(request);
    let cut = |error: &io::Error| matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset);
    let refused = sent.as_ref().is_err_and(cut);
    if !refused {
        sent?;
    }
    let mut answer = Vec::new();
    match stream.take(MAX_ANSWER_BYTES).read_to_end(&mut answer) {
        Err(error) if !(refused && cut(&error) && !answer.is_empty()) => return Err(error),
        _ => {}
    }
    String::from_utf8(answer).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
}
