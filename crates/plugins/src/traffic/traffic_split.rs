//! Sends shares of the traffic to other upstreams, by weight and by conditions on the request.

use std::{borrow::Cow, sync::Arc, time::Instant};

use rustc_hash::FxHashMap;
use serde_json::Value;
use tidegate_model::header_text::Text;
use tidegate_plugin_api::{
    BuildContext, Foresight, Phases, Plugin, PluginDef, Reply, Request, SchemaKind, Share, Step,
    UpstreamHandle, Variable, Why, foresight::at_once,
};
use tidegate_routing::expr::{Expression, Variables};

use crate::common::{conf::typed, turns::Turns};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "traffic-split",
    version: 0.1,
    priority: 966,
    guards: false,
    answers: true,
    schema: include_str!("traffic_split.json"),
    phases: Phases::ACCESS,
    check,
    remarks,
    headers: &[("rules[].weighted_upstreams[].upstream.checks.active.req_headers", Text::Lines)],
    build,
    inline_upstreams: Some(inline_upstreams),
    ..PluginDef::DEFAULT
};

struct TrafficSplit {
    rules: Vec<Rule>,
    /// A condition looks into the request's body.
    needs_body: bool,
}

pub(crate) struct Rule {
    /// One of them must hold; `None`: always.
    conditions: Option<Vec<Expression<Variable>>>,
    targets: Vec<Target>,
    /// Of the targets.
    weights: Vec<u32>,
    /// Takes turns over `targets` by weight.
    turns: Turns,
}

enum Target {
    /// An `upstreams` resource, looked up when it is needed: it may come and go.
    Named(String),
    Inline(Arc<UpstreamHandle>),
    /// The route's own.
    Route,
}

fn rules(conf: &Value) -> impl Iterator<Item = &Value> {
    conf.get("rules").and_then(Value::as_array).into_iter().flatten()
}

fn targets(rule: &Value) -> impl Iterator<Item = &Value> {
    rule.get("weighted_upstreams").and_then(Value::as_array).into_iter().flatten()
}

/// The inline upstream of a target; an id goes before it.
fn inline(target: &Value) -> Option<&Value> {
    target.get("upstream").filter(|_| target.get("upstream_id").is_none())
}

/// As of upstreams elsewhere.
pub(crate) fn remarks(conf: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for (at, rule) in rules(conf).enumerate() {
        let mut weights = targets(rule).map(|target| target.get("weight").and_then(Value::as_f64)).peekable();
        if weights.peek().is_some() && weights.all(|weight| weight == Some(0.0)) {
            found.push(format!(
                "rules[{at}].weighted_upstreams: every weight is 0, so that the first target gets all requests; \
                 give one that should get them a weight above 0"
            ));
        }
        for (number, upstream) in targets(rule).map(inline).enumerate() {
            let kind = upstream.and_then(|upstream| upstream.pointer("/checks/passive/type")?.as_str());
            if kind.is_some_and(|kind| kind != "http") {
                found.push(format!(
                    "rules[{at}].weighted_upstreams[{number}].upstream.checks.passive.type has no effect: \
                     all answers and failures of requests count, whatever the type"
                ));
            }
        }
    }
    found
}

pub(crate) fn inline_upstreams(conf: &Value) -> Vec<Cow<'_, Value>> {
    rules(conf).flat_map(targets).filter_map(inline).map(Cow::Borrowed).collect()
}

fn conditions(rule: &Value, needs_body: &mut bool) -> Result<Option<Vec<Expression<Variable>>>, String> {
    let mut variable = |name: &str| {
        let variable = Variable::resolve(name);
        *needs_body |= variable.needs_body();
        variable
    };
    let compile = |condition: &Value| {
        let vars = condition.get("vars").unwrap_or(&Value::Null);
        Expression::compile(vars, &mut variable)
            .map_err(|reason| format!("failed to validate the 'vars' expression: {reason}"))
    };
    let list = rule.get("match").and_then(Value::as_array).filter(|list| !list.is_empty());
    list.map(|list| list.iter().map(compile).collect()).transpose()
}

pub(crate) fn check(conf: &Value, _: SchemaKind) -> Result<(), String> {
    rules(conf).try_for_each(|rule| conditions(rule, &mut false).map(|_| ()))
}

fn build(conf: &Value, context: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let (rules, needs_body) = built(conf, context)?;
    Ok(Arc::new(TrafficSplit { rules, needs_body }))
}

/// The rules, and whether a condition looks into the request's body.
pub(crate) fn built(conf: &Value, context: &BuildContext) -> Result<(Vec<Rule>, bool), String> {
    let mut compiled = context.upstreams.iter();
    let (mut built, mut needs_body) = (Vec::new(), false);
    for rule in rules(conf) {
        let mut list = Vec::new();
        let mut weights = Vec::new();
        for target in targets(rule) {
            list.push(match (target.get("upstream_id"), inline(target)) {
                (Some(Value::String(id)), _) => Target::Named(id.clone()),
                (Some(id), _) => Target::Named(id.to_string()),
                (None, Some(_)) => {
                    Target::Inline(compiled.next().cloned().ok_or("an upstream has not been compiled")?)
                }
                (None, None) => Target::Route,
            });
            let weight = target.get("weight").map(typed::<u32>).transpose();
            weights.push(weight.map_err(|reason| format!("{reason} (weight)"))?.unwrap_or(1));
        }
        built.push(Rule {
            conditions: conditions(rule, &mut needs_body)?,
            targets: list,
            turns: Turns::new(&weights),
            weights,
        });
    }
    Ok((built, needs_body))
}

impl Plugin for TrafficSplit {
    fn access<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        if self.needs_body {
            return Step::wait(async move {
                let limit = tidegate_plugin_api::condition_body_bytes();
                if let Some(rule) = request.decide(limit, |request| self.choose(request)).await?? {
                    rule.apply(request);
                }
                Ok(())
            });
        }
        match self.choose(request) {
            Ok(Some(rule)) => rule.apply(request),
            Ok(None) => {}
            Err(reply) => return Step::Reply(reply),
        }
        Step::Next
    }

    fn foresee(&self, _: Phases, request: &mut Request) -> Foresight {
        let limit = tidegate_plugin_api::condition_body_bytes();
        match at_once(request.decide(limit, |request| self.choose(request))) {
            None => Foresight::maybe(None, Why::Body),
            Some(Err(reply) | Ok(Err(reply))) => Foresight::answers(&reply),
            Some(Ok(Ok(None))) => Foresight::Continues,
            Some(Ok(Ok(Some(rule)))) => rule.foreseen(request),
        }
    }
}

impl TrafficSplit {
    /// The first rule whose conditions hold.
    fn choose(&self, request: &Request) -> Result<Option<&Rule>, Box<Reply>> {
        for rule in &self.rules {
            if let Some(id) = rule.missing(&request.snapshot.upstreams) {
                return Err(Box::new(Reply::bytes(500, missing_upstream(id))));
            }
            if rule.holds(request) {
                return Ok(Some(rule));
            }
        }
        Ok(None)
    }
}

pub(crate) fn missing_upstream(id: &str) -> String {
    format!("failed to fetch upstream info by upstream id: {id}")
}

type Upstreams = FxHashMap<Arc<str>, Arc<UpstreamHandle>>;

impl Target {
    /// `None`: the route's own.
    fn upstream(&self, upstreams: &Upstreams) -> Option<Arc<UpstreamHandle>> {
        match self {
            Target::Inline(handle) => Some(handle.clone()),
            Target::Named(id) => upstreams.get(id.as_str()).cloned(),
            Target::Route => None,
        }
    }
}

impl Rule {
    /// A rule that is looked at must name existing upstreams, whichever of them would be chosen.
    pub(crate) fn missing(&self, upstreams: &Upstreams) -> Option<&str> {
        let named = self.targets.iter().filter_map(|target| match target {
            Target::Named(id) => Some(id.as_str()),
            _ => None,
        });
        named.into_iter().find(|id| !upstreams.contains_key(*id))
    }

    pub(crate) fn holds<V: Variables<Name = Variable>>(&self, values: &V) -> bool {
        self.conditions.as_ref().is_none_or(|list| list.iter().any(|rule| rule.eval(values)))
    }

    /// `None`: it is the route's own turn.
    pub(crate) fn choose(
        &self,
        worker: usize,
        started: Instant,
        upstreams: &Upstreams,
    ) -> Option<Arc<UpstreamHandle>> {
        self.targets.get(self.turns.next(worker, started)?)?.upstream(upstreams)
    }

    /// What [`Rule::apply`] would do, without a turn.
    fn foreseen(&self, request: &mut Request) -> Foresight {
        let upstreams = &request.snapshot.upstreams;
        let has_turns = self.targets.iter().zip(&self.weights).filter(|(_, weight)| **weight > 0);
        let mut shares: Vec<Share> = has_turns
            .map(|(target, weight)| Share { upstream: target.upstream(upstreams), weight: *weight })
            .collect();
        match shares.len() {
            0 => Foresight::Continues,
            1 => {
                request.edits.upstream =
                    shares.pop().and_then(|share| share.upstream).or(request.edits.upstream.take());
                Foresight::Continues
            }
            _ => Foresight::Splits(shares),
        }
    }

    fn apply(&self, request: &mut Request) {
        let chosen = self.choose(request.worker, request.started, &request.snapshot.upstreams);
        if let Some(chosen) = chosen {
            request.edits.upstream = Some(chosen);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn upstreams_inside_a_configuration() {
        let conf = json!({"rules": [
            {"weighted_upstreams": [{"upstream": {"a": 1}}, {"weight": 2}]},
            {"weighted_upstreams": [{"upstream_id": 1, "upstream": {"b": 1}}, {"upstream": {"c": 1}}]}
        ]});
        let found: Vec<Value> = inline_upstreams(&conf).into_iter().map(Cow::into_owned).collect();
        assert_eq!(found, [json!({"a": 1}), json!({"c": 1})]);
    }

    #[test]
    fn conditions_are_checked() {
        let cases = [
            (json!({}), None),
            (json!({"rules": [{"match": [{"vars": [["arg_name", "==", "jack"]]}]}]}), None),
            (
                json!({"rules": [{"match": [{"vars": [["arg_name", "*=", "jack"]]}]}]}),
                Some("failed to validate the 'vars' expression: invalid operator '*='"),
            ),
            (
                json!({"rules": [{"match": [{}]}]}),
                Some("failed to validate the 'vars' expression: missing argument rule"),
            ),
        ];
        for (conf, expected) in cases {
            assert_eq!(check(&conf, SchemaKind::Plugin).err().as_deref(), expected, "{conf}");
        }
    }
}
