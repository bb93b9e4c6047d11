//! Limits the requests of a client, consumer or any other key within a time window.
//!
//! Counters live with the configuration that made them: a change of it starts them anew, as in APISIX. Configurations
//! of one `group` share their counters.

mod counters;

use std::{
    sync::{Arc, OnceLock},
    time::Instant,
};

use counters::{Counters, Taken};
use parking_lot::Mutex;
use plugin::{
    BuildContext, Phases, Plugin, PluginDef, Reply, Request, SchemaKind, Step, Template, Variable,
    variables::Named,
};
use rustc_hash::FxHashMap;
use serde::Deserialize;
use serde_json::Value;
use telemetry::error_log;

use crate::common::{conf::typed, number};

pub static PLUGIN: PluginDef = PluginDef {
    name: "limit-count",
    version: 0.5,
    priority: 1002,
    schema: include_str!("../schemas/limit-count.json"),
    metadata_schema: Some(include_str!("../schemas/limit-count.metadata.json")),
    encrypt_fields: &["redis_password", "sentinel_password"],
    phases: Phases::ACCESS,
    check,
    build,
    ..PluginDef::DEFAULT
};

/// The largest whole number a double holds exactly: APISIX refuses more.
const MAX_SAFE_INTEGER: f64 = 9_007_199_254_740_991.0;

#[derive(Deserialize)]
struct RuleConf {
    count: Value,
    time_window: Value,
    key: String,
    header_prefix: Option<String>,
}

#[derive(Deserialize)]
struct Conf {
    count: Option<Value>,
    time_window: Option<Value>,
    key: String,
    key_type: String,
    group: Option<String>,
    rejected_code: u16,
    rejected_msg: Option<String>,
    policy: String,
    allow_degradation: bool,
    show_limit_quota_header: bool,
    window_type: String,
    rules: Option<Vec<RuleConf>>,
}

fn check(conf: &Value, kind: SchemaKind) -> Result<(), String> {
    if kind == SchemaKind::Metadata {
        return Ok(());
    }
    let has = |name: &str| conf.get(name).is_some();
    if has("rules") && (has("count") || has("time_window")) {
        return Err("count/time_window and rules cannot be specified at the same time".to_owned());
    }
    if has("group") && has("rules") {
        return Err("group and rules cannot be specified at the same time".to_owned());
    }
    let mut keys = Vec::new();
    for rule in conf.get("rules").and_then(Value::as_array).into_iter().flatten() {
        let key = rule.get("key").and_then(Value::as_str).unwrap_or_default();
        if keys.contains(&key) {
            return Err(format!("duplicate key '{key}' in rules"));
        }
        keys.push(key);
    }
    match conf.get("group").and_then(Value::as_str) {
        Some(group) => groups::check(group, conf),
        None => Ok(()),
    }
}

fn build(conf: &Value, context: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let typed: Conf = typed(conf)?;
    if typed.policy != "local" {
        return Err(format!("policy {} is not available in this build", typed.policy));
    }
    let names = HeaderNames::new(context.metadata);
    let sliding = typed.window_type == "sliding";
    let rules = match typed.rules {
        None => vec![Rule {
            count: Amount::new(typed.count.as_ref())?,
            time_window: Amount::new(typed.time_window.as_ref())?,
            key: Key::new(&typed.key, &typed.key_type),
            headers: names,
        }],
        Some(rules) => rules
            .iter()
            .enumerate()
            .map(|(index, rule)| {
                let prefix = rule.header_prefix.clone().unwrap_or_else(|| (index + 1).to_string());
                Ok(Rule {
                    count: Amount::new(Some(&rule.count))?,
                    time_window: Amount::new(Some(&rule.time_window))?,
                    key: Key::Rule(Template::compile(&rule.key)),
                    headers: names.with_prefix(&prefix),
                })
            })
            .collect::<Result<_, String>>()?,
    };
    let counters = match &typed.group {
        Some(group) => groups::counters(group, sliding),
        None => Arc::new(Counters::new(sliding)),
    };
    Ok(Arc::new(LimitCount {
        rules,
        counters,
        rejected_code: typed.rejected_code,
        rejected_msg: typed.rejected_msg,
        allow_degradation: typed.allow_degradation,
        show_headers: typed.show_limit_quota_header,
    }))
}

struct LimitCount {
    rules: Vec<Rule>,
    counters: Arc<Counters>,
    rejected_code: u16,
    rejected_msg: Option<String>,
    allow_degradation: bool,
    show_headers: bool,
}

struct Rule {
    count: Amount,
    time_window: Amount,
    key: Key,
    headers: HeaderNames,
}

/// A number, or a text with variables that becomes one per request.
enum Amount {
    Fixed(f64),
    Template(Template),
}

impl Amount {
    fn new(value: Option<&Value>) -> Result<Amount, String> {
        match value {
            Some(Value::String(text)) => Ok(Amount::Template(Template::compile(text))),
            Some(value) => {
                value.as_f64().map(Amount::Fixed).ok_or_else(|| "count must be a number".to_owned())
            }
            None => Err("object matches none of the required".to_owned()),
        }
    }

    /// Must be a positive whole number.
    fn get(&self, request: &Request) -> Result<f64, String> {
        let template = match self {
            Amount::Fixed(value) => return Ok(*value),
            Amount::Template(template) => template,
        };
        let text = template.render_string(request);
        let value: f64 = text.trim().parse().map_err(|_| "resolved value is not a number".to_owned())?;
        if value <= 0.0 || value.fract() != 0.0 || value > MAX_SAFE_INTEGER {
            return Err(format!("resolved value must be a positive whole number, got: {text}"));
        }
        Ok(value)
    }
}

enum Key {
    /// The usual one, counted by its bytes instead of its text.
    RemoteAddr,
    Variable(Variable),
    Combination(Template),
    Constant(Box<[u8]>),
    /// Of a rule: no variable with a value means that the rule does not apply.
    Rule(Template),
}

impl Key {
    fn new(key: &str, key_type: &str) -> Key {
        match key_type {
            "constant" => Key::Constant(key.as_bytes().into()),
            "var_combination" => Key::Combination(Template::compile(key)),
            _ => match Variable::resolve(key) {
                Variable::Named(Named::RemoteAddr) => Key::RemoteAddr,
                variable => Key::Variable(variable),
            },
        }
    }

    /// Appends the key; `false` when the rule does not apply.
    fn write(&self, request: &Request, out: &mut Vec<u8>) -> bool {
        match self {
            Key::RemoteAddr => write_remote_addr(request, out),
            Key::Variable(variable) => match request.variable(variable) {
                Some(value) => out.extend_from_slice(&value),
                None => write_remote_addr(request, out),
            },
            Key::Combination(template) => {
                if template.render_into(request, out) == 0 {
                    out.clear();
                    write_remote_addr(request, out);
                }
            }
            Key::Constant(key) => out.extend_from_slice(key),
            Key::Rule(template) => return template.render_into(request, out) > 0,
        }
        true
    }
}

/// Four or sixteen bytes behind a NUL, which no text key starts with.
fn write_remote_addr(request: &Request, out: &mut Vec<u8>) {
    out.push(0);
    match request.remote_addr {
        std::net::IpAddr::V4(address) => out.extend_from_slice(&address.octets()),
        std::net::IpAddr::V6(address) => out.extend_from_slice(&address.octets()),
    }
}

#[derive(Clone)]
struct HeaderNames {
    limit: String,
    remaining: String,
    reset: String,
}

impl HeaderNames {
    fn new(metadata: Option<&Value>) -> HeaderNames {
        let name = |key: &str, default: &str| {
            metadata
                .and_then(|metadata| metadata.get(key))
                .and_then(Value::as_str)
                .unwrap_or(default)
                .to_owned()
        };
        HeaderNames {
            limit: name("limit_header", "X-RateLimit-Limit"),
            remaining: name("remaining_header", "X-RateLimit-Remaining"),
            reset: name("reset_header", "X-RateLimit-Reset"),
        }
    }

    fn with_prefix(&self, prefix: &str) -> HeaderNames {
        let place = |name: &str| name.replacen("RateLimit-", &format!("{prefix}-RateLimit-"), 1);
        HeaderNames {
            limit: place(&self.limit),
            remaining: place(&self.remaining),
            reset: place(&self.reset),
        }
    }
}

impl Plugin for LimitCount {
    fn access<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        let mut applied = false;
        for rule in &self.rules {
            match self.apply(rule, request) {
                Ok(None) => {}
                Ok(Some(true)) => applied = true,
                Ok(Some(false)) => {
                    return Step::reply(Reply::error_msg_or_page(
                        self.rejected_code,
                        self.rejected_msg.as_deref(),
                    ));
                }
                Err(reason) => {
                    error_log::log(
                        error_log::Level::Error,
                        format_args!("failed to get rate limit rules: {reason}"),
                    );
                    return self.degraded();
                }
            }
        }
        if applied {
            return Step::Next;
        }
        error_log::log(error_log::Level::Error, format_args!("failed to get rate limit rules: none applies"));
        self.degraded()
    }
}

impl LimitCount {
    fn degraded<'a>(&self) -> Step<'a> {
        if self.allow_degradation { Step::Next } else { Step::reply(Reply::page(500)) }
    }

    /// `None`: the rule does not apply; else whether the request is within the limit.
    fn apply(&self, rule: &Rule, request: &mut Request) -> Result<Option<bool>, String> {
        let mut key = Vec::with_capacity(32);
        if !rule.key.write(request, &mut key) {
            return Ok(None);
        }
        let count = rule.count.get(request)?;
        let window = rule.time_window.get(request)?;
        let taken = self.counters.take(&key, 1.0, count, window, now_seconds(request.started));
        if self.show_headers {
            write_headers(request, &rule.headers, count, &taken);
        }
        Ok(Some(taken.allowed))
    }
}

fn write_headers(request: &mut Request, names: &HeaderNames, count: f64, taken: &Taken) {
    let headers = &mut request.early_headers;
    headers.set(&names.limit, number::lua(count));
    headers.set(&names.remaining, number::lua(if taken.allowed { taken.remaining } else { 0.0 }));
    headers.set(&names.reset, number::lua((taken.reset_seconds * 100.0).floor() / 100.0));
}

/// Seconds since the process first asked.
fn now_seconds(at: Instant) -> f64 {
    static START: OnceLock<Instant> = OnceLock::new();
    // An hour of head start: sliding windows look back.
    at.saturating_duration_since(*START.get_or_init(Instant::now)).as_secs_f64() + 3600.0
}

/// Counters that several configurations share.
mod groups {
    use super::*;

    struct Group {
        conf: Value,
        counters: Arc<Counters>,
    }

    static GROUPS: Mutex<Option<FxHashMap<String, Group>>> = Mutex::new(None);

    /// All members of a group must be configured alike.
    pub fn check(group: &str, conf: &Value) -> Result<(), String> {
        let mut groups = GROUPS.lock();
        let groups = groups.get_or_insert_default();
        let mut conf = conf.clone();
        if let Some(conf) = conf.as_object_mut() {
            conf.remove("_meta");
        }
        match groups.get_mut(group) {
            // Nobody uses it any more: the new configuration defines it.
            Some(known) if Arc::strong_count(&known.counters) == 1 => {
                known.conf = conf;
                Ok(())
            }
            Some(known) if known.conf != conf => Err("group conf mismatched".to_owned()),
            Some(_) => Ok(()),
            None => {
                let sliding = conf.get("window_type").and_then(Value::as_str) == Some("sliding");
                groups.insert(group.to_owned(), Group { conf, counters: Arc::new(Counters::new(sliding)) });
                Ok(())
            }
        }
    }

    pub fn counters(group: &str, sliding: bool) -> Arc<Counters> {
        let mut groups = GROUPS.lock();
        let known = groups.get_or_insert_default().get(group);
        known.map_or_else(|| Arc::new(Counters::new(sliding)), |group| group.counters.clone())
    }
}
