//! Limits the requests of a client, consumer or any other key within a time window.
//!
//! Counters are named by the resource that carries the plugin and by a checksum of the plugin's configuration: they
//! outlive other changes of the resource. Configurations of one `group` share their counters.

pub(crate) mod amount;
mod clock;
pub(crate) mod counters;
mod counting;
mod delayed;
mod groups;
pub(crate) mod headers;
pub(crate) mod remote;

use std::sync::Arc;

use amount::Amount;
use counters::{Counters, Quota, Taken};
use counting::{Counting, NO_DELAY, Store, info};
use delayed::Syncer;
use headers::HeaderNames;
use serde::Deserialize;
use serde_json::{Map, Value};
use smallvec::SmallVec;
use tidegate_clients::redis::RedisClient;
use tidegate_model::header_text::Text;
use tidegate_plugin_api::{
    BuildContext, Foresight, Phases, Plugin, PluginDef, Reply, Request, SchemaKind, Step, Why, poll_clock,
    step::Verdict,
    variables::{RATE_LIMITING_INFO, wants_rate_limiting_info},
};
use tidegate_telemetry::error_log;

use crate::common::{
    clock::monotonic_seconds,
    conf::typed,
    limit_key::{self, KeyText, LimitKey, Scope},
    outage::Outage,
    skip,
};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "limit-count",
    version: 0.5,
    priority: 1002,
    schema: include_str!("limit_count.json"),
    metadata_schema: Some(include_str!("limit_count.metadata.json")),
    encrypt_fields: &["redis_password", "sentinel_password"],
    phases: Phases::ACCESS,
    explain,
    check,
    headers: &[("rules[].header_prefix", Text::Name)],
    metadata_headers: &[
        ("limit_header", Text::Name),
        ("remaining_header", Text::Name),
        ("reset_header", Text::Name),
    ],
    remarks: |conf| limit_key::remarks(conf, PLUGIN.schema, &[]),
    of_consumer: limit_key::of_consumer,
    build,
    ..PluginDef::DEFAULT
};

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
    sync_interval: Option<f64>,
    rules: Option<Vec<RuleConf>>,
    windows: Option<Map<String, Value>>,
}

const ONE_OF_BOTH: &str = "count/time_window and rules cannot be specified at the same time";

fn has_both(conf: &Value) -> bool {
    let has = |name: &str| conf.get(name).is_some();
    has("rules") && (has("count") || has("time_window"))
}

/// The schema only says that two of its branches match.
pub(super) fn explain(conf: &Value, reason: String) -> String {
    if reason.contains("value should match only one schema") && has_both(conf) {
        return ONE_OF_BOTH.to_owned();
    }
    reason
}

fn check(conf: &Value, kind: SchemaKind) -> Result<(), String> {
    check_as(PLUGIN.name, conf, kind)
}

/// For a plugin that counts in this one's way.
pub(super) fn check_as(plugin: &str, conf: &Value, kind: SchemaKind) -> Result<(), String> {
    if kind == SchemaKind::Metadata {
        return Ok(());
    }
    let has = |name: &str| conf.get(name).is_some();
    if has_both(conf) {
        return Err(ONE_OF_BOTH.to_owned());
    }
    if has("group") && has("rules") {
        return Err("group and rules cannot be specified at the same time".to_owned());
    }
    if let Some(group) = conf.get("group").and_then(Value::as_str) {
        if has("_vid") {
            return Err("group is not supported".to_owned());
        }
        // Windows of the clock are each judged by their own quota: configurations may differ.
        if !has("windows") {
            groups::check(&group_of(plugin, group), conf)?;
        }
    }
    clock::check(conf)?;
    check_interval(conf)?;
    check_numbers(conf)?;
    let mut keys = Vec::new();
    for rule in conf.get("rules").and_then(Value::as_array).into_iter().flatten() {
        let key = rule.get("key").and_then(Value::as_str).unwrap_or_default();
        if keys.contains(&key) {
            return Err(format!("duplicate key '{key}' in rules"));
        }
        keys.push(key);
        check_numbers(rule)?;
    }
    Ok(())
}

/// A string must be a number or contain variables; anything else would fail on every request.
fn check_numbers(conf: &Value) -> Result<(), String> {
    for name in ["count", "time_window"] {
        let Some(text) = conf.get(name).and_then(Value::as_str).filter(|text| !text.contains('$')) else {
            continue;
        };
        if text.parse::<u64>().is_ok_and(|number| number > 0) {
            continue;
        }
        return Err(format!("{name} {text:?} is neither a whole number above 0 nor a text with variables"));
    }
    Ok(())
}

/// A group is one plugin's.
fn group_of(plugin: &str, group: &str) -> String {
    if plugin == PLUGIN.name { group.to_owned() } else { format!("{plugin} {group}") }
}

fn check_interval(conf: &Value) -> Result<(), String> {
    let interval = conf.get("sync_interval").and_then(Value::as_f64).unwrap_or(NO_DELAY);
    let local = conf.get("policy").and_then(Value::as_str).is_none_or(|policy| policy == "local");
    if local || interval == NO_DELAY {
        return Ok(());
    }
    if interval < 0.1 {
        return Err("sync_interval should not be smaller than 0.1".to_owned());
    }
    if conf.get("time_window").and_then(Value::as_f64).is_some_and(|window| interval >= window) {
        return Err("sync_interval should be smaller than time_window".to_owned());
    }
    Ok(())
}

fn build(conf: &Value, context: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    Ok(Arc::new(LimitCount::new(conf, context)?))
}

pub(crate) struct LimitCount {
    rules: Vec<Rule>,
    /// In place of rules.
    clock: Option<clock::Clock>,
    counting: Counting,
    sliding: bool,
    /// Of keys in Redis.
    prefix: Box<str>,
    /// Of plugin `workflow`, which runs it in the chain's place.
    is_action: bool,
    _group: Option<groups::Member>,
}

struct Rule {
    count: Amount,
    time_window: Amount,
    key: LimitKey,
    headers: HeaderNames,
}

/// A rule that applies to the request at hand.
struct Applied<'a> {
    key: KeyText,
    /// As APISIX writes it, where the variable `rate_limiting_info` is in use.
    text: Option<KeyText>,
    quota: Quota,
    headers: &'a HeaderNames,
}

impl LimitCount {
    pub(crate) fn new(conf: &Value, context: &BuildContext) -> Result<LimitCount, String> {
        LimitCount::of(PLUGIN.name, conf, context)
    }

    /// For a plugin that counts in this one's way.
    pub(super) fn of(
        plugin: &'static str,
        conf: &Value,
        context: &BuildContext,
    ) -> Result<LimitCount, String> {
        let fields: Conf = typed(conf)?;
        let names = HeaderNames::new(context.metadata);
        let store = match RedisClient::from_conf(&fields.policy, conf)? {
            None => Store::Memory,
            Some(redis) => match fields.sync_interval.filter(|interval| *interval != NO_DELAY) {
                Some(interval) => {
                    let owner = format!("{}/{}", context.owner.kind.directory(), context.owner.id);
                    let syncer = Syncer::new(redis.clone(), interval, owner, fields.allow_degradation);
                    Store::Delayed { syncer, redis, interval }
                }
                None => Store::Redis(redis),
            },
        };
        let clock =
            fields.windows.as_ref().map(|windows| clock::Clock::new(windows, &fields.key, &fields.key_type));
        Ok(LimitCount {
            rules: if clock.is_some() { Vec::new() } else { rules(&fields, &names)? },
            clock,
            counting: Counting {
                plugin,
                scope: match &fields.group {
                    // In Redis the plugin's name is in front of it.
                    Some(group) if matches!(store, Store::Memory) => Scope::group(&group_of(plugin, group)),
                    Some(group) => Scope::group(group),
                    None => Scope::new(context.owner, conf),
                },
                store,
                rejected_code: fields.rejected_code,
                rejected_msg: fields.rejected_msg,
                allow_degradation: fields.allow_degradation,
                show_headers: fields.show_limit_quota_header,
                outage: Outage::default(),
            },
            sliding: fields.window_type == "sliding",
            prefix: match fields.window_type.as_str() {
                "sliding" => format!("plugin-{plugin}:"),
                _ => format!("plugin-{plugin}:v1:"),
            }
            .into(),
            is_action: conf.get("_vid").is_some(),
            _group: fields.group.as_deref().map(|group| groups::join(&group_of(plugin, group))),
        })
    }

    /// Takes `cost` from the quotas that apply to the request.
    pub(crate) fn limit<'a>(&'a self, request: &'a mut Request, cost: f64) -> Step<'a> {
        if let Some(clock) = &self.clock {
            return clock.limit(&self.counting, request, cost);
        }
        let applied = match self.in_force(request) {
            Ok(applied) => applied,
            Err(verdict) => return verdict.into(),
        };
        if self.counting.is_in_memory() {
            let now = monotonic_seconds(poll_clock::now());
            for rule in &applied {
                let taken = Counters::global().take(&rule.key, rule.quota, cost, now);
                if let Err(reply) = self.verdict(request, rule, taken) {
                    return Step::Reply(reply);
                }
            }
            return Step::Next;
        }
        Step::wait(async move {
            for rule in &applied {
                let asked = self.counting.take_from_redis(&rule.key, rule.quota, cost);
                if let Some(taken) = self.counting.ask(request, asked).await? {
                    self.verdict(request, rule, taken)?;
                }
            }
            Ok(())
        })
    }

    /// What [`LimitCount::limit`] would do, without counting.
    pub(super) fn foreseen(&self, request: &Request) -> Foresight {
        match self.clock.is_none().then(|| self.in_force(request)) {
            Some(Err(verdict)) => Foresight::of_step(verdict.into()),
            _ => Foresight::maybe(self.counting.rejected_code, Why::Counts),
        }
    }

    /// The rules that count the request; `Err`: what becomes of it without one.
    fn in_force(&self, request: &Request) -> Result<SmallVec<[Applied<'_>; 1]>, Verdict> {
        match self.applied(request) {
            Ok(applied) if !applied.is_empty() => Ok(applied),
            outcome => {
                let reason = outcome.err().unwrap_or_else(|| "none applies".to_owned());
                error_log::log(
                    error_log::Level::Error,
                    format_args!("failed to get rate limit rules: {reason}"),
                );
                Err(if self.counting.allow_degradation { Ok(()) } else { Err(Box::new(Reply::page(500))) })
            }
        }
    }

    /// All rules are resolved before the first one counts.
    fn applied(&self, request: &Request) -> Result<SmallVec<[Applied<'_>; 1]>, String> {
        let mut applied = SmallVec::new();
        let (form, prefix) = self.counting.form(&self.prefix);
        let scope = &self.counting.scope;
        for rule in &self.rules {
            let Some(key) = scope.key(&rule.key, request, form, prefix) else { continue };
            let quota = Quota {
                limit: rule.count.positive(request)?,
                window: rule.time_window.positive(request)?,
                sliding: self.sliding,
            };
            let text =
                wants_rate_limiting_info().then(|| scope.key(&rule.key, request, limit_key::Form::Text, ""));
            applied.push(Applied { key, text: text.flatten(), quota, headers: &rule.headers });
        }
        Ok(applied)
    }

    fn verdict(&self, request: &mut Request, rule: &Applied<'_>, taken: Taken) -> Verdict {
        if let Some(key) = &rule.text {
            request.set_variable(RATE_LIMITING_INFO, info(key, rule.quota.limit, &taken));
        }
        if self.counting.show_headers {
            rule.headers.write(request, rule.quota.limit, &taken);
        }
        if taken.allowed {
            return Ok(());
        }
        Err(self.counting.refusal())
    }
}

fn rules(conf: &Conf, names: &HeaderNames) -> Result<Vec<Rule>, String> {
    let Some(rules) = &conf.rules else {
        return Ok(vec![Rule {
            count: Amount::new(conf.count.as_ref())?,
            time_window: Amount::new(conf.time_window.as_ref())?,
            key: LimitKey::new(&conf.key, &conf.key_type),
            headers: names.clone(),
        }]);
    };
    let rule = |(index, rule): (usize, &RuleConf)| {
        let prefix = rule.header_prefix.clone().unwrap_or_else(|| (index + 1).to_string());
        Ok(Rule {
            count: Amount::new(Some(&rule.count))?,
            time_window: Amount::new(Some(&rule.time_window))?,
            key: LimitKey::rule(&rule.key),
            headers: names.with_prefix(&prefix),
        })
    };
    rules.iter().enumerate().map(rule).collect()
}

impl Plugin for LimitCount {
    fn access<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        if !self.is_action && skip::is_skipped(request, PLUGIN.name) {
            return Step::Next;
        }
        self.limit(request, 1.0)
    }

    fn foresee(&self, _: Phases, request: &mut Request) -> Foresight {
        if !self.is_action && skip::is_skipped(request, PLUGIN.name) {
            return Foresight::Continues;
        }
        self.foreseen(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_a_schema_cannot_say() {
        let cases = [
            (
                json!({ "count": 1, "rules": [] }),
                "count/time_window and rules cannot be specified at the same time",
            ),
            (json!({ "group": "g", "rules": [] }), "group and rules cannot be specified at the same time"),
            (json!({ "group": "g", "_vid": 1 }), "group is not supported"),
            (
                json!({ "policy": "redis", "sync_interval": 0.05 }),
                "sync_interval should not be smaller than 0.1",
            ),
            (
                json!({ "policy": "redis", "sync_interval": 2, "time_window": 2 }),
                "sync_interval should be smaller than time_window",
            ),
            (json!({ "rules": [{ "key": "$a" }, { "key": "$a" }] }), "duplicate key '$a' in rules"),
        ];
        for (conf, expected) in cases {
            assert_eq!(check(&conf, SchemaKind::Plugin), Err(expected.to_owned()), "{conf}");
        }
        assert_eq!(check(&json!({ "sync_interval": 0.05 }), SchemaKind::Plugin), Ok(()));
    }
}
