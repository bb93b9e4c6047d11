//! Lets clients through, or keeps them out, by their `User-Agent`.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use tidegate_plugin_api::{
    BuildContext, Foresight, Phases, Plugin, PluginDef, Reply, Request, SchemaKind, Step,
};
use tidegate_protocol::HeaderId;

use crate::common::{
    conf::typed,
    pattern_doubts,
    regexes::{self, Regex},
};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "ua-restriction",
    version: 0.1,
    priority: 2999,
    schema: include_str!("ua_restriction.json"),
    phases: Phases::ACCESS,
    check,
    remarks,
    build,
    ..PluginDef::DEFAULT
};

#[derive(Deserialize)]
struct Conf {
    bypass_missing: bool,
    allowlist: Option<Vec<String>>,
    denylist: Option<Vec<String>>,
    message: String,
}

struct UaRestriction {
    bypass_missing: bool,
    rules: Vec<Regex>,
    is_allowlist: bool,
    rejection: Reply,
}

fn check(conf: &Value, _: SchemaKind) -> Result<(), String> {
    regexes::check_all(conf.get("allowlist"))?;
    regexes::check_all(conf.get("denylist"))
}

/// Patterns that match other clients than it seems, or none.
fn remarks(conf: &Value) -> Vec<String> {
    let lists =
        ["allowlist", "denylist"].into_iter().filter_map(|name| Some((name, conf.get(name)?.as_array()?)));
    let rules =
        lists.flat_map(|(name, list)| list.iter().filter_map(move |rule| Some((name, rule.as_str()?))));
    let doubts = rules.filter_map(|(name, rule)| {
        let doubt =
            pattern_doubts::with_delimiters(rule).or_else(|| pattern_doubts::repeated_letter(rule))?;
        Some(format!("{name}: {doubt}"))
    });
    doubts.collect()
}

fn build(conf: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let conf: Conf = typed(conf)?;
    let is_allowlist = conf.allowlist.is_some();
    let rules = conf.allowlist.or(conf.denylist).unwrap_or_default();
    Ok(Arc::new(UaRestriction {
        bypass_missing: conf.bypass_missing,
        rules: rules.iter().map(|rule| Regex::new(rule, false)).collect::<Result<_, _>>()?,
        is_allowlist,
        rejection: Reply::message(403, &conf.message),
    }))
}

impl Plugin for UaRestriction {
    fn access<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        let mut agents = request.head.headers.all_known(HeaderId::UserAgent).peekable();
        let passes = if agents.peek().is_none() {
            self.bypass_missing
        } else {
            // Each of several has to pass.
            agents.all(|agent| {
                let agent = agent.trim_ascii();
                let is_match = |rule: &Regex| rule.within(&request.search_time).is_match(agent);
                let listed = self.rules.iter().any(|rule| is_match(rule).unwrap_or(!self.is_allowlist));
                listed == self.is_allowlist
            })
        };
        if passes { Step::Next } else { Step::reply(self.rejection.clone()) }
    }

    fn foresee(&self, phase: Phases, request: &mut Request) -> Foresight {
        Foresight::by_running(self, phase, request)
    }
}
