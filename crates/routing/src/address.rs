//! Sets of IP addresses and networks, as `remote_addrs`, `ipmatch` and the IP plugins use them.
//!
//! One sorted list per prefix length: a lookup costs one binary search for each length that occurs.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// IPv4 and IPv6 addresses and CIDR blocks. An IPv4-mapped IPv6 address counts as its IPv4 address, here and in lookups
/// ([`parse_address`]): `::ffff:10.0.0.0/104` is `10.0.0.0/8`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressSet {
    v4: Vec<(u32, Vec<u32>)>,
    v6: Vec<(u128, Vec<u128>)>,
}

impl AddressSet {
    /// Each item is an address or `address/prefix-length`; IPv6 may be in brackets.
    /// The error is the text APISIX prints: `invalid ip address: <item>`.
    pub fn parse<'a>(items: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let mut set = Self::default();
        for item in items {
            set.add(item).ok_or_else(|| {
                let (address, mask) = item.split_once('/').unwrap_or((item, ""));
                match parse_address(address.as_bytes()) {
                    Some(_) => format!("invalid ip address: {address}: its mask is /{mask}"),
                    None => format!("invalid ip address: {address}"),
                }
            })?;
        }
        for (_, networks) in &mut set.v4 {
            networks.sort_unstable();
            networks.dedup();
        }
        for (_, networks) in &mut set.v6 {
            networks.sort_unstable();
            networks.dedup();
        }
        Ok(set)
    }

    /// Whether one of its networks has the address.
    pub fn contains(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(address) => {
                let bits = u32::from(address);
                self.v4.iter().any(|(mask, networks)| networks.binary_search(&(bits & mask)).is_ok())
            }
            IpAddr::V6(address) => {
                let bits = u128::from(address);
                self.v6.iter().any(|(mask, networks)| networks.binary_search(&(bits & mask)).is_ok())
            }
        }
    }

    /// Whether it has no network, and so contains nothing.
    pub fn is_empty(&self) -> bool {
        self.v4.is_empty() && self.v6.is_empty()
    }

    fn add(&mut self, item: &str) -> Option<()> {
        let (address, length) = match item.split_once('/') {
            Some((address, length)) => (address, Some(length.parse::<u32>().ok()?)),
            None => (item, None),
        };
        let (address, length) = match (parse_either(address.as_bytes())?, length) {
            (IpAddr::V6(address), length) if length.is_none_or(|length| (96..=128).contains(&length)) => {
                match address.to_ipv4_mapped() {
                    Some(mapped) => (IpAddr::V4(mapped), length.map(|length| length - 96)),
                    None => (IpAddr::V6(address), length),
                }
            }
            other => other,
        };
        match address {
            IpAddr::V4(address) => {
                let length = length.unwrap_or(32);
                let mask = u32::MAX.checked_shl(32u32.checked_sub(length)?).unwrap_or(0);
                group(&mut self.v4, mask).push(u32::from(address) & mask);
            }
            IpAddr::V6(address) => {
                let length = length.unwrap_or(128);
                let mask = u128::MAX.checked_shl(128u32.checked_sub(length)?).unwrap_or(0);
                group(&mut self.v6, mask).push(u128::from(address) & mask);
            }
        }
        Some(())
    }
}

/// An address as written in a header, a variable or a configuration; IPv6 may be in brackets. The form that a
/// client chose makes no difference: `::ffff:10.1.2.3` is `10.1.2.3`.
pub fn parse_address(text: &[u8]) -> Option<IpAddr> {
    parse_either(text).map(|address| address.to_canonical())
}

fn parse_either(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?;
    if let Ok(address) = text.parse::<Ipv4Addr>() {
        return Some(IpAddr::V4(address));
    }
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    bare.parse::<Ipv6Addr>().ok().map(IpAddr::V6)
}

fn group<T: PartialEq + Copy>(groups: &mut Vec<(T, Vec<T>)>, mask: T) -> &mut Vec<T> {
    let position = groups.iter().position(|(known, _)| *known == mask).unwrap_or_else(|| {
        groups.push((mask, Vec::new()));
        groups.len() - 1
    });
    &mut groups[position].1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_networks() {
        let check = |items: &[&str], address: &str, expected: bool| {
            let set = AddressSet::parse(items.iter().copied()).unwrap();
            let found = set.contains(parse_address(address.as_bytes()).unwrap());
            assert_eq!(found, expected, "{address} in {items:?}");
        };
        check(&["127.0.0.1"], "127.0.0.1", true);
        check(&["127.0.0.1"], "127.0.0.2", false);
        check(&["10.1.2.3/8"], "10.255.0.1", true);
        check(&["10.1.2.3/8"], "11.0.0.1", false);
        check(&["0.0.0.0/0"], "8.8.8.8", true);
        check(&["0.0.0.0/0"], "::1", false);
        check(&["::/0"], "2001:db8::1", true);
        check(&["[::1]"], "::1", true);
        check(&["fe80::/32", "1.1.1.1"], "fe80::5", true);
        check(&["fe80::/32", "1.1.1.1"], "1.1.1.1", true);
        check(&["fe80::/32"], "fe81::5", false);
        check(&["1.2.3.4"], "::ffff:1.2.3.4", true);
        check(&["1.2.3.4"], "[::ffff:102:304]", true);
        check(&["::ffff:1.2.3.4"], "1.2.3.4", true);
        check(&["::ffff:10.0.0.0/104"], "10.255.0.1", true);
        check(&["::ffff:10.0.0.0/104"], "11.0.0.1", false);
        check(&["::ffff:0:0/96"], "8.8.8.8", true);
        check(&["::ffff:0:0/95"], "::fffe:1:1", true);
    }

    #[test]
    fn what_is_no_address_is_named() {
        for (item, named) in [
            ("a.b", "a.b"),
            ("10.0.0.1/33", "10.0.0.1: its mask is /33"),
            ("::/129", "::: its mask is /129"),
            ("", ""),
        ] {
            assert_eq!(AddressSet::parse([item]).unwrap_err(), format!("invalid ip address: {named}"));
        }
    }
}
