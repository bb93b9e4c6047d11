//! Refuses requests whose target (normalised path and query) matches one of some regular expressions.

use std::sync::Arc;

use plugin::{BuildContext, Phases, Plugin, PluginDef, Reply, Request, SchemaKind, Step};
use serde::Deserialize;
use serde_json::Value;

use crate::common::{
    conf::typed,
    regexes::{self, Regex},
};

pub static PLUGIN: PluginDef = PluginDef {
    name: "uri-blocker",
    version: 0.1,
    priority: 2900,
    schema: include_str!("../schemas/uri-blocker.json"),
    phases: Phases::REWRITE,
    check,
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

fn build(conf: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let conf: Conf = typed(conf)?;
    Ok(Arc::new(UriBlocker {
        rules: regexes::any_of(&conf.block_rules, conf.case_insensitive)?,
        rejection: Reply::error_msg_or_page(conf.rejected_code, conf.rejected_msg.as_deref()),
    }))
}

impl Plugin for UriBlocker {
    fn rewrite<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        if self.rules.is_match(&request.normal_target()).unwrap_or(true) {
            Step::reply(self.rejection.clone())
        } else {
            Step::Next
        }
    }
}
