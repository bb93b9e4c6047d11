//! The variables of APISIX (nginx's and its own), resolved to an enum when a configuration is compiled, so that a
//! request never looks a name up.

mod as_kong;
mod as_nginx;
mod body;
mod body_values;
mod client_certificate;
mod graphql;
pub mod json_path;
mod known;
pub mod noted;
mod time_text;
pub(super) mod variable;

use std::borrow::Cow;

use tidegate_protocol::HeaderId;
use tidegate_routing::expr::{Operand, SearchTime, Variables};

use crate::{Request, host, upstream::Peer};

pub(crate) use self::known::BodyValues;
pub(crate) use client_certificate::ClientCertificate;
pub use json_path::{is_valid as is_json_path, select as json_path};
pub use time_text::{http_date, local};
pub(crate) use time_text::{iso8601, msec};

pub use self::variable::{Named, RATE_LIMITING_INFO, Variable, wants_rate_limiting_info};

impl Variables for Request {
    type Name = Variable;

    fn get<'a>(&'a self, name: &Variable) -> Operand<'a> {
        match name {
            Variable::PostArgPath(_) => body_values::value(self, name),
            Variable::Named(Named::GraphqlRootFields) => {
                self::body_values::graphql(self, Named::GraphqlRootFields)
            }
            Variable::Named(Named::RequestBody) => body_values::whole(self),
            _ => self.variable(name).map_or(Operand::Nil, Operand::Bytes),
        }
    }

    fn search_time(&self) -> Option<&SearchTime> {
        Some(&self.search_time)
    }

    fn gave_up(&self, pattern: &str) {
        if self.search_time.is_spent() {
            crate::gave_up::warn_of_many(pattern);
        } else {
            crate::gave_up::warn(pattern);
        }
        self.set_undecided(500);
    }
}

type Text<'a> = Option<Cow<'a, [u8]>>;

fn owned<'a>(text: impl Into<Vec<u8>>) -> Text<'a> {
    Some(Cow::Owned(text.into()))
}

fn borrowed(text: &[u8]) -> Text<'_> {
    Some(Cow::Borrowed(text))
}

/// Cookies have their own separator.
fn joined<'a>(name: &str, mut values: impl Iterator<Item = &'a [u8]>) -> Text<'a> {
    let first = values.next()?;
    let Some(second) = values.next() else { return borrowed(first) };
    let separator: &[u8] = if name.eq_ignore_ascii_case("cookie") { b"; " } else { b", " };
    let mut joined = first.to_vec();
    for value in std::iter::once(second).chain(values) {
        joined.extend_from_slice(separator);
        joined.extend_from_slice(value);
    }
    owned(joined)
}

impl Request {
    /// The value of a variable as text; `None` when it has none.
    pub fn variable<'a>(&'a self, variable: &Variable) -> Text<'a> {
        match variable {
            Variable::Named(named) => {
                if !self.variables.is_empty()
                    && let Some(value) = self.set_by_plugin(named.name())
                {
                    return Some(value);
                }
                self.named(*named)
            }
            Variable::Header(name) => self.header_variable(name),
            Variable::Arg(name) => self.arg(name).map(Cow::Owned),
            Variable::RawArg(name) => self.raw_arg(name).map(Cow::Borrowed),
            Variable::Cookie(name) => self.cookie(name).map(Cow::Borrowed),
            Variable::RawCookie(name) => {
                let mut lines = self.head.headers.all_known(HeaderId::Cookie);
                lines.find_map(|line| as_nginx::cookie(line, name.as_bytes())).map(Cow::Borrowed)
            }
            Variable::SentHeader(name) | Variable::UpstreamHeader(name) => {
                self.response.headers.get(name).map(Cow::Borrowed)
            }
            Variable::UriParameter(name) => self
                .matched
                .parameters
                .iter()
                .find(|(other, _)| other == name)
                .map(|(_, value)| Cow::Borrowed(&**value)),
            Variable::PostArg(_) | Variable::PostArgPath(_) => {
                body::operand_text(body_values::value(self, variable))
            }
            Variable::Custom(name) => self.set_by_plugin(name),
        }
    }

    /// By name at run time (Lua, log formats that users change).
    pub fn variable_by_name(&self, name: &str) -> Option<Vec<u8>> {
        self.variable(&Variable::resolve(name)).map(Cow::into_owned)
    }

    fn set_by_plugin(&self, name: &str) -> Text<'_> {
        self.variables
            .iter()
            .find(|(other, _)| **other == *name)
            .map(|(_, value)| Cow::Borrowed(value.as_slice()))
    }

    /// As in nginx, all fields of this name joined; `a_b: 1` is one of them for `a-b`.
    fn header_variable<'a>(&'a self, name: &str) -> Text<'a> {
        let headers = &self.head.headers;
        if name.contains('-') && headers.may_have_underscores() {
            let is_same = |field: &[u8]| {
                field.len() == name.len()
                    && field.iter().zip(name.bytes()).all(|(&found, wanted)| {
                        found.eq_ignore_ascii_case(&wanted) || (found == b'_' && wanted == b'-')
                    })
            };
            return joined(name, headers.iter().filter(|(field, _)| is_same(field)).map(|(_, value)| value));
        }
        // Most requests do not have the field.
        headers.get(name)?;
        let is_same = |field: &[u8]| field.eq_ignore_ascii_case(name.as_bytes());
        joined(name, headers.iter().filter(|(field, _)| is_same(field)).map(|(_, value)| value))
    }

    fn named(&self, named: Named) -> Text<'_> {
        match named {
            Named::RemoteAddr => owned(self.remote_addr.to_string()),
            Named::RemotePort => owned(self.remote_port.to_string()),
            Named::RealipRemoteAddr => owned(self.connection.peer.ip().to_canonical().to_string()),
            Named::RealipRemotePort => owned(self.connection.peer.port().to_string()),
            Named::BinaryRemoteAddr => owned(match self.remote_addr {
                std::net::IpAddr::V4(address) => address.octets().to_vec(),
                std::net::IpAddr::V6(address) => address.octets().to_vec(),
            }),
            Named::RemoteUser => self.remote_user(),
            Named::ServerAddr => owned(self.connection.local.ip().to_canonical().to_string()),
            Named::ServerPort => owned(self.connection.local.port().to_string()),
            Named::ServerName => borrowed(b"_"),
            Named::ServerProtocol => borrowed(self.head.version.as_str().as_bytes()),
            Named::Scheme => borrowed(if self.https { b"https" } else { b"http" }),
            Named::Https => borrowed(if self.https { b"on" } else { b"" }),
            Named::Host => borrowed(&self.host),
            Named::Hostname => borrowed(host().map_or("localhost", |host| &host.hostname).as_bytes()),
            Named::RequestLine | Named::RequestLineAlias => owned(self.request_line()),
            Named::RequestMethod | Named::Method => borrowed(self.head.method.as_bytes()),
            Named::RequestUri => owned(self.normal_target()),
            Named::RealRequestUri => borrowed(self.head.target()),
            // Without escapes it is the same as `$uri`.
            Named::KongUri if !self.head.raw_path().contains(&b'%') => borrowed(&self.path),
            Named::KongUri => as_kong::path(self.head.raw_path()).map(Cow::Owned),
            Named::Uri | Named::DocumentUri => borrowed(&self.path),
            Named::Args | Named::QueryString => self.head.query().map(Cow::Borrowed),
            Named::IsArgs => {
                borrowed(if self.head.query().is_some_and(|query| !query.is_empty()) { b"?" } else { b"" })
            }
            Named::RequestBody => match &self.body {
                crate::RequestBody::Collected(bytes) => borrowed(bytes),
                _ => None,
            },
            Named::RequestId => borrowed(self.request_id().as_bytes()),
            Named::ApisixRequestId => borrowed(self.request_id().as_bytes()),
            Named::ContentType => self.head.headers.known(HeaderId::ContentType).map(Cow::Borrowed),
            Named::ContentLength => self.head.headers.known(HeaderId::ContentLength).map(Cow::Borrowed),
            Named::Connection => owned(self.connection.id.to_string()),
            Named::ConnectionRequests => owned(self.connection.requests.get().to_string()),
            Named::Pipe => borrowed(b"."),
            Named::NginxVersion => borrowed(env!("CARGO_PKG_VERSION").as_bytes()),
            Named::Pid => owned(std::process::id().to_string()),
            Named::RequestType => borrowed(b"traditional_http"),
            // `$${_}uri` is the text `$uri`.
            Named::Nothing => None,
            Named::MatchedUri => borrowed(self.matched.uri.as_bytes()),
            Named::MatchedHost => borrowed(self.matched.host.as_bytes()),
            Named::GraphqlName | Named::GraphqlOperation | Named::GraphqlRootFields => {
                body::operand_text(self::body_values::graphql(self, named))
            }
            Named::SslServerName | Named::SslProtocol | Named::SslCipher | Named::SslClientVerify => {
                self.tls_variable(named)
            }
            Named::SslClientFingerprint
            | Named::SslClientSerial
            | Named::SslClientSubject
            | Named::SslClientIssuer
            | Named::SslClientSubjectLegacy
            | Named::SslClientIssuerLegacy
            | Named::SslClientCert
            | Named::SslClientRawCert
            | Named::SslClientEscapedCert
            | Named::SslClientStart
            | Named::SslClientEnd
            | Named::SslClientRemain => self.client_certificate_variable(named),
            Named::ProxyProtocolAddr
            | Named::ProxyProtocolPort
            | Named::ProxyProtocolServerAddr
            | Named::ProxyProtocolServerPort => self.announced_variable(named),
            Named::ConsumerName
            | Named::ConsumerGroupId
            | Named::RouteId
            | Named::RouteName
            | Named::ServiceId
            | Named::ServiceName => self.context_variable(named),
            _ => self.outcome_variable(named),
        }
    }

    fn tls_variable(&self, named: Named) -> Text<'_> {
        let tls = self.connection.tls.as_ref()?;
        match named {
            Named::SslServerName => tls.server_name.as_deref().map(|name| Cow::Borrowed(name.as_bytes())),
            Named::SslProtocol => borrowed(tls.protocol.as_bytes()),
            Named::SslClientVerify => Some(match tls.client_verdict.text() {
                Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
                Cow::Owned(text) => Cow::Owned(text.into_bytes()),
            }),
            _ => borrowed(tls.cipher.as_bytes()),
        }
    }

    /// Nothing where no certificate was presented.
    fn client_certificate_variable(&self, named: Named) -> Text<'_> {
        let certificate = self.connection.tls.as_ref()?.client()?;
        let text = match named {
            Named::SslClientFingerprint => &certificate.fingerprint,
            Named::SslClientSerial => &certificate.serial,
            Named::SslClientSubject => &certificate.subject,
            Named::SslClientIssuer => &certificate.issuer,
            Named::SslClientSubjectLegacy => &certificate.subject_legacy,
            Named::SslClientIssuerLegacy => &certificate.issuer_legacy,
            Named::SslClientRawCert => &certificate.pem,
            Named::SslClientStart => &certificate.start,
            Named::SslClientEnd => &certificate.end,
            Named::SslClientCert => return owned(certificate.folded_pem()),
            Named::SslClientEscapedCert => return owned(certificate.escaped_pem()),
            _ => return owned(certificate.remaining_days().to_string()),
        };
        (!text.is_empty()).then_some(Cow::Borrowed(text.as_bytes()))
    }

    fn announced_variable(&self, named: Named) -> Text<'_> {
        let proxy_header = self.connection.proxy_header()?;
        owned(match named {
            Named::ProxyProtocolAddr => proxy_header.client.ip().to_canonical().to_string(),
            Named::ProxyProtocolPort => proxy_header.client.port().to_string(),
            Named::ProxyProtocolServerAddr => proxy_header.server.ip().to_canonical().to_string(),
            _ => proxy_header.server.port().to_string(),
        })
    }

    fn context_variable(&self, named: Named) -> Text<'_> {
        let text = match named {
            Named::ConsumerName => &*self.consumer.as_ref()?.username,
            Named::ConsumerGroupId => self.consumer.as_ref()?.group_id.as_deref()?,
            Named::RouteId => &*self.route.as_ref()?.id,
            Named::RouteName => self.route.as_ref()?.name.as_deref()?,
            Named::ServiceId => self.route.as_ref()?.service_id()?,
            _ => self.route.as_ref()?.service_name()?,
        };
        borrowed(text.as_bytes())
    }

    /// Variables that are known once the answer is under way.
    fn outcome_variable(&self, named: Named) -> Text<'_> {
        let outcome = &self.outcome;
        let node = || outcome.peer.as_ref().and_then(Peer::node);
        match named {
            Named::Status => owned(self.response.status.to_string()),
            Named::BytesSent => owned(outcome.bytes_sent.to_string()),
            Named::BodyBytesSent => owned(outcome.body_bytes_sent.to_string()),
            Named::RequestLength => owned(outcome.request_length.to_string()),
            Named::RequestTime => owned(format!("{:.3}", self.elapsed_seconds())),
            Named::TimeLocal => owned(local()),
            Named::TimeIso8601 => owned(iso8601()),
            Named::Msec => owned(time_text::msec()),
            Named::UpstreamAddr => self.per_attempt(|attempt| attempt.address.to_string()),
            Named::UpstreamStatus => self.per_attempt(|attempt| match attempt.status {
                0 => "502".to_owned(),
                crate::outcome::Attempt::ABANDONED => "-".to_owned(),
                status => status.to_string(),
            }),
            Named::UpstreamResponseTime | Named::ApisixUpstreamResponseTime => {
                self.per_attempt(|attempt| format!("{:.3}", attempt.response_seconds))
            }
            Named::UpstreamConnectTime => {
                self.per_attempt(|attempt| seconds_or_dash(attempt.connect_seconds))
            }
            Named::UpstreamHeaderTime => self.per_attempt(|attempt| seconds_or_dash(attempt.header_seconds)),
            Named::UpstreamScheme => {
                borrowed(self.upstream().map_or("http", |upstream| upstream.scheme.as_str()).as_bytes())
            }
            Named::UpstreamHost if !outcome.upstream_host.is_empty() => borrowed(&outcome.upstream_host),
            Named::UpstreamHost => self.head.headers.known(HeaderId::Host).map(Cow::Borrowed),
            Named::UpstreamUri if !outcome.upstream_target.is_empty() => borrowed(&outcome.upstream_target),
            Named::UpstreamUri => self.edits.target.as_deref().map(Cow::Borrowed),
            Named::UpstreamUnresolvedHost => node().map(|node| Cow::Borrowed(node.host.as_bytes())),
            Named::BalancerIp => node().map(|node| Cow::Borrowed(node.ip.as_bytes())),
            Named::BalancerPort => node().and_then(|node| owned(node.port.to_string())),
            _ => None,
        }
    }

    /// One value per attempt, joined as nginx does.
    fn per_attempt(&self, text: impl Fn(&crate::outcome::Attempt) -> String) -> Text<'_> {
        let attempts = &self.outcome.attempts;
        if attempts.is_empty() {
            return None;
        }
        owned(attempts.iter().map(text).collect::<Vec<_>>().join(", "))
    }

    /// The upstream this request goes to: a plugin's choice, else the route's.
    pub fn upstream(&self) -> Option<&std::sync::Arc<crate::UpstreamHandle>> {
        if let Some(upstream) = &self.edits.upstream {
            return Some(upstream);
        }
        match &self.route.as_ref()?.upstream {
            crate::route::RouteUpstream::Some(upstream) => Some(upstream),
            _ => None,
        }
    }

    /// `$request_uri` as APISIX defines it: the normalised path with the query. The client's own text is
    /// `$real_request_uri`.
    pub fn normal_target(&self) -> Vec<u8> {
        let mut target = self.path.clone();
        if let Some(query) = self.head.query().filter(|query| !query.is_empty()) {
            target.push(b'?');
            target.extend_from_slice(query);
        }
        target
    }

    fn request_line(&self) -> Vec<u8> {
        let mut line = self.head.method.as_bytes().to_vec();
        line.push(b' ');
        line.extend_from_slice(self.head.target());
        line.push(b' ');
        line.extend_from_slice(self.head.version.as_str().as_bytes());
        line
    }

    /// The user of basic authentication, verified or not.
    fn remote_user(&self) -> Text<'_> {
        as_nginx::user(self.head.headers.known(HeaderId::Authorization)?).map(Cow::Owned)
    }
}

fn seconds_or_dash(seconds: Option<f64>) -> String {
    seconds.map_or_else(|| "-".to_owned(), |seconds| format!("{seconds:.3}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_resolve_to_families() {
        let cases = [
            ("remote_addr", Variable::Named(Named::RemoteAddr)),
            ("http_x_api_key", Variable::Header("x-api-key".into())),
            ("arg_foo-bar", Variable::Arg("foo-bar".into())),
            ("cookie_a", Variable::Cookie("a".into())),
            ("sent_http_x_y", Variable::SentHeader("x-y".into())),
            ("post_arg.a.b", Variable::PostArgPath("a.b".into())),
            ("post_arg_a", Variable::PostArg("a".into())),
            ("uri_param_id", Variable::UriParameter("id".into())),
            ("nobody_knows", Variable::Custom("nobody_knows".into())),
            ("http_", Variable::Custom("http_".into())),
        ];
        for (name, expected) in cases {
            assert_eq!(Variable::resolve(name), expected, "{name}");
        }
    }
}
