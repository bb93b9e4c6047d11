//! Lets named consumers, consumer groups, services or routes through, or keeps them out.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use serde::Deserialize;
use serde_json::Value;
use tidegate_plugin_api::{
    BuildContext, Foresight, Phases, Plugin, PluginDef, Reply, Request, SchemaKind, Step,
};

use crate::common::conf::typed;

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "consumer-restriction",
    version: 0.1,
    priority: 2400,
    schema: include_str!("consumer_restriction.json"),
    phases: Phases::ACCESS,
    check,
    build,
    ..PluginDef::DEFAULT
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Subject {
    ConsumerName,
    ServiceId,
    RouteId,
    ConsumerGroupId,
}

#[derive(Deserialize)]
struct Allowed {
    user: Option<String>,
    #[serde(default)]
    methods: Vec<String>,
}

#[derive(Deserialize)]
struct Conf {
    #[serde(rename = "type")]
    subject: Subject,
    #[serde(default)]
    blacklist: FxHashSet<String>,
    #[serde(default)]
    whitelist: FxHashSet<String>,
    #[serde(default)]
    allowed_by_methods: Vec<Allowed>,
    rejected_code: u16,
    rejected_msg: Option<String>,
}

struct ConsumerRestriction {
    subject: Subject,
    rules: Rules,
    rejected_code: u16,
    rejected_message: String,
}

#[derive(Debug, Default)]
struct Rules {
    denied: FxHashSet<String>,
    allowed: FxHashSet<String>,
    methods: FxHashMap<String, Vec<String>>,
}

/// An empty list restricts no one.
fn check(conf: &Value, _: SchemaKind) -> Result<(), String> {
    let names_nobody = |name: &str| conf.get(name).and_then(Value::as_array).is_none_or(Vec::is_empty);
    if ["blacklist", "whitelist", "allowed_by_methods"].into_iter().all(names_nobody) {
        return Err("property \"allowed_by_methods\" is empty: it would restrict no consumer".to_owned());
    }
    let by_methods = conf.get("allowed_by_methods").and_then(Value::as_array).into_iter().flatten();
    if let Some(number) = by_methods.map(|entry| entry.get("user")).position(|user| user.is_none()) {
        return Err(format!("allowed_by_methods[{number}] names no user: it would restrict no consumer"));
    }
    Ok(())
}

fn build(conf: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let conf: Conf = typed(conf)?;
    let mut methods = FxHashMap::default();
    for allowed in conf.allowed_by_methods {
        if let Some(user) = allowed.user {
            // The first entry of a user counts.
            methods.entry(user).or_insert(allowed.methods);
        }
    }
    let rejected_message = conf.rejected_msg;
    Ok(Arc::new(ConsumerRestriction {
        subject: conf.subject,
        rules: Rules { denied: conf.blacklist, allowed: conf.whitelist, methods },
        rejected_code: conf.rejected_code,
        rejected_message: rejected_message
            .unwrap_or_else(|| format!("The {} is forbidden.", conf.subject.name())),
    }))
}

impl Subject {
    fn name(self) -> &'static str {
        match self {
            Subject::ConsumerName => "consumer_name",
            Subject::ServiceId => "service_id",
            Subject::RouteId => "route_id",
            Subject::ConsumerGroupId => "consumer_group_id",
        }
    }

    fn of(self, request: &Request) -> Option<&str> {
        let (consumer, route) = (request.consumer.as_ref(), request.route.as_ref());
        match self {
            Subject::ConsumerName => consumer.map(|consumer| &*consumer.username),
            Subject::ConsumerGroupId => consumer?.group_id.as_deref(),
            Subject::RouteId => route.map(|route| &*route.id),
            Subject::ServiceId => route?.service_id().map(|id| &**id),
        }
    }
}

impl Rules {
    fn permit(&self, value: &str, method: &str) -> bool {
        if self.denied.contains(value) {
            return false;
        }
        if self.allowed.contains(value) {
            return true;
        }
        let method_allowed =
            self.methods.get(value).is_none_or(|methods| methods.iter().any(|allowed| allowed == method));
        self.allowed.is_empty() && method_allowed
    }
}

impl Plugin for ConsumerRestriction {
    fn access<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        match self.subject.of(request) {
            Some(value) if self.rules.permit(value, request.head.method.as_str()) => Step::Next,
            Some(_) => Step::reply(Reply::message(self.rejected_code, &self.rejected_message)),
            None => {
                let name = self.subject.name();
                let message = format!("The request is rejected, please check the {name} for this request");
                Step::reply(Reply::message(401, &message))
            }
        }
    }

    fn foresee(&self, phase: Phases, request: &mut Request) -> Foresight {
        Foresight::by_running(self, phase, request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_pass() {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<FxHashSet<_>>();
        let methods = |user: &str| FxHashMap::from_iter([(user.to_owned(), vec!["GET".to_owned()])]);
        let deny = Rules { denied: set(&["a"]), ..Rules::default() };
        let allow = Rules { allowed: set(&["a"]), ..Rules::default() };
        let both = Rules { denied: set(&["a"]), allowed: set(&["a"]), ..Rules::default() };
        let method = Rules { methods: methods("a"), ..Rules::default() };
        let listed = Rules { allowed: set(&["a"]), methods: methods("a"), ..Rules::default() };
        let cases = [
            (&deny, "a", "GET", false),
            (&deny, "b", "GET", true),
            (&allow, "a", "GET", true),
            (&allow, "b", "GET", false),
            (&both, "a", "GET", false),
            (&method, "a", "GET", true),
            (&method, "a", "POST", false),
            (&method, "b", "POST", true),
            (&listed, "a", "POST", true),
        ];
        for (rules, value, method, expected) in cases {
            assert_eq!(rules.permit(value, method), expected, "{rules:?} {value} {method}");
        }
    }
}
