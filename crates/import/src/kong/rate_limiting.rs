//! rate-limiting to limit-count with `windows`, which are Kong's: periods of the clock that count together.
//!
//! A plugin counts over all routes it is for, and one of Kong's routes may be several of ours. So each has a group of
//! its own, named by what it belongs to.

use serde_json::{Map, Value, json};

use super::{
    converted::{Converted, PluginContext},
    entities::Plugin,
    node::name,
};
use crate::{Report, fields::Fields};

const WINDOWS: [&str; 6] = ["second", "minute", "hour", "day", "month", "year"];

/// Kong's fixed windows of these lengths in seconds are those of the clock.
const LENGTHS: [(i64, &str); 4] = [(1, "second"), (60, "minute"), (3600, "hour"), (86_400, "day")];

pub(super) fn convert(conf: &Fields, place: PluginContext, report: &mut Report) -> Converted {
    let windows = windows(conf, report)?;
    limits(conf, windows, group(place), ["limit_by", "policy"], place, report)
}

/// rate-limiting-advanced with one fixed window. Of several, each counts what another refuses.
pub(super) fn advanced(conf: &Fields, place: PluginContext, report: &mut Report) -> Converted {
    let fault = |report: &mut Report, why: &str| {
        report.unsupported(conf.line(), conf.subject(), why);
        None
    };
    if conf.text("window_type").is_none_or(|kind| kind != "fixed") {
        return fault(
            report,
            "its sliding windows count what they refuse; `window_type: fixed` is converted",
        );
    }
    let (limits_of, lengths) = (conf.texts("limit"), conf.texts("window_size"));
    let ([limit], [length]) = (limits_of.as_slice(), lengths.as_slice()) else {
        return fault(report, "each of its windows counts what another refuses; one window is converted");
    };
    let Some(limit) = limit.parse::<u64>().ok().filter(|limit| *limit > 0) else {
        return fault(report, &format!("`limit: {limit}` must be a whole number above 0"));
    };
    let window = LENGTHS.iter().find(|(seconds, _)| length.parse() == Ok(*seconds));
    let Some((_, window)) = window else {
        return fault(
            report,
            &format!("`window_size: {length}` is not converted; 1, 60, 3600 and 86400 are"),
        );
    };
    if conf.number("retry_after_jitter_max").is_some_and(|most| most > 0.0) {
        return fault(report, "`retry_after_jitter_max` is not converted");
    }
    // A refused request in a fixed window changes nothing until it ends.
    conf.skip(&["disable_penalty", "dictionary_name", "lock_dictionary_name"]);
    let group = conf.text("namespace").map_or_else(|| group(place), |name| format!("kong:namespace:{name}"));
    let windows = Map::from_iter([((*window).to_owned(), limit.into())]);
    limits(conf, windows, group, ["identifier", "strategy"], place, report)
}

fn windows(conf: &Fields, report: &mut Report) -> Option<Map<String, Value>> {
    let fault = |report: &mut Report, why: &str| report.unsupported(conf.line(), conf.subject(), why);
    let mut windows = Map::new();
    for window in WINDOWS {
        let Some(limit) = conf.number(window) else { continue };
        if limit < 1.0 || limit.fract() != 0.0 {
            fault(report, &format!("`{window}: {limit}` must be a whole number above 0"));
            return None;
        }
        windows.insert(window.to_owned(), conf.integer(window).into());
    }
    if windows.is_empty() {
        fault(report, "it has no window from `second` to `year`");
        return None;
    }
    Some(windows)
}

/// `names`: of the fields that say by what is counted, and where the counters are.
fn limits(
    conf: &Fields,
    windows: Map<String, Value>,
    group: String,
    names: [&str; 2],
    place: PluginContext,
    report: &mut Report,
) -> Converted {
    let [by, policy] = names;
    let code = conf.integer("error_code").unwrap_or(429);
    if !(200..600).contains(&code) {
        let why = format!("`error_code: {code}` must be a status from 200 to 599");
        report.unsupported(conf.line(), conf.subject(), &why);
        return None;
    }
    let text = conf.text("error_message").filter(|text| !text.is_empty());
    let mut object = json!({
        "windows": windows,
        "group": group,
        "rejected_code": code,
        "rejected_msg": text.unwrap_or_else(|| "API rate limit exceeded".to_owned()),
        "show_limit_quota_header": !conf.flag("hide_client_headers").unwrap_or(false),
    });
    // Counts are written at once.
    conf.skip(&["sync_rate"]);
    key(conf, by, place, &mut object, report)?;
    store(conf, policy, &mut object, report);
    Some(vec![("limit-count", object)])
}

/// The name under which requests count together.
fn group(place: PluginContext) -> String {
    let Some(Plugin { service, route, consumer, group, .. }) = place.plugin else {
        return "kong".to_owned();
    };
    let owners = [("service", service), ("route", route), ("consumer", consumer), ("consumer-group", group)];
    let mut text = "kong".to_owned();
    for (kind, owner) in owners {
        if let Some(owner) = owner {
            text += &format!(":{kind}:{}", name(owner));
        }
    }
    text
}

/// What is counted by. Without it the client's address counts, in Kong as here.
fn key(
    conf: &Fields,
    field: &str,
    place: PluginContext,
    object: &mut Value,
    report: &mut Report,
) -> Option<()> {
    let by = conf.text(field).unwrap_or_else(|| "consumer".to_owned());
    let (header, path) = (conf.text("header_name"), conf.text("path"));
    let (kind, key) = match (by.as_str(), header, path) {
        ("consumer", ..) => ("var", "consumer_name".to_owned()),
        ("credential", ..) => ("credential", "credential".to_owned()),
        ("ip", ..) => ("var", "remote_addr".to_owned()),
        ("header", Some(header), _) => ("var", format!("http_{}", header.to_lowercase().replace('-', "_"))),
        ("path", _, Some(path)) => ("path", path),
        // All consumers of the group that it belongs to together.
        ("consumer-group", ..) if place.plugin.is_some_and(|plugin| plugin.group.is_some()) => {
            let group = place.plugin.and_then(|plugin| plugin.group).map(name).unwrap_or_default();
            ("constant", format!("consumer-group:{group}"))
        }
        ("service", ..) => match place.service {
            Some(service) => ("constant", format!("service:{}", name(service))),
            None if place.on_consumer => {
                let why = format!(
                    "`{field}: service` of a consumer is not converted: it counts by the route's service"
                );
                report.unsupported(conf.line(), conf.subject(), &why);
                return None;
            }
            None => ("var", "remote_addr".to_owned()),
        },
        (by, ..) => {
            let missing = match by {
                "header" => " without `header_name`",
                "path" => " without `path`",
                "consumer-group" => " outside of a consumer group",
                _ => "",
            };
            let why = format!("`{field}: {by}`{missing} is not converted");
            report.unsupported(conf.line(), conf.subject(), &why);
            return None;
        }
    };
    if place.on_consumer && !["consumer", "credential", "consumer-group"].contains(&by.as_str()) {
        let how = format!("`{field}: {by}`: requests of others are not counted with this consumer's");
        report.approximated(conf.line(), conf.subject(), &how);
    }
    object["key_type"] = kind.into();
    object["key"] = key.into();
    Some(())
}

/// Where the counters are: in old files the keys of Redis stand beside the others.
fn store(conf: &Fields, field: &str, object: &mut Value, report: &mut Report) {
    let policy = conf.text(field).unwrap_or_else(|| "local".to_owned());
    let fault_tolerant = conf.flag("fault_tolerant").unwrap_or(true);
    let redis = conf.inner("redis");
    // Both are asked for: a file may have both.
    let text = |key: &str| {
        let old = conf.text(&format!("redis_{key}"));
        redis.text(key).or(old)
    };
    let number = |key: &str| {
        let old = conf.integer(&format!("redis_{key}"));
        redis.integer(key).or(old)
    };
    let (host, password, user) = (text("host"), text("password"), text("username"));
    let (port, database, timeout) = (number("port"), number("database"), number("timeout"));
    let flag = |key: &str| {
        let old = conf.flag(&format!("redis_{key}"));
        redis.flag(key).or(old)
    };
    let (ssl, verify) = (flag("ssl"), flag("ssl_verify"));
    let server_name = text("server_name");
    match (policy.as_str(), &host) {
        ("redis", Some(host)) => {
            object["policy"] = "redis".into();
            object["allow_degradation"] = fault_tolerant.into();
            object["redis_host"] = host.clone().into();
            object["redis_port"] = port.unwrap_or(6379).into();
            object["redis_database"] = database.unwrap_or(0).into();
            object["redis_timeout"] = timeout.unwrap_or(2000).into();
            for (key, value) in [("redis_password", password), ("redis_username", user)] {
                if let Some(value) = value {
                    object[key] = value.into();
                }
            }
            if ssl == Some(true) {
                object["redis_ssl"] = true.into();
                object["redis_ssl_verify"] = verify.unwrap_or(false).into();
                if let Some(other) = server_name.filter(|name| verify == Some(true) && name != host) {
                    let why = format!(
                        "Redis' `server_name: {other}` is left out; its certificate must be for its `host`"
                    );
                    report.approximated(conf.line(), conf.subject(), &why);
                }
            }
        }
        ("local", _) => {}
        (other, _) => {
            let how = format!("{field} {other}: each gateway counts for itself");
            report.approximated(conf.line(), conf.subject(), &how);
        }
    }
    redis.finish(report);
}
