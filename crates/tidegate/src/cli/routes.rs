//! `tidegate routes`: the routes of the running gateway, as its Control API reports them.

use std::time::Duration;

use anyhow::bail;
use serde_json::Value;
use tidegate_clients::verbatim::Excess;
use tidegate_config::Listener;

use super::{
    exchange::{Bounds, get},
    place::{SharedOptions, not_of_this_folder},
    printable::printable,
    stdout,
};
use crate::boot::welcome;

const BOUNDS: Bounds =
    Bounds { wait: Duration::from_secs(10), body_bytes: 256 << 20, excess: Excess::Refused };
const HEAD: [&str; 6] = ["ID", "NAME", "METHODS", "HOSTS", "PATHS", "UPSTREAM"];

pub(super) fn run(place: &SharedOptions) -> anyhow::Result<()> {
    let mut settings = place.load_to_ask()?.settings;
    let Some(control) = settings.apisix.control.clone() else {
        bail!("the Control API is off; set apisix.enable_control: true");
    };
    let body = get(&control, "Control API", "/v1/routes", BOUNDS)?.text()?;
    // Without routes the answer is an empty object, as that of APISIX.
    let routes: Vec<Value> = match serde_json::from_str(&body) {
        Ok(Value::Object(fields)) if fields.is_empty() => Vec::new(),
        Ok(Value::Array(routes)) => routes,
        _ => bail!("the Control API's answer is not a list of routes"),
    };
    stdout::print(&table(&routes));
    name_unusable(&control);
    if let Some(text) = not_of_this_folder(place, &settings) {
        crate::say::complain!("tidegate: warning: {text}");
    }
    if routes.is_empty() {
        // Without a key that can be read the advice names none.
        let _ = settings.read_admin_keys();
        let has_mocking = settings.plugins.iter().any(|name| name == "mocking");
        let (how, lines) = welcome::add_route(&settings, has_mocking);
        crate::say::complain!("tidegate: {}; {how}\n  {}", welcome::NO_ROUTE, lines.join("\n  "));
    }
    Ok(())
}

/// Routes that are in the list and cannot be used: requests for them are denied.
fn name_unusable(control: &Listener) {
    let answer = get(control, "Control API", "/v1/rejected", BOUNDS).and_then(|answer| answer.text());
    // A gateway of another version may not have it.
    let Ok(answer) = answer.and_then(|text| Ok(serde_json::from_str::<Value>(&text)?)) else { return };
    for entry in answer.get("list").and_then(Value::as_array).into_iter().flatten() {
        let text = |name: &str| entry.get(name).map(shown).unwrap_or_default();
        crate::say::complain!("tidegate: {}/{} cannot be used: {}", text("kind"), text("id"), text("reason"));
    }
}

fn table(routes: &[Value]) -> String {
    let mut rows: Vec<Vec<String>> = vec![HEAD.iter().map(|name| (*name).to_owned()).collect()];
    rows.extend(routes.iter().map(row));
    let widths: Vec<usize> = (0..HEAD.len())
        .map(|column| {
            rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
        })
        .collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

fn row(route: &Value) -> Vec<String> {
    let value = route.get("value").unwrap_or(route);
    let either = |one: &str, many: &str| match value.get(many).or_else(|| value.get(one)) {
        Some(Value::Array(items)) => items.iter().map(shown).collect::<Vec<_>>().join(","),
        Some(single) => shown(single),
        None => "*".to_owned(),
    };
    let upstream = match (value.get("upstream_id"), value.get("service_id"), value.get("upstream")) {
        (Some(id), _, _) => format!("upstream {}", shown(id)),
        (None, Some(id), _) => format!("service {}", shown(id)),
        (None, None, Some(upstream)) => nodes(upstream),
        (None, None, None) => "-".to_owned(),
    };
    let name = value.get("name").map_or_else(|| "-".to_owned(), shown);
    let id = value.get("id").map_or_else(|| "-".to_owned(), shown);
    vec![id, name, either("", "methods"), either("host", "hosts"), either("uri", "uris"), upstream]
}

fn nodes(upstream: &Value) -> String {
    let names: Vec<String> = match upstream.get("nodes") {
        Some(Value::Object(map)) => map.keys().map(|name| printable(name).into_owned()).collect(),
        Some(Value::Array(items)) => items
            .iter()
            .map(|node| {
                let host = node.get("host").map(shown).unwrap_or_default();
                node.get("port").map_or(host.clone(), |port| format!("{host}:{}", shown(port)))
            })
            .collect(),
        _ => upstream.get("service_name").map(shown).into_iter().collect(),
    };
    if names.is_empty() { "-".to_owned() } else { names.join(",") }
}

fn shown(value: &Value) -> String {
    printable(&value.as_str().map_or_else(|| value.to_string(), str::to_owned)).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_table() {
        let routes = [
            json!({"value": {"id": "1", "uri": "/a", "upstream": {"nodes": {"127.0.0.1:80": 1}}}}),
            json!({"value": {"id": "long-id", "name": "n", "uris": ["/b", "/c"], "hosts": ["x.com"], "methods": ["GET"], "upstream_id": 7}}),
        ];
        let expected = "\
ID       NAME  METHODS  HOSTS  PATHS  UPSTREAM
1        -     *        *      /a     127.0.0.1:80
long-id  n     GET      x.com  /b,/c  upstream 7
";
        assert_eq!(table(&routes), expected);
    }
}
