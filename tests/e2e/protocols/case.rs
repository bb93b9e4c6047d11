//! A request table's row, and the one function that runs rows.

use std::borrow::Cow;
use std::fmt::Write;

use tidegate_testkit::gateway::YAML_PROVIDER;
use tidegate_testkit::{Client, Gateway, ReadError, Seen, Upstream};

/// Bytes in, and what must come of them.
#[derive(Clone, Debug)]
pub(super) struct Case {
    name: &'static str,
    send: Cow<'static, [u8]>,
    /// Any of these.
    statuses: &'static [u16],
    after: After,
    /// How many requests the upstream must have received whole.
    forwarded: usize,
    /// What those requests' text must and must not contain, in any case of letters.
    seen: &'static [&'static str],
    unseen: &'static [&'static str],
}

/// What becomes of the connection after the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    /// A further request on it is answered.
    Open,
    /// It ends, without a further byte.
    Closed,
    Either,
}

impl Case {
    /// A request that must reach the upstream, be answered 200, and leave the connection usable.
    pub(super) fn pass(name: &'static str, send: &'static str) -> Self {
        Case {
            name,
            send: Cow::Borrowed(send.as_bytes()),
            statuses: &[200],
            after: After::Open,
            forwarded: 1,
            seen: &[],
            unseen: &[],
        }
    }

    /// A request that must be answered 400, never reach the upstream whole, and end the connection.
    pub(super) fn refuse(name: &'static str, send: &'static str) -> Self {
        let case = Case::pass(name, send);
        Case { statuses: &[400], after: After::Closed, forwarded: 0, ..case }
    }

    /// A request that the gateway answers 200 itself, and that leaves the connection usable.
    pub(super) fn answered(name: &'static str, send: &'static str) -> Self {
        Case { forwarded: 0, ..Case::pass(name, send) }
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.send
    }

    pub(super) fn statuses(self, statuses: &'static [u16]) -> Self {
        Case { statuses, ..self }
    }

    pub(super) fn seen(self, seen: &'static [&'static str]) -> Self {
        Case { seen, ..self }
    }

    pub(super) fn unseen(self, unseen: &'static [&'static str]) -> Self {
        Case { unseen, ..self }
    }

    pub(super) fn closes(self) -> Self {
        Case { after: After::Closed, ..self }
    }

    pub(super) fn may_close(self) -> Self {
        Case { after: After::Either, ..self }
    }

    /// The same with bytes a literal cannot hold.
    pub(super) fn sending(self, bytes: impl Into<Vec<u8>>) -> Self {
        Case { send: Cow::Owned(bytes.into()), ..self }
    }
}

/// A gateway whose only route forwards everything to an upstream; websockets on `/upgrade*`.
pub(super) fn gateway_for(upstream: &Upstream) -> Gateway {
    let node = format!(
        "upstream: {{type: roundrobin, nodes: {{\"{}\": 1}}, timeout: {{connect: 2, send: 2, read: 2}}}}",
        upstream.address
    );
    let routes = format!(
        "routes:\n  - id: all\n    uri: /*\n    {node}\n  - id: websocket\n    uri: /upgrade*\n    \
         enable_websocket: true\n    {node}\n"
    );
    Gateway::start(YAML_PROVIDER, Some(&routes))
}

/// Runs all rows against one gateway; reports every row that fails, not just the first.
pub(super) fn check(cases: &[Case]) {
    let upstream = Upstream::start();
    let gateway = gateway_for(&upstream);
    let mut failures = String::new();
    for case in cases {
        upstream.take();
        if let Err(why) = run(case, &gateway, &upstream) {
            let sent = String::from_utf8_lossy(&case.send);
            let _ =
                writeln!(failures, "{}: {why}\n    sent {:?}", case.name, sent.get(..200).unwrap_or(&sent));
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

fn run(case: &Case, gateway: &Gateway, upstream: &Upstream) -> Result<(), String> {
    let mut client = gateway.client();
    client.send(&case.send).map_err(|error| format!("cannot send: {error}"))?;
    let method = case.send.split(|byte| *byte == b' ').next().unwrap_or_default();
    let method = String::from_utf8_lossy(method);
    let answer = client.response_to(method.trim()).map_err(|error| format!("no answer: {error}"))?;
    if !case.statuses.contains(&answer.status()) {
        return Err(format!("answered {}, not {:?}", answer.status(), case.statuses));
    }
    let seen = upstream.take();
    if seen.len() != case.forwarded {
        return Err(format!(
            "upstream saw {} requests, not {}: {}",
            seen.len(),
            case.forwarded,
            texts(&seen)
        ));
    }
    check_seen(case, &texts(&seen))?;
    match case.after {
        After::Closed => closed(&mut client),
        After::Open => open(&mut client),
        After::Either => Ok(()),
    }?;
    let later = upstream.take();
    match later.len() {
        0 => Ok(()),
        1 if case.after == After::Open && later[0].message.target() == "/after" => Ok(()),
        _ => Err(format!("upstream saw more afterwards: {}", texts(&later))),
    }
}

fn check_seen(case: &Case, text: &str) -> Result<(), String> {
    let text = text.to_ascii_lowercase();
    if let Some(missing) = case.seen.iter().find(|wanted| !text.contains(&wanted.to_ascii_lowercase())) {
        return Err(format!("upstream did not see {missing:?} in {text:?}"));
    }
    match case.unseen.iter().find(|unwanted| text.contains(&unwanted.to_ascii_lowercase())) {
        Some(found) => Err(format!("upstream saw {found:?} in {text:?}")),
        None => Ok(()),
    }
}

fn closed(client: &mut Client) -> Result<(), String> {
    match client.to_close() {
        Ok(rest) if rest.is_empty() => Ok(()),
        Ok(rest) => Err(format!("more bytes after the answer: {:?}", String::from_utf8_lossy(&rest))),
        Err(ReadError::Timeout) => Err("connection stays open".to_owned()),
        Err(error) => Err(format!("connection ends badly: {error}")),
    }
}

fn open(client: &mut Client) -> Result<(), String> {
    let next = client.get("h", "/after").map_err(|error| format!("connection is not usable: {error}"))?;
    if next.status() != 200 || !next.body_text().starts_with("GET /after HTTP/1.1\r\n") {
        return Err(format!("next request answered {} {:?}", next.status(), next.body_text()));
    }
    Ok(())
}

fn texts(seen: &[Seen]) -> String {
    seen.iter().map(Seen::text).collect()
}
