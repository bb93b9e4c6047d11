//! The stored resources: which request means which object, and one file per verb.

pub(crate) mod answers;
mod asking;
mod checks;
mod delete;
mod document;
mod envelope;
mod history;
mod import;
mod owners;
mod patch;
mod read;
mod rollback;
mod submit;
pub(crate) mod target;
mod transaction;
mod write;

use serde_json::Value;
use tidegate_model::Kind;

use self::{answers::Failed, target::Target, transaction::ATTEMPTS};
use crate::{
    AdminApi,
    api::body::read_body,
    message::{Request, Response},
    permission::scope::owner_kind,
};

/// What is asked of the configuration as a whole. `None`: nothing of that.
pub(crate) async fn handle_whole_configuration(
    api: &AdminApi,
    request: &Request,
    segments: &[&str],
) -> Option<Response> {
    let answered = match (request.method.as_str(), segments) {
        ("POST", ["transactions"]) => transaction::run(api, request).await,
        ("GET", ["history"]) => history::list(api, request).await,
        ("GET", ["history", revision]) => history::one(api, request, revision).await,
        ("GET", ["checkpoints"]) => history::checkpoints(api).await,
        ("PUT", ["checkpoints", name]) => history::put_checkpoint(api, request, name).await,
        ("DELETE", ["checkpoints", name]) => history::delete_checkpoint(api, name).await,
        ("POST", ["rollback"]) => rollback::run(api, request).await,
        ("GET", ["export"]) => document::export(api).await,
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
    let answered = write_or_read(api, request, target, body).await;
    answered.unwrap_or_else(|refused| refused)
}

/// A write that another one overtakes is tried again on what that one left. From its second attempt on it waits for its turn, so that as
/// many writers of one object as there are all come to an end.
async fn write_or_read(
    api: &AdminApi,
    request: &Request,
    target: &Target,
    body: Option<Value>,
) -> Result<Response, Response> {
    let mut seen = api.stored_revision();
    match attempt(api, request, target, body).await {
        Ok(response) => return Ok(response),
        Err(Failed::Refused(response)) => return Err(response),
        Err(Failed::Overtaken) => {}
    }
    let _turn = api.contested.lock().await;
    for _ in 0..ATTEMPTS {
        // With etcd the other write may not have come here yet.
        let mut visible = api.store.watch();
        let _ = tokio::time::timeout(asking::VISIBLE_PATIENCE, visible.wait_for(|at| *at > seen)).await;
        seen = api.stored_revision();
        match attempt(api, request, target, read_body(request)?).await {
            Ok(response) => return Ok(response),
            Err(Failed::Refused(response)) => return Err(response),
            Err(Failed::Overtaken) => {}
        }
    }
    Err(Response::error(409, "the object kept changing concurrently; nothing was written, try again"))
}

async fn attempt(
    api: &AdminApi,
    request: &Request,
    target: &Target,
    body: Option<Value>,
) -> Result<Response, Failed> {
    reachable(api, request, target)?;
    match request.method.as_str() {
        "GET" => Ok(read::get(api, request, target.clone()).await),
        "PUT" => write::put(api, request, target, body).await,
        "POST" => write::post(api, request, target, body).await,
        "PATCH" => patch::patch(api, request, target, body).await,
        "DELETE" => delete::delete(api, request, target).await,
        _ => Err(Response::error(404, "not found").into()),
    }
}

/// First of all: what is looked at later, or said of an object, tells something of it.
fn reachable(api: &AdminApi, request: &Request, target: &Target) -> Result<(), Response> {
    let rights = api.rights(request);
    if rights.scope.is_none() {
        return Ok(());
    }
    let owner = owner_kind(target.kind);
    let is_shown = |kind, id: &str| api.store.get(kind, id).is_none() || api.shows(&rights, kind, id);
    if !owner.zip(target.owner.as_deref()).is_none_or(|(kind, id)| is_shown(kind, id)) {
        return Err(answers::not_found());
    }
    match &target.id {
        Some(id) if !is_shown(target.kind, &target.store_id(id)) => match request.method.as_str() {
            "PUT" => Err(Response::error(403, &rights.outside(target.kind, &target.store_id(id)))),
            _ => Err(answers::not_found()),
        },
        _ => Ok(()),
    }
}
