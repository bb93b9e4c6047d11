//! Routes whose requests have nowhere to go.

use serde_json::Value;
use tidegate_model::Kind;
use tidegate_plugin_api::{Phases, PluginDef};
use tidegate_telemetry::error_log::Level;

use crate::{
    Compiler,
    object::{Key, is_disabled},
};

/// What may lead to an upstream, or answer in its place.
const WAYS: [&str; 6] = ["upstream", "upstream_id", "service_id", "plugin_config_id", "script", "script_id"];

/// Plugins that run before the upstream is asked and never answer, besides loggers and those that only identify clients.
const NEVER_ANSWER: [&str; 6] =
    ["opentelemetry", "proxy-rewrite", "real-ip", "request-id", "skywalking", "zipkin"];

fn may_answer(def: &PluginDef) -> bool {
    let runs_before = [Phases::REWRITE, Phases::ACCESS, Phases::BEFORE_PROXY];
    let runs_before = runs_before.into_iter().any(|phase| def.phases.contains(phase));
    let is_harmless = def.identifies() || def.name.ends_with("-logger") || NEVER_ANSWER.contains(&def.name);
    def.answers || def.file.is_some() || runs_before && !is_harmless
}

impl Compiler {
    /// Warns of a route without an upstream that no plugin of its own can do without.
    pub(crate) fn check_upstream_of(&mut self, key: &Key) {
        let Some(object) = self.object(key.0, &key.1).filter(|_| !self.trial && key.0 == Kind::Route) else {
            return;
        };
        if object.fault.is_some() || WAYS.iter().any(|way| object.document.may_have(way)) {
            return;
        }
        let value = object.value();
        let plugins = value.get("plugins").and_then(Value::as_object);
        let mut running = plugins.into_iter().flatten().filter(|(_, conf)| !is_disabled(conf));
        let may_answer = running.any(|(name, conf)| {
            conf.pointer("/_meta/pre_function").is_some() || self.catalog.def(name).is_none_or(may_answer)
        });
        if !may_answer {
            let text = "it has no upstream: requests that no plugin answers are answered 503; add upstream, upstream_id or service_id";
            self.remark(key, Level::Warn, text.to_owned());
        }
    }
}
