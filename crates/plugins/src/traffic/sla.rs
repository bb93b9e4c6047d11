//! Levels of service: what consumers of a level may send in an interval, and header fields that they or their upstream
//! get. Ours; it is what the SLAs of hyperapi do, with its token buckets.
//!
//! Buckets belong to the configured plugin: a change of the route refills them, as a reload of hyperapi does.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use serde::Deserialize;
use serde_json::Value;
use tidegate_model::header_text::Text;
use tidegate_plugin_api::{BuildContext, Foresight, Phases, Plugin, PluginDef, Reply, Request, Step, Why};

use crate::common::{clock::monotonic_seconds, conf::typed};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "sla",
    version: 0.1,
    // After workflow, which refuses, and before the limits of APISIX.
    priority: 1004,
    schema: include_str!("sla.json"),
    phases: Phases::ACCESS.and(Phases::HEADER_FILTER),
    headers: &[("levels.*.request_headers", Text::Edits), ("levels.*.response_headers", Text::Edits)],
    build,
    ..PluginDef::DEFAULT
};

#[derive(Deserialize)]
struct Conf {
    limits: Vec<Limit>,
    levels: HashMap<String, LevelConf>,
    consumers: HashMap<String, String>,
    rejected_code: u16,
    rejected_msg: String,
}

#[derive(Deserialize)]
struct LevelConf {
    #[serde(default)]
    limits: Vec<Limit>,
    #[serde(default)]
    request_headers: Edits,
    #[serde(default)]
    response_headers: Edits,
}

/// A token bucket: `limit` tokens at the start and for each whole interval, at most `burst`.
#[derive(Clone, Copy, Deserialize)]
struct Limit {
    interval: f64,
    limit: f64,
    burst: Option<f64>,
}

/// What is set replaces; removing comes first.
#[derive(Default, Deserialize)]
struct Edits {
    #[serde(default)]
    remove: Vec<String>,
    #[serde(default)]
    set: HashMap<String, String>,
}

struct Sla {
    shared: Vec<Bucket>,
    members: HashMap<String, Member>,
    rejected_code: u16,
    rejected_msg: String,
}

struct Member {
    level: Arc<LevelConf>,
    buckets: Vec<Bucket>,
}

struct Bucket {
    limit: Limit,
    state: Mutex<Tokens>,
}

#[derive(Clone, Copy)]
struct Tokens {
    count: f64,
    filled_seconds: f64,
}

fn build(conf: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let conf: Conf = typed(conf)?;
    if conf.limits.is_empty() && conf.consumers.is_empty() {
        return Err("it has neither `limits` nor `consumers`: it would limit no consumer".to_owned());
    }
    let now = monotonic_seconds(Instant::now());
    let levels: HashMap<String, Arc<LevelConf>> =
        conf.levels.into_iter().map(|(name, level)| (name, Arc::new(level))).collect();
    let mut members = HashMap::new();
    for (name, level) in conf.consumers {
        let Some(found) = levels.get(&level) else {
            return Err(format!("consumer {name} has the level {level}, which `levels` lacks"));
        };
        let buckets = found.limits.iter().map(|limit| Bucket::new(*limit, now)).collect();
        members.insert(name, Member { level: found.clone(), buckets });
    }
    Ok(Arc::new(Sla {
        shared: conf.limits.iter().map(|limit| Bucket::new(*limit, now)).collect(),
        members,
        rejected_code: conf.rejected_code,
        rejected_msg: conf.rejected_msg,
    }))
}

impl Plugin for Sla {
    fn access<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        let now = monotonic_seconds(Instant::now());
        let member = self.member(request);
        // All of them count a request, also one that another refuses.
        let mut passes = true;
        for bucket in self.shared.iter().chain(member.into_iter().flat_map(|member| &member.buckets)) {
            passes &= bucket.take(now);
        }
        if !passes {
            return Step::reply(Reply::error_msg(self.rejected_code, &self.rejected_msg));
        }
        if let Some(level) = member.map(|member| &member.level) {
            for name in &level.request_headers.remove {
                request.assert_header(name, [] as [&str; 0]);
            }
            for (name, value) in &level.request_headers.set {
                request.assert_header(name, [value]);
            }
        }
        Step::Next
    }

    fn header_filter(&self, request: &mut Request) {
        let Some(level) = self.member(request).map(|member| &member.level) else {
            return;
        };
        for name in &level.response_headers.remove {
            request.response.headers.remove(name);
        }
        for (name, value) in &level.response_headers.set {
            request.response.headers.set(name, value);
        }
    }

    fn foresee(&self, _: Phases, request: &mut Request) -> Foresight {
        match self.shared.is_empty() && self.member(request).is_none() {
            true => Foresight::Continues,
            false => Foresight::maybe(self.rejected_code, Why::Counts),
        }
    }
}

impl Sla {
    fn member(&self, request: &Request) -> Option<&Member> {
        self.members.get(&*request.consumer.as_ref()?.username)
    }
}

impl Bucket {
    fn new(limit: Limit, now: f64) -> Bucket {
        Bucket { limit, state: Mutex::new(Tokens { count: limit.limit, filled_seconds: now }) }
    }

    fn take(&self, now: f64) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        take(&mut state, self.limit, now)
    }
}

fn take(tokens: &mut Tokens, limit: Limit, now: f64) -> bool {
    let intervals = ((now - tokens.filled_seconds) / limit.interval).floor().max(0.0);
    let holds = limit.burst.unwrap_or(limit.limit);
    let count = (tokens.count + intervals * limit.limit).min(holds);
    if intervals > 0.0 {
        tokens.filled_seconds += intervals * limit.interval;
    }
    let passes = count >= 1.0;
    tokens.count = if passes { count - 1.0 } else { count };
    passes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_come_with_whole_intervals() {
        let limit = Limit { interval: 10.0, limit: 2.0, burst: Some(3.0) };
        let mut tokens = Tokens { count: 2.0, filled_seconds: 100.0 };
        let mut passed = |now: f64| (0..5).filter(|_| take(&mut tokens, limit, now)).count();
        // It starts with `limit`, not with `burst`.
        assert_eq!([passed(100.0), passed(109.9), passed(110.0)], [2, 0, 2]);
        // Saved up, but no more than `burst`.
        assert_eq!([passed(150.0), passed(151.0), passed(160.0)], [3, 0, 2]);
        let small = Limit { interval: 1.0, limit: 5.0, burst: Some(2.0) };
        let mut tokens = Tokens { count: 5.0, filled_seconds: 0.0 };
        assert_eq!((0..5).filter(|_| take(&mut tokens, small, 0.0)).count(), 2);
    }
}
