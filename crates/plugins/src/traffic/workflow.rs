//! Runs the action of the first rule whose case holds: an answer, or one of the limiting plugins.

use std::sync::{Arc, LazyLock};

use serde_json::Value;
use tidegate_model::{
    catalog::Nested,
    schema::{Schema, lua},
};
use tidegate_plugin_api::{
    BuildContext, Foresight, Phases, Plugin, PluginDef, Reply, Request, SchemaKind, Step, Variable, Why,
    foresight::at_once,
};
use tidegate_routing::expr::Expression;

use crate::common::skip;

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "workflow",
    version: 0.1,
    priority: 1006,
    schema: include_str!("workflow.json"),
    phases: Phases::ACCESS.and(Phases::LOG),
    check,
    nested,
    remarks,
    build,
    ..PluginDef::DEFAULT
};

/// The plugins that may be actions, with their schemas compiled on first use.
static ACTIONS: LazyLock<Vec<(&'static PluginDef, Result<Schema, String>)>> = LazyLock::new(|| {
    [&crate::traffic::limit_conn::PLUGIN, &crate::traffic::limit_count::PLUGIN]
        .into_iter()
        .map(|def| {
            let schema = serde_json::from_str(def.schema).map_err(|error| error.to_string());
            (def, schema.and_then(|schema| Schema::compile(&schema)))
        })
        .collect()
});

static RETURN: LazyLock<Result<Schema, String>> = LazyLock::new(|| {
    Schema::compile(&serde_json::json!({
        "type": "object",
        "properties": { "code": { "type": "integer", "minimum": 100, "maximum": 599 } },
        "required": ["code"]
    }))
});

/// The configuration of an action, checked and with defaults.
struct ActionConf {
    plugin: Option<&'static PluginDef>,
    conf: Value,
}

fn name_of(action: &Value) -> &str {
    action.get(0).and_then(Value::as_str).unwrap_or_default()
}

/// `rule`: its number from 1 on, which keeps the counters of equal actions apart.
fn action(action: &Value, rule: usize) -> Result<ActionConf, String> {
    let name = name_of(action);
    let plugin = ACTIONS.iter().find(|(def, _)| def.name == name);
    let schema = match plugin {
        Some((_, schema)) => schema,
        None if name == "return" => &*RETURN,
        None => return Err(format!("unsupported action: {name}")),
    };
    let wrong = |reason: String| format!("failed to validate the '{name}' action: {reason}");
    let mut conf = action.get(1).cloned().unwrap_or(Value::Null);
    if let Some(conf) = conf.as_object_mut() {
        conf.insert("_vid".to_owned(), rule.into());
    }
    schema.as_ref().map_err(String::clone)?.check(&mut conf).map_err(wrong)?;
    if let Some((def, _)) = plugin {
        def.check_accepted(&conf, SchemaKind::Plugin).map_err(wrong)?;
    }
    Ok(ActionConf { plugin: plugin.map(|(def, _)| *def), conf })
}

fn rules(conf: &Value) -> impl Iterator<Item = (usize, &Value)> {
    (1..).zip(conf.get("rules").and_then(Value::as_array).into_iter().flatten())
}

fn actions(rule: &Value) -> impl Iterator<Item = &Value> {
    rule.get("actions").and_then(Value::as_array).into_iter().flatten()
}

fn check(conf: &Value, _: SchemaKind) -> Result<(), String> {
    for (number, rule) in rules(conf) {
        case(rule)?;
        for entry in actions(rule) {
            action(entry, number)?;
        }
    }
    Ok(())
}

fn takes_all(rule: &Value) -> bool {
    rule.get("case").is_none() && actions(rule).next().is_some()
}

fn remarks(conf: &Value) -> Vec<String> {
    if conf.get("rules").is_none_or(lua::is_empty) {
        return vec!["it has no rules and no effect".to_owned()];
    }
    let idle = rules(conf).filter(|(_, rule)| rule.get("actions").is_none_or(lua::is_empty));
    let idle = idle.map(|(number, _)| format!("rule {number} has no effect: it has no actions"));
    let last = rules(conf).find(|(_, rule)| takes_all(rule)).map(|(number, _)| number);
    let behind = last.filter(|last| rules(conf).count() > *last).map(|last| {
        format!(
            "the rules behind rule {last} never run: it has no case, and the first rule that holds counts"
        )
    });
    let idle = idle.chain(behind);
    let several = rules(conf).filter(|(_, rule)| actions(rule).count() > 1);
    idle.chain(several.map(|(number, _)| format!("rule {number}: only its first action runs"))).collect()
}

fn nested(conf: &Value) -> Vec<Nested<'_>> {
    let actions = rules(conf)
        .flat_map(|(number, rule)| (0..).zip(actions(rule)).map(move |(at, action)| (number, at, action)));
    actions
        .filter_map(|(number, at, action)| {
            let path = format!("rules[{}].actions[{at}][1]", number - 1);
            Some(Nested { path, name: name_of(action), conf: action.get(1)? })
        })
        .collect()
}

/// The condition of a rule, and whether it looks into the request's body.
fn case(rule: &Value) -> Result<(Option<Expression<Variable>>, bool), String> {
    let Some(case) = rule.get("case") else { return Ok((None, false)) };
    let mut needs_body = false;
    let expression = Expression::compile(case, &mut |name| {
        let variable = Variable::resolve(name);
        needs_body |= variable.needs_body();
        variable
    });
    let expression =
        expression.map_err(|reason| format!("failed to validate the 'case' expression: {reason}"))?;
    Ok((Some(expression), needs_body))
}

fn build(conf: &Value, context: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let mut built = Vec::new();
    let mut needs_body = false;
    for (number, rule) in rules(conf) {
        let (case, looks_into_body) = case(rule)?;
        needs_body |= looks_into_body;
        // Only the first action counts.
        let Some(first) = actions(rule).next() else { continue };
        let ActionConf { plugin, conf } = action(first, number)?;
        let action = match plugin {
            Some(def) => {
                // The metadata at hand is workflow's own; actions name their headers as usual.
                let context = BuildContext { metadata: None, ..*context };
                Action::Plugin(def.name, def.instance(&conf, &context)?)
            }
            None => {
                let code = conf.get("code").and_then(Value::as_u64).unwrap_or(403);
                Action::Return(u16::try_from(code).unwrap_or(403))
            }
        };
        built.push(Rule { case, action });
    }
    Ok(Arc::new(Workflow { rules: built, needs_body }))
}

struct Workflow {
    rules: Vec<Rule>,
    needs_body: bool,
}

struct Rule {
    case: Option<Expression<Variable>>,
    action: Action,
}

enum Action {
    Return(u16),
    Plugin(&'static str, Arc<dyn Plugin>),
}

fn returned(code: u16) -> Reply {
    Reply::error_msg(code, "rejected by workflow")
}

impl Workflow {
    /// The number of the first rule whose case holds.
    fn choose(&self, request: &Request) -> Option<usize> {
        self.rules.iter().position(|rule| rule.case.as_ref().is_none_or(|case| case.eval(request)))
    }

    fn run<'a>(&'a self, request: &'a mut Request, chosen: Option<usize>) -> Step<'a> {
        if let Err(reply) = request.require_decided() {
            return Step::Reply(reply);
        }
        let Some(rule) = chosen.and_then(|chosen| self.rules.get(chosen)) else { return Step::Next };
        match &rule.action {
            Action::Return(code) => Step::reply(returned(*code)),
            Action::Plugin(name, plugin) => {
                skip::skip(request, name);
                plugin.access(request)
            }
        }
    }
}

impl Plugin for Workflow {
    fn access<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        if !self.needs_body {
            let chosen = self.choose(request);
            return self.run(request, chosen);
        }
        Step::wait(async move {
            let chosen = request
                .decide(tidegate_plugin_api::condition_body_bytes(), |request| self.choose(request))
                .await?;
            match self.run(request, chosen) {
                Step::Next => Ok(()),
                Step::Reply(reply) => Err(reply),
                Step::Wait(future) | Step::Ask(future) => future.await,
            }
        })
    }

    fn log(&self, request: &mut Request) {
        for rule in &self.rules {
            if let Action::Plugin(_, plugin) = &rule.action {
                plugin.log(request);
            }
        }
    }

    fn foresee(&self, phase: Phases, request: &mut Request) -> Foresight {
        let limit = tidegate_plugin_api::condition_body_bytes();
        let chosen = match at_once(request.decide(limit, |request| self.choose(request))) {
            None => return Foresight::maybe(None, Why::Body),
            Some(Err(reply)) => return Foresight::answers(&reply),
            Some(Ok(chosen)) => chosen.and_then(|chosen| self.rules.get(chosen)),
        };
        match chosen.map(|rule| &rule.action) {
            None => Foresight::Continues,
            Some(Action::Return(code)) => Foresight::answers(&returned(*code)),
            Some(Action::Plugin(name, plugin)) => {
                skip::skip(request, name);
                plugin.foresee(phase, request)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn actions_are_checked() {
        let cases = [
            (json!([["fake", {}]]), Some("unsupported action: fake")),
            (
                json!([["return", {}]]),
                Some("failed to validate the 'return' action: property \"code\" is required"),
            ),
            (json!([["return", { "code": 403 }]]), None),
            (
                json!([["limit-count", { "count": 1, "time_window": 60, "group": "g" }]]),
                Some("failed to validate the 'limit-count' action: group is not supported"),
            ),
            (json!([["limit-count", { "count": 1, "time_window": 60 }]]), None),
        ];
        for (actions, expected) in cases {
            let conf = json!({ "rules": [{ "actions": actions }] });
            assert_eq!(check(&conf, SchemaKind::Plugin).err().as_deref(), expected, "{conf}");
        }
    }
}
