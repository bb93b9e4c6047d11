//! key-auth, basic-auth, jwt and hmac-auth.

use serde_json::json;

use super::plugins::Converted;
use crate::{Report, fields::Fields};

/// What all plugins that authenticate have in common.
pub fn common(conf: &Fields, ours: &'static str, report: &mut Report) -> Converted {
    let mut object = json!({"hide_credentials": conf.flag("hide_credentials").unwrap_or(false)});
    if let Some(consumer) = conf.text("anonymous").filter(|name| !name.is_empty()) {
        object["anonymous_consumer"] = consumer.into();
    }
    if let Some(realm) = conf.text("realm") {
        object["realm"] = realm.into();
    }
    // A key in the body is not looked for; these realms are those of Konnect.
    conf.skip(&["key_in_body", "identity_realms", "auth_methods"]);
    let protection = conf.inner("brute_force_protection");
    if protection.text("strategy").is_some_and(|strategy| strategy != "off") {
        report.unsupported(conf.line(), conf.subject(), "`brute_force_protection` is not converted");
    }
    // CORS preflights pass without credentials only where the plugin cors answers them, as it does here.
    conf.skip(&["run_on_preflight"]);
    Some(vec![(ours, object)])
}

fn only(names: &[String], what: &str, conf: &Fields, report: &mut Report) {
    if names.len() > 1 {
        let why = format!("one {what} is looked at; left out: {}", names[1..].join(", "));
        report.approximated(conf.line(), conf.subject(), &why);
    }
}

pub fn key(conf: &Fields, report: &mut Report) -> Converted {
    let names = conf.texts("key_names");
    only(&names, "name", conf, report);
    let mut converted = common(conf, "key-auth", report)?;
    let name = names.into_iter().next().unwrap_or_else(|| "apikey".to_owned());
    for (key, at) in [("key_in_header", "header"), ("key_in_query", "query")] {
        if conf.flag(key) == Some(false) {
            report.approximated(
                conf.line(),
                conf.subject(),
                &format!("`{key}: false`: it is taken there too"),
            );
        }
        converted[0].1[at] = name.clone().into();
    }
    Some(converted)
}

pub fn jwt(conf: &Fields, report: &mut Report) -> Converted {
    let mut converted = common(conf, "jwt-auth", report)?;
    let object = &mut converted[0].1;
    object["key_claim_name"] = conf.text("key_claim_name").unwrap_or_else(|| "iss".to_owned()).into();
    for (theirs, ours) in
        [("header_names", "header"), ("uri_param_names", "query"), ("cookie_names", "cookie")]
    {
        let names = conf.texts(theirs);
        only(&names, ours, conf, report);
        if let Some(name) = names.into_iter().next() {
            object[ours] = name.into();
        }
    }
    let claims = conf.texts("claims_to_verify");
    if !claims.is_empty() {
        object["claims_to_verify"] = claims.into();
    }
    if conf.number("maximum_expiration").is_some_and(|seconds| seconds > 0.0) {
        report.unsupported(conf.line(), conf.subject(), "`maximum_expiration` is left out");
    }
    Some(converted)
}

pub fn hmac(conf: &Fields, report: &mut Report) -> Converted {
    let how = "clients must sign as the plugin hmac-auth documents: `Authorization: Signature keyId=...`";
    report.approximated(conf.line(), conf.subject(), how);
    let mut converted = common(conf, "hmac-auth", report)?;
    let object = &mut converted[0].1;
    object["clock_skew"] = conf.integer("clock_skew").unwrap_or(300).into();
    object["validate_request_body"] = conf.flag("validate_request_body").unwrap_or(false).into();
    let headers = conf.texts("enforce_headers");
    if !headers.is_empty() {
        object["signed_headers"] = headers.into();
    }
    let ours = ["hmac-sha1", "hmac-sha256", "hmac-sha512"];
    let mut algorithms = conf.texts("algorithms");
    let given = algorithms.len();
    algorithms.retain(|name| ours.contains(&name.as_str()));
    if algorithms.len() < given {
        let how = "algorithms other than hmac-sha1, -sha256, -sha512 are refused";
        report.approximated(conf.line(), conf.subject(), how);
    }
    if !algorithms.is_empty() {
        object["allowed_algorithms"] = algorithms.into();
    }
    Some(converted)
}
