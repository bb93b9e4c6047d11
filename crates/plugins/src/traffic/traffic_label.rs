//! Sets header fields on shares of the requests that match, as labels for what decides behind it.

use std::sync::Arc;

use serde_json::Value;
use tidegate_model::header_text::Text;
use tidegate_plugin_api::{
    BuildContext, Foresight, Phases, Plugin, PluginDef, Request, SchemaKind, Step, Template, Variable, Why,
    foresight::at_once,
};
use tidegate_routing::expr::Expression;

use crate::common::{conf::typed, header_edits, turns::Turns};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "traffic-label",
    version: 0.1,
    priority: 967,
    guards: false,
    schema: include_str!("traffic_label.json"),
    phases: Phases::ACCESS,
    check,
    remarks,
    headers: &[("rules[].actions[].set_headers", Text::Fields)],
    build,
    ..PluginDef::DEFAULT
};

struct TrafficLabel {
    rules: Vec<Rule>,
    /// A condition looks into the request's body.
    needs_body: bool,
}

struct Rule {
    /// `None`: always.
    condition: Option<Expression<Variable>>,
    /// What each action sets; one that sets nothing passes its share on as it is.
    actions: Vec<Vec<(String, Template)>>,
    /// Of the actions.
    weights: Vec<u32>,
    turns: Turns,
}

fn list<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    value.get(name).and_then(Value::as_array).into_iter().flatten()
}

/// The condition of a rule, and whether it looks into the request's body.
fn condition(rule: &Value) -> Result<(Option<Expression<Variable>>, bool), String> {
    let Some(text) = rule.get("match") else { return Ok((None, false)) };
    let mut needs_body = false;
    let condition = Expression::compile(text, &mut |name| {
        let variable = Variable::resolve(name);
        needs_body |= variable.needs_body();
        variable
    });
    match condition {
        Ok(condition) => Ok((Some(condition), needs_body)),
        Err(reason) => Err(format!("failed to validate the 'match' expression: {text} err: {reason}")),
    }
}

fn check(conf: &Value, _: SchemaKind) -> Result<(), String> {
    for rule in list(conf, "rules") {
        condition(rule)?;
        let actions = list(rule, "actions").filter_map(Value::as_object).flatten();
        for (name, fields) in actions.filter(|(name, _)| *name != "weight") {
            if name != "set_headers" {
                return Err(format!("not supported action: {name}"));
            }
            let mut values = fields.as_object().into_iter().flatten().map(|(_, value)| value);
            if !values.all(|value| value.is_string() || value.is_number()) {
                let reason = "a value of a header field is a string or a number";
                return Err(format!("failed to validate the 'set_headers' action: {reason}"));
            }
        }
    }
    Ok(())
}

/// Fields that the gateway makes for each request to an upstream.
const OF_THE_HOP: [&str; 8] = [
    "connection",
    "content-length",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

fn remarks(conf: &Value) -> Vec<String> {
    let actions = list(conf, "rules").flat_map(|rule| list(rule, "actions"));
    let fields = actions.filter_map(|action| action.get("set_headers")?.as_object()).flatten();
    let of_the_hop = |name: &&String| OF_THE_HOP.iter().any(|field| name.eq_ignore_ascii_case(field));
    fields
        .map(|(name, _)| name)
        .filter(of_the_hop)
        .map(|name| format!("set_headers: {name} is the gateway's own towards the upstream, and is not set"))
        .collect()
}

fn build(conf: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    Ok(Arc::new(compile(conf)?))
}

fn compile(conf: &Value) -> Result<TrafficLabel, String> {
    let (mut rules, mut needs_body) = (Vec::new(), false);
    for rule in list(conf, "rules") {
        let (condition, looks_into_body) = condition(rule)?;
        needs_body |= looks_into_body;
        let (mut actions, mut weights) = (Vec::new(), Vec::new());
        for action in list(rule, "actions") {
            actions.push(header_edits::templates(action.get("set_headers")));
            let weight = action.get("weight").map(typed::<u32>).transpose();
            weights.push(weight.map_err(|reason| format!("{reason} (weight)"))?.unwrap_or(1));
        }
        rules.push(Rule { condition, actions, turns: Turns::new(&weights), weights });
    }
    Ok(TrafficLabel { rules, needs_body })
}

impl Plugin for TrafficLabel {
    fn access<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        if self.needs_body {
            return Step::wait(async move {
                let limit = tidegate_plugin_api::condition_body_bytes();
                if let Some(rule) = request.decide(limit, |request| self.choose(request)).await? {
                    rule.apply(request);
                }
                Ok(())
            });
        }
        if let Some(rule) = self.choose(request) {
            rule.apply(request);
        }
        Step::Next
    }

    fn foresee(&self, _: Phases, request: &mut Request) -> Foresight {
        let limit = tidegate_plugin_api::condition_body_bytes();
        match at_once(request.decide(limit, |request| self.choose(request))) {
            None => Foresight::maybe(None, Why::Body),
            Some(Err(reply)) => Foresight::answers(&reply),
            Some(Ok(None)) => Foresight::Continues,
            Some(Ok(Some(rule))) => rule.foreseen(request),
        }
    }
}

impl TrafficLabel {
    /// The first rule whose condition holds.
    fn choose(&self, request: &Request) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.condition.as_ref().is_none_or(|condition| condition.eval(request)))
    }
}

impl Rule {
    /// What [`Rule::apply`] would do, without a turn.
    fn foreseen(&self, request: &mut Request) -> Foresight {
        let mut with_turns =
            (0..).zip(&self.weights).filter(|(_, weight)| **weight > 0).map(|(index, _)| index);
        match (with_turns.next(), with_turns.next()) {
            (None, _) => Foresight::Continues,
            (Some(only), None) => {
                self.act(only, request);
                Foresight::Continues
            }
            _ => Foresight::Alters,
        }
    }

    fn apply(&self, request: &mut Request) {
        if let Some(index) = self.turns.next(request.worker, request.started) {
            self.act(index, request);
        }
    }

    fn act(&self, index: usize, request: &mut Request) {
        for (name, template) in self.actions.get(index).into_iter().flatten() {
            let mut value = Vec::new();
            template.render_into(request, &mut value);
            // As in nginx, a field without a value is not sent.
            request.assert_header(name, Some(value).filter(|value| !value.is_empty()));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::common::test_request;

    fn label(plugin: &dyn Plugin, target: &str) -> Option<String> {
        let text = format!("GET {target} HTTP/1.1\r\nHost: h\r\nX-Label: client\r\n\r\n");
        let mut request = test_request::request(&text);
        assert!(matches!(plugin.access(&mut request), Step::Next));
        request.head.headers.get("X-Label").map(|value| String::from_utf8_lossy(value).into_owned())
    }

    #[test]
    fn rules_actions_and_shares() {
        let conf = json!({"rules": [
            {"match": [["arg_v", "==", "1"]], "actions": [{"set_headers": {"X-Label": 100}, "weight": 1}]},
            {"match": ["OR", ["arg_v", "==", "2"], ["arg_w", "==", "2"]],
             "actions": [{"set_headers": {"X-Label": "$arg_v-$host"}, "weight": 1}]},
            {"match": [["arg_v", "==", "3"]], "actions": [{"set_headers": {"X-Label": "$arg_none"}, "weight": 1}]},
            {"actions": [{"set_headers": {"X-Label": "a"}, "weight": 3}, {"weight": 1}]}
        ]});
        let plugin = compile(&conf).unwrap();
        assert_eq!(label(&plugin, "/?v=1").as_deref(), Some("100"));
        assert_eq!(label(&plugin, "/?w=2").as_deref(), Some("-h"));
        assert_eq!(label(&plugin, "/?v=3"), None, "a field without a value");
        let labels: Vec<_> = (0..8).filter_map(|_| label(&plugin, "/")).collect();
        let count = |text: &str| labels.iter().filter(|label| *label == text).count();
        assert_eq!((count("a"), count("client")), (6, 2));
    }

    #[test]
    fn fields_of_the_hop_are_remarked_on() {
        let conf = json!({"rules": [{"actions": [{"set_headers": {"X-A": "b"}}, {}]},
            {"actions": [{"set_headers": {"content-Length": 5, "TE": "x"}}]}]});
        assert_eq!(
            remarks(&conf),
            ["content-Length", "TE"].map(|name| format!(
                "set_headers: {name} is the gateway's own towards the upstream, and is not set"
            ))
        );
    }

    #[test]
    fn what_is_not_accepted() {
        let cases = [
            (json!({"actions": [{"set_headers": {"A": "b"}}]}), None),
            (json!({"actions": [{"add_headers": {"A": "b"}}]}), Some("not supported action: add_headers")),
            (
                json!({"actions": [{"set_headers": {"A": ["b"]}}]}),
                Some(
                    "failed to validate the 'set_headers' action: a value of a header field is a string or a number",
                ),
            ),
            (
                json!({"match": [["uri", "*=", "/"]], "actions": [{}]}),
                Some(
                    "failed to validate the 'match' expression: [[\"uri\",\"*=\",\"/\"]] err: invalid operator '*='",
                ),
            ),
        ];
        for (rule, expected) in cases {
            let conf = json!({"rules": [rule]});
            assert_eq!(check(&conf, SchemaKind::Plugin).err().as_deref(), expected, "{conf}");
        }
    }
}
