//! `DELETE`, and what may not be deleted because it is still in use.

use std::sync::Arc;

use serde_json::Value;
use tidegate_model::{Kind, Object, schema::lua};
use tidegate_store::{Operation, State};

use super::{
    answers::{Failed, key, not_found},
    envelope,
    target::Target,
};
use crate::{
    AdminApi,
    message::{Request, Response, WARNING, header_text},
    permission::scope::Rights,
};

pub(super) async fn delete(api: &AdminApi, request: &Request, target: &Target) -> Result<Response, Failed> {
    let Some(id) = &target.id else {
        return Err(Response::error(400, &format!("missing {} id", target.kind.noun())).into());
    };
    let store_id = target.store_id(id);
    let rights = api.rights(request);
    if rights.scope.is_some() && !api.shows(&rights, target.kind, &store_id) {
        return Err(not_found().into());
    }
    let expected = super::checks::expected(api, request, (target.kind, &store_id))?;
    let is_forced = request.argument("force").as_deref() == Some("true") && rights.scope.is_none();
    if !is_forced {
        let mut user = None;
        api.store.read(&mut |state| {
            user = find_user(state, target.kind, id).or_else(|| held(&rights, state, target.kind, &store_id));
        });
        if let Some(message) = user {
            return Err(Response::error(400, &message).into());
        }
    }
    let main = Operation::Delete { kind: target.kind, id: store_id.as_str().into(), expected };
    let mut operations = vec![main];
    operations.extend(nested(api, target.kind, id));
    let written = super::submit::submit(api, request, operations).await?;
    if !matches!(written.objects.first(), Some(Some(_))) {
        return Err(not_found().into());
    }
    let mut users = Vec::new();
    api.store.read(&mut |state| users = users_of(state, target.kind, &store_id));
    let key = key(&api.settings, target.kind, &store_id);
    let response = super::answers::written(200, &envelope::deleted(&api.settings, &key), &written);
    let shown = users.get(..MOST_USERS.min(users.len())).unwrap_or_default().join(", ");
    Ok(match users.len() {
        0 => response,
        count if count <= MOST_USERS => {
            response.with_header(WARNING, header_text(&format!("{store_id} is still referenced by {shown}")))
        }
        count => {
            let text = format!("{store_id} is still referenced by {shown} and {} more", count - MOST_USERS);
            response.with_header(WARNING, header_text(&text))
        }
    })
}

/// Why who has a scope may not delete an object, even by force: its id may be given to an object of others, and what names it
/// would lead there.
pub(super) fn held(rights: &Rights, state: &State, kind: Kind, id: &str) -> Option<String> {
    rights.scope.as_ref()?;
    let user = match kind {
        Kind::Consumer => users_by(state, "anonymous_consumer", id).into_iter().next()?,
        _ => users_of(state, kind, id).into_iter().next()?,
    };
    let place = kind.directory();
    Some(format!(
        "{place}/{id} is still referenced by {user}, and force is not for who has a scope; change {user} first"
    ))
}

/// Users that a warning names.
const MOST_USERS: usize = 10;

/// The objects that name this one, which is gone: they cannot be used any more.
fn users_of(state: &State, kind: Kind, id: &str) -> Vec<String> {
    let field = match kind {
        Kind::Service => "service_id",
        Kind::PluginConfig => "plugin_config_id",
        Kind::ConsumerGroup => "group_id",
        Kind::Upstream => "upstream_id",
        Kind::Proto => "proto_id",
        Kind::Ssl => "client_cert_id",
        Kind::StreamRoute => "superior_id",
        Kind::Secret => return readers_of(state, id),
        _ => return Vec::new(),
    };
    users_by(state, field, id)
}

/// The objects with references to secrets of this manager.
fn readers_of(state: &State, manager: &str) -> Vec<String> {
    let start = format!("$secret://{manager}/");
    let reads = |object: &&Object| object.document.may_hold(SECRET) && has_text(&object.value(), &start);
    state.all().filter(reads).map(|object| format!("{}/{}", object.kind.directory(), object.id)).collect()
}

/// What references to secret managers begin with. An encoder may write its slashes with backslashes.
const SECRET: &str = "$secret:";

/// Whether a text in the value begins so.
fn has_text(value: &Value, start: &str) -> bool {
    match value {
        Value::String(text) => text.starts_with(start),
        Value::Object(fields) => fields.values().any(|value| has_text(value, start)),
        Value::Array(items) => items.iter().any(|item| has_text(item, start)),
        _ => false,
    }
}

fn users_by(state: &State, field: &str, id: &str) -> Vec<String> {
    let names = |object: &&Object| object.document.may_have(field) && has_field(&object.value(), field, id);
    let users = state.all().filter(names);
    users.map(|object| format!("{}/{}", object.kind.directory(), object.id)).collect()
}

/// Whether the value, or anything in it, has this field with this id.
fn has_field(value: &Value, field: &str, id: &str) -> bool {
    match value {
        Value::Object(fields) => fields
            .iter()
            .any(|(name, value)| (name == field && lua::text(value) == id) || has_field(value, field, id)),
        Value::Array(items) => items.iter().any(|item| has_field(item, field, id)),
        _ => false,
    }
}

/// The deletion of what belongs to a consumer or service and goes with it.
pub(super) fn nested(api: &AdminApi, kind: Kind, id: &str) -> Vec<Operation> {
    let mut operations = Vec::new();
    api.store.read(&mut |state| {
        let owned = owned_by(state, kind, id).into_iter();
        operations = owned.map(|(kind, id)| Operation::Delete { kind, id, expected: None }).collect();
    });
    operations
}

/// What goes when this object goes.
pub(super) fn owned_by(state: &State, kind: Kind, id: &str) -> Vec<(Kind, Arc<str>)> {
    let (kind, prefix) = match kind {
        Kind::Consumer => (Kind::Credential, format!("{id}/credentials/")),
        Kind::Service => (Kind::GraphqlCostDecoration, format!("{id}/graphql_cost_decorations/")),
        _ => return Vec::new(),
    };
    let owned = state.list(kind).filter(|object| object.id.starts_with(&prefix));
    owned.map(|object| (kind, object.id.clone())).collect()
}

/// Without parsing those that do not mention it: there may be many.
fn with_field<'s>(state: &'s State, kind: Kind, field: &'s str) -> impl Iterator<Item = &'s Object> {
    state.list(kind).filter(move |object| object.document.may_have(field))
}

/// The message that names a user of the object, if it has any.
pub(super) fn find_user(state: &State, kind: Kind, id: &str) -> Option<String> {
    let by_field = |kind: Kind, field: &str| {
        let user = with_field(state, kind, field)
            .find(|object| object.value().get(field).map(lua::text).as_deref() == Some(id));
        user.map(|object| shown_id(&object.value(), &object.id))
    };
    match kind {
        Kind::Service => [(Kind::Route, "route"), (Kind::StreamRoute, "stream_route")].into_iter().find_map(
            |(kind, noun)| {
                let user = by_field(kind, "service_id")?;
                Some(format!("can not delete this service directly, {noun} [{user}] is still using it now"))
            },
        ),
        Kind::PluginConfig => by_field(Kind::Route, "plugin_config_id")
            .map(|user| format!("can not delete this plugin config, route [{user}] is still using it now")),
        Kind::ConsumerGroup => by_field(Kind::Consumer, "group_id").map(|user| {
            format!("can not delete this consumer group, consumer [{user}] is still using it now")
        }),
        Kind::StreamRoute => {
            let superior = |value: &Value| value.pointer("/protocol/superior_id").map(lua::text);
            let mut routes = state.list(Kind::StreamRoute);
            let user = routes.find(|object| superior(&object.value()).as_deref() == Some(id))?;
            let user = shown_id(&user.value(), &user.id);
            Some(format!(
                "can not delete this stream route directly, stream route [{user}] is still using it as superior_id"
            ))
        }
        Kind::Proto => find_proto_user(state, id),
        Kind::Upstream => find_upstream_user(state, id),
        _ => None,
    }
}

fn find_proto_user(state: &State, id: &str) -> Option<String> {
    [(Kind::Route, "route"), (Kind::Service, "service")].into_iter().find_map(|(kind, noun)| {
        let user = with_field(state, kind, "proto_id").find(|object| {
            let value = object.value();
            let proto = value.pointer("/plugins/grpc-transcode/proto_id");
            proto.map(lua::text).as_deref() == Some(id)
        })?;
        let user = shown_id(&user.value(), &user.id);
        Some(format!("can not delete this proto, {noun} [{user}] is still using it now"))
    })
}

fn find_upstream_user(state: &State, id: &str) -> Option<String> {
    let kinds = [
        (Kind::Route, "route", true),
        (Kind::Service, "service", true),
        (Kind::PluginConfig, "plugin_config", false),
        (Kind::Consumer, "consumer", false),
        (Kind::ConsumerGroup, "consumer_group", false),
        (Kind::GlobalRule, "global_rules", false),
        (Kind::StreamRoute, "stream_route", true),
    ];
    kinds.into_iter().find_map(|(kind, noun, direct)| {
        with_field(state, kind, "upstream_id").find_map(|object| {
            let user = shown_id(&object.value(), &object.id);
            if splits_traffic_to(&object.value(), id) {
                return Some(format!(
                    "can not delete this upstream, plugin in {noun} [{user}] is still using it now"
                ));
            }
            let used = direct && object.value().get("upstream_id").map(lua::text).as_deref() == Some(id);
            used.then(|| format!("can not delete this upstream, {noun} [{user}] is still using it now"))
        })
    })
}

fn splits_traffic_to(value: &Value, id: &str) -> bool {
    let rules = value.pointer("/plugins/traffic-split/rules").and_then(Value::as_array);
    let upstreams = rules.into_iter().flatten().filter_map(|rule| rule.get("weighted_upstreams")?.as_array());
    upstreams.flatten().any(|upstream| upstream.get("upstream_id").map(lua::text).as_deref() == Some(id))
}

fn shown_id(value: &Value, id: &str) -> String {
    value.get("id").map_or_else(|| id.to_owned(), lua::text)
}
