//! rate-limiting to limit-count with `windows`, which are Kong's: periods of the clock that count together.
//!
//! A plugin counts over all routes it is for, and one of Kong's routes may be several of ours. So each has a group of
//! its own, named by what it belongs to.

use serde_json::{Map, Value, json};

use super::{
    entities::{Plugin, name},
    plugins::{Converted, Place},
};
use crate::{Report, fields::Fields};

const WINDOWS: [&str; 6] = ["second", "minute", "hour", "day", "month", "year"];

pub fn convert(conf: &Fields, place: Place, report: &mut Report) -> Converted {
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
    let code = conf.integer("error_code").unwrap_or(429);
    if !(200..600).contains(&code) {
        fault(report, &format!("`error_code: {code}` must be a status from 200 to 599"));
        return None;
    }
    let text = conf.text("error_message").filter(|text| !text.is_empty());
    let mut object = json!({
        "windows": windows,
        "group": group(place),
        "rejected_code": code,
        "rejected_msg": text.unwrap_or_else(|| "API rate limit exceeded".to_owned()),
        "show_limit_quota_header": !conf.flag("hide_client_headers").unwrap_or(false),
        "allow_degradation": conf.flag("fault_tolerant").unwrap_or(true),
    });
    // Counts are written at once.
    conf.skip(&["sync_rate"]);
    key(conf, place, &mut object, report)?;
    store(conf, &mut object, report);
    Some(vec![("limit-count", object)])
}

/// Whoever counts together.
fn group(place: Place) -> String {
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
fn key(conf: &Fields, place: Place, object: &mut Value, report: &mut Report) -> Option<()> {
    let by = conf.text("limit_by").unwrap_or_else(|| "consumer".to_owned());
    let (header, path) = (conf.text("header_name"), conf.text("path"));
    let (kind, key) = match (by.as_str(), header, path) {
        ("consumer", ..) => ("var", "consumer_name".to_owned()),
        ("credential", ..) => ("credential", "credential".to_owned()),
        ("ip", ..) => ("var", "remote_addr".to_owned()),
        ("header", Some(header), _) => ("var", format!("http_{}", header.to_lowercase().replace('-', "_"))),
        ("path", _, Some(path)) => ("path", path),
        ("service", ..) => match place.service {
            Some(service) => ("constant", format!("service:{}", name(service))),
            None if place.on_consumer => {
                let why =
                    "`limit_by: service` of a consumer is not converted: it counts by the route's service";
                report.unsupported(conf.line(), conf.subject(), why);
                return None;
            }
            None => ("var", "remote_addr".to_owned()),
        },
        (by, ..) => {
            let missing = match by {
                "header" => " without `header_name`",
                "path" => " without `path`",
                _ => "",
            };
            let why = format!("`limit_by: {by}`{missing} is not converted");
            report.unsupported(conf.line(), conf.subject(), &why);
            return None;
        }
    };
    if place.on_consumer && !["consumer", "credential"].contains(&by.as_str()) {
        let how = format!("`limit_by: {by}`: requests of others are not counted with this consumer's");
        report.approximated(conf.line(), conf.subject(), &how);
    }
    object["key_type"] = kind.into();
    object["key"] = key.into();
    Some(())
}

/// Where the counters are: in old files the keys of Redis stand beside the others.
fn store(conf: &Fields, object: &mut Value, report: &mut Report) {
    let policy = conf.text("policy").unwrap_or_else(|| "local".to_owned());
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
            let how = format!("policy {other}: each gateway counts for itself");
            report.approximated(conf.line(), conf.subject(), &how);
        }
    }
    redis.finish(report);
}
