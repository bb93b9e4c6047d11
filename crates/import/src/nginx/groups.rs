//! `upstream`: groups of servers, and the addresses in them.

use serde_json::{Value, json};

use super::{
    made::{Made, Stop},
    parse::Directive,
    variables::{Variables, in_templates},
};
use crate::Report;

/// An address with a port; `unix:` and nonsense are refused.
pub(super) fn node(address: &str, scheme: &str, weight: i64) -> Made<Value> {
    let default = if matches!(scheme, "https" | "grpcs") { 443 } else { 80 };
    let bare = |host: &str| host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let (host, port) = match address.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => match port.parse::<u16>() {
            Ok(port) => (bare(host), port),
            Err(_) => return Err(Stop::closed(format!("`{address}` is not an address with a port"))),
        },
        _ => (bare(address), default),
    };
    if host.is_empty() || host == "unix" {
        return Err(Stop::closed(format!("`{address}` cannot be an upstream here")));
    }
    Ok(json!({"host": host, "port": port, "weight": weight}))
}

pub(super) fn group(group: &Directive, scheme: &str, report: &mut Report) -> Made<Value> {
    let mut upstream = json!({"type": "roundrobin"});
    let mut nodes = Vec::new();
    for directive in &group.block {
        match directive.name.as_str() {
            "server" => nodes.extend(member(directive, scheme, group.one("zone").is_some(), report)?),
            "least_conn" => upstream["type"] = "least_conn".into(),
            "ip_hash" => {
                report.approximated(&directive.at, "ip_hash", "hashed consistently, by the whole address");
                upstream["type"] = "chash".into();
                upstream["key"] = "remote_addr".into();
            }
            "hash" => {
                hash(directive, &mut upstream)?;
                if !is_same_ring(group, directive) {
                    report.approximated(&directive.at, "hash", "hashed consistently, on another ring");
                }
            }
            "random" => {
                report.approximated(&directive.at, "random", "nodes are taken in turn");
            }
            "keepalive" => {
                if let Ok(size) = directive.argument(0).parse::<u32>() {
                    upstream["keepalive_pool"] =
                        json!({"size": size.max(1), "idle_timeout": 60, "requests": 1000});
                }
            }
            "zone" | "keepalive_requests" | "keepalive_timeout" | "keepalive_time" => {
                report.ignored(&directive.at, &directive.name, "");
            }
            _ => {
                let why = format!(
                    "`{}` of its upstream, line {}, is not converted",
                    directive.name, directive.at.line
                );
                return Err(Stop::closed(why));
            }
        }
    }
    if nodes.is_empty() {
        return Err(Stop::closed(format!("upstream {} has no server that is up", group.argument(0))));
    }
    upstream["nodes"] = nodes.into();
    report.converted(&group.at, &format!("upstream {}", group.argument(0)));
    Ok(upstream)
}

/// The address of the one server of a group in which nothing else can be chosen; nginx counts no failures of a single one.
pub(super) fn only_server(group: &Directive) -> Option<String> {
    const OF_NO_MATTER: [&str; 9] = [
        "server",
        "zone",
        "keepalive",
        "keepalive_requests",
        "keepalive_timeout",
        "keepalive_time",
        "least_conn",
        "ip_hash",
        "random",
    ];
    let mut servers = group.all("server");
    let (Some(server), None) = (servers.next(), servers.next()) else { return None };
    let is_plain =
        |word: &String| ["weight=", "max_fails=", "fail_timeout="].iter().any(|name| word.starts_with(name));
    let knows_all = group.block.iter().all(|one| OF_NO_MATTER.contains(&one.name.as_str()));
    if !knows_all || !server.arguments.iter().skip(1).all(is_plain) {
        return None;
    }
    let node = node(server.argument(0), "http", 1).ok()?;
    let (host, port) = (node["host"].as_str()?, node["port"].as_u64()?);
    Some(if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") })
}

/// Variables that stand alone as keys here; others are combinations of one.
const KEYS: [&str; 5] = ["uri", "server_addr", "remote_port", "remote_addr", "host"];

/// `hash KEY [consistent]`
fn hash(directive: &Directive, upstream: &mut Value) -> Made<()> {
    // Upstreams take APISIX's names of arguments and cookies; which node gets a request opens nothing.
    let text = Variables::default().text(directive.argument(0))?.replace("{raw_", "{");
    upstream["type"] = "chash".into();
    let name = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    match name.filter(|name| KEYS.contains(name) || name.starts_with("arg_")) {
        Some(name) => {
            upstream["hash_on"] = "vars".into();
            upstream["key"] = name.into();
        }
        None => {
            upstream["hash_on"] = "vars_combinations".into();
            upstream["key"] = in_templates(&text).into();
        }
    }
    Ok(())
}

/// Both place nodes by address and port, and as many points as weights say; by a key that every request has, each goes where it
/// goes in nginx.
fn is_same_ring(group: &Directive, hash: &Directive) -> bool {
    let weight = |server: &Directive| {
        let words = server.arguments.get(1..).unwrap_or_default();
        let given = words.iter().find_map(|word| word.strip_prefix("weight="));
        let weight = given.map_or(Some(1), |weight| weight.parse::<u32>().ok())?;
        let is_address = server.argument(0).parse::<std::net::SocketAddrV4>().is_ok();
        let is_plain = !words.iter().any(|word| ["backup", "down", "resolve"].contains(&word.as_str()));
        (is_address && is_plain).then_some(weight)
    };
    let weights: Option<Vec<u32>> = group.all("server").map(weight).collect();
    let divisor = |weights: Vec<u32>| weights.into_iter().fold(0, greatest_common_divisor);
    hash.argument(1) == "consistent"
        && ["$remote_addr", "$request_uri"].contains(&hash.argument(0))
        && weights.map(divisor) == Some(1)
}

fn greatest_common_divisor(one: u32, other: u32) -> u32 {
    if other == 0 { one } else { greatest_common_divisor(other, one % other) }
}

/// `is_shared`: nginx's workers count together.
fn member(directive: &Directive, scheme: &str, is_shared: bool, report: &mut Report) -> Made<Option<Value>> {
    let mut weight = 1;
    let mut priority = 0;
    let mut most: Option<u32> = None;
    for word in directive.arguments.iter().skip(1) {
        match word.split_once('=') {
            Some(("weight", number)) => weight = number.parse().unwrap_or(1),
            None if word == "backup" => priority = -1,
            None if word == "down" => return Ok(None),
            Some(("max_fails" | "fail_timeout" | "slow_start", _)) => {
                let how =
                    "a node that fails is tried again with the next request, unless health checks are set";
                report.approximated(&directive.at, "server", &format!("`{word}`: {how}"));
            }
            Some(("max_conns", number)) => {
                let number = number.parse().map_err(|_| {
                    Stop::closed(format!(
                        "`{word}` of its upstream, line {}, is not a number",
                        directive.at.line
                    ))
                })?;
                most = Some(number).filter(|number| *number > 0);
                if most.is_some() && !is_shared {
                    let how = format!(
                        "`{word}` holds for all workers together; nginx counts in each without `zone`"
                    );
                    report.approximated(&directive.at, "server", &how);
                }
            }
            None if word == "resolve" => {
                report.ignored(&directive.at, "server", "names are always resolved again")
            }
            _ => {
                return Err(Stop::closed(format!(
                    "`{word}` of its upstream, line {}, is not converted",
                    directive.at.line
                )));
            }
        }
    }
    let mut node = node(directive.argument(0), scheme, weight)?;
    node["priority"] = priority.into();
    if let Some(most) = most {
        node["max_conn"] = most.into();
    }
    Ok(Some(node))
}
