//! Answers about all objects, with what is in the scope of who asks.

use std::collections::{BTreeSet, HashMap};

use serde_json::{Value, json};
use tidegate_model::Kind;
use tidegate_store::State;

use crate::{
    admin_api::AdminApi,
    message::{Request, Response},
    permission::scope::Rights,
    resource::target::kind_of,
};

impl AdminApi {
    pub(crate) fn rights(&self, request: &Request) -> Rights {
        let caller = request.caller.as_ref();
        Rights {
            role: caller.map_or(crate::role::Role::Admin, |caller| caller.role),
            scope: caller.and_then(|caller| caller.scope.clone()),
        }
    }

    /// Whether the sender is shown this object as it is stored.
    pub(crate) fn shows(&self, rights: &Rights, kind: Kind, id: &str) -> bool {
        let others = |kind: Kind, id: &str| self.store.get(kind, id).map(|object| object.value());
        rights.scope.is_none()
            || self.store.get(kind, id).is_some_and(|object| rights.see(kind, id, &object.value(), &others))
    }

    /// What a view of the Control API shows, for who asks.
    pub(super) fn in_scope(&self, request: &Request, response: Response) -> Response {
        let rights = self.rights(request);
        if rights.scope.is_none() || response.status != 200 {
            return response;
        }
        let Ok(mut body) = serde_json::from_slice::<Value>(&response.body) else {
            return Response::error(503, "what is in your scope is unknown: the view has another form");
        };
        match &mut body {
            // The health of nodes.
            Value::Array(items) => {
                items.retain(|item| {
                    named_by_key(item).is_some_and(|(kind, id)| self.shows(&rights, kind, &id))
                });
            }
            // Rejected objects.
            body if body.get("list").is_some() => {
                self.retain(&rights, body.get_mut("list"), |item| {
                    let kind = kind_of(item.get("kind")?.as_str()?)?;
                    Some((kind, item.get("id")?.as_str()?.to_owned()))
                });
                let total = body.get("list").and_then(Value::as_array).map_or(0, Vec::len);
                body["total"] = json!(total);
            }
            // An empty list, as Lua writes it.
            Value::Object(fields) if fields.is_empty() => {}
            _ => return Response::error(503, "what is in your scope is unknown: the view has another form"),
        }
        Response::json(200, &body)
    }

    /// The routes that are shown, with the second after each was created: before, its id may have been another's. `None`: all.
    ///
    /// Who has a scope cannot set that time. An object without one was written past this API, by who may write everything.
    pub(super) fn routes_in_scope(&self, rights: &Rights) -> Option<HashMap<String, u64>> {
        rights.scope.as_ref()?;
        let others = |_: Kind, _: &str| None;
        let mut state = State::default();
        self.store.read(&mut |current| state = current.clone());
        let routes = state.list(Kind::Route).filter(|route| route.document.may_have("labels"));
        let shown = routes.filter_map(|route| {
            let value = route.value();
            rights.see(Kind::Route, &route.id, &value, &others).then(|| {
                let created = value.get("create_time").map(|time| time.as_u64().unwrap_or(u64::MAX));
                (route.id.to_string(), created.map_or(0, |time| time.saturating_add(1)))
            })
        });
        Some(shown.collect())
    }

    /// Figures: those of the whole gateway stay, names go.
    pub(super) fn figures_in_scope(&self, request: &Request, figures: &mut Value) {
        let rights = self.rights(request);
        if rights.scope.is_none() {
            return;
        }
        // Once more: an id may have gone to others while the figures were read.
        self.retain(&rights, figures.get_mut("routes"), |item| {
            Some((Kind::Route, item.get("id")?.as_str()?.to_owned()))
        });
        self.retain(&rights, figures.pointer_mut("/certificates/list"), |item| {
            Some((Kind::Ssl, item.get("ssl")?.as_str()?.to_owned()))
        });
        let certificates =
            figures.pointer("/certificates/list").and_then(Value::as_array).map_or(0, Vec::len);
        figures["certificates"]["total"] = json!(certificates);
        figures["nodes"] = json!({"checked": 0, "unhealthy": []});
        figures["consumers"] = Value::Null;
        figures["other_consumers"] = Value::Null;
    }

    fn retain(
        &self,
        rights: &Rights,
        list: Option<&mut Value>,
        named: impl Fn(&Value) -> Option<(Kind, String)>,
    ) {
        let Some(items) = list.and_then(Value::as_array_mut) else { return };
        let keys: BTreeSet<(Kind, String)> = items.iter().filter_map(&named).collect();
        let shown: BTreeSet<&(Kind, String)> =
            keys.iter().filter(|(kind, id)| self.shows(rights, *kind, id)).collect();
        items.retain(|item| named(item).is_some_and(|key| shown.contains(&key)));
    }
}

/// Of `/apisix/upstreams/1`.
fn named_by_key(item: &Value) -> Option<(Kind, String)> {
    let mut parts = item.get("name")?.as_str()?.rsplit('/');
    let (id, collection) = (parts.next()?, parts.next()?);
    Some((kind_of(collection)?, id.to_owned()))
}
