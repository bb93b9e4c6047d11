//! Refuses requests whose target (normalised path and query) matches one of some regular expressions, with the query as it
//! was sent or decoded.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use tidegate_plugin_api::{
    BuildContext, Foresight, Phases, Plugin, PluginDef, Reply, Request, SchemaKind, Step,
};

use crate::common::{
    conf::typed,
    pattern_doubts,
    regexes::{self, Regex},
};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "uri-blocker",
    version: 0.1,
    priority: 2900,
    schema: include_str!("uri_blocker.json"),
    phases: Phases::REWRITE,
    check,
    remarks,
    build,
    ..PluginDef::DEFAULT
};

#[derive(Deserialize)]
struct Conf {
    block_rules: Vec<String>,
    rejected_code: u16,
    rejected_msg: Option<String>,
    case_insensitive: bool,
}

struct UriBlocker {
    rules: Regex,
    rejection: Reply,
}

fn check(conf: &Value, _: SchemaKind) -> Result<(), String> {
    regexes::check_all(conf.get("block_rules"))
}

/// Rules that block nothing, and a list that blocks all.
fn remarks(conf: &Value) -> Vec<String> {
    let rules = conf.get("block_rules").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if rules.is_empty() {
        return vec!["block_rules is empty: every request is refused".to_owned()];
    }
    let rules = rules.iter().filter_map(Value::as_str);
    let doubts = rules.filter_map(|rule| {
        if never_begins(rule) {
            return Some(format!("{rule} matches no request: what is compared begins with /; write ^/…"));
        }
        pattern_doubts::repeated_letter(rule)
    });
    doubts.map(|doubt| format!("block_rules: {doubt}")).collect()
}

/// Whether a pattern asks for another beginning than `/`: `^` and a letter or digit that has to be there.
fn never_begins(rule: &str) -> bool {
    let Some(rest) = rule.strip_prefix('^').filter(|rest| !rest.contains('|')) else { return false };
    let mut signs = rest.chars();
    let is_plain = signs.next().is_some_and(|sign| sign.is_alphanumeric());
    is_plain && !matches!(signs.next(), Some('?' | '*' | '{'))
}

fn build(conf: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let conf: Conf = typed(conf)?;
    Ok(Arc::new(UriBlocker {
        rules: regexes::any_of(&conf.block_rules, conf.case_insensitive)?,
        rejection: Reply::error_msg_or_page(conf.rejected_code, conf.rejected_msg.as_deref()),
    }))
}

impl UriBlocker {
    /// A rule that gives up blocks.
    fn matches(&self, request: &Request, text: &[u8]) -> bool {
        self.rules.within(&request.search_time).is_match(text).unwrap_or(true)
    }

    /// What upstreams read: `?a=%72oot` says `root` to them, and with `match_uri_encoded_slash` the path still has its `%2F`,
    /// which they will take for a slash.
    fn matches_decoded(&self, request: &Request) -> bool {
        let (path, query) = (&request.path, request.head.query().unwrap_or_default());
        let slashes = request.snapshot.options.match_uri_encoded_slash && path.contains(&b'%');
        if !slashes && !query.iter().any(|byte| matches!(byte, b'%' | b'+')) {
            return false;
        }
        let mut decoded = Vec::new();
        if !slashes {
            decoded.extend_from_slice(path);
        } else if tidegate_protocol::uri::normalize_path(path, &mut decoded).is_err() {
            decoded = tidegate_protocol::uri::percent_decode(path, false);
        }
        if !query.is_empty() {
            decoded.push(b'?');
            decoded.extend_from_slice(&tidegate_protocol::uri::percent_decode(query, true));
        }
        self.matches(request, &decoded)
    }
}

impl Plugin for UriBlocker {
    fn rewrite<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        if self.matches(request, &request.normal_target()) || self.matches_decoded(request) {
            Step::reply(self.rejection.clone())
        } else {
            Step::Next
        }
    }

    fn foresee(&self, phase: Phases, request: &mut Request) -> Foresight {
        Foresight::by_running(self, phase, request)
    }
}
