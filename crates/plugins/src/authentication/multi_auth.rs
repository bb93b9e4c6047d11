//! Tries several authentication plugins; the first that accepts the request decides who the client is.

use std::sync::Arc;

use serde_json::Value;
use tidegate_model::PluginCatalog;
use tidegate_model::catalog::Nested;
use tidegate_plugin_api::{
    BuildContext, Foresight, Phases, Plugin, PluginDef, Reply, Request, SchemaKind, Step, Verdict, host,
    reply::ReplyBody,
};
use tidegate_telemetry::error_log;

use crate::common::auth::UnderMultiAuth;

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "multi-auth",
    version: 0.1,
    priority: 2600,
    kind: Some("auth"),
    schema: include_str!("multi_auth.json"),
    phases: Phases::RECEIVED.and(Phases::REWRITE),
    check,
    nested,
    remarks,
    build,
    ..PluginDef::DEFAULT
};

/// A plugin that takes everybody ends the search for one that knows the client.
fn remarks(conf: &Value) -> Vec<String> {
    let all: Vec<_> = listed(conf).collect();
    let takes_all = |(_, conf): &(&String, &Value)| {
        conf.get("anonymous_consumer").and_then(Value::as_str).is_some_and(|name| !name.is_empty())
    };
    let Some(first) = all.iter().position(takes_all).filter(|first| first + 1 < all.len()) else {
        return Vec::new();
    };
    let behind: Vec<&str> = all.iter().skip(first + 1).map(|(name, _)| name.as_str()).collect();
    let name = all.get(first).map_or("", |(name, _)| name.as_str());
    vec![format!(
        "{} has no effect: {name} with anonymous_consumer passes every request before it; move anonymous_consumer to the last entry",
        behind.join(", ")
    )]
}

struct MultiAuth {
    plugins: Vec<(&'static str, Arc<dyn Plugin>)>,
}

fn check(conf: &Value, _: SchemaKind) -> Result<(), String> {
    checked(conf).map(|_| ())
}

/// The listed plugins with their defaults filled in.
fn checked(conf: &Value) -> Result<Vec<(&'static PluginDef, Value)>, String> {
    let catalog = &host().ok_or("the plugins are not loaded yet")?.catalog;
    let mut found = Vec::new();
    let entries = conf.get("auth_plugins").and_then(Value::as_array);
    if let Some(number) = entries
        .into_iter()
        .flatten()
        .position(|entry| entry.as_object().is_none_or(serde_json::Map::is_empty))
    {
        return Err(format!("auth_plugins[{number}] names no plugin; write {{\"key-auth\": {{}}}}"));
    }
    for (name, conf) in listed(conf) {
        // Neither a switch nor a filter would be asked.
        if conf.get("_meta").is_some() {
            return Err(format!(
                "{name}: _meta has no effect within multi-auth; write it beside auth_plugins"
            ));
        }
        let def = catalog.def(name).filter(|_| catalog.is_enabled(name));
        let def = def.ok_or_else(|| format!("{name} plugin did not found"))?;
        if def.kind != Some("auth") {
            return Err(format!("{name} plugin is not supported"));
        }
        if def.file.is_some_and(|file| !file.has_rewrite()) {
            return Err(format!(
                "{name} plugin is not supported: it has no function rewrite, which would be called"
            ));
        }
        let mut conf = conf.clone();
        catalog
            .check(name, SchemaKind::Plugin, &mut conf)
            .map_err(|reason| format!("plugin {name} check schema failed: {reason}"))?;
        found.push((def, conf));
    }
    Ok(found)
}

fn listed(conf: &Value) -> impl Iterator<Item = (&String, &Value)> {
    let plugins = conf.get("auth_plugins").and_then(Value::as_array);
    plugins.into_iter().flatten().filter_map(Value::as_object).flatten()
}

fn nested(conf: &Value) -> Vec<Nested<'_>> {
    let entries = conf.get("auth_plugins").and_then(Value::as_array).into_iter().flatten().enumerate();
    let plugins = entries.filter_map(|(at, entry)| Some((at, entry.as_object()?)));
    plugins
        .flat_map(|(at, entry)| entry.iter().map(move |(name, conf)| (at, name, conf)))
        .map(|(at, name, conf)| Nested { path: format!("auth_plugins[{at}].{name}"), name, conf })
        .collect()
}

fn build(conf: &Value, context: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let plugins = checked(conf)?
        .into_iter()
        .map(|(def, conf)| {
            let metadata = None;
            let context = BuildContext { metadata, ..*context };
            let built = def.instance(&conf, &context).map_err(|reason| format!("{}: {reason}", def.name))?;
            Ok((def.name, built))
        })
        .collect::<Result<_, String>>()?;
    Ok(Arc::new(MultiAuth { plugins }))
}

impl Plugin for MultiAuth {
    fn received(&self, request: &mut Request) {
        self.plugins.iter().for_each(|(_, plugin)| plugin.received(request));
    }

    fn rewrite<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        Step::wait(async move {
            request.extensions.insert(UnderMultiAuth);
            let verdict = self.try_all(request).await;
            request.extensions.take::<UnderMultiAuth>();
            verdict
        })
    }

    fn foresee(&self, phase: Phases, request: &mut Request) -> Foresight {
        request.extensions.insert(UnderMultiAuth);
        let foreseen = self.foreseen(phase, request);
        request.extensions.take::<UnderMultiAuth>();
        foreseen
    }
}

fn refusal() -> Reply {
    Reply::message(401, "Authorization Failed")
}

impl MultiAuth {
    /// As [`MultiAuth::try_all`]: the first that lets the request through is enough.
    fn foreseen(&self, phase: Phases, request: &mut Request) -> Foresight {
        let mut open = None;
        for (_, plugin) in &self.plugins {
            match plugin.foresee(phase, request) {
                Foresight::Answers(_) => {}
                Foresight::Maybe(foreseen) => open = open.or(Some(foreseen.why)),
                // Who the client is depends on those before it.
                _ if open.is_some() => return Foresight::Alters,
                other => return other,
            }
        }
        match open {
            Some(why) => Foresight::maybe(401, why),
            None => Foresight::answers(&refusal()),
        }
    }

    async fn try_all(&self, request: &mut Request) -> Verdict {
        let mut challenge = None;
        for (name, plugin) in &self.plugins {
            let verdict = match plugin.rewrite(request) {
                Step::Next => return Ok(()),
                Step::Reply(reply) => Err(reply),
                Step::Wait(future) | Step::Ask(future) => future.await,
            };
            let Err(reply) = verdict else { return Ok(()) };
            error_log::log(
                error_log::Level::Warn,
                format_args!(
                    "{name} failed to authenticate the request, code: {}. error: {}",
                    reply.status,
                    message(&reply)
                ),
            );
            let header =
                reply.headers.known(tidegate_protocol::HeaderId::WwwAuthenticate).map(<[u8]>::to_vec);
            challenge = header.or(challenge);
        }
        let mut reply = refusal();
        if let Some(challenge) = challenge {
            reply.headers.set("WWW-Authenticate", challenge);
        }
        Err(Box::new(reply))
    }
}

/// The text of a rejection.
fn message(reply: &Reply) -> String {
    let ReplyBody::Bytes(body) = &reply.body else { return String::new() };
    let json = serde_json::from_slice::<Value>(body).ok();
    let message = json.as_ref().and_then(|json| json.get("message")?.as_str());
    message.map_or_else(|| String::from_utf8_lossy(body).into_owned(), str::to_owned)
}
