//! Limits the rate of requests with a leaky bucket: what comes faster waits, what would wait too long is refused.

mod bucket;

use std::{sync::Arc, time::Duration};

use bucket::{Bucket, Buckets};
use serde::Deserialize;
use serde_json::Value;
use tidegate_clients::redis::RedisClient;
use tidegate_plugin_api::{
    BuildContext, Foresight, Phases, Plugin, PluginDef, Reply, Request, Step, Why, step::Verdict,
};

use crate::common::{
    conf::typed,
    limit_key::{self, Form, LimitKey, Scope},
    outage::{Attempt, Outage},
};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "limit-req",
    version: 0.1,
    priority: 1001,
    schema: include_str!("limit_req.json"),
    encrypt_fields: &["redis_password"],
    phases: Phases::ACCESS,
    remarks: |conf| limit_key::remarks(conf, PLUGIN.schema, &[]),
    of_consumer: limit_key::of_consumer,
    build,
    ..PluginDef::DEFAULT
};

#[derive(Deserialize)]
struct Conf {
    rate: f64,
    burst: f64,
    key: String,
    key_type: String,
    policy: String,
    rejected_code: u16,
    rejected_msg: Option<String>,
    nodelay: bool,
    allow_degradation: bool,
}

struct LimitReq {
    bucket: Bucket,
    key: LimitKey,
    scope: Scope,
    redis: Option<RedisClient>,
    outage: Outage,
    rejected_code: u16,
    rejected_msg: Option<String>,
    nodelay: bool,
    allow_degradation: bool,
}

/// Shorter waits are not worth a timer.
const SHORTEST_DELAY: f64 = 0.001;

fn build(value: &Value, context: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let conf: Conf = typed(value)?;
    Ok(Arc::new(LimitReq {
        bucket: Bucket { rate: conf.rate, burst: conf.burst },
        key: LimitKey::new(&conf.key, &conf.key_type),
        scope: Scope::new(context.owner, value),
        redis: RedisClient::from_conf(&conf.policy, value)?,
        outage: Outage::default(),
        rejected_code: conf.rejected_code,
        rejected_msg: conf.rejected_msg,
        nodelay: conf.nodelay,
        allow_degradation: conf.allow_degradation,
    }))
}

impl Plugin for LimitReq {
    fn access<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        if let Some(redis) = &self.redis {
            let key = self.scope.key(&self.key, request, Form::Text, "limit_req:").unwrap_or_default();
            return Step::wait(async move {
                let attempt = self.outage.attempt();
                match self.bucket.take_remote(redis, &key).await {
                    Ok(delay) => {
                        attempt.passed(PLUGIN.name, request);
                        self.delay_or_refuse(delay).await
                    }
                    Err(reason) => self.failed(&attempt, request, &reason),
                }
            });
        }
        let key = self.scope.key(&self.key, request, Form::Compact, "").unwrap_or_default();
        match Buckets::global().take(&key, self.bucket) {
            Some(delay) if delay < SHORTEST_DELAY || self.nodelay => Step::Next,
            delay => Step::wait(self.delay_or_refuse(delay)),
        }
    }

    fn foresee(&self, _: Phases, _: &mut Request) -> Foresight {
        Foresight::maybe(self.rejected_code, Why::Counts)
    }
}

impl LimitReq {
    /// `None`: refused; else the seconds to wait.
    async fn delay_or_refuse(&self, delay: Option<f64>) -> Verdict {
        let Some(delay) = delay else {
            let message = self.rejected_msg.as_deref();
            return Err(Box::new(Reply::error_msg_or_page(self.rejected_code, message)));
        };
        if delay >= SHORTEST_DELAY && !self.nodelay {
            tokio::time::sleep(Duration::try_from_secs_f64(delay).unwrap_or(Duration::MAX)).await;
        }
        Ok(())
    }

    fn failed(&self, attempt: &Attempt<'_>, request: &Request, reason: &str) -> Verdict {
        let route = limit_key::on_route(request);
        attempt.failed(format_args!("failed to limit req: {reason}{route}"));
        if self.allow_degradation { Ok(()) } else { Err(Box::new(Reply::page(500))) }
    }
}
