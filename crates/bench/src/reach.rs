//! Ways to a server that are not its name's: `--resolve` and `--connect-to`, as curl has them.
//!
//! Host field, TLS name and URL stay unchanged; only what is connected to changes.

use std::{
    net::{IpAddr, SocketAddr},
    str::FromStr,
};

use crate::{Problem, target::Origin};

/// `HOST:PORT:ADDRESS[,ADDRESS]`: the addresses of a host, in place of those that DNS has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolve {
    text: String,
    /// `*` stands for all.
    host: String,
    port: u16,
    addresses: Vec<IpAddr>,
}

/// `HOST1:PORT1:HOST2:PORT2`: another server to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectTo {
    text: String,
    /// `None` is any.
    host: Option<String>,
    port: Option<u16>,
    /// `None` is the one of the URL.
    other_host: Option<String>,
    other_port: Option<u16>,
}

/// Where to connect for this server.
pub fn addresses(
    origin: &Origin,
    resolves: &[Resolve],
    connects: &[ConnectTo],
) -> Result<Vec<SocketAddr>, Problem> {
    let mut target = origin.clone();
    if let Some(unused) = connects.iter().find(|connect| !connect.is_for(origin)) {
        return Err(unused_flag("--connect-to", &unused.text, origin));
    }
    if let Some(connect) = connects.first() {
        target.host = connect.other_host.clone().unwrap_or(target.host);
        target.port = connect.other_port.unwrap_or(target.port);
    }
    if let Some(unused) = resolves.iter().find(|resolve| !resolve.is_for(&target)) {
        return Err(unused_flag("--resolve", &unused.text, &target));
    }
    match resolves.last() {
        Some(resolve) => Ok(resolve.addresses.iter().map(|ip| SocketAddr::new(*ip, resolve.port)).collect()),
        None => target.resolve(),
    }
}

fn unused_flag(flag: &str, text: &str, target: &Origin) -> Problem {
    Problem::usage(format!(
        "{flag} {text} would not be used: the connections are to {}:{}; remove or correct it",
        target.host, target.port
    ))
}

impl Resolve {
    fn is_for(&self, target: &Origin) -> bool {
        (self.host == "*" || self.host.eq_ignore_ascii_case(&target.host)) && self.port == target.port
    }
}

impl ConnectTo {
    fn is_for(&self, origin: &Origin) -> bool {
        let host = self.host.as_ref().is_none_or(|host| host.eq_ignore_ascii_case(&origin.host));
        host && self.port.is_none_or(|port| port == origin.port)
    }
}

impl FromStr for Resolve {
    type Err = String;

    fn from_str(text: &str) -> Result<Resolve, String> {
        let wrong = || "write HOST:PORT:ADDRESS, such as example.com:443:127.0.0.1 or h:80:[::1]".to_owned();
        let (host, rest) = host(text).ok_or_else(wrong)?;
        let (port, rest) = rest.split_once(':').ok_or_else(wrong)?;
        let bare = |text: &str| text.trim_start_matches('[').trim_end_matches(']').parse();
        let addresses: Result<Vec<IpAddr>, _> = rest.split(',').map(bare).collect();
        match (port.parse(), addresses) {
            (Ok(port), Ok(addresses)) if !host.is_empty() => {
                Ok(Resolve { text: text.to_owned(), host: host.to_owned(), port, addresses })
            }
            _ => Err(wrong()),
        }
    }
}

impl FromStr for ConnectTo {
    type Err = String;

    fn from_str(text: &str) -> Result<ConnectTo, String> {
        let wrong = || {
            "write HOST1:PORT1:HOST2:PORT2, such as example.com:443:127.0.0.1:8443; an empty part is any, or stays"
                .to_owned()
        };
        let port = |text: &str| match text {
            "" => Ok(None),
            text => text.parse().map(Some).map_err(|_| wrong()),
        };
        let (first, rest) = host(text).ok_or_else(wrong)?;
        let (first_port, rest) = rest.split_once(':').ok_or_else(wrong)?;
        let (second, second_port) = host(rest).ok_or_else(wrong)?;
        let given = |host: &str| (!host.is_empty()).then(|| host.to_owned());
        Ok(ConnectTo {
            text: text.to_owned(),
            host: given(first),
            port: port(first_port)?,
            other_host: given(second),
            other_port: port(second_port)?,
        })
    }
}

/// The host before the first colon, and what comes after it. Addresses of IPv6 are in brackets.
fn host(text: &str) -> Option<(&str, &str)> {
    match text.strip_prefix('[') {
        Some(rest) => rest.split_once("]:"),
        None => text.split_once(':'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_connections_go() {
        let check = |resolves: &[&str], connects: &[&str], expected: &str| {
            let (origin, _) = Origin::parse("http://a.invalid:81/").expect("a URL");
            let resolves: Vec<Resolve> = resolves.iter().map(|text| text.parse().expect("good")).collect();
            let connects: Vec<ConnectTo> = connects.iter().map(|text| text.parse().expect("good")).collect();
            let found = match addresses(&origin, &resolves, &connects) {
                Ok(found) => format!("{found:?}"),
                Err(problem) => problem.text,
            };
            assert!(found.contains(expected), "{resolves:?} {connects:?}: {found}");
        };
        check(&["A.invalid:81:127.0.0.9"], &[], "[127.0.0.9:81]");
        check(&["*:81:[::1],127.0.0.9"], &[], "[[::1]:81, 127.0.0.9:81]");
        check(&["a.invalid:82:127.0.0.9"], &[], "--resolve a.invalid:82:127.0.0.9 would not be used");
        check(&[], &["a.invalid:81:127.0.0.2:90"], "[127.0.0.2:90]");
        check(&[], &["::[::1]:"], "[[::1]:81]");
        check(&["b.invalid:81:127.0.0.3"], &["::b.invalid:"], "[127.0.0.3:81]");
        check(&[], &["b.invalid:81:127.0.0.2:90"], "--connect-to b.invalid:81:127.0.0.2:90 would not");
    }

    #[test]
    fn mistakes_are_refused() {
        for bad in ["a", "a:80", "a:80:", "a:x:127.0.0.1", ":80:127.0.0.1", "a:80:b"] {
            assert!(bad.parse::<Resolve>().is_err(), "{bad}");
        }
        for bad in ["a", "a:80", "a:80:b", "a:x:b:80", "a:80:b:x", "a:80:b:99999"] {
            assert!(bad.parse::<ConnectTo>().is_err(), "{bad}");
        }
    }
}
