//! What is checked before an object is written.

use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};
use tidegate_model::{
    Kind, Object,
    check::{Context, NO_ID, References, check_resource, is_id},
    encrypt::encrypted_fields,
    schema::lua,
};
use tidegate_store::{State, Stored};
use tidegate_telemetry::background::give_way;

use super::target::Target;
use crate::{
    AdminApi,
    admin_api::StoreReferences,
    at_length::at_length,
    compiled::{With, named, proposed},
    message::{Request, Response},
    permission::{
        self,
        scope::{Lookup, Rights},
    },
};

/// Gives `conf` its id, refuses times unless `allow_times`, and checks a copy. Returns the id to store.
pub(super) fn check(
    api: &AdminApi,
    request: &Request,
    target: &Target,
    conf: &mut Value,
    need_id: bool,
    allow_times: bool,
) -> Result<String, Response> {
    let refuse = |message: String| Response::error(400, &message);
    give_way();
    let id = prepare(api, target, conf, need_id, allow_times).map_err(refuse)?;
    let store_id = target.store_id(&stored_id(target, id.clone(), conf));
    let before = api.store.get(target.kind, &store_id);
    // First: a check may run what it looks at.
    let others = |kind: Kind, id: &str| api.store.get(kind, id).map(|object| object.value());
    let rights = api.rights(request);
    permitted(api, &rights, (target.kind, &store_id), before.as_ref(), conf, &others)
        .map_err(|message| Response::error(403, &message))?;
    lasts(request, &rights, target.kind).map_err(refuse)?;
    let all = StoreReferences(api.store.as_ref());
    let named = InScope { all: &all, rights: &rights };
    let checked =
        api.with_references(&named, false, |context| validate(context, target, id.as_deref(), conf));
    checked.map_err(refuse)?;
    give_way();
    let id = stored_id(target, id, conf);
    try_out(api, &proposed(target.kind, &target.store_id(&id), conf)).map_err(refuse)?;
    give_way();
    Ok(id)
}

/// All resources, of which messages name those in the scope of who asks.
pub(super) struct InScope<'a> {
    pub all: &'a dyn References,
    pub rights: &'a Rights,
}

impl References for InScope<'_> {
    fn get(&self, kind: Kind, id: &str) -> Option<Arc<Value>> {
        self.all.get(kind, id)
    }

    fn each(&self, kind: Kind, visit: &mut dyn FnMut(&str, &Value)) {
        self.all.each(kind, visit);
    }

    fn may_name(&self, kind: Kind, id: &str, value: &Value) -> bool {
        self.rights.see(kind, id, value, &|kind: Kind, id: &str| self.all.get(kind, id))
    }
}

/// What others name does not expire for who has a scope, as it may not be deleted meanwhile: see [`super::delete::held`].
fn lasts(request: &Request, rights: &Rights, kind: Kind) -> Result<(), String> {
    let stands_alone =
        matches!(kind, Kind::Route | Kind::Consumer | Kind::Credential | Kind::GraphqlCostDecoration);
    match request.argument("ttl") {
        Some(_) if rights.scope.is_some() && !stands_alone => {
            Err("ttl is not for who has a scope, except of routes, consumers and what belongs to them"
                .to_owned())
        }
        _ => Ok(()),
    }
}

/// Refuses what the sender may not write.
pub(super) fn permitted(
    api: &AdminApi,
    rights: &Rights,
    object: (Kind, &str),
    before: Option<&Object>,
    value: &Value,
    others: Lookup<'_>,
) -> Result<(), String> {
    let before = before.map(Object::value);
    rights.change(object, before.as_deref(), Some(value), others)?;
    if rights.scope.is_some() {
        api.settings.own_ports.check(before.as_deref(), value)?;
        permission::published::check(before.as_deref(), value, api.plugins().as_ref())?;
        keeps_creation(before.as_deref(), value)?;
        let mut state = State::default();
        api.store.read(&mut |current| state = current.clone());
        at_length(|| permission::groups::check(rights, before.as_deref(), value, &state))?;
    }
    permission::objects::check(rights.role, object, before.as_deref(), value, api.plugins().as_ref())
}

/// From its creation on an object's figures are shown to who has it in their scope: see [`AdminApi::routes_in_scope`].
fn keeps_creation(before: Option<&Value>, after: &Value) -> Result<(), String> {
    let before = before.and_then(|before| before.get("create_time"));
    match before.zip(after.get("create_time")) {
        Some((before, after)) if before != after => {
            Err("create_time is not for who has a scope: leave it as it is".to_owned())
        }
        _ => Ok(()),
    }
}

/// What a write finds, for one who may not write every object: what was looked at is what changes. `None`: any state.
pub(super) fn expected(
    api: &AdminApi,
    request: &Request,
    (kind, id): (Kind, &str),
) -> Result<Option<u64>, Response> {
    let rights = api.rights(request);
    if rights.scope.is_none() {
        return Ok(None);
    }
    let others = |kind: Kind, id: &str| api.store.get(kind, id).map(|object| object.value());
    let Some(object) = api.store.get(kind, id) else { return Ok(Some(0)) };
    let checked = rights.change((kind, id), Some(&object.value()), None, &others);
    checked.map_err(|message| Response::error(403, &message))?;
    Ok(Some(object.modified))
}

/// Refuses a value that takes over a text which is still encrypted, as the answer to a GET shows it: the text itself would
/// become the secret.
pub(super) fn still_sealed(
    api: &AdminApi,
    kind: Kind,
    id: &str,
    before: Option<&Object>,
    value: &Value,
) -> Result<(), String> {
    let Some(before) = before.filter(|before| !is_readable(before)) else { return Ok(()) };
    let fields = |value: &Value| encrypted_fields(kind, id, value, api.plugins().as_ref());
    let old = fields(&before.value());
    match fields(value).into_iter().find(|field| old.contains(field)) {
        Some((field, _)) => Err(format!(
            "{field} is still encrypted; write the plain secret, or delete the object first if this text is \
             the secret"
        )),
        None => Ok(()),
    }
}

/// Builds the object as the compiler would: what cannot be used is not stored.
pub(super) fn try_out(api: &AdminApi, object: &Object) -> Result<(), String> {
    let before = Stored(api.store.as_ref());
    let after = With { changed: object, rest: &before };
    let rejected = at_length(|| api.compiled.try_out(std::slice::from_ref(object), &before, &after));
    let Some(first) = rejected.first() else { return Ok(()) };
    let own = (first.kind, &first.id) == (object.kind, &object.id);
    Err(format!("cannot be used: {}", if own { first.reason.clone() } else { named(first) }))
}

/// What comes before the checks: gives `conf` its id, which is returned, and refuses times unless `allow_times`.
pub(super) fn prepare(
    api: &AdminApi,
    target: &Target,
    conf: &mut Value,
    need_id: bool,
    allow_times: bool,
) -> Result<Option<String>, String> {
    let noun = target.kind.noun();
    let mut id = target.id.clone();
    if target.has_id() {
        let own = conf.get("id").cloned();
        if own.as_ref().is_some_and(|own| own.is_number() && !is_id(own)) {
            return Err(NO_ID.to_owned());
        }
        let wanted = match (target.kind, &target.id) {
            (Kind::Secret, Some(id)) => Some(json!(target.store_id(id))),
            (_, Some(id)) => Some(json!(id)),
            (_, None) => own.clone(),
        };
        match (&wanted, own) {
            (None, _) if need_id => return Err(format!("missing {noun} id")),
            (Some(_), _) if !need_id => return Err(format!("wrong {noun} id, do not need it")),
            (Some(wanted), Some(own)) if lua::text(wanted) != lua::text(&own) => {
                return Err(format!("wrong {noun} id"));
            }
            _ => {}
        }
        if let Some(wanted) = wanted {
            id = Some(lua::text(&wanted));
            set(conf, "id", wanted);
        }
    }
    if !allow_times {
        check_times(conf)?;
    }
    if let Some(keyring) = &api.settings.keyring {
        keyring.decrypt_private_keys(target.kind, conf);
    }
    Ok(id)
}

/// Checks a copy: checks fill defaults in.
pub(super) fn validate(
    context: &Context<'_>,
    target: &Target,
    id: Option<&str>,
    conf: &Value,
) -> Result<(), String> {
    check_resource(context, target.kind, id, target.owner.as_deref(), &mut conf.clone())
}

/// The id to store, without what [`Target::store_id`] adds.
pub(super) fn stored_id(target: &Target, id: Option<String>, conf: &Value) -> String {
    match target.kind {
        Kind::Consumer => conf.get("username").map(lua::text).unwrap_or_default(),
        // The secret's id holds its manager, which the store's path repeats.
        Kind::Secret => target.id.clone().unwrap_or_default(),
        _ => id.unwrap_or_default(),
    }
}

fn check_times(conf: &Value) -> Result<(), String> {
    let places = [("", Some(conf)), ("upstream.", conf.get("upstream")), ("plugins.", conf.get("plugins"))];
    for (prefix, place) in places {
        for field in ["create_time", "update_time"] {
            let found = place.and_then(|place| place.get(field));
            if found.is_some_and(|value| *value != Value::Bool(false)) {
                return Err(format!("the property is forbidden:  {prefix}{field}"));
            }
        }
    }
    Ok(())
}

pub(super) fn set(conf: &mut Value, field: &str, value: Value) {
    if conf.as_array().is_some_and(Vec::is_empty) {
        *conf = json!({});
    }
    if let Some(fields) = conf.as_object_mut() {
        fields.insert(field.into(), value);
    }
}

pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs())
}

pub(super) const UNREADABLE: &str =
    "the stored object cannot be read, so nothing can be merged into it; PUT the whole object";

/// Whether the document is what is stored, its secrets in plain.
pub(super) fn is_readable(stored: &Object) -> bool {
    stored.unread.is_none() && stored.fault.as_ref().is_none_or(|fault| !fault.in_text)
}
