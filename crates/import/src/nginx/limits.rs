//! `limit_req` and `limit_conn` with their zones.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{
    chain::Chain,
    made::{Made, Stop},
    parse::Directive,
    variables::Variables,
};
use crate::Report;

/// Zones of the file by name.
#[derive(Default)]
pub(super) struct Zones {
    /// Variable, requests per second.
    requests: BTreeMap<String, (String, f64)>,
    connections: BTreeMap<String, String>,
    /// How many places name a zone: alone they count as nginx does.
    uses: BTreeMap<String, usize>,
}

impl Zones {
    /// Whether this is the definition of one.
    pub(super) fn read(&mut self, directive: &Directive) -> bool {
        let key = variable(directive.argument(0));
        let name = named(directive, "zone=").and_then(|zone| zone.split(':').next()).map(str::to_owned);
        match directive.name.as_str() {
            "limit_req_zone" => {
                if let (Some(name), Some(key), Some(rate)) =
                    (name, key, named(directive, "rate=").and_then(rate))
                {
                    self.requests.insert(name, (key, rate));
                }
            }
            "limit_conn_zone" => {
                if let (Some(name), Some(key)) = (name, key) {
                    self.connections.insert(name, key);
                }
            }
            _ => return false,
        }
        // What names a zone that is not known here is closed, and says so.
        true
    }

    /// Counts the places that name zones, in the whole file.
    pub(crate) fn count_uses(&mut self, block: &[Directive]) {
        for directive in block {
            let zone = match directive.name.as_str() {
                "limit_req" => named(directive, "zone="),
                "limit_conn" => Some(directive.argument(0)),
                _ => None,
            };
            if let Some(zone) = zone {
                *self.uses.entry(zone.to_owned()).or_default() += 1;
            }
            // Around locations it is each location's.
            if directive.name != "location" && directive.block.iter().any(|inner| inner.name == "location") {
                self.count_uses(&directive.block);
            }
            self.count_uses(&directive.block);
        }
    }

    fn is_shared(&self, zone: &str) -> bool {
        self.uses.get(zone).is_none_or(|uses| *uses > 1)
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

pub(super) fn requests(
    chain: &Chain,
    zones: &Zones,
    variables: &Variables,
    plugins: &mut Map<String, Value>,
    report: &mut Report,
) -> Made<()> {
    let limits = chain.all("limit_req");
    chain.take(&["limit_req_status", "limit_conn_status"]);
    let Some(first) = limits.first() else { return Ok(()) };
    if let Some(other) = limits.get(1) {
        return Err(Stop::closed(format!("a second `limit_req` for one place, line {}", other.at.line)));
    }
    let zone = named(first, "zone=").unwrap_or_default();
    let Some((variable, rate)) = zones.requests.get(zone) else { return Err(unknown(first)) };
    let key = key(variables, variable, first)?;
    let number = |key: &str| named(first, key).and_then(|number| number.parse::<u32>().ok());
    let conf = json!({
        "rate": rate,
        "burst": number("burst=").unwrap_or(0),
        "nodelay": first.arguments.iter().any(|word| word == "nodelay"),
        "key": key,
        "rejected_code": status(chain, "limit_req_status"),
    });
    if number("delay=").is_some() {
        report.approximated(&first.at, "limit_req", "`delay` is left out: all requests of the burst wait");
    }
    if zones.is_shared(zone) {
        report.approximated(&first.at, "limit_req", OWN_COUNT);
    }
    say_empty(variable, first, report);
    plugins.insert("limit-req".to_owned(), conf);
    Ok(())
}

pub(super) fn connections(
    chain: &Chain,
    zones: &Zones,
    variables: &Variables,
    plugins: &mut Map<String, Value>,
    report: &mut Report,
) -> Made<()> {
    let mut rules = Vec::new();
    for limit in chain.all("limit_conn") {
        let zone = limit.argument(0);
        let conn = limit.argument(1).parse::<u32>().ok().filter(|number| *number > 0);
        let Some((variable, conn)) = zones.connections.get(zone).zip(conn) else {
            return Err(unknown(limit));
        };
        let key = key(variables, variable, limit)?;
        if zones.is_shared(zone) {
            report.approximated(&limit.at, "limit_conn", OWN_COUNT);
        }
        say_empty(variable, limit, report);
        rules.push((key, conn));
    }
    let rejected_code = status(chain, "limit_conn_status");
    let conf = match rules.as_slice() {
        [] => return Ok(()),
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
    Ok(())
}

/// The variable of the gateway that counts as nginx's does. What the file makes of others has no variable here, and the gateway
/// would count by the client's address instead.
fn key(variables: &Variables, variable: &str, limit: &Directive) -> Made<String> {
    variables.require_unmoved(variable)?;
    let closed = |why: &str| {
        Stop::closed(format!("`{}` of line {} counts by `${variable}`: {why}", limit.title(), limit.at.line))
    };
    let text = match variables.text(&format!("${{{variable}}}")) {
        Ok(text) => text,
        Err(Stop::Closed(why)) => return Err(closed(&why)),
        Err(Stop::Split(_)) => return Err(closed("a `map`, `geo` or `auth_request_set` makes it")),
    };
    let name = text.strip_prefix("${").and_then(|text| text.strip_suffix('}'));
    let single = name.filter(|name| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'));
    single.map(str::to_owned).ok_or_else(|| closed("it is set to a text"))
}

/// Without the field, argument or cookie nginx does not count.
fn say_empty(variable: &str, limit: &Directive, report: &mut Report) {
    let may_be_empty = ["http_", "arg_", "cookie_"].iter().any(|family| variable.starts_with(family));
    if may_be_empty {
        let text = format!("requests without `${variable}` are limited too, by the client's address");
        report.approximated(&limit.at, &limit.name, &text);
    }
}

fn unknown(limit: &Directive) -> Stop {
    Stop::closed(format!(
        "`{}` of line {}: its zone is not in the file, or has more than a variable and a rate",
        limit.title(),
        limit.at.line
    ))
}

fn status(chain: &Chain, name: &'static str) -> u16 {
    chain.word(name).parse().unwrap_or(503)
}
