//! Where a gateway has to listen for all that was imported: routes of an nginx server with another port than the public one answer
//! at this port only.

use std::{collections::BTreeSet, net::IpAddr};

use tidegate_config::settings::Listener;
use tidegate_import::Listeners;

/// What a gateway listens on.
pub(super) struct Own<'s> {
    pub(super) plain: &'s [Listener],
    pub(super) tls: &'s [Listener],
}

type Socket = (IpAddr, u16);

/// Which addresses are missing, with the lines of config.yaml that add them. `own`: `None` where it is unknown what the gateway has.
pub(super) fn missing(needed: &Listeners, own: Option<&Own>) -> Option<String> {
    let (has_plain, has_tls) = own.map_or((&[][..], &[][..]), |own| (own.plain, own.tls));
    let (plain, tls) = (uncovered(&needed.plain, has_plain), uncovered(&needed.tls, has_tls));
    if plain.is_empty() && tls.is_empty() {
        return None;
    }
    let named = plain.iter().map(shown).chain(tls.iter().map(|socket| format!("{} (HTTPS)", shown(socket))));
    let addresses = named.collect::<Vec<_>>().join(", ");
    let mut text = match own {
        Some(_) => format!(
            "no request reaches the servers at {addresses} unless the gateway listens there. In config.yaml:"
        ),
        None => format!(
            "requests reach the servers at {addresses} where the gateway listens there. If it does not, in config.yaml, beside what stands \
             there:"
        ),
    };
    text.push_str("\n  apisix:");
    let list = |has: &[Listener], sockets: &[Socket], form: fn(&str, u16) -> String| {
        let has = has.iter().filter(|one| !one.implied).map(|one| form(&one.ip, one.port));
        has.chain(sockets.iter().map(|(ip, port)| form(&ip.to_string(), *port)))
            .collect::<Vec<_>>()
            .join(", ")
    };
    if !plain.is_empty() {
        text.push_str(&format!("\n    node_listen: [{}]", list(has_plain, &plain, plain_form)));
    }
    if !tls.is_empty() {
        text.push_str(&format!("\n    ssl: {{enable: true, listen: [{}]}}", list(has_tls, &tls, tls_form)));
    }
    Some(text)
}

fn uncovered(needed: &BTreeSet<Socket>, has: &[Listener]) -> Vec<Socket> {
    let any =
        |address: &IpAddr| if address.is_ipv4() { IpAddr::from([0, 0, 0, 0]) } else { [0_u16; 8].into() };
    let is_covered = |(address, port): &Socket| {
        let takes = |ip: IpAddr| ip == *address || ip == any(address);
        has.iter().any(|own| own.port == *port && own.ip.parse().is_ok_and(takes))
            || (*address != any(address) && needed.contains(&(any(address), *port)))
    };
    needed.iter().filter(|socket| !is_covered(socket)).copied().collect()
}

fn shown((address, port): &Socket) -> String {
    match address {
        IpAddr::V4(address) if address.is_unspecified() => format!("*:{port}"),
        IpAddr::V4(address) => format!("{address}:{port}"),
        IpAddr::V6(address) => format!("[{address}]:{port}"),
    }
}

/// A port alone is one of all addresses.
fn plain_form(ip: &str, port: u16) -> String {
    if ip == "0.0.0.0" { port.to_string() } else { format!("{{ip: \"{ip}\", port: {port}}}") }
}

fn tls_form(ip: &str, port: u16) -> String {
    if ip == "0.0.0.0" { format!("{{port: {port}}}") } else { format!("{{ip: \"{ip}\", port: {port}}}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needed() -> Listeners {
        let (any, local) = (IpAddr::from([0, 0, 0, 0]), IpAddr::from([127, 0, 0, 1]));
        let plain = BTreeSet::from([(any, 8082), (local, 8081), (local, 8082)]);
        Listeners { plain, tls: BTreeSet::from([(any, 8443)]) }
    }

    #[test]
    fn each_address_is_named_with_its_line() {
        let text = missing(&needed(), None).expect("some are missing");
        assert_eq!(
            text,
            "requests reach the servers at *:8082, 127.0.0.1:8081, *:8443 (HTTPS) where the gateway listens there. If it does not, \
             in config.yaml, beside what stands there:\n  apisix:\n    \
             node_listen: [8082, {ip: \"127.0.0.1\", port: 8081}]\n    ssl: {enable: true, listen: [{port: 8443}]}"
        );
        assert_eq!(missing(&Listeners::default(), None), None);
    }

    #[test]
    fn what_the_gateway_has_stays() {
        let mut implied = Listener::new("::", 9080);
        implied.implied = true;
        let plain = [Listener::new("0.0.0.0", 9080), implied, Listener::new("0.0.0.0", 8081)];
        let tls = [Listener::new("0.0.0.0", 8443)];
        let text = missing(&needed(), Some(&Own { plain: &plain, tls: &tls })).expect("one is missing");
        assert!(text.ends_with("In config.yaml:\n  apisix:\n    node_listen: [9080, 8081, 8082]"), "{text}");
        let plain = [Listener::new("0.0.0.0", 8081), Listener::new("0.0.0.0", 8082)];
        assert_eq!(missing(&needed(), Some(&Own { plain: &plain, tls: &tls })), None);
    }
}
