//! `limit_req` and `limit_conn` with their zones.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{parse::Directive, proxy::effective};
use crate::Report;

/// Zones of the file by name.
#[derive(Default)]
pub struct Zones {
    /// Variable, requests per second.
    requests: BTreeMap<String, (String, f64)>,
    connections: BTreeMap<String, String>,
}

impl Zones {
    /// Whether this is the definition of one.
    pub fn read(&mut self, directive: &Directive, report: &mut Report) -> bool {
        let key = variable(directive.argument(0));
        let name = named(directive, "zone=").and_then(|zone| zone.split(':').next()).map(str::to_owned);
        let done = match directive.name.as_str() {
            "limit_req_zone" => {
                name.zip(key).zip(named(directive, "rate=").and_then(rate)).map(|((name, key), rate)| {
                    self.requests.insert(name, (key, rate));
                })
            }
            "limit_conn_zone" => name.zip(key).map(|(name, key)| {
                self.connections.insert(name, key);
            }),
            _ => return false,
        };
        match done {
            Some(()) => report.converted(directive.line, &directive.name),
            None => report.unsupported(
                directive.line,
                &directive.name,
                "one variable, a `zone` and a `rate` above 0 are converted",
            ),
        }
        true
    }
}

/// A single variable's name.
fn variable(text: &str) -> Option<String> {
    let name = text.strip_prefix('$')?.replace("binary_remote_addr", "remote_addr");
    (!name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'))
        .then_some(name)
}

fn rate(text: &str) -> Option<f64> {
    let (number, per) = text.split_once("r/")?;
    let number: f64 = number.parse().ok()?;
    (number > 0.0).then_some(if per == "m" { number / 60.0 } else { number })
}

fn named<'a>(directive: &'a Directive, key: &str) -> Option<&'a str> {
    directive.arguments.iter().find_map(|word| word.strip_prefix(key))
}

const OWN_COUNT: &str = "each location counts for itself, also with a shared zone";

pub fn requests(
    scopes: &[&[Directive]; 3],
    zones: &Zones,
    plugins: &mut Map<String, Value>,
    report: &mut Report,
) {
    let limits = effective(scopes, "limit_req");
    let Some(first) = limits.first() else { return };
    for other in limits.iter().skip(1) {
        report.unsupported(other.line, "limit_req", "one for each location is converted");
    }
    let Some((variable, rate)) = named(first, "zone=").and_then(|zone| zones.requests.get(zone)) else {
        return report.unsupported(first.line, "limit_req", "its zone is not in the file, or not converted");
    };
    let number = |key: &str| named(first, key).and_then(|number| number.parse::<u32>().ok());
    let conf = json!({
        "rate": rate,
        "burst": number("burst=").unwrap_or(0),
        "nodelay": first.arguments.iter().any(|word| word == "nodelay"),
        "key": variable,
        "rejected_code": status(scopes, "limit_req_status"),
    });
    if number("delay=").is_some() {
        report.approximated(first.line, "limit_req", "`delay` is left out: all requests of the burst wait");
    }
    report.approximated(first.line, "limit_req", OWN_COUNT);
    plugins.insert("limit-req".to_owned(), conf);
}

pub fn connections(
    scopes: &[&[Directive]; 3],
    zones: &Zones,
    plugins: &mut Map<String, Value>,
    report: &mut Report,
) {
    let mut rules = Vec::new();
    for limit in effective(scopes, "limit_conn") {
        let key = zones.connections.get(limit.argument(0));
        match key.zip(limit.argument(1).parse::<u32>().ok().filter(|number| *number > 0)) {
            Some((key, conn)) => {
                report.approximated(limit.line, "limit_conn", OWN_COUNT);
                rules.push((key.clone(), conn));
            }
            None => report.unsupported(
                limit.line,
                "limit_conn",
                "its zone is not in the file, or its number is not one",
            ),
        }
    }
    let rejected_code = status(scopes, "limit_conn_status");
    let conf = match rules.as_slice() {
        [] => return,
        [(key, conn)] => {
            json!({"conn": conn, "burst": 0, "default_conn_delay": 1, "key": key, "rejected_code": rejected_code})
        }
        several => {
            let rule =
                |(key, conn): &(String, u32)| json!({"conn": conn, "burst": 0, "key": format!("${{{key}}}")});
            let rules: Vec<Value> = several.iter().map(rule).collect();
            json!({"rules": rules, "default_conn_delay": 1, "rejected_code": rejected_code})
        }
    };
    plugins.insert("limit-conn".to_owned(), conf);
}

fn status(scopes: &[&[Directive]; 3], name: &str) -> u16 {
    effective(scopes, name).first().and_then(|found| found.argument(0).parse().ok()).unwrap_or(503)
}
