//! `map` and `geo`: variables that are chosen by others.

use serde_json::json;

use super::{
    condition::{Condition, MAX_TESTS},
    parse::Directive,
    patterns,
    variables::{Made, Part, Stop, Variables, parts},
};

#[derive(Clone, Debug)]
pub struct Map {
    pub name: String,
    source: Source,
    /// In the order in which they count.
    cases: Vec<(Key, String)>,
    default: String,
    /// Why it cannot be used.
    fault: Option<String>,
}

#[derive(Clone, Debug)]
enum Source {
    Text(String),
    /// `geo`: the client's address, or that of a variable.
    Address(String),
}

#[derive(Clone, Debug, PartialEq)]
enum Key {
    Text(String),
    /// Of a `map` with `hostnames`, or of one without.
    Regex(String),
    Network(String, u8),
}

impl Map {
    /// `map $source $name { … }` or `geo [$address] $name { … }`.
    pub fn of(directive: &Directive) -> Option<Map> {
        let is_geo = directive.name == "geo";
        let (source, name) = match (is_geo, directive.arguments.as_slice()) {
            (false, [source, name]) => (Source::Text(source.clone()), name),
            (true, [name]) => (Source::Address("remote_addr".to_owned()), name),
            (true, [source, name]) => (Source::Address(source.trim_start_matches('$').to_owned()), name),
            _ => return None,
        };
        let name = name.strip_prefix('$')?.to_owned();
        let mut map = Map { name, source, cases: Vec::new(), default: String::new(), fault: None };
        for line in &directive.block {
            map.add(line, is_geo);
        }
        let (mut texts, others): (Vec<_>, Vec<_>) =
            map.cases.drain(..).partition(|(key, _)| !matches!(key, Key::Regex(_)));
        // Longer prefixes count first.
        texts.sort_by_key(|(key, _)| match key {
            Key::Network(_, length) => u8::MAX - length,
            _ => 0,
        });
        map.cases = texts.into_iter().chain(others).collect();
        Some(map)
    }

    fn add(&mut self, line: &Directive, is_geo: bool) {
        let value = line.argument(0).to_owned();
        match line.name.as_str() {
            "default" => self.default = value,
            "volatile" if line.arguments.is_empty() => {}
            "include" | "hostnames" | "ranges" | "proxy" | "proxy_recursive" | "delete" => {
                self.fault.get_or_insert_with(|| format!("`{}` in it is not converted", line.title()));
            }
            key if is_geo => match network(key) {
                Some((text, length)) => self.cases.push((Key::Network(text, length), value)),
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
    pub fn cases(&self, variables: &Variables) -> Made<Vec<(Condition, String)>> {
        if let Some(fault) = &self.fault {
            return Err(Stop::closed(format!("`${}`: {fault}", self.name)));
        }
        let name = self.source(variables)?;
        let mut all: Vec<(Condition, String)> = Vec::new();
        let mut before: Vec<Condition> = Vec::new();
        for (key, value) in &self.cases {
            let own = match key {
                // nginx compares keys without case.
                Key::Text(text) if text.is_empty() => patterns::is_empty(&name),
                Key::Text(text) if text.chars().any(char::is_alphabetic) => {
                    Condition::test(&name, "~~", format!("(?i)^{}\\z", regex::escape(text)))
                }
                Key::Text(text) => Condition::test(&name, "==", text.clone()),
                Key::Regex(pattern) => patterns::matches(&name, pattern).map_err(Stop::Closed)?,
                Key::Network(network, _) => Condition::test(&name, "ipmatch", json!([network])),
            };
            let earlier = Condition::any(before.clone()).negated();
            // Texts exclude each other already.
            let needs_earlier = !matches!(key, Key::Text(_));
            let condition = if needs_earlier { Condition::all([own.clone(), earlier]) } else { own.clone() };
            before.push(own);
            all.push((condition, value.clone()));
        }
        all.push((Condition::any(before).negated(), self.default.clone()));
        if all.iter().map(|(condition, _)| condition.count()).sum::<usize>() > MAX_TESTS {
            return Err(Stop::closed(format!("`${}` has too many cases", self.name)));
        }
        Ok(merged(all))
    }

    fn source(&self, variables: &Variables) -> Made<String> {
        match &self.source {
            Source::Address(name) => {
                variables.require_seen(name)?;
                variables.for_condition(name)
            }
            Source::Text(text) => match parts(text).as_slice() {
                [Part::Variable(name)] if variables.map(name).is_none() => {
                    variables.require_seen(name)?;
                    let text = variables.text(text)?;
                    let inner = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
                    inner
                        .map(str::to_owned)
                        .ok_or_else(|| Stop::closed(format!("`${name}` has one value only")))
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
    for (condition, value) in cases {
        match merged.iter_mut().find(|(_, known)| *known == value) {
            Some((conditions, _)) => conditions.push(condition),
            None => merged.push((vec![condition], value)),
        }
    }
    merged.into_iter().map(|(conditions, value)| (Condition::any(conditions), value)).collect()
}

/// An address or a network as it is written here, with the length of its prefix.
pub fn network(text: &str) -> Option<(String, u8)> {
    let (address, length) = match text.split_once('/') {
        Some((address, length)) => (address, Some(length.parse::<u8>().ok()?)),
        None => (text, None),
    };
    let address: std::net::IpAddr = address.trim_start_matches('[').trim_end_matches(']').parse().ok()?;
    if matches!(address, std::net::IpAddr::V6(address) if address.to_ipv4_mapped().is_some()) {
        // To nginx no client has such an address, here those of IPv4 do.
        return None;
    }
    let whole = if address.is_ipv4() { 32 } else { 128 };
    let length = length.unwrap_or(whole);
    if length > whole {
        return None;
    }
    Some((if length == whole { address.to_string() } else { format!("{address}/{length}") }, length))
}
