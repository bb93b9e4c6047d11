//! Where a request ends, in words and in parts.

use serde_json::{Value, json};
use tidegate_plugin_api::{Foreseen, upstream::Peer};
use tidegate_proxy::explain::{Answer, Cause, Destination, Does, Ending, Explanation};

use super::{
    fields::owner,
    reason::{Reason, of_plugin},
};

/// Most nodes of an upstream that are named.
const MOST_NODES: usize = 20;

pub(super) fn to_json(explanation: &Explanation) -> Value {
    let Ending { answer, maybe, is_open, status_changed_by, .. } = &explanation.ending;
    let outcome = match answer {
        Some(_) => "answered",
        None if maybe.is_empty() && !is_open => "upstream",
        None => "may_be_answered",
    };
    let sum: u64 = explanation.destinations.iter().map(|one| u64::from(one.weight)).sum();
    // Without an answer of the gateway's own there is none whose status could be another.
    let changed_by = match outcome {
        "upstream" => &[][..],
        _ => status_changed_by.as_slice(),
    };
    json!({
        "outcome": outcome,
        "summary": summary(explanation, sum),
        "answer": answer.as_ref().map(|answer| of_answer(explanation, answer)),
        "may_answer": maybe.iter().filter_map(|at| of_plan(explanation, *at)).collect::<Vec<_>>(),
        "status_changed_by": changed_by,
        "upstreams": explanation.destinations.iter().map(|one| destination(one, sum)).collect::<Vec<_>>(),
    })
}

/// Adds what a plugin does to its entry.
pub(super) fn with_foresight(mut entry: Value, does: &Does) -> Value {
    let (code, foreseen) = match does {
        Does::NotReached => ("not_reached", None),
        Does::Skipped => ("skipped", None),
        Does::Continues => ("continues", None),
        Does::Splits => ("splits", None),
        Does::Answers(foreseen) => ("answers", Some(foreseen)),
        Does::MayAnswer(foreseen) => ("may_answer", Some(foreseen)),
        Does::AfterAnswer => ("after_answer", None),
    };
    if let Some(fields) = entry.as_object_mut() {
        fields.insert("does".to_owned(), json!(code));
        if let Some(Foreseen { status, why, .. }) = foreseen {
            let reason = of_plugin(why);
            fields.insert("status".to_owned(), json!(status));
            fields.insert("reason".to_owned(), json!(reason.text));
            fields.insert("cause".to_owned(), reason.cause());
        }
    }
    entry
}

fn of_answer(explanation: &Explanation, answer: &Answer) -> Value {
    if let Cause::Plugin(at) = answer.cause {
        return of_plan(explanation, at).unwrap_or_default();
    }
    let reason = of_gateway(answer.cause);
    let mut value = json!({
        "plugin": null, "phase": null, "from": null, "status": answer.status,
        "reason": reason.text, "cause": reason.cause(),
    });
    if let (Cause::Condition(at), Some(fields)) = (answer.cause, value.as_object_mut())
        && let Some(planned) = explanation.plan.get(at)
    {
        fields.insert("plugin".to_owned(), json!(planned.instance.def.name));
        fields.insert("phase".to_owned(), json!(planned.phase));
        fields.insert("from".to_owned(), json!(owner(planned)));
    }
    value
}

fn of_gateway(cause: Cause) -> Reason {
    match cause {
        Cause::Plugin(_) => Reason::new("decided", ""),
        Cause::Condition(_) => Reason::new("condition", "its condition cannot be evaluated"),
        Cause::Refused => Reason::new("refused", "the request is refused before a route is chosen"),
        Cause::NoRoute => Reason::new("no_route", "no route matches"),
        Cause::Broken => Reason::new(
            "broken",
            "the route or a global rule cannot be built, or refers to something that does not exist",
        ),
        Cause::BodyTooLarge => Reason::new("body_too_large", "the body is larger than is allowed here"),
        Cause::GroupMissing => Reason::new("group_missing", "the consumer's group does not exist"),
        Cause::NoUpstream => Reason::new("no_upstream", "there is no upstream that takes requests"),
        Cause::NoNodes => Reason::new("no_nodes", "the upstream has no nodes, or discovery knows none"),
    }
}

fn of_plan(explanation: &Explanation, at: usize) -> Option<Value> {
    let planned = explanation.plan.get(at)?;
    let (Does::Answers(foreseen) | Does::MayAnswer(foreseen)) = &planned.does else { return None };
    let reason = of_plugin(&foreseen.why);
    Some(json!({
        "plugin": planned.instance.def.name, "phase": planned.phase, "from": owner(planned),
        "status": foreseen.status, "reason": reason.text, "cause": reason.cause(),
    }))
}

fn destination(one: &Destination, sum: u64) -> Value {
    let nodes: Vec<String> = one.upstream.nodes.iter().take(MOST_NODES).map(ToString::to_string).collect();
    json!({
        "upstream": one.upstream.name.as_ref(),
        "weight": one.weight,
        "percent": percent(one.weight, sum),
        "node": one.node.as_ref().and_then(Peer::node).map(ToString::to_string),
        "nodes": nodes,
        "more_nodes": one.upstream.nodes.len() > MOST_NODES,
    })
}

/// With one decimal place.
fn percent(weight: u32, sum: u64) -> f64 {
    (f64::from(weight) * 1000.0 / sum.max(1) as f64).round() / 10.0
}

fn summary(explanation: &Explanation, sum: u64) -> String {
    let Ending { answer, maybe, is_open, status_changed_by, .. } = &explanation.ending;
    let named = |at: &usize| {
        let planned = explanation.plan.get(*at)?;
        let (Does::Answers(foreseen) | Does::MayAnswer(foreseen)) = &planned.does else { return None };
        let status = foreseen.status.map(|status| format!(" ({status})")).unwrap_or_default();
        Some(format!("{}{status}", planned.instance.def.name))
    };
    let mut names: Vec<String> = maybe.iter().filter_map(named).collect();
    names.dedup();
    let names = names.join(" or ");
    let mut text = match answer {
        Some(answer) => {
            let unless = if names.is_empty() { names } else { format!(", unless {names} answers first") };
            format!("{}{unless}", answered(explanation, answer))
        }
        None if !names.is_empty() => {
            format!("May be answered by {names}; otherwise it reaches {}", reached(explanation, sum))
        }
        None if *is_open => format!(
            "Reaches {}, unless what plugins change in the request makes another one answer",
            reached(explanation, sum)
        ),
        None => return format!("Reaches {}", reached(explanation, sum)),
    };
    if !status_changed_by.is_empty() {
        text.push_str(&format!("; {} may change the status", status_changed_by.join(", ")));
    }
    text
}

fn answered(explanation: &Explanation, answer: &Answer) -> String {
    let value = of_answer(explanation, answer);
    let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let with = answer.status.map(|status| format!(" with {status}")).unwrap_or_default();
    let by = Some(text("plugin")).filter(|name| !name.is_empty()).map(|name| format!(" by {name}"));
    format!("Answered here{with}{}: {}", by.unwrap_or_default(), text("reason"))
}

fn reached(explanation: &Explanation, sum: u64) -> String {
    let name = |one: &Destination| one.upstream.name.to_string();
    match explanation.destinations.as_slice() {
        [] => "no upstream".to_owned(),
        [only] => match only.node.as_ref().and_then(Peer::node) {
            Some(node) => format!("{}, node {node}", name(only)),
            None => name(only),
        },
        several => {
            let parts = several.iter().map(|one| format!("{} ({} %)", name(one), percent(one.weight, sum)));
            format!("one of {}", parts.collect::<Vec<_>>().join(", "))
        }
    }
}
