//! Limits the sessions of a key that are open at the same time. A few more may wait a moment, the rest is closed.

use std::{sync::Arc, time::Duration};

use serde::Deserialize;
use serde_json::Value;
use tidegate_plugin_api::{
    BuildContext, PluginDef, Session, SessionVerdict, StreamPlugin, Template, Variable, template::Part,
};

use crate::{
    common::{conf::typed, without_effect},
    traffic::limit_conn::{
        IDLE, SHORTEST_DELAY, delay,
        held::{Held, Places},
    },
};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "limit-conn",
    version: 0.1,
    priority: 1003,
    schema: include_str!("limit_conn.json"),
    remarks,
    build_stream: build,
    ..PluginDef::DEFAULT
};

/// A key without a value is the client's address.
fn remarks(conf: &Value) -> Vec<String> {
    let key = conf.get("key").and_then(Value::as_str).unwrap_or_default();
    let is_combination = conf.get("key_type").and_then(Value::as_str) == Some("var_combination");
    let is_known = match is_combination {
        true => Template::compile(key)
            .parts()
            .iter()
            .any(|part| matches!(part, Part::Variable { variable, .. } if Session::knows(variable))),
        false => Session::knows(&Variable::resolve(key)),
    };
    let remark = || "its key has no value in sessions: the client's address counts".to_owned();
    let mut found = without_effect::remarks(conf, PLUGIN.schema, &IDLE);
    found.extend((!is_known).then(remark));
    found
}

#[derive(Deserialize)]
struct Conf {
    conn: u64,
    burst: u64,
    default_conn_delay: f64,
    key: String,
    key_type: String,
}

enum Key {
    Variable(Variable),
    Combination(Template),
}

struct LimitConn {
    conn: f64,
    burst: f64,
    delay_seconds: f64,
    key: Key,
    /// Limits start over when the route changes.
    scope: String,
}

fn build(conf: &Value, context: &BuildContext) -> Result<Arc<dyn StreamPlugin>, String> {
    let conf: Conf = typed(conf)?;
    let owner = context.owner;
    Ok(Arc::new(LimitConn {
        conn: conf.conn as f64,
        burst: conf.burst as f64,
        delay_seconds: conf.default_conn_delay,
        key: match conf.key_type.as_str() {
            "var_combination" => Key::Combination(Template::compile(&conf.key)),
            _ => Key::Variable(Variable::resolve(&conf.key)),
        },
        scope: format!("{}/{}#{}#", owner.kind.directory(), owner.id, owner.version),
    }))
}

impl LimitConn {
    /// Without a value the client's address takes its place.
    fn key(&self, session: &Session) -> Vec<u8> {
        let mut key = self.scope.clone().into_bytes();
        let start = key.len();
        match &self.key {
            Key::Variable(variable) => {
                key.extend(session.variable(variable).iter().flat_map(|value| value.iter()))
            }
            Key::Combination(template) => {
                if session.render(template, &mut key) == 0 {
                    key.truncate(start);
                }
            }
        }
        if key.len() == start {
            key.extend(session.remote_addr.to_string().bytes());
        }
        key
    }
}

impl StreamPlugin for LimitConn {
    fn preread(&self, session: &mut Session, _: &[u8]) -> SessionVerdict {
        let key = self.key(session);
        let Some(count) = Places::global().take_for_session(session, &key, self.conn + self.burst) else {
            return SessionVerdict::Close(503);
        };
        let wait = delay(count, self.conn, self.delay_seconds);
        if wait < SHORTEST_DELAY {
            return SessionVerdict::Next;
        }
        SessionVerdict::Delay(Duration::try_from_secs_f64(wait).unwrap_or(Duration::MAX))
    }

    fn log(&self, session: &mut Session) {
        drop(session.extensions.take::<Held>());
    }
}
