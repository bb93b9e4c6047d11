//! Takes the client's address from a header or another variable instead of the connection.

use std::{net::IpAddr, sync::Arc};

use serde::Deserialize;
use serde_json::Value;
use tidegate_plugin_api::{
    BuildContext, Foresight, Phases, Plugin, PluginDef, Request, SchemaKind, Step, Variable,
};
use tidegate_protocol::HeaderId;
use tidegate_routing::{AddressSet, address::parse_address};
use tidegate_telemetry::error_log;

use crate::common::conf::typed;

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "real-ip",
    version: 0.1,
    priority: 23000,
    schema: include_str!("real_ip.json"),
    phases: Phases::REWRITE,
    check,
    remarks,
    build,
    ..PluginDef::DEFAULT
};

fn remarks(conf: &Value) -> Vec<String> {
    let source = conf.get("source").and_then(Value::as_str);
    if source.is_some_and(|source| source.trim_start_matches('$') == "remote_addr") {
        return vec![
            "it has no effect: source remote_addr is the address that the client has already".to_owned(),
        ];
    }
    let remark = source.and_then(Variable::remark);
    remark.map(|remark| format!("source: {remark}, and the address stays as it is")).into_iter().collect()
}

#[derive(Deserialize)]
struct Conf {
    source: String,
    trusted_addresses: Option<Vec<String>>,
    recursive: bool,
}

struct RealIp {
    source: Source,
    /// Peers that are believed; `None`: all.
    trusted: Option<AddressSet>,
    recursive: bool,
}

enum Source {
    ForwardedFor,
    Variable(Variable),
}

fn check(conf: &Value, _: SchemaKind) -> Result<(), String> {
    let items = conf.get("trusted_addresses").and_then(Value::as_array).into_iter().flatten();
    for item in items.filter_map(Value::as_str) {
        AddressSet::parse([item]).map_err(|_| format!("invalid ip address: {item}"))?;
    }
    Ok(())
}

fn build(conf: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let conf: Conf = typed(conf)?;
    let trusted = conf.trusted_addresses.map(|list| AddressSet::parse(list.iter().map(String::as_str)));
    Ok(Arc::new(RealIp {
        source: match conf.source.as_str() {
            "http_x_forwarded_for" => Source::ForwardedFor,
            name => Source::Variable(Variable::resolve(name)),
        },
        trusted: trusted.transpose()?,
        recursive: conf.recursive,
    }))
}

impl Plugin for RealIp {
    fn rewrite<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        if self.trusted.as_ref().is_some_and(|trusted| !trusted.contains(request.remote_addr)) {
            return Step::Next;
        }
        match self.address(request) {
            Ok((address, port)) => {
                request.remote_addr = address;
                // Without a port nginx keeps none: its variable is empty then, here it is 0.
                request.remote_port = port.unwrap_or(0);
            }
            Err(reason) => error_log::log(error_log::Level::Warn, format_args!("{reason}")),
        }
        Step::Next
    }

    fn foresee(&self, phase: Phases, request: &mut Request) -> Foresight {
        Foresight::by_running(self, phase, request)
    }
}

impl RealIp {
    fn address(&self, request: &Request) -> Result<Address, String> {
        let missing = || "missing real address".to_owned();
        match &self.source {
            Source::ForwardedFor => {
                let lines: Vec<&[u8]> = request.head.headers.all_known(HeaderId::XForwardedFor).collect();
                if lines.is_empty() { Err(missing()) } else { self.pick(&lines.join(&b","[..])) }
            }
            // As nginx: the first line, and of a list what counts there.
            Source::Variable(Variable::Header(name)) => {
                self.pick(request.head.headers.get(name).ok_or_else(missing)?)
            }
            Source::Variable(variable) => read(&request.variable(variable).ok_or_else(missing)?),
        }
    }

    /// The address of `X-Forwarded-For` that counts: the last, or the last that no trusted proxy added. What stands before something
    /// that is not an address does not count.
    fn pick(&self, list: &[u8]) -> Result<Address, String> {
        let mut items = items(list).rev();
        let mut found = read(items.next().unwrap_or_default())?;
        if let Some(trusted) = self.trusted.as_ref().filter(|_| self.recursive) {
            while trusted.contains(found.0) {
                match items.next().map(read) {
                    Some(Ok(before)) => found = before,
                    Some(Err(_)) | None => break,
                }
            }
        }
        Ok(found)
    }
}

/// The items of a list as nginx separates them: it knows no tabs, and takes a separator for a part of the item behind it where that
/// is the first character.
fn items(list: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    let separates = |byte: &u8| matches!(byte, b',' | b' ');
    let first = match list {
        [first, second, rest @ ..] if separates(first) && !separates(second) => {
            2 + rest.iter().position(separates).unwrap_or(rest.len())
        }
        _ => 0,
    };
    let (first, rest) = list.split_at(first);
    let rest = rest.split(move |byte| separates(byte)).map(<[u8]>::trim_ascii);
    [first].into_iter().chain(rest).filter(|item| !item.is_empty())
}

/// With its port, if it has one.
type Address = (IpAddr, Option<u16>);

fn read(text: &[u8]) -> Result<Address, String> {
    let (host, port) = split_port(text);
    let address =
        read_address(host).ok_or_else(|| format!("bad address: {}", String::from_utf8_lossy(text)))?;
    let port = port.map(|port| {
        let number = std::str::from_utf8(port).ok().and_then(|port| port.parse::<u16>().ok());
        number.filter(|&port| port > 0).ok_or_else(|| format!("bad port: {}", String::from_utf8_lossy(port)))
    });
    Ok((address, port.transpose()?))
}

/// As nginx reads it: with zeros in front of the numbers.
fn read_address(text: &[u8]) -> Option<IpAddr> {
    parse_address(text).or_else(|| {
        let parts: Vec<&[u8]> = text.split(|&byte| byte == b'.').collect();
        let octet = |part: &&[u8]| -> Option<u8> {
            let is_number = !part.is_empty() && part.iter().all(u8::is_ascii_digit);
            is_number.then(|| std::str::from_utf8(part).ok()?.parse().ok())?
        };
        let octets: Vec<u8> = parts.iter().filter_map(octet).collect();
        <[u8; 4]>::try_from(octets).ok().filter(|_| parts.len() == 4).map(IpAddr::from)
    })
}

/// `10.0.0.1:80`, `[::1]:80`, or no port. A bare IPv6 address has none.
fn split_port(text: &[u8]) -> (&[u8], Option<&[u8]>) {
    let colons = text.iter().filter(|&&byte| byte == b':').count();
    if colons > 1 && (text.first() != Some(&b'[') || text.last() == Some(&b']')) {
        return (text, None);
    }
    match text.iter().rposition(|&byte| byte == b':') {
        Some(at) => (text.get(..at).unwrap_or_default(), text.get(at + 1..)),
        None => (text, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_with_ports() {
        let cases: &[(&str, &str, Option<&str>)] = &[
            ("10.0.0.1", "10.0.0.1", None),
            ("10.0.0.1:80", "10.0.0.1", Some("80")),
            ("[::1]:80", "[::1]", Some("80")),
            ("[::1]", "[::1]", None),
            ("2001:db8::1", "2001:db8::1", None),
        ];
        for (text, host, port) in cases {
            assert_eq!(split_port(text.as_bytes()), (host.as_bytes(), port.map(str::as_bytes)), "{text}");
        }
    }

    #[test]
    fn the_address_that_counts() {
        let plugin = |recursive| RealIp {
            source: Source::ForwardedFor,
            trusted: Some(AddressSet::parse(["10.0.0.0/8"]).unwrap()),
            recursive,
        };
        let cases = [
            (false, "1.1.1.1, 10.0.0.2", Some("10.0.0.2")),
            (true, "1.1.1.1, 2.2.2.2,10.0.0.2", Some("2.2.2.2")),
            (true, "10.0.0.1, 10.0.0.2", Some("10.0.0.1")),
            (true, "1.1.1.1", Some("1.1.1.1")),
            (true, "1.1.1.1, 10.0.0.2:80 010.0.0.3,, ", Some("1.1.1.1")),
            (false, "1.1.1.1, 10.0.0.2,", Some("10.0.0.2")),
            // What is not an address ends the search.
            (true, "x, 10.0.0.1", Some("10.0.0.1")),
            (true, "1.1.1.1, unknown, 10.0.0.1, 10.0.0.2", Some("10.0.0.1")),
            (true, "1.1.1.1, 10.0.0.1:0, 10.0.0.2", Some("10.0.0.2")),
            (true, "10.0.0.1, x", None),
            (false, "10.0.0.1, x", None),
            (false, "x\t10.0.0.1", None),
            (true, " , ", None),
            (false, ",1.1.1.1", None),
            (false, ",,1.1.1.1", Some("1.1.1.1")),
            (true, ",1.1.1.1, 10.0.0.2", Some("10.0.0.2")),
        ];
        for (recursive, list, expected) in cases {
            let found = plugin(recursive).pick(list.as_bytes()).ok();
            assert_eq!(found.map(|found| found.0.to_string()).as_deref(), expected, "{list}");
        }
    }
}
