//! Filters of a service, and of those of its clients that share an SLA.

use serde_json::{Map, Value, json};
use tidegate_config::yaml::{Content, Node};

use crate::{
    Report,
    fields::{self, Fields},
    literal,
};

/// The settings stand below `setting`, or beside the type in the older shape.
fn settings(filter: &Node) -> (String, Fields<'_>) {
    let kind = filter.get("type").and_then(fields::text).unwrap_or_default();
    let fields = Fields::new(filter.get("setting").unwrap_or(filter), format!("filter {kind}"));
    fields.skip(&["type", "setting"]);
    (kind, fields)
}

pub(crate) fn on_service(
    filter: &Node,
    path: &str,
    plugins: &mut Map<String, Value>,
    rules: &mut Vec<Value>,
    report: &mut Report,
) {
    let (kind, fields) = settings(filter);
    match kind.as_str() {
        "RateLimit" => {
            let bucket = bucket(&fields);
            report.converted(fields.line(), fields.subject());
            push(sla(plugins), "limits", bucket);
        }
        "Header" => headers(&fields, literal::in_template, plugins_of(plugins), report),
        "ACL" => rules.extend(acl(&fields, path, &[], report)),
        other => report.unsupported(filter.line, fields.subject(), &format!("filter {other:?} is not known")),
    }
    fields.finish(report);
}

/// A filter of the SLA `level`, which `clients` have.
pub(crate) fn on_sla(
    filter: &Node,
    path: &str,
    (level, clients): (&str, &[&str]),
    plugins: &mut Map<String, Value>,
    rules: &mut Vec<Value>,
    report: &mut Report,
) {
    let (kind, fields) = settings(filter);
    let subject = format!("SLA {level}: {}", fields.subject());
    match kind.as_str() {
        "RateLimit" => {
            let bucket = bucket(&fields);
            push(self::level(sla(plugins), level), "limits", bucket);
            report.converted(fields.line(), &subject);
        }
        "Header" => {
            let level = self::level(sla(plugins), level);
            // Plugin sla has no variables.
            headers(
                &fields,
                str::to_owned,
                |side| edits(level, if side == "response" { "response_headers" } else { "request_headers" }),
                report,
            );
        }
        "ACL" => rules.extend(acl(&fields, path, clients, report)),
        other => {
            return report.unsupported(filter.line, &subject, &format!("filter {other:?} is not known"));
        }
    }
    fields.finish(report);
}

/// The configuration of plugin sla on this route.
fn sla(plugins: &mut Map<String, Value>) -> &mut Value {
    plugins.entry("sla").or_insert_with(|| json!({}))
}

/// Who has which level.
pub(super) fn members(plugins: &mut Map<String, Value>, clients: &[(&str, &str)]) {
    let Some(sla) = plugins.get_mut("sla") else { return };
    let known = |level: &str| sla.get("levels").is_some_and(|levels| levels.get(level).is_some());
    let consumers: Map<String, Value> = clients
        .iter()
        .filter(|(_, level)| known(level))
        .map(|(client, level)| ((*client).to_owned(), (*level).into()))
        .collect();
    if !consumers.is_empty() {
        sla["consumers"] = consumers.into();
    }
}

fn level<'a>(sla: &'a mut Value, name: &str) -> &'a mut Value {
    edits(edits(sla, "levels"), name)
}

/// The object below a name, made if it is not there.
fn edits<'a>(object: &'a mut Value, name: &str) -> &'a mut Value {
    if object.get(name).is_none() {
        object[name] = json!({});
    }
    &mut object[name]
}

fn push(object: &mut Value, name: &str, value: Value) {
    if object.get(name).is_none() {
        object[name] = json!([]);
    }
    if let Some(list) = object[name].as_array_mut() {
        list.push(value);
    }
}

fn bucket(fields: &Fields) -> Value {
    let number = |name: &str| fields.integer(name).map(|number| number.max(0));
    let limit = number("limit").unwrap_or(0);
    json!({"interval": number("interval").unwrap_or(1).max(1), "limit": limit, "burst": number("burst").unwrap_or(limit)})
}

/// `written`: a text that is sent as it is, in the field for it. `target`: where the edits of a side, request or response, are kept.
fn headers<'a>(
    fields: &Fields,
    written: fn(&str) -> String,
    target: impl FnOnce(&str) -> &'a mut Value,
    report: &mut Report,
) {
    let set: Vec<(String, String)> = match fields.get("injection").map(|node| &node.content) {
        Some(Content::Map(entries)) => entries
            .iter()
            .filter_map(|entry| Some((entry.key.clone(), fields::text(&entry.value)?)))
            .collect(),
        Some(Content::List(pairs)) => pairs
            .iter()
            .filter_map(|pair| match fields::texts(pair).as_slice() {
                [name, value] => Some((name.clone(), value.clone())),
                _ => None,
            })
            .collect(),
        _ => Vec::new(),
    };
    let removal = fields.texts("removal");
    let side = fields.text("operate_on").unwrap_or_default();
    if side != "request" && side != "response" {
        // hyperapi does nothing with it either.
        let why = "`operate_on` is neither request nor response";
        return report.unsupported(fields.line(), fields.subject(), why);
    }
    report.converted(fields.line(), fields.subject());
    if set.is_empty() && removal.is_empty() {
        return;
    }
    let conf = target(&side);
    // Filters act one after the other: a later one removes what an earlier one set.
    let mut removed = conf.get("remove").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut result = conf.get("set").and_then(Value::as_object).cloned().unwrap_or_default();
    result.retain(|name, _| !removal.iter().any(|gone| gone.eq_ignore_ascii_case(name)));
    removed.extend(removal.into_iter().map(Value::from));
    for (name, value) in set {
        result.retain(|other, _| !other.eq_ignore_ascii_case(&name));
        result.insert(name, written(&value).into());
    }
    // What is removed and then set is only set: here removing comes last.
    let is_set = |name: &Value| {
        result.keys().any(|key| name.as_str().is_some_and(|name| key.eq_ignore_ascii_case(name)))
    };
    removed.retain(|name| !is_set(name));
    removed.dedup();
    for (name, value, is_empty) in [
        ("remove", Value::from(removed.clone()), removed.is_empty()),
        ("set", result.clone().into(), result.is_empty()),
    ] {
        match is_empty {
            false => conf[name] = value,
            true => _ = conf.as_object_mut().and_then(|conf| conf.remove(name)),
        }
    }
}

/// Where the plugins of a route keep the edits of a side.
fn plugins_of<'a>(plugins: &'a mut Map<String, Value>) -> impl FnOnce(&str) -> &'a mut Value {
    |side| {
        let plugin = if side == "response" { "response-rewrite" } else { "proxy-rewrite" };
        edits(plugins.entry(plugin).or_insert_with(|| json!({})), "headers")
    }
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
