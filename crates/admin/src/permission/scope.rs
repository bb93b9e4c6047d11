//! The objects that someone is for: those that carry given labels. Everything that shows or writes objects asks here.
//!
//! Outside of every scope are global rules, plugin metadata and secret managers, which act on all objects; a credential or
//! decoration is where its consumer or service is. An object of a scope refers to nothing outside of it, except to what it referred to before.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Value, json};
use tidegate_model::{Kind, schema::lua};

use crate::role::Role;

/// Fields that name other objects, wherever they stand.
const REFERENCES: [(&str, Kind); 8] = [
    ("upstream_id", Kind::Upstream),
    ("service_id", Kind::Service),
    ("plugin_config_id", Kind::PluginConfig),
    ("group_id", Kind::ConsumerGroup),
    ("client_cert_id", Kind::Ssl),
    ("proto_id", Kind::Proto),
    ("superior_id", Kind::StreamRoute),
    ("anonymous_consumer", Kind::Consumer),
];

const TAKEN: &str = "its id is taken";

/// Labels that an object has to carry, all of them. There is at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope(BTreeMap<String, String>);

/// The other objects, as they are or would be.
pub(crate) type Lookup<'a> = &'a dyn Fn(Kind, &str) -> Option<Arc<Value>>;

impl Scope {
    /// `None` without labels: they would be all objects.
    pub fn new(labels: BTreeMap<String, String>) -> Option<Scope> {
        (!labels.is_empty()).then_some(Scope(labels))
    }

    /// From a record or a request: an object of texts, none of them empty, as labels of objects are.
    pub(crate) fn read(value: &Value) -> Option<Scope> {
        let fields = value.as_object()?.iter();
        let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        let labels = fields.map(|(name, value)| Some((name.clone(), text(value)?)));
        labels.collect::<Option<_>>().and_then(Scope::new)
    }

    /// Whether an object is one of them.
    pub(crate) fn has(&self, kind: Kind, id: &str, value: &Value, others: Lookup<'_>) -> bool {
        match kind {
            Kind::GlobalRule | Kind::PluginMetadata | Kind::Secret => false,
            _ => match owner_kind(kind) {
                Some(kind) => others(kind, owner_id(id)).is_some_and(|owner| self.carried_by(&owner)),
                None => self.carried_by(value),
            },
        }
    }

    fn carried_by(&self, value: &Value) -> bool {
        let label =
            |name: &str| value.get("labels").and_then(|labels| labels.get(name)).and_then(Value::as_str);
        self.0.iter().all(|(name, wanted)| label(name) == Some(wanted.as_str()))
    }

    /// As it is shown.
    pub(crate) fn shown(&self) -> Vec<Value> {
        self.0.iter().map(|(name, value)| json!(format!("{name}={value}"))).collect()
    }

    /// As it is kept.
    pub(crate) fn labels(&self) -> Value {
        json!(self.0)
    }

    /// For messages.
    pub(crate) fn in_words(&self) -> String {
        let labels: Vec<String> = self.0.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        labels.join(", ")
    }

    fn refusal(&self, place: &str, reason: &str) -> String {
        format!("{place} is outside of your scope ({}): {reason}", self.in_words())
    }

    /// Whether `before` may become `after`; `None`: there is none.
    fn check(
        &self,
        (kind, id): (Kind, &str),
        before: Option<&Value>,
        after: Option<&Value>,
        others: Lookup<'_>,
    ) -> Result<(), String> {
        let place = format!("{}/{id}", kind.directory());
        if before.is_some_and(|before| !self.has(kind, id, before, others)) {
            return Err(self.refusal(&place, TAKEN));
        }
        let Some(after) = after else { return Ok(()) };
        if matches!(kind, Kind::GlobalRule | Kind::PluginMetadata | Kind::Secret) {
            return Err(self.refusal(&place, "it acts on objects of everybody"));
        }
        if !self.has(kind, id, after, others) {
            return Err(self.refusal(
                &place,
                "it has to carry these labels; they cannot be left out, changed or removed",
            ));
        }
        let known = before.map(references).unwrap_or_default();
        for (name, kind, id) in references(after) {
            let is_own = others(kind, &id).is_some_and(|other| self.has(kind, &id, &other, others));
            if !is_own && !known.contains(&(name, kind, id.clone())) {
                return Err(
                    self.refusal(&format!("{name} {id}"), "refer to an object that carries these labels")
                );
            }
        }
        Ok(())
    }
}

/// Of what an object is a part, and goes where that goes; `None`: it stands for itself.
pub(crate) fn owner_kind(kind: Kind) -> Option<Kind> {
    match kind {
        Kind::Credential => Some(Kind::Consumer),
        Kind::GraphqlCostDecoration => Some(Kind::Service),
        _ => None,
    }
}

/// The owner in the id of its part.
pub(crate) fn owner_id(id: &str) -> &str {
    id.split('/').next().unwrap_or_default()
}

/// What the sender of a request may do with objects.
#[derive(Clone, Debug)]
pub(crate) struct Rights {
    pub role: Role,
    /// `None`: all objects.
    pub scope: Option<Arc<Scope>>,
}

impl Rights {
    /// Of who may do everything.
    pub(crate) fn of_admin() -> Rights {
        Rights { role: Role::Admin, scope: None }
    }

    /// Whether an object is shown.
    pub(crate) fn see(&self, kind: Kind, id: &str, value: &Value, others: Lookup<'_>) -> bool {
        self.scope.as_ref().is_none_or(|scope| scope.has(kind, id, value, others))
    }

    /// Why the sender may not write an object of others.
    pub(crate) fn outside(&self, kind: Kind, id: &str) -> String {
        let place = format!("{}/{id}", kind.directory());
        self.scope.as_ref().map_or_else(String::new, |scope| scope.refusal(&place, TAKEN))
    }

    /// Whether an object may become another one, or go.
    pub(crate) fn change(
        &self,
        object: (Kind, &str),
        before: Option<&Value>,
        after: Option<&Value>,
        others: Lookup<'_>,
    ) -> Result<(), String> {
        self.scope.as_ref().map_or(Ok(()), |scope| scope.check(object, before, after, others))
    }
}

/// The objects that a value names.
fn references(value: &Value) -> Vec<(&'static str, Kind, String)> {
    fn collect(value: &Value, found: &mut Vec<(&'static str, Kind, String)>) {
        match value {
            Value::Object(fields) => fields.iter().for_each(|(name, value)| {
                let named = REFERENCES.iter().find(|(field, _)| field == name);
                match named.filter(|_| value.is_string() || value.is_number()) {
                    Some((name, kind)) => found.push((name, *kind, lua::text(value))),
                    None => collect(value, found),
                }
            }),
            Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    collect(value, &mut found);
    found
}

/// Whether what a request asks for has a part for one scope. Whatever is not named here is of the whole gateway.
pub(super) fn reaches(method: &str, segments: &[&str]) -> bool {
    match (method, segments) {
        (_, ["sessions", ..]) | ("POST", ["transactions" | "rollback"] | ["schema", "validate", ..]) => true,
        ("GET", ["mode" | "revision" | "openapi.json"] | ["plugins" | "schema", ..]) => true,
        // Shown in part.
        ("GET", ["healthcheck" | "rejected" | "stats" | "traffic"] | ["history", ..]) => true,
        (_, [collection, ..]) => crate::resource::target::kind_of(collection).is_some(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(value: Value) -> Value {
        let mut value = value;
        value["labels"] = json!({"team": "a", "x": "y"});
        value
    }

    #[test]
    fn objects_stay_in_their_scope() {
        let scope = Scope::read(&json!({"team": "a"})).expect("a scope");
        let others = |kind: Kind, id: &str| match (kind, id) {
            (Kind::Upstream | Kind::Consumer, "own") => Some(Arc::new(own(json!({})))),
            (Kind::Upstream | Kind::Consumer, "other") => Some(Arc::new(json!({"labels": {"team": "b"}}))),
            _ => None,
        };
        let (route, none) = ((Kind::Route, "1"), None::<Value>);
        for (object, before, after, expected) in [
            (route, none.clone(), Some(own(json!({}))), true),
            (route, none.clone(), Some(json!({})), false),
            (route, none.clone(), Some(json!({"labels": {"team": "b"}})), false),
            (route, none.clone(), Some(json!({"labels": {"team": ["a"]}})), false),
            (route, none.clone(), Some(json!({"labels": ["team", "a"]})), false),
            (route, Some(own(json!({}))), Some(own(json!({"uri": "/"}))), true),
            (route, Some(own(json!({}))), Some(json!({"labels": {"x": "y"}})), false),
            (route, Some(json!({})), Some(own(json!({}))), false),
            (route, Some(json!({})), None, false),
            (route, Some(own(json!({}))), None, true),
            (route, none.clone(), Some(own(json!({"upstream_id": "own"}))), true),
            (route, none.clone(), Some(own(json!({"upstream_id": "other"}))), false),
            (route, none.clone(), Some(own(json!({"upstream_id": "missing"}))), false),
            (route, none.clone(), Some(own(json!({"upstream_id": 7}))), false),
            (route, none.clone(), Some(own(json!({"service_id": "own"}))), false),
            (
                route,
                none.clone(),
                Some(own(
                    json!({"plugins": {"traffic-split": {"rules": [{"weighted_upstreams": [{"upstream_id": "other"}]}]}}}),
                )),
                false,
            ),
            (
                route,
                Some(own(json!({"upstream_id": "other"}))),
                Some(own(json!({"upstream_id": "other"}))),
                true,
            ),
            (
                route,
                Some(own(json!({"upstream_id": "own"}))),
                Some(own(json!({"upstream_id": "other"}))),
                false,
            ),
            ((Kind::Credential, "own/credentials/1"), none.clone(), Some(json!({})), true),
            ((Kind::Credential, "other/credentials/1"), none.clone(), Some(own(json!({}))), false),
            ((Kind::Credential, "missing/credentials/1"), none.clone(), Some(own(json!({}))), false),
            ((Kind::GlobalRule, "1"), none.clone(), Some(own(json!({}))), false),
            ((Kind::PluginMetadata, "cors"), none.clone(), Some(own(json!({}))), false),
            ((Kind::Secret, "vault/1"), none, Some(own(json!({}))), false),
        ] {
            let checked = scope.check(object, before.as_ref(), after.as_ref(), &others);
            assert_eq!(checked.is_ok(), expected, "{object:?} {before:?} {after:?} {checked:?}");
        }
        for none in
            [json!({}), json!({"team": 1}), json!({"team": ""}), json!(["team"]), json!("team"), Value::Null]
        {
            assert_eq!(Scope::read(&none), None, "{none}");
        }
    }
}
