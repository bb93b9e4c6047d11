//! What rules and windows of the clock have in common: where counts are kept, and what becomes of a request that is not let
//! through, or cannot be counted.

use std::sync::Arc;

use serde_json::Value;
use tidegate_clients::redis::RedisClient;
use tidegate_plugin_api::{Reply, Request, step::Verdict};

use super::{
    counters::{Quota, Taken},
    delayed::Syncer,
    remote,
};
use crate::common::{
    limit_key::{self, Form, Scope},
    outage::Outage,
};

/// `sync_interval` that means: at once.
pub(super) const NO_DELAY: f64 = -1.0;

/// Where counts are kept.
pub(super) enum Store {
    Memory,
    Redis(RedisClient),
    Delayed { syncer: Arc<Syncer>, redis: RedisClient, interval: f64 },
}

pub(super) struct Counting {
    /// Its name, for the log.
    pub plugin: &'static str,
    pub store: Store,
    pub scope: Scope,
    pub rejected_code: u16,
    pub rejected_msg: Option<String>,
    pub allow_degradation: bool,
    pub(crate) show_headers: bool,
    pub(crate) outage: Outage,
}

impl Counting {
    pub(crate) fn is_in_memory(&self) -> bool {
        matches!(self.store, Store::Memory)
    }

    /// How keys are written, and what begins those in Redis.
    pub(super) fn form<'p>(&self, prefix: &'p str) -> (Form, &'p str) {
        if self.is_in_memory() { (Form::Compact, "") } else { (Form::Text, prefix) }
    }

    /// What Redis says; `None` if it fails and requests pass nevertheless.
    pub(super) async fn ask<T>(
        &self,
        request: &Request,
        question: impl Future<Output = Result<T, String>>,
    ) -> Result<Option<T>, Box<Reply>> {
        let attempt = self.outage.attempt();
        match question.await {
            Ok(answer) => {
                attempt.passed(self.plugin, request);
                Ok(Some(answer))
            }
            Err(reason) => {
                let route = limit_key::on_route(request);
                attempt.failed(format_args!("failed to limit count: {reason}{route}"));
                self.degrade().map(|()| None)
            }
        }
    }

    pub(crate) async fn take_from_redis(&self, key: &[u8], quota: Quota, cost: f64) -> Result<Taken, String> {
        match &self.store {
            Store::Memory => Err("counts are in memory".to_owned()),
            Store::Redis(redis) => remote::take(redis, key, quota, cost).await,
            // A window from a variable may turn out shorter than the interval.
            Store::Delayed { redis, interval, .. } if quota.window <= *interval => {
                remote::take(redis, key, quota, cost).await
            }
            Store::Delayed { syncer, .. } => syncer.take(key, quota, cost).await,
        }
    }

    /// The verdict where the count cannot be had.
    fn degrade(&self) -> Verdict {
        match self.allow_degradation {
            true => Ok(()),
            false => Err(Box::new(Reply::error_msg(500, "failed to limit count"))),
        }
    }

    pub(super) fn refusal(&self) -> Box<Reply> {
        Box::new(Reply::error_msg_or_page(self.rejected_code, self.rejected_msg.as_deref()))
    }
}

/// The words of APISIX. A key is a client's text: it is put in as JSON has it.
pub(super) fn info(key: &[u8], limit: f64, taken: &Taken) -> String {
    let remaining = if taken.allowed { taken.remaining.max(0.0) } else { 0.0 };
    format!(
        "{{\"rate_limiting_key\":{},\"rate_limiting_limit\":{limit:.0},\"rate_limiting_remaining\":{:.0},\
         \"rate_limiting_reset\":{:.0}}}",
        Value::from(String::from_utf8_lossy(key)),
        remaining.floor(),
        taken.reset_seconds.floor(),
    )
}
