//! Filters of a service, and of those of its clients that share an SLA.

use config::yaml::{Content, Node};
use serde_json::{Map, Value, json};

use crate::{
    Report,
    fields::{self, Fields},
};

/// The settings stand below `setting`, or beside the type in the older shape.
fn settings(filter: &Node) -> (String, Fields<'_>) {
    let kind = filter.get("type").and_then(fields::text).unwrap_or_default();
    let fields = Fields::new(filter.get("setting").unwrap_or(filter), format!("filter {kind}"));
    fields.skip(&["type", "setting"]);
    (kind, fields)
}

pub fn on_service(
    filter: &Node,
    path: &str,
    plugins: &mut Map<String, Value>,
    rules: &mut Vec<Value>,
    report: &mut Report,
) {
    let (kind, fields) = settings(filter);
    match kind.as_str() {
        "RateLimit" => {
            let (limit, interval) =
                (fields.number("limit").unwrap_or(0.0), fields.number("interval").unwrap_or(1.0).max(1.0));
            let burst = fields.number("burst").unwrap_or(limit).max(limit);
            if limit <= 0.0 {
                return report.unsupported(fields.line(), fields.subject(), "`limit` is missing or 0");
            }
            let how = "requests refill the bucket evenly and not once per interval; it is full at the start";
            report.approximated(fields.line(), fields.subject(), how);
            let conf = json!({"rate": limit / interval, "burst": burst - 1.0, "nodelay": true, "key": "route_id",
                "rejected_code": 429, "rejected_msg": "Rate Limited"});
            plugins.insert("limit-req".to_owned(), conf);
        }
        "Header" => headers(&fields, plugins, report),
        "ACL" => rules.extend(acl(&fields, path, &[], report)),
        other => report.unsupported(filter.line, fields.subject(), &format!("filter {other:?} is not known")),
    }
    fields.finish(report);
}

/// `out`: rules that refuse, rules that count.
pub fn on_sla(
    filter: &Node,
    path: &str,
    clients: &[&str],
    out: (&mut Vec<Value>, &mut Vec<Value>),
    report: &mut Report,
) {
    let (kind, fields) = settings(filter);
    let subject = format!("SLA: {}", fields.subject());
    match kind.as_str() {
        "RateLimit" => {
            let (limit, interval) =
                (fields.integer("limit").unwrap_or(0), fields.integer("interval").unwrap_or(1));
            if limit <= 0 {
                return report.unsupported(fields.line(), &subject, "`limit` is missing or 0");
            }
            fields.skip(&["burst"]);
            let how = "each client may send `limit` requests in `interval` seconds; `burst` is not looked at";
            report.approximated(fields.line(), &subject, how);
            let action = json!(["limit-count", {"count": limit, "time_window": interval.max(1),
                "key": "consumer_name", "rejected_code": 429, "rejected_msg": "Rate Limited"}]);
            out.1.push(json!({"case": [["consumer_name", "in", clients]], "actions": [action]}));
        }
        "ACL" => out.0.extend(acl(&fields, path, clients, report)),
        other => {
            let why = format!("filter {other:?} is converted on services only");
            return report.unsupported(filter.line, &subject, &why);
        }
    }
    fields.finish(report);
}

fn headers(fields: &Fields, plugins: &mut Map<String, Value>, report: &mut Report) {
    let set: Map<String, Value> = match fields.get("injection").map(|node| &node.content) {
        Some(Content::Map(entries)) => entries
            .iter()
            .filter_map(|entry| Some((entry.key.clone(), fields::text(&entry.value)?.into())))
            .collect(),
        Some(Content::List(pairs)) => pairs
            .iter()
            .filter_map(|pair| match fields::texts(pair).as_slice() {
                [name, value] => Some((name.clone(), Value::from(value.as_str()))),
                _ => None,
            })
            .collect(),
        _ => Map::new(),
    };
    let mut headers = Map::new();
    // What is removed and then set is only set: here removing comes last.
    let mut removed = fields.texts("removal");
    removed.retain(|name| !set.keys().any(|key| key.eq_ignore_ascii_case(name)));
    if !removed.is_empty() {
        headers.insert("remove".to_owned(), removed.into());
    }
    if !set.is_empty() {
        headers.insert("set".to_owned(), set.into());
    }
    if headers.is_empty() {
        return;
    }
    let plugin = match fields.text("operate_on").as_deref() {
        Some("response") => "response-rewrite",
        _ => "proxy-rewrite",
    };
    let conf = plugins.entry(plugin).or_insert_with(|| json!({}));
    if conf.get("headers").is_some() {
        return report.unsupported(
            fields.line(),
            fields.subject(),
            "a second filter for the same side is left out",
        );
    }
    conf["headers"] = headers.into();
}

/// The rules that refuse: `allow` refuses what no path describes, anything else what one does.
fn acl(fields: &Fields, service: &str, clients: &[&str], report: &mut Report) -> Vec<Value> {
    let mut matches: Vec<Value> = fields
        .list("paths")
        .iter()
        .filter_map(|rule| {
            let glob = rule.get("path_pattern").and_then(fields::text)?;
            let pattern = regex::escape(&glob).replace("\\*", ".*").replace("\\?", ".");
            let uri = json!(["uri", "~~", format!("^{}{pattern}$", regex::escape(service))]);
            let methods = rule.get("methods").and_then(fields::text).unwrap_or_else(|| "*".to_owned());
            let methods: Vec<&str> =
                methods.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
            Some(match methods.contains(&"*") {
                true => uri,
                false => json!(["AND", uri, ["request_method", "in", methods]]),
            })
        })
        .collect();
    if matches.is_empty() {
        report.unsupported(fields.line(), fields.subject(), "it has no `paths`");
        fields.skip(&["access_control"]);
        return Vec::new();
    }
    // OR takes two conditions or more.
    if let [only] = matches.as_slice() {
        matches.push(only.clone());
    }
    let allows = fields.text("access_control").as_deref() == Some("allow");
    report.converted(fields.line(), fields.subject());
    let mut condition = vec![Value::from(if allows { "!OR" } else { "OR" })];
    condition.extend(matches);
    let mut case = vec![Value::from(condition)];
    if !clients.is_empty() {
        case.insert(0, json!(["consumer_name", "in", clients]));
    }
    vec![json!({"case": case, "actions": [["return", {"code": 404}]]})]
}
