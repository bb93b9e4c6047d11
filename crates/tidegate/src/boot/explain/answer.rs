//! An explanation as JSON.

use std::sync::Arc;

use serde_json::{Value, json};
use tidegate_model::{Kind, PluginCatalog, schema::lua};
use tidegate_plugin_api::{Route, Snapshot, route::RouteUpstream, upstream::Peer};
use tidegate_proxy::explain::{Candidate, Explanation, Planned, Question};
use tidegate_routing::router::CandidateResult;

use super::{
    candidates::{self, Disabled},
    ending,
    fields::{self, owner},
    notes::notes,
    ports::Ports,
    reason::Reason,
};

/// The stored objects, for what the compiled form does not keep.
pub(crate) struct Objects<'a> {
    pub get: &'a dyn Fn(Kind, &str) -> Option<Arc<Value>>,
    /// The routes that are disabled, for which a router is made.
    pub disabled: &'a dyn Fn() -> Disabled,
    pub catalog: &'a dyn PluginCatalog,
    pub ports: Ports,
}

pub(super) fn to_json(
    snapshot: &Snapshot,
    objects: &Objects<'_>,
    question: &Question,
    explanation: &Explanation,
) -> Value {
    let won = explanation.candidates.iter().find(|candidate| candidate.verdict == CandidateResult::Won);
    let notes = notes(question, snapshot, explanation);
    let (candidates, more) = candidates::shown(snapshot, explanation, &(objects.disabled)());
    json!({
        "request": {
            "method": explanation.method,
            "scheme": if question.https { "https" } else { "http" },
            "host": explanation.host,
            "path": explanation.path,
            "port": question.port,
            "client_ip": question.client.to_string(),
            "consumer": question.consumer,
        },
        "revision": snapshot.revision,
        "refused": explanation.refused,
        "result": ending::to_json(explanation),
        "route": explanation.route.as_ref().map(|route| shown_route(route, won, explanation.node.as_ref())),
        "candidates": candidates,
        "more_candidates": more,
        "phases": phases(&explanation.plan),
        "plugins": plugins(objects, explanation),
        "notes": notes.iter().map(|note| &note.text).collect::<Vec<_>>(),
        "note_causes": notes.iter().map(Reason::cause).collect::<Vec<_>>(),
    })
}

fn shown_route(route: &Route, won: Option<&Candidate>, node: Option<&Peer>) -> Value {
    let upstream = match &route.upstream {
        RouteUpstream::None => Value::Null,
        RouteUpstream::Missing => json!("missing: upstream_id does not exist"),
        RouteUpstream::Some(handle) => json!(handle.name.as_ref()),
    };
    json!({
        "id": route.id.as_ref(),
        "name": route.name.as_deref(),
        "uri": won.map(|won| won.uri.as_str()),
        "host": won.and_then(|won| won.host.as_deref()),
        "service": route.service_id().map(|id| &**id),
        "plugin_config": route.document.value().get("plugin_config_id").map(lua::text),
        "upstream": upstream,
        "node": node.and_then(Peer::node).map(ToString::to_string),
        "answers": route.broken,
    })
}

/// The plan, phase by phase in the order of running.
fn phases(plan: &[Planned]) -> Vec<Value> {
    let mut phases: Vec<(&str, Vec<Value>)> = Vec::new();
    for planned in plan {
        let entry = json!({
            "plugin": planned.instance.def.name,
            "priority": planned.instance.priority,
            "from": owner(planned),
            "runs": planned.runs,
        });
        let entry = ending::with_foresight(entry, &planned.does);
        match phases.last_mut().filter(|(phase, _)| *phase == planned.phase) {
            Some((_, entries)) => entries.push(entry),
            None => phases.push((planned.phase, vec![entry])),
        }
    }
    phases.into_iter().map(|(phase, plugins)| json!({"phase": phase, "plugins": plugins})).collect()
}

/// Each planned plugin once, with its configuration.
fn plugins(objects: &Objects<'_>, explanation: &Explanation) -> Vec<Value> {
    let mut seen: Vec<(&str, String)> = Vec::new();
    let mut plugins = Vec::new();
    for planned in &explanation.plan {
        let (name, from) = (planned.instance.def.name, owner(planned));
        if seen.iter().any(|(other, owner)| *other == name && *owner == from) {
            continue;
        }
        seen.push((name, from.clone()));
        let object = (objects.get)(planned.instance.owner.kind, &planned.instance.owner.id);
        let conf = object.as_ref().and_then(|object| object.get("plugins")?.get(name));
        let metadata = (objects.get)(Kind::PluginMetadata, name);
        plugins.push(json!({
            "plugin": name,
            "from": from,
            "hides": hidden(objects, explanation, planned),
            "fields": conf.map(|conf| fields::of_plugin(name, conf, &from, objects.catalog)).unwrap_or_default(),
            "metadata": metadata.map(|value| fields::of_metadata(name, &value, objects.catalog)).unwrap_or_default(),
        }));
    }
    plugins
}

/// The objects below the owner that configure the same plugin, in vain: a plugin is taken from one place as a whole.
fn hidden(objects: &Objects<'_>, explanation: &Explanation, planned: &Planned) -> Vec<String> {
    let Some(route) = &explanation.route else { return Vec::new() };
    let plugin_config = route.document.value().get("plugin_config_id").map(lua::text);
    let layers = [
        (Kind::Route, Some(route.id.to_string())),
        (Kind::PluginConfig, plugin_config),
        (Kind::Service, route.service_id().map(|id| id.to_string())),
    ];
    let below = match planned.instance.owner.kind {
        Kind::Consumer | Kind::ConsumerGroup => 0,
        Kind::Route => 1,
        Kind::PluginConfig => 2,
        _ => return Vec::new(),
    };
    let lower = layers.into_iter().skip(below).filter_map(|(kind, id)| Some((kind, id?)));
    let has = |kind: Kind, id: &str| {
        (objects.get)(kind, id).is_some_and(|object| {
            object.get("plugins").is_some_and(|plugins| plugins.get(planned.instance.def.name).is_some())
        })
    };
    lower.filter(|(kind, id)| has(*kind, id)).map(|(kind, id)| format!("{}/{id}", kind.directory())).collect()
}
