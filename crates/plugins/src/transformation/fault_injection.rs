//! Delays requests, or answers them with a status of choice, to see how clients bear it.

use std::{sync::Arc, time::Duration};

use serde::Deserialize;
use serde_json::Value;
use tidegate_model::random::random_u64;
use tidegate_model::{header_text::Text, schema::lua};
use tidegate_plugin_api::{
    BuildContext, Foresight, Phases, Plugin, PluginDef, Reply, Request, SchemaKind, Step, Template, Variable,
    Verdict, Why, foresight::at_once, location,
};
use tidegate_routing::expr::Expression;

use crate::common::{conf::typed, header_edits};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "fault-injection",
    version: 0.1,
    priority: 11000,
    schema: include_str!("fault_injection.json"),
    phases: Phases::REWRITE,
    check,
    headers: &[("abort.headers", Text::Fields)],
    remarks,
    build,
    ..PluginDef::DEFAULT
};

#[derive(Deserialize)]
struct Conf {
    abort: Option<AbortConf>,
    delay: Option<DelayConf>,
}

#[derive(Deserialize)]
struct AbortConf {
    http_status: u16,
    body: Option<String>,
    headers: Option<Value>,
    percentage: Option<u64>,
    vars: Option<Vec<Value>>,
}

#[derive(Deserialize)]
struct DelayConf {
    duration: f64,
    percentage: Option<u64>,
    vars: Option<Vec<Value>>,
}

struct FaultInjection {
    abort: Option<Abort>,
    delay: Option<(Duration, When)>,
}

struct Abort {
    when: When,
    status: u16,
    body: Option<Template>,
    headers: Vec<(String, Template)>,
}

/// Which requests are hit.
struct When {
    percentage: Option<u64>,
    /// One of them must hold; `None`: no condition.
    vars: Option<Vec<Expression<Variable>>>,
    needs_body: bool,
}

impl When {
    fn new(percentage: Option<u64>, vars: Option<Vec<Value>>) -> Result<When, String> {
        let mut needs_body = false;
        let vars = vars.as_deref().map(|vars| expressions(vars, &mut needs_body)).transpose()?;
        Ok(When { percentage, vars, needs_body })
    }

    fn is_drawn(&self) -> bool {
        self.percentage.is_none_or(|percentage| random_u64() % 100 < percentage)
    }

    fn holds(&self, request: &Request) -> bool {
        self.vars.as_ref().is_none_or(|vars| vars.iter().any(|rule| rule.eval(request)))
    }
}

fn expressions(vars: &[Value], needs_body: &mut bool) -> Result<Vec<Expression<Variable>>, String> {
    let mut variable = |name: &str| {
        let variable = Variable::resolve(name);
        *needs_body |= variable.needs_body();
        variable
    };
    vars.iter().map(|rule| Expression::compile(rule, &mut variable)).collect()
}

fn check(conf: &Value, _: SchemaKind) -> Result<(), String> {
    for part in ["abort", "delay"] {
        let vars = conf.get(part).and_then(|part| part.get("vars")).and_then(Value::as_array);
        expressions(vars.map_or(&[], Vec::as_slice), &mut false)?;
    }
    Ok(())
}

fn remarks(conf: &Value) -> Vec<String> {
    let is_idle = |part: &&str| conf.get(part).and_then(|part| part.get("vars")).is_some_and(lua::is_empty);
    let idle = ["abort", "delay"].into_iter().filter(is_idle);
    let never = |part: &&str| {
        conf.get(part).and_then(|part| part.get("percentage")).and_then(Value::as_f64) == Some(0.0)
    };
    let idle = idle.map(|part| format!("{part} has no effect: its vars are empty; leave them out"));
    let never = ["abort", "delay"].into_iter().filter(never);
    idle.chain(never.map(|part| format!("{part} has no effect: its percentage is 0"))).collect()
}

/// Longer delays than this are the same to any client.
const MAX_DELAY_SECONDS: f64 = 86_400.0;

fn build(conf: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let conf: Conf = typed(conf)?;
    let abort = conf.abort.map(|abort| {
        Ok::<_, String>(Abort {
            when: When::new(abort.percentage, abort.vars)?,
            status: abort.http_status,
            body: abort.body.as_deref().map(Template::compile),
            headers: header_edits::templates(abort.headers.as_ref()),
        })
    });
    let delay = conf.delay.map(|delay| {
        let duration = Duration::from_secs_f64(delay.duration.clamp(0.0, MAX_DELAY_SECONDS));
        Ok::<_, String>((duration, When::new(delay.percentage, delay.vars)?))
    });
    Ok(Arc::new(FaultInjection { abort: abort.transpose()?, delay: delay.transpose()? }))
}

impl Plugin for FaultInjection {
    fn rewrite<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        let delay = self.delay.as_ref().filter(|(_, when)| when.is_drawn());
        let abort = self.abort.as_ref().filter(|abort| abort.when.is_drawn());
        let holds = move |request: &Request| {
            (
                delay.filter(|(_, when)| when.holds(request)).map(|(duration, _)| *duration),
                abort.filter(|abort| abort.when.holds(request)),
            )
        };
        let needs_body = delay.is_some_and(|(_, when)| when.needs_body)
            || abort.is_some_and(|abort| abort.when.needs_body);
        if needs_body {
            return Step::wait(async move {
                let (delay, abort) =
                    request.decide(tidegate_plugin_api::condition_body_bytes(), holds).await?;
                inject(request, delay, abort).await
            });
        }
        match holds(request) {
            (None, None) => Step::Next,
            (None, Some(abort)) => Step::reply(abort.reply(request)),
            (delay, abort) => Step::wait(inject(request, delay, abort)),
        }
    }

    fn answers_all_in(&self) -> Option<Phases> {
        let when = &self.abort.as_ref()?.when;
        (when.vars.is_none() && when.percentage.is_none_or(|percentage| percentage >= 100))
            .then_some(Phases::REWRITE)
    }

    fn foresee(&self, _: Phases, request: &mut Request) -> Foresight {
        let limit = tidegate_plugin_api::condition_body_bytes();
        let Some(abort) = &self.abort else { return Foresight::Continues };
        match at_once(request.decide(limit, |request| abort.when.holds(request))) {
            None => Foresight::maybe(abort.status, Why::Body),
            Some(Err(reply)) => Foresight::answers(&reply),
            Some(Ok(false)) => Foresight::Continues,
            Some(Ok(true)) => match abort.when.percentage {
                Some(0) => Foresight::Continues,
                Some(percentage) if percentage < 100 => {
                    Foresight::maybe(abort.status, Why::Draws(percentage))
                }
                _ => Foresight::answers(&abort.reply(request)),
            },
        }
    }
}

async fn inject(request: &mut Request, delay: Option<Duration>, abort: Option<&Abort>) -> Verdict {
    // Without a length it would last to the next millisecond.
    if let Some(delay) = delay.filter(|delay| !delay.is_zero()) {
        tokio::time::sleep(delay).await;
    }
    abort.map_or(Ok(()), |abort| Err(Box::new(abort.reply(request))))
}

impl Abort {
    fn reply(&self, request: &Request) -> Reply {
        let mut reply = match &self.body {
            Some(body) => Reply::bytes(self.status, body.render(request)),
            None => Reply::page(self.status),
        };
        for (name, value) in &self.headers {
            if let Some(value) = location::field(name, value, request) {
                reply = reply.header(name, value);
            }
        }
        reply
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn conditions_are_checked() {
        let good = json!({"abort": {"http_status": 403, "vars": [[["arg_name", "==", "jack"]]]}});
        assert_eq!(check(&good, SchemaKind::Plugin), Ok(()));
        let bad = json!({"delay": {"duration": 1, "vars": [[["arg_name", "&=", "jack"]]]}});
        assert_eq!(check(&bad, SchemaKind::Plugin), Err("invalid operator '&='".to_owned()));
    }
}
