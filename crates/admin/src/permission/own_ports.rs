//! Where this gateway serves its own APIs. It shows objects of all owners, so users with a scope cannot name it as a node or an address.
//!
//! Addresses, `localhost` and the names of /etc/hosts are looked at; a name that is resolved later may still lead here. A host that cannot
//! be read counts as one that leads here.

use std::{
    collections::BTreeSet,
    fs::File,
    io::{ErrorKind, Read},
    net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket},
};

use serde_json::Value;

/// Fields of objects that no request is sent by.
const WORDS: [&str; 3] = ["desc", "name", "labels"];

const HOSTS_FILE: &str = "/etc/hosts";
const MOST_HOSTS_BYTES: u64 = 1 << 20;

/// Ports of texts that name none.
const DEFAULTS: [u16; 2] = [80, 443];

/// The addresses of the Admin and Control API, metrics and status.
#[derive(Clone, Debug, Default)]
pub struct OwnPorts(Vec<(SocketAddr, &'static str)>);

/// Where it stands, host and port.
type Address = (String, String, Option<u16>);

impl OwnPorts {
    /// Addresses, each with its key of config.yaml.
    pub fn new(listeners: impl IntoIterator<Item = (SocketAddr, &'static str)>) -> OwnPorts {
        OwnPorts(listeners.into_iter().collect())
    }

    /// Refuses a value that sends requests here where `before` did not.
    pub(crate) fn check(&self, before: Option<&Value>, after: &Value) -> Result<(), String> {
        let known = before.map(addresses).unwrap_or_default();
        for address in addresses(after) {
            let (place, host, port) = &address;
            if let Some(key) = self.at(host, *port).filter(|_| !known.contains(&address)) {
                let port = port.map(|port| format!(":{port}")).unwrap_or_default();
                return Err(format!(
                    "{place}: {host}{port} is this gateway's own {key}, which shows all objects; users with a scope cannot \
                     send requests there; name another address"
                ));
            }
        }
        Ok(())
    }

    /// What is served there.
    fn at(&self, host: &str, port: Option<u16>) -> Option<&'static str> {
        let fits = |own: u16| own != 0 && port.map_or(DEFAULTS.contains(&own), |port| port == own);
        let own: Vec<&(SocketAddr, &'static str)> =
            self.0.iter().filter(|(address, _)| fits(address.port())).collect();
        if own.is_empty() {
            return None;
        }
        let Some(ips) = ips(host) else { return own.first().map(|(_, key)| *key) };
        let found = own.into_iter().find(|(own, _)| ips.iter().any(|ip| leads_to(*ip, own.ip())));
        found.map(|(_, key)| *key)
    }
}

/// Whether a connection to `ip` may come to a listener at `own`.
fn leads_to(ip: IpAddr, own: IpAddr) -> bool {
    let (ip, own) = (ip.to_canonical(), own.to_canonical());
    ip == own
        || ip.is_unspecified()
        || (own.is_loopback() && ip.is_loopback())
        || (own.is_unspecified() && (ip.is_loopback() || UdpSocket::bind((ip, 0)).is_ok()))
}

/// The addresses that a host stands for before any name server is asked. `None`: unknown, because it is written in a way that URL parsers
/// resolve (`%31`, full-width digits), or because /etc/hosts cannot be read.
fn ips(host: &str) -> Option<Vec<IpAddr>> {
    let host = host.trim().trim_start_matches('[').trim_end_matches(']');
    let (host, zone) = host.split_once('%').map_or((host, None), |(host, zone)| (host, Some(zone)));
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    if let Ok(ip) = host.parse() {
        return Some(vec![ip]);
    }
    if zone.is_some() || !host.is_ascii() {
        return None;
    }
    if let Some(ip) = ipv4(&host) {
        return Some(vec![ip.into()]);
    }
    if host == "localhost" || host.ends_with(".localhost") {
        return Some(vec![Ipv4Addr::LOCALHOST.into()]);
    }
    Some(named(&host, &hosts_file()?))
}

/// `None`: it is there and cannot be read, or is too long.
fn hosts_file() -> Option<String> {
    let mut bytes = Vec::new();
    match File::open(HOSTS_FILE).and_then(|file| file.take(MOST_HOSTS_BYTES).read_to_end(&mut bytes)) {
        Ok(read) => (read as u64) < MOST_HOSTS_BYTES,
        Err(error) => error.kind() == ErrorKind::NotFound,
    }
    .then(|| String::from_utf8_lossy(&bytes).into_owned())
}

/// The addresses that a file such as /etc/hosts has for a name.
fn named(host: &str, text: &str) -> Vec<IpAddr> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    let named = lines.filter_map(|line| {
        let mut words = line.split_whitespace();
        let ip = words.next()?.parse().ok()?;
        words.any(|name| name.eq_ignore_ascii_case(host)).then_some(ip)
    });
    named.collect()
}

/// As inet_aton(3) reads it: `127.1`, `0x7f000001`, `017700000001`.
fn ipv4(text: &str) -> Option<Ipv4Addr> {
    let number = |part: &str| match part.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None if part.len() > 1 && part.starts_with('0') => u32::from_str_radix(part, 8).ok(),
        None => part.parse().ok(),
    };
    let parts = text.split('.').map(number).collect::<Option<Vec<u32>>>()?;
    let (last, first) = parts.split_last().filter(|(_, first)| first.len() < 4)?;
    let room = 32 - 8 * u32::try_from(first.len()).ok()?;
    if first.iter().any(|part| *part > 255) || u64::from(*last) >= 1 << room {
        return None;
    }
    let above = first.iter().rev().zip(0..).map(|(part, at)| part << (room + 8 * at));
    Some(Ipv4Addr::from(above.sum::<u32>() + last))
}

/// All that a value may send requests to.
fn addresses(value: &Value) -> BTreeSet<Address> {
    let mut found = BTreeSet::new();
    let fields = value.as_object().into_iter().flatten();
    for (name, field) in fields.clone().filter(|(name, _)| !WORDS.contains(&name.as_str())) {
        collect(name, field, &mut found);
    }
    of_fields("", value, &mut found);
    found
}

fn collect(place: &str, value: &Value, found: &mut BTreeSet<Address>) {
    match value {
        Value::Object(fields) => {
            of_fields(place, value, found);
            for (name, field) in fields {
                of_text(place, name, found);
                collect(&format!("{place}.{name}"), field, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(place, item, found)),
        Value::String(text) => of_text(place, text, found),
        _ => {}
    }
}

/// `host` beside `port`, with any word before both (`redis_host`), and nodes, with the port of their checks as well.
fn of_fields(place: &str, value: &Value, found: &mut BTreeSet<Address>) {
    let number = |port: &Value| port.as_u64().and_then(|port| u16::try_from(port).ok());
    let port_at = |value: &Value, name: &str| {
        value.get(name).and_then(|port| number(port).or_else(|| port.as_str()?.parse().ok()))
    };
    let port = |value: &Value| port_at(value, "port");
    for (name, host) in value.as_object().into_iter().flatten() {
        if let Some(before) = name.strip_suffix("host")
            && let Some(host) = host.as_str()
            && let Some(port) = port_at(value, &format!("{before}port")).or_else(|| default_port(before))
        {
            found.insert((place.to_owned(), host.to_owned(), Some(port)));
        }
    }
    let Some(nodes) = value.get("nodes") else { return };
    let mut hosts: Vec<(String, Option<u16>)> = match nodes {
        Value::Object(nodes) => nodes.keys().map(|node| split(node)).collect(),
        Value::Array(nodes) => {
            let host = |node: &Value| Some((node.get("host")?.as_str()?.to_owned(), port(node)));
            nodes.iter().filter_map(host).collect()
        }
        _ => Vec::new(),
    };
    if let Some(port) = value.pointer("/checks/active/port").and_then(number) {
        let checked: Vec<_> = hosts.iter().map(|(host, _)| (host.clone(), Some(port))).collect();
        hosts.extend(checked);
    }
    let place = if place.is_empty() { "nodes".to_owned() } else { format!("{place}.nodes") };
    found.extend(hosts.into_iter().map(|(host, port)| (place.clone(), host, port)));
}

/// The port of plugins' schemas, where the value names none.
fn default_port(before: &str) -> Option<u16> {
    (before == "redis_").then_some(6379)
}

/// URLs in a text, or the text itself as host and port.
fn of_text(place: &str, text: &str, found: &mut BTreeSet<Address>) {
    let ends = |letter: char| "/?#\\,;\"'".contains(letter) || letter.is_whitespace();
    let authority = |text: &str| text.split(ends).next().unwrap_or_default().to_owned();
    let mut insert = |authority: &str, needs_port: bool| {
        let authority = authority.rsplit('@').next().unwrap_or_default();
        let (host, port) = split(authority);
        if !host.is_empty() && (port.is_some() || !needs_port) {
            found.insert((place.to_owned(), host, port));
        }
    };
    if text.contains("://") {
        text.split("://").skip(1).for_each(|rest| insert(&authority(rest), false));
    } else {
        text.split(|letter: char| letter == ',' || letter.is_whitespace())
            .for_each(|part| insert(&authority(part), true));
    }
}

fn split(authority: &str) -> (String, Option<u16>) {
    let port = authority.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
    match port.filter(|(host, _)| !host.contains(':') || host.ends_with(']')) {
        Some((host, port)) => (host.to_owned(), Some(port)),
        None => (authority.to_owned(), None),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_spelling_of_an_own_address_is_found() {
        let listener = |text: &str| text.parse::<SocketAddr>().expect("an address");
        let own = OwnPorts::new([
            (listener("127.0.0.1:9090"), "control"),
            (listener("0.0.0.0:9180"), "admin"),
            (listener("192.0.2.1:443"), "status"),
        ]);
        for (host, port, expected) in [
            ("127.0.0.1", 9090, true),
            ("127.1", 9090, true),
            ("0x7f000001", 9090, true),
            ("2130706433", 9090, true),
            ("0177.0.0.1", 9090, true),
            ("127.0.0.2", 9090, true),
            ("localhost", 9090, true),
            ("LocalHost.", 9090, true),
            ("a.localhost", 9180, true),
            ("0.0.0.0", 9090, true),
            ("0", 9090, true),
            ("::1", 9090, true),
            ("[::1]", 9090, true),
            ("::", 9180, true),
            ("::ffff:127.0.0.1", 9090, true),
            ("%31%32%37.0.0.1", 9090, true),
            ("127.0.0.1%2e", 9090, true),
            ("１27.0.0.1", 9090, true),
            ("%31%32%37.0.0.1", 9091, false),
            ("127.0.0.1", 9091, false),
            ("192.0.2.1", 9090, false),
            ("192.0.2.1", 9180, false),
            ("192.0.2.1", 443, true),
            ("256.0.0.1", 9090, false),
            ("example.com", 9090, false),
        ] {
            assert_eq!(own.at(host, Some(port)).is_some(), expected, "{host}:{port}");
            let nodes = json!([{"host": host, "port": port, "weight": 1}]);
            assert_eq!(own.check(None, &json!({"upstream": {"nodes": nodes}})).is_err(), expected);
        }
        assert!(own.at("192.0.2.1", None).is_some(), "the default port");
    }

    #[test]
    fn addresses_are_found_wherever_they_stand() {
        let own = OwnPorts::new([("127.0.0.1:9090".parse().expect("an address"), "control")]);
        for value in [
            json!({"nodes": {"127.0.0.1:9090": 1}}),
            json!({"upstream": {"nodes": {"localhost:9090": 1}}}),
            json!({"upstream": {"nodes": {"[::1]:9090": 1}}}),
            json!({"nodes": {"127.0.0.1:1": 1}, "checks": {"active": {"port": 9090}}}),
            json!({"plugins": {"x": {"function_uri": "http://u:p@127.0.0.1:9090/v1"}}}),
            json!({"plugins": {"x": {"brokers": [{"host": "127.0.0.1", "port": 9090}]}}}),
            json!({"plugins": {"x": {"redis_host": "localhost", "redis_port": 9090}}}),
            json!({"plugins": {"x": {"servers": ["a:1", "127.0.0.1:9090"]}}}),
            json!({"plugins": {"x": {"list": "a:1, http://localhost:9090"}}}),
        ] {
            assert!(own.check(None, &value).is_err(), "{value}");
            assert!(own.check(Some(&value), &value).is_ok(), "as before: {value}");
        }
        for value in
            [json!({"desc": "http://127.0.0.1:9090"}), json!({"uri": "/9090", "hosts": ["localhost"]})]
        {
            assert!(own.check(None, &value).is_ok(), "{value}");
        }
    }
}
