//! Plugins that limit, refuse or answer themselves.

use serde_json::json;

use super::{
    converted::{Converted, PluginContext},
    networks,
};
use crate::{Report, fields::Fields, literal};

/// Groups of consumers are the label `groups` here.
pub(super) fn acl(conf: &Fields) -> Converted {
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

pub(super) fn ip_restriction(conf: &Fields, report: &mut Report) -> Converted {
    let (allow, deny) = (either(conf, "allow", "whitelist"), either(conf, "deny", "blacklist"));
    let status = conf.integer("status").unwrap_or(403);
    if !(403..=404).contains(&status) {
        report.approximated(conf.line(), conf.subject(), &format!("refused with 403 and not with {status}"));
    }
    let mut object = json!({
        "message": conf.text("message").unwrap_or_else(|| "Your IP address is not allowed".to_owned()),
        "response_code": if status == 404 { 404 } else { 403 },
    });
    match (allow.is_empty(), deny.is_empty()) {
        // What is denied is taken out of what is allowed.
        (false, false) => {
            let Some(left) = networks::without(&allow, &deny) else {
                report.unsupported(conf.line(), conf.subject(), "invalid network in `allow` or `deny`");
                return None;
            };
            // No client is left: this is an address that none can have.
            object["whitelist"] = if left.is_empty() { json!(["0.0.0.0/32"]) } else { left.into() };
        }
        (false, true) => object["whitelist"] = allow.into(),
        (true, false) => object["blacklist"] = deny.into(),
        (true, true) => {
            report.unsupported(conf.line(), conf.subject(), "it has neither `allow` nor `deny`");
            return None;
        }
    }
    Some(vec![("ip-restriction", object)])
}

pub(crate) fn bot_detection(conf: &Fields, report: &mut Report) -> Converted {
    let (allow, mut deny) = (either(conf, "allow", "whitelist"), either(conf, "deny", "blacklist"));
    if !allow.is_empty() {
        let how = "`allow` (exceptions from the built-in list) is left out";
        report.approximated(conf.line(), conf.subject(), how);
    }
    let how =
        "the built-in list is a short one of our own: clients that call themselves bot, crawler or spider";
    report.approximated(conf.line(), conf.subject(), how);
    deny.push("(?i)(bot|crawler|spider)\\b".to_owned());
    Some(vec![("ua-restriction", json!({"denylist": deny, "bypass_missing": true, "message": "Forbidden"}))])
}

pub(crate) fn request_size_limiting(conf: &Fields, report: &mut Report) -> Converted {
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
pub(crate) fn request_termination(conf: &Fields, place: PluginContext, report: &mut Report) -> Converted {
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
    let [body, kind] = [body, kind].map(|text| literal::in_template(&text));
    let abort = json!({"http_status": status, "body": body, "headers": {"Content-Type": kind}});
    Some(vec![("fault-injection", json!({"abort": abort, "_meta": {"priority": 2}}))])
}

/// What a response may depend on besides its place.
const PERSONAL: [&str; 2] = ["$http_cookie", "$http_authorization"];

pub(super) fn proxy_cache(conf: &Fields, report: &mut Report) -> Converted {
    let how = "responses of any type are cached, except to requests with `Cookie` or `Authorization`; the header is \
               Apisix-Cache-Status and not X-Cache-Status";
    report.approximated(conf.line(), conf.subject(), how);
    conf.skip(&["strategy", "memory", "content_type", "response_headers"]);
    let mut object = json!({
        "cache_strategy": "memory",
        "cache_zone": "memory_cache",
        "cache_ttl": conf.integer("cache_ttl").unwrap_or(300),
        "cache_control": conf.flag("cache_control").unwrap_or(false),
        // Kong leaves types out, most often those of pages, which are made for one client.
        "cache_bypass": PERSONAL,
        "no_cache": PERSONAL,
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
    let fields = conf.texts("vary_headers");
    if !fields.is_empty() {
        // What one value of the field is answered with is not for clients with another.
        let part = |field: &String| {
            let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
            let name = field.bytes().all(is_name).then(|| field.to_ascii_lowercase().replace('-', "_"));
            name.filter(|name| !name.is_empty()).map(|name| format!("$http_{name}"))
        };
        let Some(parts) = fields.iter().map(part).collect::<Option<Vec<String>>>() else {
            let how = "`vary_headers` has what is not the name of a header field here; nothing is cached";
            report.unsupported(conf.line(), conf.subject(), how);
            return Some(Vec::new());
        };
        let place = ["$host", "$request_uri"].map(str::to_owned);
        object["cache_key"] = place.into_iter().chain(parts).collect::<Vec<String>>().into();
    }
    Some(vec![("proxy-cache", object)])
}
