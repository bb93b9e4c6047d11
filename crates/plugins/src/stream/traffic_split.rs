//! Sends shares of the sessions to other upstreams, by weight and by conditions.

use std::sync::Arc;

use serde_json::Value;
use tidegate_model::header_text::Text;
use tidegate_plugin_api::{BuildContext, PluginDef, Session, SessionVerdict, StreamPlugin, Variable};
use tidegate_routing::expr::Expression;
use tidegate_telemetry::error_log::{self, Level};

use crate::traffic::traffic_split::{Rule, built, check, inline_upstreams, missing_upstream, remarks};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "traffic-split",
    version: 0.1,
    priority: 966,
    guards: false,
    answers: true,
    schema: include_str!("../traffic/traffic_split.json"),
    check,
    remarks: remarks_of_sessions,
    headers: &[("rules[].weighted_upstreams[].upstream.checks.active.req_headers", Text::Lines)],
    build_stream: build,
    inline_upstreams: Some(inline_upstreams),
    ..PluginDef::DEFAULT
};

/// Conditions may be about what only requests have.
fn remarks_of_sessions(conf: &Value) -> Vec<String> {
    let mut found = remarks(conf);
    let mut resolve = |name: &str| {
        let variable = Variable::resolve(name);
        let remark = format!("match: no session has a variable ${name}");
        if !Session::knows(&variable) && !found.contains(&remark) {
            found.push(remark);
        }
        variable
    };
    let rules = conf.get("rules").and_then(Value::as_array).into_iter().flatten();
    let lists = rules.filter_map(|rule| rule.get("match")?.as_array()).flatten();
    for vars in lists.filter_map(|condition| condition.get("vars")) {
        // One that cannot be read is refused.
        let _ = Expression::compile(vars, &mut resolve);
    }
    found
}

struct TrafficSplit(Vec<Rule>);

fn build(conf: &Value, context: &BuildContext) -> Result<Arc<dyn StreamPlugin>, String> {
    let (rules, _) = built(conf, context)?;
    Ok(Arc::new(TrafficSplit(rules)))
}

impl StreamPlugin for TrafficSplit {
    fn preread(&self, session: &mut Session, _: &[u8]) -> SessionVerdict {
        for rule in &self.0 {
            if let Some(id) = rule.missing(&session.upstreams) {
                error_log::log(Level::Error, format_args!("{}", missing_upstream(id)));
                return SessionVerdict::Close(500);
            }
            if rule.holds(session) {
                if let Some(chosen) = rule.choose(session.worker, session.started, &session.upstreams) {
                    session.upstream = Some(chosen);
                }
                break;
            }
        }
        SessionVerdict::Next
    }
}
