//! An explanation as JSON.

use std::sync::Arc;

use serde_json::{Value, json};
use tidegate_model::{Kind, PluginCatalog, schema::lua};
use tidegate_plugin_api::{Route, Snapshot, route::RouteUpstream, upstream::Peer};
use tidegate_proxy::explain::{Candidate, Explanation, Planned, Question};
use tidegate_routing::router::{CandidateResult, Loss, Mode, Place, why_first};

use super::{fields, nearest_path::nearest_path, ports::Ports};

/// The stored objects, for what the compiled form does not keep.
pub(crate) struct Objects<'a> {
    pub get: &'a dyn Fn(Kind, &str) -> Option<Arc<Value>>,
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
    let mode = snapshot.router.mode();
    let candidates: Vec<Value> =
        explanation.candidates.iter().map(|candidate| shown_candidate(candidate, won, mode)).collect();
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
        "route": explanation.route.as_ref().map(|route| shown_route(route, won, explanation.node.as_ref())),
        "candidates": candidates,
        "more_candidates": explanation.more,
        "phases": phases(&explanation.plan),
        "plugins": plugins(objects, explanation),
        "notes": notes(question, snapshot, explanation),
    })
}

fn shown_candidate(candidate: &Candidate, won: Option<&Candidate>, mode: Mode) -> Value {
    let (verdict, by) = match candidate.verdict {
        CandidateResult::Won => ("won", None),
        CandidateResult::Shadowed => ("shadowed", won.map(|won| won.route.id.to_string())),
        CandidateResult::Lost(_) => ("lost", None),
    };
    json!({
        "route": candidate.route.id.as_ref(),
        "name": candidate.route.name.as_deref(),
        "uri": candidate.uri,
        "host": candidate.host,
        "priority": candidate.priority,
        "verdict": verdict,
        "shadowed_by": by,
        "reason": reason(candidate, won, mode),
    })
}

fn reason(candidate: &Candidate, won: Option<&Candidate>, mode: Mode) -> Option<String> {
    let value = &*candidate.route.document.value();
    let field = |name: &str| value.get(name).map(Value::to_string).unwrap_or_default();
    let either = |one: &str, many: &str| if value.get(many).is_some() { field(many) } else { field(one) };
    match candidate.verdict {
        CandidateResult::Won => None,
        CandidateResult::Shadowed => won.map(|won| {
            let why = why_first(place(won), place(candidate), mode);
            format!("route {} {why}", won.route.id)
        }),
        CandidateResult::Lost(Loss::Method) => Some(format!("method: the route takes {}", field("methods"))),
        CandidateResult::Lost(Loss::RemoteAddr) => {
            Some(format!("remote_addr: the route takes {}", either("remote_addr", "remote_addrs")))
        }
        CandidateResult::Lost(Loss::Host) => Some(match &candidate.host {
            Some(host) => format!("host: the route is for {host}"),
            None => format!("host: the route is for {}", either("host", "hosts")),
        }),
        CandidateResult::Lost(Loss::Vars) => {
            Some(format!("vars: {} does not hold", clause(value, candidate.clause)))
        }
        CandidateResult::Lost(Loss::FilterFunction) => Some("filter_func: returned false".to_owned()),
        CandidateResult::Lost(Loss::Parameters) => Some(format!("path: does not match {}", candidate.uri)),
    }
}

/// The part of `vars` that failed, or all of it where the parts are joined otherwise than by AND.
fn clause(route: &Value, clause: Option<usize>) -> String {
    let Some(vars) = route.get("vars") else { return String::new() };
    let items = vars.as_array().map(Vec::as_slice).unwrap_or_default();
    // `["AND", ...]` has its name in front.
    let offset = usize::from(items.first().is_some_and(Value::is_string));
    let found = clause.and_then(|clause| items.get(clause + offset));
    found.unwrap_or(vars).to_string()
}

fn place(candidate: &Candidate) -> Place<'_> {
    Place { uri: &candidate.uri, host: candidate.host.as_deref(), priority: candidate.priority }
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
        match phases.last_mut().filter(|(phase, _)| *phase == planned.phase) {
            Some((_, entries)) => entries.push(entry),
            None => phases.push((planned.phase, vec![entry])),
        }
    }
    phases.into_iter().map(|(phase, plugins)| json!({"phase": phase, "plugins": plugins})).collect()
}

fn owner(planned: &Planned) -> String {
    format!("{}/{}", planned.instance.owner.kind.directory(), planned.instance.owner.id)
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

/// What the explanation cannot know.
fn notes(question: &Question, snapshot: &Snapshot, explanation: &Explanation) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(status) = explanation.refused {
        notes.push(match explanation.route {
            None => format!(
                "the request is refused with {status} before a route is chosen: its path cannot be read, a \
                 route's condition cannot be evaluated, or the host requires a client certificate, which \
                 explain cannot present; see the error log"
            ),
            Some(_) => format!(
                "a plugin's condition cannot be evaluated: the request is refused with {status} when the \
                 plugin's turn comes, unless another one answers first"
            ),
        });
        return notes;
    }
    if explanation.route.is_none() {
        notes
            .push("no route: answered with 404 after the global rules' rewrite and access phases".to_owned());
        let meant = nearest_path(&explanation.path, snapshot.router.patterns());
        notes.extend(meant.filter(|_| explanation.candidates.is_empty()).map(|pattern| {
            format!("no route has a path that fits {}; did you mean {pattern}?", explanation.path)
        }));
    }
    let globals = snapshot.globals.instances().first();
    if let Some(refusal) = globals.filter(|instance| instance.def.name == tidegate_plugin_api::chain::REFUSAL)
    {
        notes.push(format!(
            "global rule {} cannot be built: every request is answered with 503; see GET /v1/rejected of the Control API",
            refusal.owner.id
        ));
    }
    if let Some(status) = explanation.route.as_ref().and_then(|route| route.broken) {
        notes.push(format!(
            "the route cannot be built, or refers to something that does not exist: answered with {status}; \
             see GET /v1/rejected of the \
             Control API"
        ));
    }
    let authenticates = explanation.route.as_ref().is_some_and(|route| {
        route.chain.instances().iter().any(|instance| instance.def.kind == Some("auth"))
    });
    if authenticates && question.consumer.is_none() {
        notes.push("plugins of consumers are not included; name one with consumer".to_owned());
    }
    if snapshot.matches_on_body && question.body.is_empty() {
        notes.push("some routes inspect bodies; this request was assumed to have none".to_owned());
    }
    notes
}
