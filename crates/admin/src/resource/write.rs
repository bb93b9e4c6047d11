//! `PUT` and `POST`.

use std::sync::Arc;

use serde_json::{Value, json};
use tidegate_model::{Kind, schema::lua};
use tidegate_store::{Operation, Written};
use tidegate_telemetry::background::give_way;

use super::{
    answers::Failed,
    checks::{check, expected, now, set},
    envelope,
    submit::ttl,
    target::Target,
};
use crate::{
    AdminApi,
    message::{Request, Response},
};

pub(super) async fn put(
    api: &AdminApi,
    request: &Request,
    target: &Target,
    body: Option<Value>,
) -> Result<Response, Failed> {
    if target.kind == Kind::Secret && (target.owner.is_none() || target.id.is_none()) {
        return Err(Response::error(400, "no secret id").into());
    }
    let mut conf = require(api, target, body)?;
    let id = check(api, request, target, &mut conf, true, false)?;
    if target.kind == Kind::Credential
        && api.store.get(Kind::Consumer, target.owner.as_deref().unwrap_or_default()).is_none()
    {
        return Err(Response::error(404, "consumer not found").into());
    }
    let store_id: Arc<str> = target.store_id(&id).into();
    let previous = api.store.get(target.kind, &store_id);
    super::checks::still_sealed(api, target.kind, &store_id, previous.as_ref(), &conf)
        .map_err(|message| Response::error(400, &message))?;
    if target.kind == Kind::PluginMetadata {
        set(&mut conf, "id", json!(id));
    } else {
        set_times(&mut conf, previous.as_ref().map(tidegate_model::Object::value).as_deref());
    }
    let put = Operation::Put {
        kind: target.kind,
        id: store_id.clone(),
        value: Arc::new(conf.clone()),
        expected: expected(api, request, (target.kind, &store_id))?,
        ttl_seconds: ttl(request),
    };
    let mut operations = vec![put];
    if target.kind == Kind::Service && previous.is_none() {
        // A new service must not take over the decorations of a deleted one of the same name.
        operations.extend(super::delete::nested(api, Kind::Service, &id));
    }
    give_way();
    let written = super::submit::submit(api, request, operations).await?;
    give_way();
    let body = envelope::written(api, request, "set", (target.kind, &store_id), &conf, written.lease);
    give_way();
    let response = super::answers::written(if is_new(&written) { 201 } else { 200 }, &body, &written);
    Ok(super::answers::warned(api, request, response, target.kind, &store_id))
}

pub(super) async fn post(
    api: &AdminApi,
    request: &Request,
    target: &Target,
    body: Option<Value>,
) -> Result<Response, Failed> {
    let mut conf = require(api, target, body)?;
    check(api, request, target, &mut conf, false, false)?;
    set_times(&mut conf, None);
    let operation = match target.kind {
        Kind::GraphqlCostDecoration => {
            let id = next_id(api);
            set(&mut conf, "id", json!(id));
            let (id, value) = (target.store_id(&id).into(), Arc::new(conf));
            Operation::Put { kind: target.kind, id, value, expected: Some(0), ttl_seconds: ttl(request) }
        }
        kind => Operation::Create { kind, value: conf, ttl_seconds: ttl(request) },
    };
    let written = super::submit::submit(api, request, vec![operation]).await?;
    let Some(Some(object)) = written.objects.first() else {
        return Err(Response::error(503, "the store did not return the new object").into());
    };
    let body =
        envelope::written(api, request, "create", (target.kind, &object.id), &object.value(), written.lease);
    Ok(super::answers::warned(
        api,
        request,
        super::answers::written(201, &body, &written),
        target.kind,
        &object.id,
    ))
}

/// The body, which has to be there; a decoration gets the service of its path.
fn require(api: &AdminApi, target: &Target, body: Option<Value>) -> Result<Value, Response> {
    if target.kind == Kind::GraphqlCostDecoration {
        return bind_service(api, target, body);
    }
    body.ok_or_else(|| Response::error(400, "missing configurations"))
}

fn bind_service(api: &AdminApi, target: &Target, body: Option<Value>) -> Result<Value, Response> {
    let service = target.owner.as_deref().unwrap_or_default();
    let mut conf = match body {
        Some(conf) if conf.is_object() || conf.is_array() => conf,
        _ => return Err(Response::error(400, "invalid configuration")),
    };
    if conf.get("service_id").is_some_and(|id| lua::text(id) != service) {
        return Err(Response::error(400, "wrong service_id, it is taken from the path"));
    }
    if api.store.get(Kind::Service, service).is_none() {
        return Err(Response::error(404, "service not found"));
    }
    check_field_path(api, target, &conf)?;
    set(&mut conf, "service_id", json!(service));
    Ok(conf)
}

/// Refuses a field that another decoration of the same service is about.
pub(super) fn check_field_path(api: &AdminApi, target: &Target, conf: &Value) -> Result<(), Response> {
    let Some(path) = conf.get("field_path") else { return Ok(()) };
    let own = target.id.as_ref().map(|id| target.store_id(id));
    let prefix = target.store_id("");
    let mut other = None;
    api.store.read(&mut |state| {
        let decorations = state.list(target.kind).filter(|object| object.id.starts_with(&prefix));
        let mut same = decorations.filter(|object| object.value().get("field_path") == Some(path));
        let found = same.find(|object| Some(object.id.as_ref()) != own.as_deref());
        other = found.and_then(|object| object.id.strip_prefix(&prefix).map(str::to_owned));
    });
    let Some(other) = other else { return Ok(()) };
    let path = lua::text(path);
    let message = format!("field_path {path} is already decorated on this service by [{other}]");
    Err(Response::error(400, &message))
}

fn next_id(api: &AdminApi) -> String {
    let mut revision = 0;
    api.store.read(&mut |state| revision = state.revision);
    format!("{:020}", revision + 1)
}

/// The time of creation survives, the time of the update is now.
pub(super) fn set_times(conf: &mut Value, previous: Option<&Value>) {
    if conf.get("create_time").is_none() {
        let before = previous.and_then(|previous| previous.get("create_time")).cloned();
        set(conf, "create_time", before.unwrap_or_else(|| json!(now())));
    }
    if conf.get("update_time").is_none() {
        set(conf, "update_time", json!(now()));
    }
}

fn is_new(written: &Written) -> bool {
    matches!(written.objects.first(), Some(Some(object)) if object.created == object.modified)
}
