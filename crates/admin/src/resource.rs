//! The stored resources: which request means which object, and one file per verb.

mod delete;
mod document;
mod envelope;
mod history;
mod import;
mod patch;
mod read;
mod rollback;
mod transaction;
mod write;

pub(crate) use transaction::at_length;

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tidegate_model::{
    Kind, Object, Objects,
    check::{Context, NO_ID, check_resource, is_id},
    encrypt::encrypted_fields,
    idle,
    schema::lua,
};
use tidegate_store::{BoxFuture, Operation, StoreError, Stored, Write, Written};

use crate::{
    AdminApi, AdminSettings,
    api::revisions::REVISION,
    compiled::{With, named, proposed},
    message::{Request, Response},
};

/// What an answer to a write warns of.
pub(crate) const WARNING: &str = "X-Tidegate-Warning";

/// The object or collection that a path names.
pub(crate) struct Target {
    pub kind: Kind,
    /// The consumer of credentials, the service of decorations, the manager of a secret.
    pub owner: Option<String>,
    pub id: Option<String>,
    /// What is left of the path: the place inside of the object that a `PATCH` is about.
    pub sub_path: String,
}

impl Target {
    /// From the path's segments below the prefix; `None` for a name that is not a resource.
    pub fn parse(segments: &[&str]) -> Option<Target> {
        let text = |position: usize| segments.get(position).map(|segment| (*segment).to_owned());
        let rest = |from: usize| segments.get(from..).unwrap_or_default().join("/");
        let nested = match (segments.first(), segments.get(2)) {
            (Some(&"consumers"), Some(&"credentials")) => Some(Kind::Credential),
            (Some(&"services"), Some(&"graphql_cost_decorations")) => Some(Kind::GraphqlCostDecoration),
            _ => None,
        };
        if let Some(kind) = nested {
            return Some(Target { kind, owner: text(1), id: text(3), sub_path: rest(4) });
        }
        let kind = kind_of(segments.first()?)?;
        Some(match kind {
            Kind::Secret => Target { kind, owner: text(1), id: text(2), sub_path: rest(3) },
            Kind::Credential | Kind::GraphqlCostDecoration => {
                Target { kind, owner: None, id: text(1), sub_path: rest(2) }
            }
            _ => Target { kind, owner: None, id: text(1), sub_path: rest(2) },
        })
    }

    /// From an object in the store.
    pub fn of(kind: Kind, store_id: &str) -> Target {
        let nested = |name: &str| store_id.split_once(name);
        let (owner, id) = match kind {
            Kind::Credential => nested("/credentials/"),
            Kind::GraphqlCostDecoration => nested("/graphql_cost_decorations/"),
            Kind::Secret => nested("/"),
            _ => None,
        }
        .map_or((None, store_id), |(owner, id)| (Some(owner.to_owned()), id));
        Target { kind, owner, id: Some(id.to_owned()), sub_path: String::new() }
    }

    /// The id in the store of the object that is called `id` here.
    pub fn store_id(&self, id: &str) -> String {
        let owner = self.owner.as_deref().unwrap_or_default();
        match self.kind {
            Kind::Credential => format!("{owner}/credentials/{id}"),
            Kind::GraphqlCostDecoration => format!("{owner}/graphql_cost_decorations/{id}"),
            Kind::Secret => format!("{owner}/{id}"),
            _ => id.to_owned(),
        }
    }

    /// Consumers are named by `username`, metadata by their plugin: neither gets an `id` from the path.
    fn has_id(&self) -> bool {
        !matches!(self.kind, Kind::Consumer | Kind::PluginMetadata)
    }

    fn refuses(&self, method: &str) -> bool {
        match self.kind {
            Kind::Consumer | Kind::Credential | Kind::PluginMetadata => matches!(method, "POST" | "PATCH"),
            Kind::GlobalRule | Kind::PluginConfig | Kind::ConsumerGroup | Kind::Secret => method == "POST",
            Kind::Proto | Kind::StreamRoute => method == "PATCH",
            _ => false,
        }
    }
}

/// The kind by its collection's name.
pub(crate) fn kind_of(collection: &str) -> Option<Kind> {
    match collection {
        "credentials" => Some(Kind::Credential),
        "graphql_cost_decorations" => Some(Kind::GraphqlCostDecoration),
        _ => Kind::ALL.into_iter().find(|kind| {
            !matches!(kind, Kind::Credential | Kind::GraphqlCostDecoration) && kind.directory() == collection
        }),
    }
}

/// What is asked of the configuration as a whole. `None`: nothing of that.
pub(crate) async fn ours(api: &AdminApi, request: &Request, segments: &[&str]) -> Option<Response> {
    let answered = match (request.method.as_str(), segments) {
        ("POST", ["transactions"]) => transaction::run(api, request).await,
        ("GET", ["history"]) => history::list(api, request).await,
        ("GET", ["history", revision]) => history::one(api, request, revision).await,
        ("GET", ["checkpoints"]) => history::checkpoints(api).await,
        ("PUT", ["checkpoints", name]) => history::put_checkpoint(api, request, name).await,
        ("DELETE", ["checkpoints", name]) => history::delete_checkpoint(api, name).await,
        ("POST", ["rollback"]) => rollback::run(api, request).await,
        ("GET", ["export"]) => document::export(api, request).await,
        ("PUT", ["import"]) => import::run(api, request).await,
        _ => return None,
    };
    Some(answered.unwrap_or_else(|refused| refused))
}

pub(crate) async fn answer(
    api: &AdminApi,
    request: &Request,
    target: &Target,
    body: Option<Value>,
) -> Response {
    let method = request.method.as_str();
    if target.refuses(method) {
        return Response::error(405, &format!("not supported `{method}` method for {}", target.kind.noun()));
    }
    if target.kind == Kind::GraphqlCostDecoration && target.owner.is_none() {
        return Response::error(400, "missing service id");
    }
    if target.kind == Kind::Credential && target.owner.is_none() {
        return Response::error(400, "missing consumer name");
    }
    let answered = match method {
        "GET" => Ok(read::get(api, request, target)),
        "PUT" => write::put(api, request, target, body).await,
        "POST" => write::post(api, request, target, body).await,
        "PATCH" => patch::patch(api, request, target, body).await,
        "DELETE" => delete::delete(api, request, target).await,
        _ => Err(Response::error(404, "not found")),
    };
    answered.unwrap_or_else(|refused| refused)
}

/// Gives `conf` its id, refuses times unless `allow_times`, and checks a copy. Returns the id, as it is to be stored.
fn check(
    api: &AdminApi,
    target: &Target,
    conf: &mut Value,
    need_id: bool,
    allow_times: bool,
) -> Result<String, Response> {
    let refuse = |message: String| Response::error(400, &message);
    let id = prepare(api, target, conf, need_id, allow_times).map_err(refuse)?;
    let checked = api.with_context(false, |context| validate(context, target, id.as_deref(), conf));
    checked.map_err(refuse)?;
    let id = stored_id(target, id, conf);
    try_out(api, &proposed(target.kind, &target.store_id(&id), conf)).map_err(refuse)?;
    Ok(id)
}

/// Refuses a value that takes over a text which is still encrypted, as the answer to a GET shows it: the text itself would
/// become the secret.
fn still_sealed(
    api: &AdminApi,
    kind: Kind,
    id: &str,
    before: Option<&Object>,
    value: &Value,
) -> Result<(), String> {
    let Some(before) = before.filter(|before| !patch::is_readable(before)) else { return Ok(()) };
    let fields = |value: &Value| encrypted_fields(kind, id, value, api.plugins().as_ref());
    let old = fields(&before.value());
    match fields(value).into_iter().find(|field| old.contains(field)) {
        Some((field, _)) => Err(format!(
            "{field} is still encrypted: write the secret itself; if this text is the secret, delete the object first"
        )),
        None => Ok(()),
    }
}

/// Builds the object as the compiler would: what cannot be used is not stored.
fn try_out(api: &AdminApi, object: &Object) -> Result<(), String> {
    let before = Stored(api.store.as_ref());
    let after = With { changed: object, rest: &before };
    let rejected = at_length(|| api.compiled.try_out(std::slice::from_ref(object), &before, &after));
    let Some(first) = rejected.first() else { return Ok(()) };
    let own = (first.kind, &first.id) == (object.kind, &object.id);
    Err(format!("cannot be used: {}", if own { first.reason.clone() } else { named(first) }))
}

/// Says that an object was stored and cannot be used yet, because a secret or what it names is not there, that some of it
/// has no effect, or what else to know of it.
fn warned(api: &AdminApi, response: Response, kind: Kind, id: &str) -> Response {
    let told = [api.compiled.rejected(), api.compiled.warnings()].concat();
    let told = told.iter().filter(|object| object.kind == kind && &*object.id == id);
    let mut warnings: Vec<String> = told.map(|object| object.reason.clone()).collect();
    if let Some(object) = api.store.get(kind, id) {
        warnings.extend(in_vain(api, &object, &Stored(api.store.as_ref())));
    }
    if warnings.is_empty() {
        return response;
    }
    response.with_header(WARNING, header_text(&warnings.join("; ")))
}

/// What an object says in vain.
pub(crate) fn in_vain(api: &AdminApi, object: &Object, all: &dyn Objects) -> Vec<String> {
    let mut found = idle::of(object, api.settings.matching, api.plugins().as_ref(), all);
    found.extend(idle::fields(object).map(idle::Field::in_words));
    found
}

pub(crate) fn header_text(text: &str) -> String {
    text.chars().map(|character| if character.is_control() { ' ' } else { character }).collect()
}

/// What comes before the checks: gives `conf` its id, which is returned, and refuses times unless `allow_times`.
fn prepare(
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
fn validate(context: &Context<'_>, target: &Target, id: Option<&str>, conf: &Value) -> Result<(), String> {
    check_resource(context, target.kind, id, target.owner.as_deref(), &mut conf.clone())
}

/// The id as it is to be stored, without what [`Target::store_id`] adds.
fn stored_id(target: &Target, id: Option<String>, conf: &Value) -> String {
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

fn set(conf: &mut Value, field: &str, value: Value) {
    if conf.as_array().is_some_and(Vec::is_empty) {
        *conf = json!({});
    }
    if let Some(fields) = conf.as_object_mut() {
        fields.insert(field.into(), value);
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs())
}

/// The `ttl` argument, in whole seconds of at least one.
fn ttl(request: &Request) -> Option<u64> {
    let seconds: f64 = request.argument("ttl")?.trim().parse().ok()?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped before")]
    Some(seconds.clamp(1.0, 1e9) as u64)
}

fn key(settings: &AdminSettings, kind: Kind, id: &str) -> String {
    format!("{}/{}/{id}", settings.key_prefix, kind.directory())
}

fn object_key(settings: &AdminSettings, object: &Object) -> String {
    key(settings, object.kind, &object.id)
}

/// Writes in the name of the client.
fn submit<'a>(
    api: &'a AdminApi,
    request: &Request,
    operations: Vec<Operation>,
) -> BoxFuture<'a, Result<Written, StoreError>> {
    api.write(Write { operations, at: None, author: history::author(api, request, None) })
}

/// An answer to a write, with the revision that it led to.
fn written(status: u16, body: &Value, written: &Written) -> Response {
    Response::json(status, body).with_header(REVISION, written.revision.to_string())
}

fn not_found() -> Response {
    Response::json(404, &json!({"message": "Key not found"}))
}

fn store_failed(error: &StoreError) -> Response {
    let response = Response::error(503, &error.to_string());
    match error {
        StoreError::HandedOver => response.with_header("Retry-After", "1"),
        _ => response,
    }
}
