//! The hosts of routes and services, as patterns that requests match or cannot match.

use std::net::Ipv6Addr;

/// Why no request matches the pattern, and what to write instead. `ports`: patterns are compared with the port of the request.
pub fn why_vain(pattern: &str, ports: bool) -> Option<String> {
    if pattern.parse::<Ipv6Addr>().is_ok() {
        return Some(format!("write [{pattern}]"));
    }
    let domain = pattern.strip_prefix('.').unwrap_or_default();
    if !domain.is_empty() && !domain.starts_with('.') {
        return Some(format!("write {domain} and *.{domain}"));
    }
    // A star stands for the beginning, and nowhere else.
    let is_wildcard = pattern.starts_with('*');
    let rest = pattern.strip_prefix('*').unwrap_or(pattern);
    if is_wildcard && rest.is_empty() {
        return None;
    }
    if let Some(sign) = rest.chars().find(|sign| !sign.is_ascii_alphanumeric() && !"-._:[]".contains(*sign)) {
        return Some(format!("{sign:?} is not allowed in a host"));
    }
    let (name, port) = without_port(rest);
    if port.is_some_and(|port| port.is_empty() || !port.bytes().all(|digit| digit.is_ascii_digit())) {
        return Some("a port consists of digits".to_owned());
    }
    if port.is_some() && !ports {
        return Some("names are compared without their port".to_owned());
    }
    let is_literal = name.starts_with('[');
    if is_literal && (!name.ends_with(']') || name[1..name.len() - 1].parse::<Ipv6Addr>().is_err()) {
        return Some("brackets hold an IPv6 address".to_owned());
    }
    if !is_literal && name.contains(['[', ']', ':']) {
        return Some("only an IPv6 address has brackets and several colons".to_owned());
    }
    let labels = name.trim_end_matches('.');
    let labels = if is_wildcard { labels.strip_prefix('.').unwrap_or(labels) } else { labels };
    let is_any = is_wildcard && name.is_empty();
    (!is_any && (labels.is_empty() || labels.split('.').any(str::is_empty)))
        .then(|| "a name cannot have empty labels".to_owned())
}

fn without_port(host: &str) -> (&str, Option<&str>) {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, Some(port)),
        _ => (host, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_that_no_request_matches() {
        for pattern in ["*", "a", "A.b-c_d", "a.b.", "*.a", "*a.b", "-", "[::1]", "127.0.0.1"] {
            assert_eq!(why_vain(pattern, false), None, "{pattern}");
        }
        for pattern in ["a:80", "[::1]:80", "*.a:8080", "*:80"] {
            assert_eq!(why_vain(pattern, true), None, "{pattern}");
            assert_eq!(why_vain(pattern, false).as_deref(), Some("names are compared without their port"));
        }
        for (pattern, why) in [
            ("::1", "write [::1]"),
            (".a", "write a and *.a"),
            ("", "a name cannot have empty labels"),
            ("..", "a name cannot have empty labels"),
            ("a..b", "a name cannot have empty labels"),
            ("*..a", "a name cannot have empty labels"),
            ("a.*", "'*' is not allowed in a host"),
            ("**", "'*' is not allowed in a host"),
            ("a.test\n", "'\\n' is not allowed in a host"),
            (" a", "' ' is not allowed in a host"),
            ("ä.de", "'ä' is not allowed in a host"),
            ("a.test:", "a port consists of digits"),
            ("a:b", "a port consists of digits"),
            ("[::x", "a port consists of digits"),
            ("[::1", "brackets hold an IPv6 address"),
            ("[a]", "brackets hold an IPv6 address"),
            ("a]b", "only an IPv6 address has brackets and several colons"),
            ("a:1:2", "only an IPv6 address has brackets and several colons"),
        ] {
            assert_eq!(why_vain(pattern, true).as_deref(), Some(why), "{pattern}");
        }
    }
}
