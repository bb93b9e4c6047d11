//! Limits the requests of a key that are served at the same time. A few more may wait, the rest is refused.

pub(crate) mod held;

use std::{sync::Arc, time::Duration};

use held::{Held, Places};
use serde::Deserialize;
use serde_json::Value;
use smallvec::SmallVec;
use tidegate_clients::redis::RedisClient;
use tidegate_plugin_api::{
    BuildContext, Foresight, Phases, Plugin, PluginDef, Reply, Request, Step, Why, step::Verdict,
};
use tidegate_telemetry::error_log;

use crate::{
    common::{
        conf::typed,
        limit_key::{self, Form, KeyText, LimitKey, Scope},
        outage::{Attempt, Outage},
        skip, without_effect,
    },
    traffic::limit_count::amount::Amount,
};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "limit-conn",
    version: 0.1,
    priority: 1003,
    schema: include_str!("limit_conn.json"),
    encrypt_fields: &["redis_password"],
    phases: Phases::ACCESS.and(Phases::LOG),
    remarks: |conf| limit_key::remarks(conf, PLUGIN.schema, &IDLE),
    of_consumer: limit_key::of_consumer,
    build,
    ..PluginDef::DEFAULT
};

/// In APISIX it is meant to keep the delay from following the time that requests take, which it does not do either.
pub(crate) const IDLE: [without_effect::Idle; 1] =
    [("only_use_default_delay", "the delay is always default_conn_delay, as in APISIX 3.18")];

#[derive(Deserialize)]
struct RuleConf {
    conn: Value,
    burst: Value,
    key: String,
}

#[derive(Deserialize)]
struct Conf {
    conn: Option<Value>,
    burst: Option<Value>,
    default_conn_delay: f64,
    key: Option<String>,
    key_type: String,
    policy: String,
    rejected_code: u16,
    rejected_msg: Option<String>,
    allow_degradation: bool,
    rules: Option<Vec<RuleConf>>,
    key_ttl: Option<f64>,
}

struct Rule {
    conn: Amount,
    burst: Amount,
    key: LimitKey,
}

struct LimitConn {
    rules: Vec<Rule>,
    /// Rules whose numbers cannot be resolved do not apply; without `rules` that is an error.
    has_rules: bool,
    scope: Scope,
    redis: Option<RedisClient>,
    outage: Outage,
    delay_seconds: f64,
    key_ttl_seconds: f64,
    rejected_code: u16,
    rejected_msg: Option<String>,
    allow_degradation: bool,
    is_action: bool,
}

/// Shorter waits are not worth a timer.
pub(crate) const SHORTEST_DELAY: f64 = 0.001;

/// A rule that applies to the request at hand.
struct Applied {
    key: KeyText,
    conn: f64,
    burst: f64,
}

fn build(value: &Value, context: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let conf: Conf = typed(value)?;
    let rules = match &conf.rules {
        Some(rules) => rules
            .iter()
            .map(|rule| {
                Ok(Rule {
                    conn: Amount::new(Some(&rule.conn))?,
                    burst: Amount::new(Some(&rule.burst))?,
                    key: LimitKey::rule(&rule.key),
                })
            })
            .collect::<Result<_, String>>()?,
        None => vec![Rule {
            conn: Amount::new(conf.conn.as_ref())?,
            burst: Amount::new(conf.burst.as_ref())?,
            key: LimitKey::new(conf.key.as_deref().unwrap_or("remote_addr"), &conf.key_type),
        }],
    };
    Ok(Arc::new(LimitConn {
        rules,
        has_rules: conf.rules.is_some(),
        scope: Scope::new(context.owner, value),
        redis: RedisClient::from_conf(&conf.policy, value)?,
        outage: Outage::default(),
        delay_seconds: conf.default_conn_delay,
        key_ttl_seconds: conf.key_ttl.unwrap_or(3600.0),
        rejected_code: conf.rejected_code,
        rejected_msg: conf.rejected_msg,
        allow_degradation: conf.allow_degradation,
        is_action: value.get("_vid").is_some(),
    }))
}

impl Plugin for LimitConn {
    fn access<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        if !self.is_action && skip::is_skipped(request, PLUGIN.name) {
            return Step::Next;
        }
        let applied = match self.in_force(request) {
            Ok(applied) => applied,
            Err(verdict) => return verdict.into(),
        };
        if self.redis.is_none() && applied.len() == 1 {
            // The usual case: no waiting, no allocation.
            if let Some(rule) = applied.first() {
                return match self
                    .delay_or_refuse(rule, Places::global().take(request, &rule.key, rule.conn + rule.burst))
                {
                    Ok(0.0) => Step::Next,
                    Ok(delay) => Step::wait(wait(delay)),
                    Err(reply) => Step::Reply(reply),
                };
            }
        }
        Step::wait(async move {
            for rule in &applied {
                let limit = rule.conn + rule.burst;
                let taken = match &self.redis {
                    None => Places::global().take(request, &rule.key, limit),
                    Some(redis) => {
                        let attempt = self.outage.attempt();
                        match held::take_remote(request, redis, &rule.key, limit, self.key_ttl_seconds).await
                        {
                            Ok(taken) => {
                                attempt.passed(PLUGIN.name, request);
                                taken
                            }
                            Err(reason) => {
                                self.failed(&attempt, request, &reason)?;
                                continue;
                            }
                        }
                    }
                };
                wait(self.delay_or_refuse(rule, taken)?).await?;
            }
            Ok(())
        })
    }

    fn log(&self, request: &mut Request) {
        // Dropping gives the places back; a request that never gets here does so when it is dropped itself.
        drop(request.extensions.take::<Held>());
    }

    fn foresee(&self, _: Phases, request: &mut Request) -> Foresight {
        if !self.is_action && skip::is_skipped(request, PLUGIN.name) {
            return Foresight::Continues;
        }
        match self.in_force(request) {
            Ok(_) => Foresight::maybe(self.rejected_code, Why::Counts),
            Err(verdict) => Foresight::of_step(verdict.into()),
        }
    }
}

async fn wait(delay: f64) -> Verdict {
    if delay >= SHORTEST_DELAY {
        tokio::time::sleep(Duration::try_from_secs_f64(delay).unwrap_or(Duration::MAX)).await;
    }
    Ok(())
}

impl LimitConn {
    /// The rules that count the request; `Err`: what becomes of it without one.
    fn in_force(&self, request: &Request) -> Result<SmallVec<[Applied; 1]>, Verdict> {
        match self.applied(request) {
            Ok(applied) if !applied.is_empty() => Ok(applied),
            outcome => {
                let reason = outcome.err().unwrap_or_else(|| "none applies".to_owned());
                error_log::log(
                    error_log::Level::Error,
                    format_args!("failed to get limit conn rules: {reason}"),
                );
                Err(if self.allow_degradation { Ok(()) } else { Err(Box::new(Reply::page(500))) })
            }
        }
    }

    fn applied(&self, request: &Request) -> Result<SmallVec<[Applied; 1]>, String> {
        let mut applied = SmallVec::new();
        let form = if self.redis.is_some() { Form::Text } else { Form::Compact };
        for rule in &self.rules {
            let amounts = (rule.conn.positive(request), rule.burst.not_negative(request));
            let (conn, burst) = match amounts {
                (Ok(conn), Ok(burst)) => (conn, burst),
                _ if self.has_rules => continue,
                (conn, burst) => (conn?, burst?),
            };
            let Some(key) = self.scope.key(&rule.key, request, form, "limit_conn:") else { continue };
            applied.push(Applied { key, conn, burst });
        }
        Ok(applied)
    }

    /// `taken`: the requests under way with this one, `None` when there is no place. Answers the seconds to wait.
    fn delay_or_refuse(&self, rule: &Applied, taken: Option<f64>) -> Result<f64, Box<Reply>> {
        match taken {
            None => {
                let message = self.rejected_msg.as_deref();
                Err(Box::new(Reply::error_msg_or_page(self.rejected_code, message)))
            }
            Some(count) => Ok(delay(count, rule.conn, self.delay_seconds)),
        }
    }

    fn failed(&self, attempt: &Attempt<'_>, request: &Request, reason: &str) -> Verdict {
        let route = limit_key::on_route(request);
        attempt.failed(format_args!("failed to limit conn: {reason}{route}"));
        if self.allow_degradation { Ok(()) } else { Err(Box::new(Reply::page(500))) }
    }
}

/// Each further `conn` requests wait one more delay.
pub(crate) fn delay(count: f64, conn: f64, unit: f64) -> f64 {
    if count > conn { unit * ((count - 1.0) / conn).floor() } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_with_the_excess() {
        let cases = [(1.0, 0.0), (2.0, 0.0), (3.0, 0.1), (4.0, 0.1), (5.0, 0.2)];
        for (count, expected) in cases {
            assert_eq!(delay(count, 2.0, 0.1), expected, "{count}");
        }
    }
}
