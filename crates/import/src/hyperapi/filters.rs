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
            let burst = fields.number("burst").unwrap_or(limit);
            fields.skip(&["interval"]);
            if limit < 1.0 || burst < 1.0 {
                // An empty bucket lets nothing through.
                let conf = json!({"abort": {"http_status": 429, "body": "Rate Limited"}});
                plugins.insert("fault-injection".to_owned(), conf);
                report.converted(fields.line(), fields.subject());
                return fields.finish(report);
            }
            let how = "requests refill the bucket evenly and not once per interval; at the start it holds `burst` \
                       and not `limit`";
            report.approximated(fields.line(), fields.subject(), how);
            // A bucket smaller than what an interval brings never gives more than it holds.
            let conf = json!({"rate": limit.min(burst) / interval, "burst": burst - 1.0, "nodelay": true, "key": "route_id",
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
            let limit = fields.integer("burst").map_or(limit, |burst| burst.min(limit));
            if limit <= 0 {
                let action = json!(["return", {"code": 429}]);
                out.0.push(json!({"case": [["consumer_name", "in", clients]], "actions": [action]}));
                report.converted(fields.line(), &subject);
                return fields.finish(report);
            }
            let how = "each client may send `limit` requests in `interval` seconds (`burst`, where it is smaller); \
                       what it did not use is not saved up";
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
    let removal = fields.texts("removal");
    let plugin = match fields.text("operate_on").as_deref() {
        Some("response") => "response-rewrite",
        Some("request") => "proxy-rewrite",
        // hyperapi does nothing with it either.
        _ => {
            return report.unsupported(
                fields.line(),
                fields.subject(),
                "`operate_on` is neither request nor response",
            );
        }
    };
    report.converted(fields.line(), fields.subject());
    if set.is_empty() && removal.is_empty() {
        return;
    }
    let conf = plugins.entry(plugin).or_insert_with(|| json!({}));
    // Filters act one after the other: a later one removes what an earlier one set.
    let mut removed = earlier(conf, "remove").as_array().cloned().unwrap_or_default();
    let mut result = earlier(conf, "set").as_object().cloned().unwrap_or_default();
    result.retain(|name, _| !removal.iter().any(|gone| gone.eq_ignore_ascii_case(name)));
    removed.extend(removal.into_iter().map(Value::from));
    for (name, value) in set {
        result.retain(|other, _| !other.eq_ignore_ascii_case(&name));
        result.insert(name, value);
    }
    // What is removed and then set is only set: here removing comes last.
    let is_set = |name: &Value| {
        result.keys().any(|key| name.as_str().is_some_and(|name| key.eq_ignore_ascii_case(name)))
    };
    removed.retain(|name| !is_set(name));
    removed.dedup();
    let mut headers = Map::new();
    if !removed.is_empty() {
        headers.insert("remove".to_owned(), removed.into());
    }
    if !result.is_empty() {
        headers.insert("set".to_owned(), result.into());
    }
    if !headers.is_empty() {
        conf["headers"] = headers.into();
    }
}

/// What filters before this one said.
fn earlier(conf: &Value, what: &str) -> Value {
    conf.get("headers").and_then(|headers| headers.get(what)).cloned().unwrap_or_default()
}

/// What `*` stands for: not HEAD.
const EVERY_METHOD: [&str; 6] = ["GET", "POST", "DELETE", "PUT", "OPTIONS", "PATCH"];

/// The rules that refuse: `allow` refuses what no path describes, anything else what one does.
fn acl(fields: &Fields, service: &str, clients: &[&str], report: &mut Report) -> Vec<Value> {
    let allows = fields.text("access_control").as_deref() == Some("allow");
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
            Some(match (methods.contains(&"*"), allows) {
                // hyperapi lets HEAD past a refusal for all methods; we do not.
                (true, false) => uri,
                (true, true) => json!(["AND", uri, ["request_method", "in", EVERY_METHOD]]),
                (false, _) => json!(["AND", uri, ["request_method", "in", methods]]),
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
    report.converted(fields.line(), fields.subject());
    let mut condition = vec![Value::from(if allows { "!OR" } else { "OR" })];
    condition.extend(matches);
    let mut case = vec![Value::from(condition)];
    if !clients.is_empty() {
        case.insert(0, json!(["consumer_name", "in", clients]));
    }
    vec![json!({"case": case, "actions": [["return", {"code": 404}]]})]
}
