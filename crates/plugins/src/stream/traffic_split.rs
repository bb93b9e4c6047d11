//! Sends shares of the sessions to other upstreams, by weight and by conditions.

use std::sync::Arc;

use serde_json::Value;
use tidegate_model::header_text::Text;
use tidegate_plugin_api::{BuildContext, PluginDef, Session, SessionVerdict, StreamPlugin};
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
    remarks,
    headers: &[("rules[].weighted_upstreams[].upstream.checks.active.req_headers", Text::Lines)],
    build_stream: build,
    inline_upstreams: Some(inline_upstreams),
    ..PluginDef::DEFAULT
};

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
