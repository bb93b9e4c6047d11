//! Which node of an upstream is refused, and why. The messages, which are APISIX's, name none.

use serde_json::Value;

use crate::{check, url::without_user};

/// So much of a value is shown.
const SHOWN_CHARS: usize = 60;

/// For a message about the nodes of `object`, an upstream or what has one inside; `None` where no single node is at fault.
pub(super) fn of_nodes(message: &str, object: &Value) -> Option<String> {
    let is_about_nodes = message.contains("property \"nodes\" validation failed: object matches none")
        || message.starts_with("invalid port ");
    let upstream = if object.get("nodes").is_some() { object } else { object.get("upstream")? };
    let nodes = upstream.get("nodes").filter(|_| is_about_nodes)?;
    match nodes {
        Value::Object(nodes) => nodes.iter().find_map(|(address, weight)| of_pair(address, weight)),
        Value::Array(nodes) => {
            nodes.iter().enumerate().find_map(|(at, node)| of_item(&format!("node {}", at + 1), node))
        }
        _ => None,
    }
}

fn of_pair(address: &str, weight: &Value) -> Option<String> {
    let node = format!("node {}", shown(&Value::from(without_user(address))));
    let port = check::parse_address(address).1.filter(|port| !(1..=65535).contains(port));
    port.map(|port| format!("{node}: its port is {port}; write a number from 1 to 65535"))
        .or_else(|| check::node_fault(address))
        .or_else(|| of_weight(&node, weight))
}

fn of_item(place: &str, node: &Value) -> Option<String> {
    let Some(fields) = node.as_object() else {
        return Some(format!(
            "{place} is not an object; write {{\"host\": ..., \"port\": ..., \"weight\": ...}}"
        ));
    };
    let Some(host) = fields.get("host") else { return Some(format!("{place} has no host")) };
    let Some(name) = host.as_str() else {
        return Some(format!("{place}: its host is {}; write a name or an address in quotes", shown(host)));
    };
    let place = format!("{place} ({})", without_user(name).chars().take(SHOWN_CHARS).collect::<String>());
    if let Some(fault) = check::node_fault(name) {
        return Some(format!("{place}: its host is wrong: {fault}"));
    }
    if let Some(port) = fields.get("port").filter(|port| !in_range(port, 1, 65535)) {
        return Some(format!("{place}: its port is {}; write a number from 1 to 65535", shown(port)));
    }
    match fields.get("weight") {
        None => Some(format!("{place} has no weight; write a whole number, such as 1")),
        Some(weight) => of_weight(&place, weight),
    }
}

fn of_weight(node: &str, weight: &Value) -> Option<String> {
    let fits = weight.as_i64().is_some_and(|weight| weight >= 0);
    (!fits).then(|| format!("{node}: its weight is {}; write a whole number of at least 0", shown(weight)))
}

fn in_range(value: &Value, least: u64, most: u64) -> bool {
    value.as_u64().is_some_and(|number| (least..=most).contains(&number))
}

fn shown(value: &Value) -> String {
    let text = value.to_string();
    let cut: String = text.chars().take(SHOWN_CHARS).collect();
    if cut.len() < text.len() { format!("{cut}...") } else { cut }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_node_and_its_field_are_named() {
        const NONE: &str = "invalid configuration: property \"nodes\" validation failed: object matches none of the required";
        let check = |message: &str, nodes: Value, expected: Option<&str>| {
            let found = of_nodes(message, &json!({"upstream": {"nodes": nodes}}));
            assert_eq!(found.as_deref(), expected);
        };
        let pair = json!({"a:80": 1, "b:80": -1});
        check(NONE, pair, Some("node \"b:80\": its weight is -1; write a whole number of at least 0"));
        check(
            "invalid port 99999",
            json!({"a:99999": 1}),
            Some("node \"a:99999\": its port is 99999; write a number from 1 to 65535"),
        );
        let good = json!({"host": "a", "port": 80, "weight": 1});
        for (node, expected) in [
            (
                json!({"host": "b", "port": "abc", "weight": 1}),
                "node 2 (b): its port is \"abc\"; write a number from 1 to 65535",
            ),
            (
                json!({"host": "http://b", "port": 80, "weight": 1}),
                "node 2 (http://b): its host is wrong: node \"http://b\" is not an address: write b and scheme http",
            ),
            (json!({"port": 80, "weight": 1}), "node 2 has no host"),
            (json!({"host": 7, "weight": 1}), "node 2: its host is 7; write a name or an address in quotes"),
            (json!({"host": "b"}), "node 2 (b) has no weight; write a whole number, such as 1"),
            (json!("b:80"), "node 2 is not an object; write {\"host\": ..., \"port\": ..., \"weight\": ...}"),
        ] {
            check(NONE, json!([good, node]), Some(expected));
        }
        check(NONE, json!("a:80"), None);
        check("invalid configuration: missing key", json!({"a:80": -1}), None);
    }
}
