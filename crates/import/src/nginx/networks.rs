//! The networks of a `geo` and their values. The longest matching prefix wins, so a network's value applies to its addresses
//! except those in a network nested within it.

use std::{collections::HashMap, net::IpAddr};

use serde_json::json;

use super::condition::Condition;

/// A network: its family, first address and prefix length. Sorted in this order, a network comes before those nested in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Network {
    is_v6: bool,
    first: u128,
    length: u8,
}

/// Everything of IPv4, and of IPv6.
pub(super) const ALL: [Network; 2] =
    [Network { is_v6: false, first: 0, length: 0 }, Network { is_v6: true, first: 0, length: 0 }];

impl Network {
    pub(super) fn new(address: IpAddr, length: u8) -> Option<Network> {
        let (is_v6, bits, whole) = match address {
            IpAddr::V4(address) => (false, u128::from(u32::from(address)), 32_u32),
            IpAddr::V6(address) => (true, u128::from(address), 128),
        };
        let rest = whole.checked_sub(u32::from(length))?;
        let mask = u128::MAX.checked_shl(rest).unwrap_or(0);
        Some(Network { is_v6, first: bits & mask, length })
    }

    fn contains(&self, other: &Network) -> bool {
        let width: u32 = if self.is_v6 { 128 } else { 32 };
        let rest = width.saturating_sub(u32::from(self.length));
        let mask = u128::MAX.checked_shl(rest).unwrap_or(0);
        self.is_v6 == other.is_v6 && self.length <= other.length && other.first & mask == self.first
    }

    fn text(&self) -> String {
        let (address, whole): (IpAddr, u8) = match (self.is_v6, u32::try_from(self.first)) {
            (false, Ok(bits)) => (IpAddr::V4(bits.into()), 32),
            _ => (IpAddr::V6(self.first.into()), 128),
        };
        if self.length == whole { address.to_string() } else { format!("{address}/{}", self.length) }
    }
}

/// The addresses that have a value.
#[derive(Clone, Debug, Default)]
struct Places {
    /// Networks without nested ones.
    whole: Vec<String>,
    /// A network, and the nested ones to leave out.
    parts: Vec<(String, Vec<String>)>,
}

/// Networks grouped by value.
#[derive(Clone, Debug, Default)]
pub(crate) struct Networks {
    values: Vec<(String, Places)>,
    /// The value outside all networks.
    rest: String,
    /// The outermost networks whose value differs from that default.
    outer: Vec<String>,
    /// The number of networks.
    pub count: usize,
}

impl Networks {
    /// If a network is listed twice, the later value wins, as in nginx.
    pub(super) fn of(given: impl Iterator<Item = (Network, String)>) -> Networks {
        let mut last: HashMap<Network, String> = HashMap::new();
        last.insert(ALL[0], String::new());
        last.insert(ALL[1], String::new());
        last.extend(given);
        let count = last.len();
        let mut sorted: Vec<(Network, String)> = last.into_iter().collect();
        sorted.sort();
        let rest = sorted.first().map(|(_, value)| value.clone()).unwrap_or_default();
        // The networks whose value differs from that of the network around them, each with the ones nested in it. The first is
        // the whole address space.
        let mut kept: Vec<(Network, String, Vec<String>)> = Vec::new();
        let mut open: Vec<usize> = Vec::new();
        for (network, value) in sorted {
            while open
                .last()
                .is_some_and(|top| !kept.get(*top).is_some_and(|(top, ..)| top.contains(&network)))
            {
                open.pop();
            }
            let around = open.last().copied().unwrap_or(0);
            match kept.get_mut(around) {
                Some((_, outer, _)) if *outer == value => continue,
                Some((_, _, inside)) => inside.push(network.text()),
                None => {}
            }
            open.push(kept.len());
            kept.push((network, value, Vec::new()));
        }
        let mut kept = kept.into_iter();
        let outer = kept.next().map(|(_, _, inside)| inside).unwrap_or_default();
        let mut numbers: HashMap<String, usize> = HashMap::new();
        let mut values: Vec<(String, Places)> = Vec::new();
        for (network, value, inside) in kept {
            let number = *numbers.entry(value).or_insert_with_key(|value| {
                values.push((value.clone(), Places::default()));
                values.len() - 1
            });
            let Some((_, places)) = values.get_mut(number) else { continue };
            if inside.is_empty() {
                places.whole.push(network.text());
            } else {
                places.parts.push((network.text(), inside));
            }
        }
        Networks { values, rest, outer, count }
    }

    /// Mutually exclusive conditions on a variable, each with the value that it selects.
    pub(super) fn cases(&self, variable: &str) -> Vec<(Condition, String)> {
        let test = |networks: &[String]| match networks.is_empty() {
            true => Condition::Never,
            false => Condition::test(variable, "ipmatch", json!(networks)),
        };
        let held = |places: &Places| {
            let part = |(network, inside): &(String, Vec<String>)| {
                Condition::all([test(std::slice::from_ref(network)), test(inside).negated()])
            };
            Condition::any([test(&places.whole)].into_iter().chain(places.parts.iter().map(part)))
        };
        let mut outside = test(&self.outer).negated();
        let mut cases = Vec::new();
        for (value, places) in &self.values {
            if *value == self.rest {
                outside = Condition::any([outside, held(places)]);
            } else {
                cases.push((held(places), value.clone()));
            }
        }
        cases.push((outside, self.rest.clone()));
        cases
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(given: &[(&str, &str)]) -> Networks {
        let network = |text: &str| {
            let (address, length) = text.split_once('/').expect("a network");
            Network::new(address.parse().expect("an address"), length.parse().expect("a length"))
                .expect("fits")
        };
        Networks::of(given.iter().map(|(text, value)| (network(text), (*value).to_owned())))
    }

    fn vars(networks: &Networks, value: &str) -> serde_json::Value {
        let cases = networks.cases("a");
        let found = cases.iter().find(|(_, known)| known == value).expect("the value is there");
        json!(found.0.vars())
    }

    #[test]
    fn longer_prefixes_are_taken_out() {
        let networks = of(&[
            ("10.1.0.0/16", "b"),
            ("10.0.0.0/8", "a"),
            ("10.1.2.0/24", "a"),
            ("10.9.0.0/16", "a"),
            ("::1/128", "a"),
        ]);
        let wanted = json!([[
            "OR",
            ["a", "ipmatch", ["10.1.2.0/24", "::1"]],
            ["AND", ["a", "ipmatch", ["10.0.0.0/8"]], ["a", "!", "ipmatch", ["10.1.0.0/16"]]]
        ]]);
        assert_eq!(vars(&networks, "a"), wanted);
        assert_eq!(
            vars(&networks, "b"),
            json!([["a", "ipmatch", ["10.1.0.0/16"]], ["a", "!", "ipmatch", ["10.1.2.0/24"]]])
        );
        assert_eq!(vars(&networks, ""), json!([["a", "!", "ipmatch", ["10.0.0.0/8", "::1"]]]));
    }

    #[test]
    fn the_last_of_equal_networks_counts() {
        let networks = of(&[("10.0.0.0/8", "a"), ("10.9.9.9/8", "b"), ("0.0.0.0/0", "c"), ("::/0", "c")]);
        assert_eq!(vars(&networks, "b"), json!([["a", "ipmatch", ["10.0.0.0/8"]]]));
        assert_eq!(vars(&networks, "c"), json!([["a", "!", "ipmatch", ["10.0.0.0/8"]]]));
        assert_eq!(networks.cases("a").len(), 2);
    }

    #[test]
    fn families_differ() {
        let networks = of(&[("0.0.0.0/0", "four")]);
        assert_eq!(vars(&networks, ""), json!([["a", "ipmatch", ["::/0"]]]));
        assert_eq!(vars(&networks, "four"), json!([["a", "!", "ipmatch", ["::/0"]]]));
    }
}
