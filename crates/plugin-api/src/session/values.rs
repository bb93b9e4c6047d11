//! The variables of sessions. Names that only requests have stand for nothing here.

use std::{borrow::Cow, time::Duration};

use tidegate_routing::expr::{Operand, SearchTime, Variables};

use super::Session;
use crate::{
    Template, Variable, host,
    template::Part,
    upstream::Peer,
    variables::{Named, local},
};

type Text<'a> = Option<Cow<'a, [u8]>>;

fn owned<'a>(text: impl Into<Vec<u8>>) -> Text<'a> {
    Some(Cow::Owned(text.into()))
}

fn borrowed(text: &[u8]) -> Text<'_> {
    Some(Cow::Borrowed(text))
}

/// As nginx writes times: with milliseconds.
fn seconds<'a>(time: Duration) -> Text<'a> {
    owned(format!("{}.{:03}", time.as_secs(), time.subsec_millis()))
}

/// The names that only sessions have.
const OF_SESSIONS: [&str; 11] = [
    "protocol",
    "bytes_received",
    "session_time",
    "ssl_preread_server_name",
    "mqtt_client_id",
    "redis_cmd_line",
    "rpc_time",
    "upstream_bytes_sent",
    "upstream_bytes_received",
    "upstream_session_time",
    "upstream_first_byte_time",
];

/// Those of requests that sessions have as well: [`Session::named`] has their values.
fn is_of_sessions(named: Named) -> bool {
    matches!(
        named,
        Named::RemoteAddr
            | Named::RemotePort
            | Named::RealipRemoteAddr
            | Named::RealipRemotePort
            | Named::BinaryRemoteAddr
            | Named::ServerAddr
            | Named::ServerPort
            | Named::ProxyProtocolAddr
            | Named::ProxyProtocolPort
            | Named::ProxyProtocolServerAddr
            | Named::ProxyProtocolServerPort
            | Named::Hostname
            | Named::Connection
            | Named::Pid
            | Named::NginxVersion
            | Named::TimeLocal
            | Named::TimeIso8601
            | Named::Msec
            | Named::Status
            | Named::BytesSent
            | Named::SslServerName
            | Named::SslProtocol
            | Named::SslCipher
            | Named::SslClientVerify
            | Named::SslClientSubject
            | Named::SslClientIssuer
            | Named::SslClientSerial
            | Named::SslClientFingerprint
            | Named::UpstreamAddr
            | Named::UpstreamConnectTime
            | Named::BalancerIp
            | Named::BalancerPort
            | Named::RouteId
            | Named::RouteName
            | Named::ServiceId
            | Named::ServiceName
    )
}

impl Variables for Session {
    type Name = Variable;

    fn get<'a>(&'a self, name: &Variable) -> Operand<'a> {
        self.variable(name).map_or(Operand::Nil, Operand::Bytes)
    }

    fn search_time(&self) -> Option<&SearchTime> {
        Some(&self.search_time)
    }

    fn gave_up(&self, pattern: &str) {
        crate::gave_up::warn(pattern);
        self.undecided.set(true);
    }
}

impl Session {
    /// Whether a name may stand for something in logs of sessions.
    pub fn knows(variable: &Variable) -> bool {
        match variable {
            Variable::Named(named) => is_of_sessions(*named),
            Variable::Custom(name) => OF_SESSIONS.contains(&&**name),
            _ => false,
        }
    }

    /// The value of a variable as text; `None` when it has none.
    pub fn variable<'a>(&'a self, variable: &Variable) -> Text<'a> {
        match variable {
            Variable::Named(named) => self.named(*named),
            Variable::Custom(name) => self.set_by_plugin(name).or_else(|| self.own(name)),
            _ => None,
        }
    }

    /// Appends the text; returns how many variables had a value or a default.
    pub fn render(&self, template: &Template, out: &mut Vec<u8>) -> usize {
        let mut resolved = 0;
        for part in template.parts() {
            match part {
                Part::Literal(text) => out.extend_from_slice(text),
                Part::Variable { variable, default } => match self.variable(variable) {
                    Some(value) => {
                        resolved += 1;
                        out.extend_from_slice(&value);
                    }
                    None => {
                        resolved += usize::from(default.is_some());
                        out.extend_from_slice(default.as_deref().unwrap_or_default());
                    }
                },
            }
        }
        resolved
    }

    fn set_by_plugin(&self, name: &str) -> Text<'_> {
        let set = self.variables.iter().find(|(other, _)| **other == *name);
        set.map(|(_, value)| Cow::Borrowed(value.as_slice()))
    }

    fn own(&self, name: &str) -> Text<'_> {
        let log = &self.log;
        match name {
            "protocol" => borrowed(self.transport.as_str().as_bytes()),
            "bytes_received" => owned(log.bytes_received.to_string()),
            "session_time" => seconds(log.took.unwrap_or_else(|| self.started.elapsed())),
            "ssl_preread_server_name" => {
                self.server_name.as_deref().and_then(|name| borrowed(name.as_bytes()))
            }
            "upstream_bytes_sent" => owned(log.upstream_bytes_sent.to_string()),
            "upstream_bytes_received" => owned(log.upstream_bytes_received.to_string()),
            "upstream_session_time" => seconds(log.took.unwrap_or_else(|| self.started.elapsed())),
            "upstream_first_byte_time" => log.first_byte_after.and_then(seconds),
            _ => None,
        }
    }

    fn named(&self, named: Named) -> Text<'_> {
        if !is_of_sessions(named) {
            return None;
        }
        let facts = &self.facts;
        let node = || self.peer.as_ref().and_then(Peer::node);
        match named {
            Named::RemoteAddr => owned(self.remote_addr.to_string()),
            Named::RemotePort => owned(self.remote_port.to_string()),
            Named::RealipRemoteAddr => owned(facts.peer.ip().to_canonical().to_string()),
            Named::RealipRemotePort => owned(facts.peer.port().to_string()),
            Named::BinaryRemoteAddr => owned(match self.remote_addr {
                std::net::IpAddr::V4(address) => address.octets().to_vec(),
                std::net::IpAddr::V6(address) => address.octets().to_vec(),
            }),
            Named::ServerAddr => owned(facts.local.ip().to_canonical().to_string()),
            Named::ServerPort => owned(facts.local.port().to_string()),
            Named::ProxyProtocolAddr => owned(facts.proxy_header()?.client.ip().to_string()),
            Named::ProxyProtocolPort => owned(facts.proxy_header()?.client.port().to_string()),
            Named::ProxyProtocolServerAddr => owned(facts.proxy_header()?.server.ip().to_string()),
            Named::ProxyProtocolServerPort => owned(facts.proxy_header()?.server.port().to_string()),
            Named::Hostname => borrowed(host().map_or("localhost", |host| &host.hostname).as_bytes()),
            Named::Connection => owned(facts.id.to_string()),
            Named::Pid => owned(std::process::id().to_string()),
            Named::NginxVersion => borrowed(env!("CARGO_PKG_VERSION").as_bytes()),
            Named::TimeLocal => owned(local()),
            Named::TimeIso8601 => owned(crate::variables::iso8601()),
            Named::Msec => owned(crate::variables::msec()),
            Named::Status => owned(format!("{:03}", self.log.status)),
            Named::BytesSent => owned(self.log.bytes_sent.to_string()),
            Named::SslServerName => {
                facts.tls.as_ref()?.server_name.as_deref().and_then(|name| borrowed(name.as_bytes()))
            }
            Named::SslProtocol => borrowed(facts.tls.as_ref()?.protocol.as_bytes()),
            Named::SslCipher => borrowed(facts.tls.as_ref()?.cipher.as_bytes()),
            Named::SslClientVerify => owned(facts.tls.as_ref()?.client_verdict.text().into_owned()),
            Named::SslClientSubject => owned(facts.tls.as_ref()?.client()?.subject.as_bytes()),
            Named::SslClientIssuer => owned(facts.tls.as_ref()?.client()?.issuer.as_bytes()),
            Named::SslClientSerial => owned(facts.tls.as_ref()?.client()?.serial.as_bytes()),
            Named::SslClientFingerprint => owned(facts.tls.as_ref()?.client()?.fingerprint.as_bytes()),
            Named::UpstreamAddr => self.joined(|attempt| attempt.address.to_string()),
            Named::UpstreamConnectTime => self.joined(|attempt| {
                let time = attempt.connected_after.and_then(seconds);
                time.map_or_else(|| "-".to_owned(), |time| String::from_utf8_lossy(&time).into_owned())
            }),
            Named::BalancerIp => borrowed(node()?.ip.as_bytes()),
            Named::BalancerPort => owned(node()?.port.to_string()),
            Named::RouteId => borrowed(self.owner.as_ref()?.id.as_bytes()),
            Named::RouteName => borrowed(self.owner.as_ref()?.name.as_ref()?.as_bytes()),
            Named::ServiceId => borrowed(self.owner.as_ref()?.service_id.as_ref()?.as_bytes()),
            Named::ServiceName => borrowed(self.owner.as_ref()?.service_name.as_ref()?.as_bytes()),
            _ => None,
        }
    }

    fn joined<'a>(&self, text: impl Fn(&super::Attempt) -> String) -> Text<'a> {
        let texts: Vec<String> = self.log.attempts.iter().map(text).collect();
        if texts.is_empty() { None } else { owned(texts.join(", ")) }
    }
}
