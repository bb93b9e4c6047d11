//! Texts of a certain form. What reads them later uses the functions here, so that `test`, `run` and the data plane
//! cannot disagree about a value.

use std::net::{IpAddr, SocketAddr};

use tidegate_model::endpoint::Endpoint;

use crate::units;

/// A form that a text must have.
pub struct Form {
    /// Completes "should be".
    pub is: &'static str,
    pub(crate) fits: fn(&str) -> bool,
}

pub(crate) const LISTEN_IP: Form = Form {
    is: "a valid listen address: an IP address like 127.0.0.1 or ::1",
    fits: |text| listen_ip(text).is_some(),
};
pub(crate) const STREAM_ADDRESS: Form = Form {
    is: "a port, an address with a port or a range of ports, like 9100, 127.0.0.1:9100 or 2000-2100",
    fits: |text| stream_address(text).is_some(),
};
pub(crate) const NAME_SERVER: Form = Form {
    is: "the IP address of a name server, with a port if that is not 53, like 1.1.1.1 or 127.0.0.1:5353",
    fits: |text| name_server(text).is_some(),
};
pub(crate) const TLS_VERSIONS: Form = Form {
    is: "TLS versions separated by spaces, TLSv1.2 or TLSv1.3 among them",
    fits: |text| {
        let words: Vec<&str> = tls_versions(text).collect();
        words.iter().all(|word| OLD_TLS.contains(word) || SERVED_TLS.contains(word))
            && words.iter().any(|word| SERVED_TLS.contains(word))
    },
};
/// A key of the Admin API.
pub const ADMIN_KEY: Form = Form {
    is: "a key that is hard to guess; leave it out to have one generated",
    fits: |text| !matches!(text, "true" | "false" | "yes" | "no" | "on" | "off" | "0"),
};
pub(crate) const LOG_FILE: Form = Form {
    is: "the path of a file, or off (plugin syslog sends entries to a server)",
    fits: |text| is_log_path(text) && text != "on",
};
pub(crate) const ERROR_LOG: Form = Form {
    is: "the path of a file, or /dev/stderr (plugin error-log-logger sends lines to a server)",
    fits: is_log_path,
};
pub(crate) const HEADER_NAME: Form = Form { is: "the name of a header, like X-Real-IP", fits: is_token };
pub(crate) const URI_PATH: Form = Form {
    is: "a path that begins with a slash, like /apisix/status",
    fits: |text| {
        text.starts_with('/')
            && text.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'?' | b'#'))
    },
};
pub(crate) const METRIC_PREFIX: Form = Form {
    is: "a prefix of metric names: letters, digits, _ and :, and no digit first",
    fits: |text| is_metric_name(text, b"_:"),
};
/// Any text that is not blank.
pub const NAME: Form = Form { is: "a name", fits: |text| !text.trim().is_empty() };
pub(crate) const COLLECTOR: Form =
    Form { is: "an address like 127.0.0.1:4318, or a URL", fits: |text| Endpoint::at(text, "/").is_ok() };
pub(crate) const SERVICE_URL: Form =
    Form { is: "a URL that begins with http:// or https://", fits: |text| Endpoint::parse(text).is_ok() };
pub(crate) const CACHE_LEVELS: Form = Form {
    is: "one to three numbers that are 1 or 2, like 1:2",
    fits: |text| text.split(':').all(|level| matches!(level, "1" | "2")) && text.split(':').count() <= 3,
};
/// Over plain HTTP anyone on the way could say who signs in.
pub(crate) const SAFE_URL: Form = Form {
    is: "a URL that begins with https://, or with http:// and an address of this machine",
    fits: |text| safe_url(text).is_some(),
};
pub(crate) const REDIRECT_URI: Form = Form {
    is: "https://HOST[:PORT]/ui/oidc, or http:// for an address of this machine",
    fits: |text| safe_url(text).is_some_and(|path| path == crate::settings::REDIRECT_PATH),
};
/// 65535 bytes are what every client of HTTP/2 may send at first; 2^31-1 are the most that it may be allowed.
pub(crate) const HTTP2_WINDOW: Form = Form {
    is: "a size from 64k to 2g",
    fits: |text| units::size(text).is_some_and(|bytes| (65_535..=1 << 31).contains(&bytes)),
};

/// A page of WebAssembly at least; an instance has 32 bits of addresses.
pub(crate) const INSTANCE_MEMORY: Form = Form {
    is: "a size from 64k to 4g",
    fits: |text| units::size(text).is_some_and(|bytes| (1 << 16..=1 << 32).contains(&bytes)),
};
pub(crate) const WASM_MEMORY: Form = Form {
    is: "a size of at least 64k, like 512m",
    fits: |text| units::size(text).is_some_and(|bytes| bytes >= 1 << 16),
};

pub(crate) const SERVED_TLS: [&str; 2] = ["TLSv1.2", "TLSv1.3"];
/// Known to nginx, but refused in every handshake here.
pub(crate) const OLD_TLS: [&str; 4] = ["SSLv2", "SSLv3", "TLSv1", "TLSv1.1"];

/// The words of `ssl_protocols`.
pub(crate) fn tls_versions(text: &str) -> impl Iterator<Item = &str> {
    text.split([' ', ',', '\n', '\t']).filter(|word| !word.is_empty())
}

/// `1.1.1.1`, `1.1.1.1:5353`, `::1`, `[::1]`, `[::1]:53`.
pub fn name_server(text: &str) -> Option<SocketAddr> {
    let server = text.parse().ok().or_else(|| Some(SocketAddr::new(bracketed(text)?, 53)))?;
    (server.port() > 0).then_some(server)
}

/// `127.0.0.1`, `::1`, `[::1]`.
pub(crate) fn listen_ip(text: &str) -> Option<IpAddr> {
    bracketed(text)
}

/// `http://HOST:PORT` or `https://HOST:PORT`: whether with TLS, the host without brackets, the port.
pub fn etcd_member(text: &str) -> Option<(bool, &str, u16)> {
    let (scheme, rest) = text.trim_end_matches('/').split_once("://")?;
    let tls = match scheme {
        "http" => false,
        "https" => true,
        _ => return None,
    };
    let (host, port) = match rest.rsplit_once(':') {
        // The last colon of an IPv6 address without a port is inside of its brackets.
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()?),
        _ => (rest, 2379),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    (!host.is_empty() && !host.contains(['/', '@', ' '])).then_some((tls, host, port))
}

/// Not one of the other places that nginx knows.
fn is_log_path(text: &str) -> bool {
    let is_place = ["syslog:", "memory:"].iter().any(|place| text.starts_with(place));
    !text.trim().is_empty() && !is_place && !matches!(text, "true" | "false" | "yes" | "no")
}

/// The path and query of a URL that no one on the way can read or change.
fn safe_url(text: &str) -> Option<&str> {
    let (scheme, rest) = text.split_once("://")?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => {
            port.parse::<u16>().ok()?;
            host
        }
        _ => authority,
    };
    let is_own = host == "localhost" || bracketed(host).is_some_and(|address| address.is_loopback());
    let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'@' | b'#' | b'\\'));
    let is_safe = scheme == "https" || scheme == "http" && is_own;
    (is_safe && is_plain && !host.is_empty()).then_some(path)
}

fn bracketed(text: &str) -> Option<IpAddr> {
    match text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(inner) => inner.parse().ok().filter(IpAddr::is_ipv6),
        None => text.parse().ok(),
    }
}

/// RFC 9110 section 5.6.2.
fn is_token(text: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(letter)
}

/// A label that Prometheus takes: names that begin with two underscores are its own.
pub(crate) fn is_label(text: &str) -> bool {
    !text.is_empty() && !text.starts_with("__") && is_metric_name(text, b"_")
}

fn is_metric_name(text: &str, others: &[u8]) -> bool {
    !text.starts_with(|first: char| first.is_ascii_digit())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || others.contains(&byte))
}

/// The address (`None`: all of IPv4) and the ports of a text.
pub(crate) fn stream_address(
    text: &str,
) -> Option<(Option<std::net::IpAddr>, std::ops::RangeInclusive<u16>)> {
    let (host, ports) = text.rsplit_once(':').map_or((None, text), |(host, ports)| (Some(host), ports));
    let ip = match host {
        None | Some("*") => None,
        Some(host) => Some(listen_ip(host)?),
    };
    let (first, last) = ports.split_once('-').unwrap_or((ports, ports));
    let number = |text: &str| text.parse::<u16>().ok().filter(|port| *port > 0);
    let (first, last) = (number(first)?, number(last)?);
    (first <= last).then_some((ip, first..=last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_fit_or_do_not() {
        let check = |form: &Form, good: &[&str], bad: &[&str]| {
            for text in good {
                assert!((form.fits)(text), "{text:?} is {}", form.is);
            }
            for text in bad {
                assert!(!(form.fits)(text), "{text:?} is not {}", form.is);
            }
        };
        check(
            &LISTEN_IP,
            &["127.0.0.1", "::", "[::1]"],
            &["", "banana", "localhost", "[127.0.0.1]", "1.1.1.1:80"],
        );
        check(
            &STREAM_ADDRESS,
            &["9100", "127.0.0.1:9100", "[::1]:9100", "2000-2100", "*:9100", "127.0.0.1:2000-2001"],
            &["", "x", "0", "70000", "2100-2000", "localhost:9100", "unix:/a", "1-70000", "127.0.0.1"],
        );
        check(
            &NAME_SERVER,
            &["1.1.1.1", "1.1.1.1:5353", "::1", "[::1]", "[::1]:53"],
            &["", "x", "5", "1.1.1.1:99999", "1.1.1.1:0", "dns.test"],
        );
        check(
            &TLS_VERSIONS,
            &["TLSv1.2 TLSv1.3", "TLSv1.1 TLSv1.2", "TLSv1.3,TLSv1.2"],
            &["", " ", "banana", "TLSv1.1", "TLSv1.3 banana", "tlsv1.3"],
        );
        check(&LOG_FILE, &["logs/a.log", "off", "/dev/stdout"], &["", " ", "true", "false", "on"]);
        check(&HEADER_NAME, &["X-Real-IP", "proxy_protocol"], &["", "a b:", "a:"]);
        check(
            &COLLECTOR,
            &["127.0.0.1:4318", "[::1]:4318", "otel", "https://otel.test/v1/traces"],
            &["", "a::", "a b:1"],
        );
        check(
            &SERVICE_URL,
            &["http://127.0.0.1:12800", "https://a.test/b"],
            &["", "a", "127.0.0.1:12800", "ftp://a"],
        );
        check(&URI_PATH, &["/", "/a/b"], &["", "banana", "/a b", "/a?b", "/ä"]);
        check(&METRIC_PREFIX, &["apisix_", "", "a:b_1"], &[" 1-", "1a", "a-b", "ä"]);
        check(&HTTP2_WINDOW, &["64k", "65535", "2g", "1m"], &["1k", "0", "3g", "x"]);
        assert!(is_label("host") && is_label("_a1"));
        assert!(!is_label("") && !is_label("__a") && !is_label("1a") && !is_label("a:b") && !is_label("a-b"));
    }
}
