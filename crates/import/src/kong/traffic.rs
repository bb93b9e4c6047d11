//! Plugins that limit, refuse or answer themselves.

use serde_json::{Value, json};

use super::plugins::{Converted, Place};
use crate::{Report, fields::Fields};

/// Groups of consumers are the label `groups` here.
pub fn acl(conf: &Fields) -> Converted {
    conf.skip(&["hide_groups_header", "always_use_authenticated_groups"]);
    let (allow, deny) = (either(conf, "allow", "whitelist"), either(conf, "deny", "blacklist"));
    let mut object = json!({"rejected_msg": "You cannot consume this service"});
    if !allow.is_empty() {
        object["allow_labels"] = json!({"groups": allow});
    }
    if !deny.is_empty() {
        object["deny_labels"] = json!({"groups": deny});
    }
    Some(vec![("acl", object)])
}

/// A key and what it was called before 2.1.
fn either(conf: &Fields, now: &str, before: &str) -> Vec<String> {
    let mut all = conf.texts(now);
    all.extend(conf.texts(before));
    all
}

const WINDOWS: [(&str, i64); 6] = [
    ("second", 1),
    ("minute", 60),
    ("hour", 3_600),
    ("day", 86_400),
    ("month", 2_592_000),
    ("year", 31_536_000),
];

pub fn rate_limiting(conf: &Fields, place: Place, report: &mut Report) -> Converted {
    let windows: Vec<(i64, i64)> =
        WINDOWS.iter().filter_map(|(name, seconds)| Some((conf.integer(name)?, *seconds))).collect();
    conf.skip(&["fault_tolerant", "sync_rate", "error_code", "error_message"]);
    let how = "windows begin with the first request and not with the clock's; a month has 30 days";
    report.approximated(conf.line(), conf.subject(), how);
    let mut object = json!({
        "rejected_code": conf.integer("error_code").unwrap_or(429),
        "rejected_msg": conf.text("error_message").unwrap_or_else(|| "API rate limit exceeded".to_owned()),
        "show_limit_quota_header": !conf.flag("hide_client_headers").unwrap_or(false),
        "allow_degradation": conf.flag("fault_tolerant").unwrap_or(true),
    });
    let known = place.authenticates || place.on_consumer;
    let key = match conf.text("limit_by").as_deref() {
        None | Some("consumer" | "credential") if known => "consumer_name".to_owned(),
        None | Some("consumer" | "credential" | "ip") => "remote_addr".to_owned(),
        Some("header") => {
            format!("http_{}", conf.text("header_name").unwrap_or_default().to_lowercase().replace('-', "_"))
        }
        Some("path") => {
            conf.skip(&["path"]);
            "uri".to_owned()
        }
        Some("service") => {
            report.approximated(
                conf.line(),
                conf.subject(),
                "limit_by service: each route counts for itself",
            );
            "route_id".to_owned()
        }
        Some(other) => {
            report.unsupported(
                conf.line(),
                conf.subject(),
                &format!("limit_by {other}; clients count by address"),
            );
            "remote_addr".to_owned()
        }
    };
    conf.skip(&["header_name", "path"]);
    match windows.as_slice() {
        [] => {
            report.unsupported(conf.line(), conf.subject(), "it has no window from `second` to `year`");
            return None;
        }
        [(count, seconds)] => {
            object["count"] = (*count).into();
            object["time_window"] = (*seconds).into();
            object["key"] = key.into();
        }
        several => {
            // No two rules may have the same key.
            let rules = several.iter().map(
                |(count, seconds)| json!({"count": count, "time_window": seconds, "key": format!("${key} {seconds}")}),
            );
            object["rules"] = rules.collect::<Vec<Value>>().into();
        }
    }
    store(conf, &mut object, report);
    Some(vec![("limit-count", object)])
}

/// Where the counters are: in old files the keys of Redis stand beside the others.
fn store(conf: &Fields, object: &mut Value, report: &mut Report) {
    let policy = conf.text("policy").unwrap_or_else(|| "local".to_owned());
    let redis = conf.inner("redis");
    let text = |key: &str| redis.text(key).or_else(|| conf.text(&format!("redis_{key}")));
    let number = |key: &str| redis.integer(key).or_else(|| conf.integer(&format!("redis_{key}")));
    let (host, password, user) = (text("host"), text("password"), text("username"));
    let (port, database, timeout) = (number("port"), number("database"), number("timeout"));
    let ssl = redis.flag("ssl").or_else(|| conf.flag("redis_ssl"));
    match (policy.as_str(), host) {
        ("redis", Some(host)) => {
            object["policy"] = "redis".into();
            object["redis_host"] = host.into();
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
            }
        }
        ("local", _) => {}
        (other, _) => {
            let how = format!("policy {other}: each gateway counts for itself");
            report.approximated(conf.line(), conf.subject(), &how);
        }
    }
    redis.finish(report);
}

pub fn ip_restriction(conf: &Fields, report: &mut Report) -> Converted {
    let (allow, deny) = (either(conf, "allow", "whitelist"), either(conf, "deny", "blacklist"));
    let status = conf.integer("status").unwrap_or(403);
    if !(403..=404).contains(&status) {
        report.approximated(conf.line(), conf.subject(), &format!("refused with 403 and not with {status}"));
    }
    let mut object = json!({
        "message": conf.text("message").unwrap_or_else(|| "Your IP address is not allowed".to_owned()),
        "response_code": if status == 404 { 404 } else { 403 },
    });
    if !allow.is_empty() && !deny.is_empty() {
        report.unsupported(conf.line(), conf.subject(), "`deny` beside `allow`: the list of `allow` counts");
    }
    match (allow.is_empty(), deny.is_empty()) {
        (false, _) => object["whitelist"] = allow.into(),
        (true, false) => object["blacklist"] = deny.into(),
        (true, true) => {
            report.unsupported(conf.line(), conf.subject(), "it has neither `allow` nor `deny`");
            return None;
        }
    }
    Some(vec![("ip-restriction", object)])
}

pub fn bot_detection(conf: &Fields, report: &mut Report) -> Converted {
    let (allow, mut deny) = (either(conf, "allow", "whitelist"), either(conf, "deny", "blacklist"));
    if !allow.is_empty() {
        report.unsupported(
            conf.line(),
            conf.subject(),
            "`allow` (exceptions from the built-in list) is left out",
        );
    }
    let how =
        "the built-in list is a short one of our own: clients that call themselves bot, crawler or spider";
    report.approximated(conf.line(), conf.subject(), how);
    deny.push("(?i)(bot|crawler|spider)\\b".to_owned());
    Some(vec![("ua-restriction", json!({"denylist": deny, "bypass_missing": true, "message": "Forbidden"}))])
}

pub fn request_size_limiting(conf: &Fields, report: &mut Report) -> Converted {
    let size = conf.integer("allowed_payload_size").unwrap_or(128);
    let unit = match conf.text("size_unit").as_deref() {
        None | Some("megabytes") => 1_048_576,
        Some("kilobytes") => 1024,
        Some("bytes") => 1,
        Some(other) => {
            report.unsupported(conf.line(), conf.subject(), &format!("size_unit {other} is not known"));
            return None;
        }
    };
    if conf.flag("require_content_length") == Some(true) {
        report.unsupported(conf.line(), conf.subject(), "`require_content_length` is left out");
    }
    Some(vec![("client-control", json!({"max_body_size": size.saturating_mul(unit)}))])
}

/// Answers after authentication in Kong: the priority puts it behind here too.
pub fn request_termination(conf: &Fields, place: Place, report: &mut Report) -> Converted {
    if place.authenticates {
        let how = "it answers after authentication, but before acl and limits";
        report.approximated(conf.line(), conf.subject(), how);
    }
    let status = conf.integer("status_code").unwrap_or(503);
    let (body, kind) = match (conf.text("body"), conf.text("message")) {
        (Some(body), _) => {
            (body, conf.text("content_type").unwrap_or_else(|| "application/json; charset=utf-8".to_owned()))
        }
        (None, message) => {
            let message = message.unwrap_or_else(|| "Service unavailable".to_owned());
            (json!({"message": message}).to_string(), "application/json; charset=utf-8".to_owned())
        }
    };
    conf.skip(&["message", "content_type"]);
    let abort = json!({"http_status": status, "body": body, "headers": {"Content-Type": kind}});
    Some(vec![("fault-injection", json!({"abort": abort, "_meta": {"priority": 2}}))])
}

pub fn proxy_cache(conf: &Fields, report: &mut Report) -> Converted {
    let how = "the answer's header is Apisix-Cache-Status and not X-Cache-Status";
    report.approximated(conf.line(), conf.subject(), how);
    conf.skip(&["strategy", "memory"]);
    let mut object = json!({
        "cache_strategy": "memory",
        "cache_zone": "memory_cache",
        "cache_ttl": conf.integer("cache_ttl").unwrap_or(300),
        "cache_control": conf.flag("cache_control").unwrap_or(false),
    });
    let statuses: Vec<i64> =
        conf.texts("response_code").iter().filter_map(|text| text.parse().ok()).collect();
    if !statuses.is_empty() {
        object["cache_http_status"] = statuses.into();
    }
    let methods = conf.texts("request_method");
    if !methods.is_empty() {
        object["cache_method"] = methods.into();
    }
    Some(vec![("proxy-cache", object)])
}
