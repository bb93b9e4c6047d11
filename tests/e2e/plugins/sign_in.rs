//! Plugins that log browsers in, each with a server that speaks its provider's protocol: what forged, repeated, late and foreign
//! states, codes, tickets and cookies are worth.

mod cas;
mod casdoor;
mod codes;
mod saml;

use serde_json::{Value, json};
use tidegate_testkit::gateway::YAML_PROVIDER;
use tidegate_testkit::{Gateway, Message, Upstream};

/// Routes with one plugin, in front of an upstream that is to be guarded.
struct Site {
    gateway: Gateway,
    upstream: Upstream,
}

impl Site {
    /// `routes`: paths, and what their plugin has there.
    fn start(plugin: &str, routes: &[(&str, Value)]) -> Site {
        let upstream = Upstream::start();
        let target = json!({"type": "roundrobin", "nodes": {upstream.address.to_string(): 1}});
        let routes = routes.iter().enumerate().map(|(number, (uri, conf))| {
            json!({"id": number.to_string(), "uri": uri, "plugins": {plugin: conf}, "upstream": target})
        });
        let objects = json!({"routes": routes.collect::<Vec<_>>()}).to_string();
        Site { gateway: Gateway::start(YAML_PROVIDER, Some(&objects)), upstream }
    }

    fn send(&self, method: &str, target: &str, fields: &str, body: &str) -> Message {
        let length = body.len();
        let host = if fields.contains("Host:") { "" } else { "Host: site.test\r\n" };
        let text =
            format!("{method} {target} HTTP/1.1\r\n{host}{fields}Content-Length: {length}\r\n\r\n{body}");
        self.gateway.client().request(&text).unwrap_or_else(|error| panic!("{target}: {error}"))
    }

    fn get(&self, target: &str, cookie: &str) -> Message {
        let field = if cookie.is_empty() { String::new() } else { format!("Cookie: {cookie}\r\n") };
        self.send("GET", target, &field, "")
    }

    /// Whether the cookie lets a request to the upstream.
    fn is_in(&self, target: &str, cookie: &str) -> bool {
        self.upstream.take();
        let status = self.get(target, cookie).status();
        let reached = !self.upstream.take().is_empty();
        assert_eq!(reached, status == 200, "{status}");
        reached
    }
}

/// What a browser would send back: name and value of the cookies that are set.
fn cookies(answer: &Message) -> String {
    let lines =
        answer.headers.iter().filter(|(name, value)| name == "Set-Cookie" && !value.contains("Max-Age=0"));
    let pairs: Vec<&str> = lines.filter_map(|(_, value)| value.split(';').next()).collect();
    pairs.join("; ")
}

fn location(answer: &Message) -> &str {
    assert_eq!(answer.status(), 302, "{answer:?}");
    answer.header("Location").expect("a location")
}

/// A cookie with one letter changed.
fn forged(cookie: &str) -> String {
    let at = cookie.find('=').expect("a value") + 10;
    let letter = if cookie[at..].starts_with('A') { "B" } else { "A" };
    format!("{}{letter}{}", &cookie[..at], &cookie[at + 1..])
}
