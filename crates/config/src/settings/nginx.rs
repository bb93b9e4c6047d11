//! `nginx_config`.

use std::time::Duration;

use super::Reader;

/// Section `nginx_config`.
#[derive(Clone, Debug)]
pub struct Nginx {
    /// Worker threads, at least 1.
    pub workers: usize,
    /// Pins each worker to a core.
    pub enable_cpu_affinity: bool,
    /// Open files that the process asks the system for.
    pub worker_rlimit_nofile: u64,
    /// Connections of each worker, to clients and upstreams.
    pub worker_connections: usize,
    /// How long a graceful stop waits for requests.
    pub shutdown_timeout: Duration,
    /// Relative to the prefix.
    pub error_log: String,
    /// The least severe level that is logged.
    pub error_log_level: Level,
    /// The access log of HTTP.
    pub access_log: AccessLog,
    /// That of sessions of stream routes.
    pub stream_log: AccessLog,
    /// Of clients.
    pub timeouts: Timeouts,
    /// 0: no limit.
    pub client_max_body_bytes: u64,
    /// Whether header names with underscores are kept.
    pub underscores_in_headers: bool,
    /// The field that names the client's address.
    pub real_ip_header: String,
    /// Whether trusted addresses in the field are skipped from the right.
    pub real_ip_recursive: bool,
    /// Networks whose `real_ip_header` is trusted.
    pub real_ip_from: Vec<String>,
    /// Whether upstreams get the host as SNI.
    pub proxy_ssl_server_name: bool,
    /// Connections to upstreams.
    pub upstream: UpstreamKeepalive,
}

/// From chatty to serious.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// For developers.
    Debug,
    /// What happened.
    Info,
    /// What happened and matters, such as a reload.
    Notice,
    /// What may become a problem.
    Warn,
    /// A request or task failed.
    Error,
    /// A part of the gateway failed.
    Crit,
    /// Needs action now.
    Alert,
    /// The gateway cannot go on.
    Emerg,
}

/// The access log.
#[derive(Clone, Debug)]
pub struct AccessLog {
    /// Whether requests are logged.
    pub enable: bool,
    /// Relative to the prefix.
    pub path: String,
    /// Gathered before a write.
    pub buffer_bytes: usize,
    /// One line, without the line break at its end.
    pub format: String,
    /// `default`, `json` or `none`.
    pub escape: String,
}

/// How long clients may take.
#[derive(Clone, Debug)]
pub struct Timeouts {
    /// Between two requests.
    pub keepalive: Duration,
    /// For a head.
    pub client_header: Duration,
    /// Between two pieces of a body.
    pub client_body: Duration,
    /// Between two writes of a response that make progress.
    pub send: Duration,
}

#[derive(Clone, Debug)]
pub struct UpstreamKeepalive {
    pub connections: usize,
    pub requests: u64,
    pub timeout: Duration,
}

/// A hundred years.
const NO_LIMIT: Duration = Duration::from_secs(3_155_760_000);

impl Nginx {
    /// Section `nginx_config`; `cores` is the default number of workers.
    pub fn read(reader: &Reader, cores: usize) -> Self {
        let http = |name: &str| format!("nginx_config.http.{name}");
        let count = |path: &str| reader.unsigned(path).and_then(|count| usize::try_from(count).ok());
        let minute = Duration::from_secs(60);
        Self {
            workers: if reader.bool("apisix.enable_dev_mode") {
                1
            } else {
                count("nginx_config.worker_processes").unwrap_or(cores).max(1)
            },
            enable_cpu_affinity: reader.bool("nginx_config.enable_cpu_affinity"),
            worker_rlimit_nofile: reader.unsigned("nginx_config.worker_rlimit_nofile").unwrap_or(20_480),
            worker_connections: count("nginx_config.event.worker_connections").unwrap_or(10_620),
            shutdown_timeout: match reader.duration("nginx_config.worker_shutdown_timeout") {
                Some(Duration::ZERO) => NO_LIMIT,
                limit => limit.unwrap_or(4 * minute),
            },
            error_log: reader.text("nginx_config.error_log").unwrap_or_else(|| "logs/error.log".to_owned()),
            error_log_level: Level::read(reader),
            access_log: AccessLog::read(reader, "nginx_config.http", "logs/access.log"),
            stream_log: AccessLog::read(reader, "nginx_config.stream", "logs/access_stream.log"),
            timeouts: Timeouts {
                keepalive: reader.duration(&http("keepalive_timeout")).unwrap_or(minute),
                client_header: reader.duration(&http("client_header_timeout")).unwrap_or(minute),
                client_body: reader.duration(&http("client_body_timeout")).unwrap_or(minute),
                send: reader.duration(&http("send_timeout")).unwrap_or(Duration::from_secs(10)),
            },
            client_max_body_bytes: reader.size(&http("client_max_body_size")).unwrap_or(0),
            underscores_in_headers: reader.switch(&http("underscores_in_headers")),
            real_ip_header: reader.text(&http("real_ip_header")).unwrap_or_else(|| "X-Real-IP".to_owned()),
            real_ip_recursive: reader.switch(&http("real_ip_recursive")),
            real_ip_from: reader.texts(&http("real_ip_from")),
            proxy_ssl_server_name: reader.bool(&http("proxy_ssl_server_name")),
            upstream: UpstreamKeepalive {
                connections: count(&http("upstream.keepalive")).unwrap_or(320),
                requests: reader.unsigned(&http("upstream.keepalive_requests")).unwrap_or(1000),
                timeout: reader.duration(&http("upstream.keepalive_timeout")).unwrap_or(minute),
            },
        }
    }
}

impl AccessLog {
    fn read(reader: &Reader, section: &str, path: &str) -> Self {
        let key = |name: &str| format!("{section}.{name}");
        let path = reader.text(&key("access_log")).unwrap_or_else(|| path.to_owned());
        let buffer_bytes = reader.size(&key("access_log_buffer")).and_then(|bytes| bytes.try_into().ok());
        Self {
            // nginx's own way of saying it.
            enable: reader.bool(&key("enable_access_log")) && path != "off",
            path,
            buffer_bytes: buffer_bytes.unwrap_or(16_384),
            format: one_line(&reader.text(&key("access_log_format")).unwrap_or_default()),
            escape: reader.text(&key("access_log_format_escape")).unwrap_or_else(|| "default".to_owned()),
        }
    }
}

/// A format in a YAML block carries quotes and a line break that belong to nginx's file, not to the format.
fn one_line(format: &str) -> String {
    let trimmed = format.trim();
    match trimmed.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(inner) if inner.contains("\\\"") || !inner.contains('"') => inner.replace("\\\"", "\""),
        _ => trimmed.to_owned(),
    }
}

impl Level {
    fn read(reader: &Reader) -> Self {
        match reader.text("nginx_config.error_log_level").as_deref() {
            Some("debug") => Self::Debug,
            Some("info") => Self::Info,
            Some("notice") => Self::Notice,
            Some("error") => Self::Error,
            Some("crit") => Self::Crit,
            Some("alert") => Self::Alert,
            Some("emerg") => Self::Emerg,
            _ => Self::Warn,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats() {
        for (text, expected) in [
            ("$a \"$b\" $c\n", "$a \"$b\" $c"),
            ("\"$a \\\"$b\\\"\"\n", "$a \"$b\""),
            ("\"$a\" - \"$b\"", "\"$a\" - \"$b\""),
            ("{\"a\": \"$b\"}", "{\"a\": \"$b\"}"),
        ] {
            assert_eq!(one_line(text), expected, "{text}");
        }
    }
}
