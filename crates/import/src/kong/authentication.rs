//! key-auth, basic-auth, jwt and hmac-auth.

use serde_json::{Value, json};

use tidegate_config::yaml::Node;

use super::{
    converted::Converted,
    named::Named,
    node::{label, username},
};
use crate::{
    Report,
    fields::{self, Fields},
};

/// What all plugins that authenticate have in common. `anonymous` is as the file has it: see [`name_anonymous`].
pub(super) fn common(conf: &Fields, ours: &'static str, report: &mut Report) -> Converted {
    let mut object = json!({"hide_credentials": conf.flag("hide_credentials").unwrap_or(false)});
    if let Some(consumer) = conf.text("anonymous").filter(|name| !name.is_empty()) {
        object["anonymous_consumer"] = consumer.into();
    }
    if let Some(realm) = conf.text("realm") {
        object["realm"] = realm.into();
    }
    // These realms are those of Konnect. Without the control plane's own, none of the file's consumers may pass.
    let is = |realm: &Node, key: &str, wanted: Option<&str>| {
        let found = realm.get(key).and_then(fields::text);
        wanted.map_or(found.is_some(), |wanted| found.as_deref() == Some(wanted))
    };
    let realms = conf.list("identity_realms");
    if realms.iter().any(|realm| is(realm, "id", None))
        && !realms.iter().any(|realm| is(realm, "scope", Some("cp")))
    {
        report.unsupported(
            conf.line(),
            conf.subject(),
            "`identity_realms` has consumers of other realms only",
        );
    }
    let protection = conf.inner("brute_force_protection");
    if protection.text("strategy").is_some_and(|strategy| strategy != "off") {
        report.unsupported(conf.line(), conf.subject(), "`brute_force_protection` is not converted");
    }
    // Kong then asks no OPTIONS for credentials, be it a preflight or not. By default it asks for them.
    if conf.flag("run_on_preflight") == Some(false) {
        object["_meta"] = json!({"filter": [["request_method", "~=", "OPTIONS"]]});
    }
    Some(vec![(ours, object)])
}

/// Kong names the consumer by its id or its username; here it goes by its username.
pub(super) fn name_anonymous(
    plugins: &mut [(&'static str, Value)],
    all: &Named,
    node: &Node,
    report: &mut Report,
) {
    for conf in plugins.iter_mut().filter_map(|(_, conf)| conf.get_mut("anonymous_consumer")) {
        let given = conf.as_str().unwrap_or_default();
        match all.consumer(given) {
            Some(consumer) => {
                let name = username(consumer);
                let first = all.iter().find(|other| username(other) == name);
                if !first.is_some_and(|first| std::ptr::eq(*first, consumer)) {
                    let why = format!("`anonymous: {given}`: another consumer is {name} here");
                    report.unsupported(node.line, &label("plugin", node), &why);
                }
                *conf = name.into();
            }
            None => {
                let how = format!(
                    "`anonymous: {given}` is not a consumer of the file: without credentials requests are refused with 401, \
                     in Kong with 500"
                );
                report.approximated(node.line, &label("plugin", node), &how);
            }
        }
    }
}

fn only(names: &[String], what: &str, conf: &Fields, report: &mut Report) {
    if names.len() > 1 {
        let why = format!("one {what} is looked at; left out: {}", names[1..].join(", "));
        report.approximated(conf.line(), conf.subject(), &why);
    }
}

pub(super) fn key(conf: &Fields, report: &mut Report) -> Converted {
    let names = conf.texts("key_names");
    only(&names, "name", conf, report);
    let mut converted = common(conf, "key-auth", report)?;
    let name = names.into_iter().next().unwrap_or_else(|| "apikey".to_owned());
    let [in_header, in_query] = ["key_in_header", "key_in_query"].map(|key| conf.flag(key).unwrap_or(true));
    if !in_header && !in_query {
        report.unsupported(
            conf.line(),
            conf.subject(),
            "keys are taken neither from headers nor from queries",
        );
        return None;
    }
    if conf.flag("key_in_body") == Some(true) {
        let how = "`key_in_body`: a key in the body is not looked for; requests with it alone are refused";
        report.approximated(conf.line(), conf.subject(), how);
    }
    // An empty name: no key is taken from there.
    let at = |takes: bool| if takes { name.clone() } else { String::new() };
    converted[0].1["header"] = at(in_header).into();
    converted[0].1["query"] = at(in_query).into();
    if conf.flag("hide_credentials") == Some(true) {
        if !in_header {
            converted.push(("proxy-rewrite", json!({"headers": {"remove": [name]}})));
        }
        if !in_query {
            let how = format!(
                "`hide_credentials`: an argument `{name}`, where no key is looked for, reaches upstreams"
            );
            report.approximated(conf.line(), conf.subject(), &how);
        }
    }
    Some(converted)
}

pub(super) fn jwt(conf: &Fields, report: &mut Report) -> Converted {
    let mut converted = common(conf, "jwt-auth", report)?;
    let object = &mut converted[0].1;
    object["key_claim_name"] = conf.text("key_claim_name").unwrap_or_else(|| "iss".to_owned()).into();
    for (theirs, ours, usual) in [
        ("header_names", "header", "authorization"),
        ("uri_param_names", "query", "jwt"),
        ("cookie_names", "cookie", ""),
    ] {
        let names = conf.texts(theirs);
        only(&names, ours, conf, report);
        // An empty list: no token is taken from there.
        let usual = if conf.get(theirs).is_some() { "" } else { usual };
        object[ours] = names.into_iter().next().unwrap_or_else(|| usual.to_owned()).into();
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

pub(super) fn hmac(conf: &Fields, report: &mut Report) -> Converted {
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
    if given > 0 && algorithms.is_empty() {
        let why = "none of its `algorithms` is verified here; hmac-sha1, hmac-sha256 and hmac-sha512 are";
        report.unsupported(conf.line(), conf.subject(), why);
        return None;
    }
    if !algorithms.is_empty() {
        object["allowed_algorithms"] = algorithms.into();
    }
    Some(converted)
}
