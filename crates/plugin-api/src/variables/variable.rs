//! Names of variables, resolved when a configuration is compiled.

use std::sync::atomic::{AtomicBool, Ordering};

use tidegate_model::nearest;

use super::noted;

/// A variable; the families carry the rest of the name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Variable {
    /// One of nginx's or APISIX's, with a fixed name.
    Named(Named),
    /// `http_NAME`, as the header's name with dashes.
    Header(Box<str>),
    /// `arg_NAME`
    Arg(Box<str>),
    /// `raw_arg_NAME`: as nginx's `$arg_NAME`, in any case of the name and not decoded.
    RawArg(Box<str>),
    /// `cookie_NAME`
    Cookie(Box<str>),
    /// `raw_cookie_NAME`: as nginx's `$cookie_NAME`.
    RawCookie(Box<str>),
    /// `sent_http_NAME`
    SentHeader(Box<str>),
    /// `upstream_http_NAME`
    UpstreamHeader(Box<str>),
    /// `uri_param_NAME`
    UriParameter(Box<str>),
    /// `post_arg_NAME`: url-encoded bodies only.
    PostArg(Box<str>),
    /// `post_arg.PATH`: JSON, multipart or url-encoded.
    PostArgPath(Box<str>),
    /// Set by a plugin or by Lua, or unknown.
    Custom(Box<str>),
}

macro_rules! named {
    ($($variant:ident = $name:literal,)*) => {
        /// Variables with a fixed name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Named {
            $(#[doc = concat!("`$", $name, "`")] $variant,)*
        }

        impl Named {
            pub(super) const NAMES: &[&str] = &[$($name,)*];

            pub(super) fn of(name: &str) -> Option<Named> {
                match name { $($name => Some(Named::$variant),)* _ => None }
            }

            /// Without the `$`.
            pub fn name(self) -> &'static str {
                match self { $(Named::$variant => $name,)* }
            }
        }
    };
}

named! {
    RemoteAddr = "remote_addr", RemotePort = "remote_port", RemoteUser = "remote_user",
    RealipRemoteAddr = "realip_remote_addr", RealipRemotePort = "realip_remote_port",
    BinaryRemoteAddr = "binary_remote_addr", ServerAddr = "server_addr", ServerPort = "server_port",
    ServerName = "server_name", ServerProtocol = "server_protocol", Scheme = "scheme", Https = "https",
    Host = "host", Hostname = "hostname", RequestLine = "request", RequestLineAlias = "request_line",
    RequestMethod = "request_method", Method = "method", RequestUri = "request_uri",
    RealRequestUri = "real_request_uri", Uri = "uri", DocumentUri = "document_uri", Args = "args",
    KongUri = "kong_uri", IsArgs = "is_args", QueryString = "query_string", RequestLength = "request_length",
    RequestBody = "request_body", RequestTime = "request_time", RequestId = "request_id",
    ApisixRequestId = "apisix_request_id", ContentType = "content_type", ContentLength = "content_length",
    TimeLocal = "time_local", TimeIso8601 = "time_iso8601", Msec = "msec", Pid = "pid",
    Connection = "connection", ConnectionRequests = "connection_requests", BodyBytesSent = "body_bytes_sent",
    BytesSent = "bytes_sent", Status = "status", Pipe = "pipe", NginxVersion = "nginx_version",
    RequestType = "request_type", SslServerName = "ssl_server_name", SslProtocol = "ssl_protocol",
    SslCipher = "ssl_cipher", SslClientVerify = "ssl_client_verify",
    SslClientFingerprint = "ssl_client_fingerprint", SslClientSerial = "ssl_client_serial",
    SslClientSubject = "ssl_client_s_dn", SslClientIssuer = "ssl_client_i_dn",
    SslClientSubjectLegacy = "ssl_client_s_dn_legacy", SslClientIssuerLegacy = "ssl_client_i_dn_legacy",
    SslClientCert = "ssl_client_cert", SslClientRawCert = "ssl_client_raw_cert",
    SslClientEscapedCert = "ssl_client_escaped_cert", SslClientStart = "ssl_client_v_start",
    SslClientEnd = "ssl_client_v_end", SslClientRemain = "ssl_client_v_remain", UpstreamAddr = "upstream_addr", UpstreamStatus = "upstream_status",
    UpstreamResponseTime = "upstream_response_time", ApisixUpstreamResponseTime = "apisix_upstream_response_time",
    UpstreamConnectTime = "upstream_connect_time", UpstreamHeaderTime = "upstream_header_time",
    UpstreamScheme = "upstream_scheme", UpstreamHost = "upstream_host", UpstreamUri = "upstream_uri",
    UpstreamUnresolvedHost = "upstream_unresolved_host", BalancerIp = "balancer_ip", BalancerPort = "balancer_port",
    ConsumerName = "consumer_name", ConsumerGroupId = "consumer_group_id", RouteId = "route_id",
    RouteName = "route_name", ServiceId = "service_id", ServiceName = "service_name",
    ProxyProtocolAddr = "proxy_protocol_addr", ProxyProtocolPort = "proxy_protocol_port",
    ProxyProtocolServerAddr = "proxy_protocol_server_addr", ProxyProtocolServerPort = "proxy_protocol_server_port",
    MatchedUri = "matched_uri", MatchedHost = "matched_host", Nothing = "_",
    GraphqlName = "graphql_name", GraphqlOperation = "graphql_operation", GraphqlRootFields = "graphql_root_fields",
}

/// Set by plugins where they run.
const OF_PLUGINS: [&str; 8] = [
    RATE_LIMITING_INFO,
    "opentelemetry_context_traceparent",
    "opentelemetry_trace_id",
    "opentelemetry_span_id",
    "zipkin_context_traceparent",
    "zipkin_trace_id",
    "zipkin_span_id",
    "resp_body",
];

/// The result of limit-count, as JSON.
pub const RATE_LIMITING_INFO: &str = "rate_limiting_info";

static RATE_LIMITING_INFO_WANTED: AtomicBool = AtomicBool::new(false);

/// Whether anything has ever asked for [`RATE_LIMITING_INFO`]: a log format, a condition, a function. Otherwise it is not
/// computed.
pub fn wants_rate_limiting_info() -> bool {
    RATE_LIMITING_INFO_WANTED.load(Ordering::Relaxed)
}

impl Variable {
    /// Any name resolves; an unknown one has no value until a plugin sets it.
    pub fn resolve(name: &str) -> Variable {
        if let Some(named) = Named::of(name) {
            return Variable::Named(named);
        }
        if name == RATE_LIMITING_INFO {
            RATE_LIMITING_INFO_WANTED.store(true, Ordering::Relaxed);
        }
        let families: &[(&str, fn(Box<str>) -> Variable)] = &[
            ("sent_http_", |rest| Variable::SentHeader(rest.replace('_', "-").into())),
            ("upstream_http_", |rest| Variable::UpstreamHeader(rest.replace('_', "-").into())),
            ("http_", |rest| Variable::Header(rest.replace('_', "-").into())),
            ("arg_", Variable::Arg),
            ("raw_arg_", Variable::RawArg),
            ("cookie_", Variable::Cookie),
            ("raw_cookie_", Variable::RawCookie),
            ("uri_param_", Variable::UriParameter),
            ("post_arg_", Variable::PostArg),
            ("post_arg.", Variable::PostArgPath),
        ];
        for (prefix, make) in families {
            if let Some(rest) = name.strip_prefix(prefix).filter(|rest| !rest.is_empty()) {
                return make(rest.into());
            }
        }
        Variable::Custom(name.into())
    }

    /// One that a configuration puts into a text or an entry, looked at by [`noted::variables_of_texts`].
    pub fn of_text(name: &str) -> Variable {
        let variable = Variable::resolve(name);
        if !matches!(variable, Variable::Named(_)) {
            noted::take_note(name);
        }
        variable
    }

    /// The variable that a value of a `log_format` is: `$name`. Anything else stays as it is written.
    pub fn of_entry(text: &str) -> Option<Variable> {
        text.strip_prefix('$').map(Variable::of_text)
    }

    /// A remark about a name that has a value only where Lua sets it: a misspelled variable is always empty.
    pub fn remark(name: &str) -> Option<String> {
        let Variable::Custom(_) = Variable::resolve(name) else { return None };
        if OF_PLUGINS.contains(&name) {
            return None;
        }
        if let Some(bare) = name.strip_prefix('$') {
            return Some(format!("{name} is not a variable: names stand without $ here; write {bare}"));
        }
        let hint = nearest::hint(name, Named::NAMES.iter().copied());
        Some(format!("${name} is not a variable of the gateway and is empty unless Lua sets it{hint}"))
    }

    /// Whether the request's body must be in memory to know the value.
    pub fn needs_body(&self) -> bool {
        matches!(
            self,
            Variable::PostArg(_)
                | Variable::PostArgPath(_)
                | Variable::Named(
                    Named::GraphqlName
                        | Named::GraphqlOperation
                        | Named::GraphqlRootFields
                        | Named::RequestBody
                )
        )
    }
}
