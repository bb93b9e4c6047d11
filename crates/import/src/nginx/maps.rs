//! `map` and `geo`: variables that are chosen by others.

use std::{cell::Cell, collections::HashMap, net::IpAddr};

use super::{
    condition::{Condition, MAX_TESTS},
    made::{Made, Stop},
    map::{Key, Map, Source},
    networks::{ALL, Network, Networks},
    parse::Directive,
    patterns,
    variables::{Part, Variables, parts},
};

/// Networks in the conditions of one `geo`: each place where it decides has all of them.
const MAX_NETWORKS: usize = 1_000_000;

impl Map {
    /// `map $source $name { … }` or `geo [$address] $name { … }`.
    pub(crate) fn of(directive: &Directive) -> Option<Map> {
        let is_geo = directive.name == "geo";
        let (source, name) = match (is_geo, directive.arguments.as_slice()) {
            (false, [source, name]) => (Source::Text(source.clone()), name),
            (true, [name]) => (Source::Address("remote_addr".to_owned()), name),
            (true, [source, name]) => (Source::Address(source.trim_start_matches('$').to_owned()), name),
            _ => return None,
        };
        let name = name.strip_prefix('$')?.to_owned();
        let fault = super::variables::names::changes_requests(&name)
            .then(|| "it is a part of the request".to_owned());
        let mut map = Map {
            name,
            source,
            cases: Vec::new(),
            default: String::new(),
            networks: Networks::default(),
            written: Cell::new(0),
            fault,
        };
        let mut networks = Vec::new();
        for line in &directive.block {
            map.add(line, is_geo, &mut networks);
        }
        map.networks = Networks::of(networks.into_iter());
        map.cases.sort_by_key(|(key, _)| matches!(key, Key::Regex(_)));
        Some(map)
    }

    fn add(&mut self, line: &Directive, is_geo: bool, networks: &mut Vec<(Network, String)>) {
        let value = line.argument(0).to_owned();
        match line.name.as_str() {
            // To nginx it is a network like any other, and the last one counts.
            "default" if is_geo => networks.extend(ALL.map(|network| (network, value.clone()))),
            "default" => self.default = value,
            "volatile" if line.arguments.is_empty() => {}
            "include" | "hostnames" | "ranges" | "proxy" | "proxy_recursive" | "delete" => {
                self.fault.get_or_insert_with(|| format!("`{}` in it is not converted", line.title()));
            }
            key if is_geo => match parsed(key).and_then(|(address, length)| Network::new(address, length)) {
                Some(network) => networks.push((network, value)),
                None => self.fault = Some(format!("{key} in it is not a network")),
            },
            key => {
                let key = match key.strip_prefix("~*").map(|pattern| format!("(?i){pattern}")) {
                    Some(pattern) => Key::Regex(pattern),
                    None => match key.strip_prefix('~') {
                        Some(pattern) => Key::Regex(pattern.to_owned()),
                        None => Key::Text(key.strip_prefix('\\').unwrap_or(key).to_lowercase()),
                    },
                };
                self.cases.push((key, value));
            }
        }
    }

    /// Conditions that exclude each other, each with the value that it stands for.
    pub(crate) fn cases(&self, variables: &Variables) -> Made<Vec<(Condition, String)>> {
        if let Some(fault) = &self.fault {
            return Err(Stop::closed(format!("`${}`: {fault}", self.name)));
        }
        if let Source::Address(name) = &self.source
            && name != "remote_addr"
        {
            // nginx reads zeros in front of numbers, and knows no brackets.
            return Err(Stop::closed(format!(
                "`${}`: texts are read as addresses otherwise here",
                self.name
            )));
        }
        let name = self.source(variables)?;
        if matches!(self.source, Source::Address(_)) {
            return self.of_networks(&name);
        }
        let too_many = || Stop::closed(format!("`${}` has too many cases", self.name));
        if self.cases.len() > MAX_TESTS {
            return Err(too_many());
        }
        let mut all: Vec<(Condition, String)> = Vec::new();
        let mut before: Vec<Condition> = Vec::new();
        let mut count = 0;
        for (key, value) in &self.cases {
            let own = match key {
                // nginx compares keys without case.
                Key::Text(text) if text.is_empty() => patterns::is_empty(&name),
                Key::Text(text) if text.chars().any(char::is_alphabetic) => {
                    Condition::test(&name, "~~", format!("(?i)^{}\\z", regex::escape(text)))
                }
                Key::Text(text) => Condition::test(&name, "==", text.clone()),
                Key::Regex(pattern) => patterns::matches(&name, pattern).map_err(Stop::Closed)?,
            };
            let fits_first_name = name == "host" && key.fits(&variables.first_name)?;
            let own = variables.on_host(&name, own, fits_first_name);
            before.push(own.clone());
            let condition = match key {
                // Texts exclude each other already.
                Key::Text(_) => own,
                Key::Regex(_) => {
                    let earlier = before.iter().take(before.len() - 1).cloned();
                    Condition::all([own, Condition::any(earlier).negated()])
                }
            };
            count += condition.count();
            if count > MAX_TESTS {
                return Err(too_many());
            }
            all.push((condition, value.clone()));
        }
        let rest = Condition::any(before).negated();
        if count + rest.count() > MAX_TESTS {
            return Err(too_many());
        }
        all.push((rest, self.default.clone()));
        Ok(merged(all))
    }

    fn of_networks(&self, name: &str) -> Made<Vec<(Condition, String)>> {
        let why = |why: &str| Err(Stop::closed(format!("`${}` {why}", self.name)));
        let cases = self.networks.cases(name);
        let written = self.written.get().saturating_add(self.networks.count);
        self.written.set(written);
        if written > MAX_NETWORKS {
            return why("has many networks and stands in many places");
        }
        if cases.iter().map(|(condition, _)| condition.count()).sum::<usize>() > MAX_TESTS {
            return why("has too many networks inside of others");
        }
        Ok(cases)
    }

    fn source(&self, variables: &Variables) -> Made<String> {
        match &self.source {
            Source::Address(name) => {
                variables.require_seen(name)?;
                variables.for_condition(name)
            }
            Source::Text(text) => match parts(text).as_slice() {
                [Part::Variable(name)] if variables.map(name).is_none() => {
                    variables.require_text(name)?;
                    let text = variables.text(text)?;
                    let inner = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
                    let inner = inner.ok_or_else(|| Stop::closed(format!("`${name}` has one value only")))?;
                    // It may be another name for it.
                    variables.require_text(inner)?;
                    Ok(inner.to_owned())
                }
                [Part::Variable(name)] => Err(Stop::closed(format!("`${name}` is made by another map"))),
                _ => Err(Stop::closed(format!("`${}` is made of more than a variable: `{text}`", self.name))),
            },
        }
    }
}

/// One case for each value.
fn merged(cases: Vec<(Condition, String)>) -> Vec<(Condition, String)> {
    let mut merged: Vec<(Vec<Condition>, String)> = Vec::new();
    let mut numbers: HashMap<String, usize> = HashMap::new();
    for (condition, value) in cases {
        let number = *numbers.entry(value.clone()).or_insert(merged.len());
        match merged.get_mut(number) {
            Some((conditions, _)) => conditions.push(condition),
            None => merged.push((vec![condition], value)),
        }
    }
    merged.into_iter().map(|(conditions, value)| (Condition::any(conditions), value)).collect()
}

/// An address or a network as written here, with the length of its prefix.
pub(super) fn network(text: &str) -> Option<(String, u8)> {
    let (address, length) = parsed(text)?;
    let whole = if address.is_ipv4() { 32 } else { 128 };
    Some((if length == whole { address.to_string() } else { format!("{address}/{length}") }, length))
}

fn parsed(text: &str) -> Option<(IpAddr, u8)> {
    let (address, length) = match text.split_once('/') {
        Some((address, length)) => (address, Some(length.parse::<u8>().ok()?)),
        None => (text, None),
    };
    let address: IpAddr = address.trim_start_matches('[').trim_end_matches(']').parse().ok()?;
    if matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some()) {
        // To nginx no client has such an address, here those of IPv4 do.
        return None;
    }
    let whole = if address.is_ipv4() { 32 } else { 128 };
    let length = length.unwrap_or(whole);
    (length <= whole).then_some((address, length))
}
