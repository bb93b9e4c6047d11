//! `/history` and `/checkpoints`: what was changed, by whom, and the states that have a name.

use serde_json::{Map, Value, json};
use tidegate_model::Kind;
use tidegate_store::{
    Author,
    history::{Checkpoint, Difference, Entry, Point, Query},
};
use tidegate_telemetry::clock::{self, RFC3339};

use super::{asking::ask, owners::Owners, submit::author, target::Target, transaction::diff};
use crate::{
    AdminApi,
    message::{REVISION, Request, Response},
    permission::scope::{Rights, owner_id, owner_kind},
};

const PAGE_SIZE: usize = 20;
const LARGEST_PAGE: usize = 500;
const LONGEST_NAME: usize = 64;

pub(super) async fn list(api: &AdminApi, request: &Request) -> Result<Response, Response> {
    let (skip, take) = page(request)?;
    let since = number(request, "since")?.unwrap_or(0);
    let object = request.argument("key").map(|key| object(&key)).transpose()?;
    let rights = api.rights(request);
    let only = object.clone().filter(|_| rights.scope.is_some());
    if rights.scope.is_some() && !object.as_ref().is_some_and(|(kind, id)| api.shows(&rights, *kind, id)) {
        let message = "you have the history of objects in your scope: name one with the argument key";
        return Err(Response::error(403, message));
    }
    // What was done with an earlier object, or for an earlier owner, of the same name is not theirs.
    let since = only.as_ref().map_or(since, |(kind, id)| since.max(owned_since(api, *kind, id)));
    let query = Query { object, since, skip, take };
    let page = ask(api, move |history| history.entries(&query)).await?;
    let mut page = page;
    for entry in page.entries.iter_mut().filter(|_| only.is_some()) {
        entry
            .first
            .retain(|(kind, id, _)| only.as_ref().is_some_and(|only| only.0 == *kind && only.1 == *id));
        entry.changes = entry.first.len() as u64;
    }
    let list: Vec<Value> = page.entries.iter().map(entry).collect();
    Ok(Response::json(200, &json!({"list": list, "total": page.total, "oldest": page.oldest})))
}

/// The last revision before this object, and what it belongs to, was created.
fn owned_since(api: &AdminApi, kind: Kind, id: &str) -> u64 {
    let owner = match owner_kind(kind) {
        Some(owner) => api.store.get(owner, owner_id(id)),
        None => api.store.get(kind, id),
    };
    // Without one nothing is of who asks.
    owner.map_or(u64::MAX, |owner| owner.created.saturating_sub(1))
}

pub(super) async fn one(api: &AdminApi, request: &Request, revision: &str) -> Result<Response, Response> {
    let revision: u64 = revision
        .parse()
        .map_err(|_| Response::error(400, "invalid revision; expected a number from GET /history"))?;
    let (skip, take) = page(request)?;
    let Some((found, differences)) = ask(api, move |history| history.entry(revision, skip, take)).await?
    else {
        let message =
            format!("revision {revision} is not in the history; GET /apisix/admin/history lists what is");
        return Err(Response::error(404, &message));
    };
    let rights = api.rights(request);
    let (mut found, mut differences) = (found, differences);
    if rights.scope.is_some() {
        differences = in_scope(api, &rights, revision, differences).await?;
        if differences.is_empty() {
            let message = format!("revision {revision} changed nothing in your scope");
            return Err(Response::error(404, &message));
        }
        found.changes = differences.len() as u64;
    }
    let mut body = entry(&found);
    if let Some(fields) = body.as_object_mut() {
        fields.shift_remove("objects");
        let changes: Vec<Value> = differences.iter().map(|change| difference(api, change)).collect();
        fields.insert("changes".to_owned(), json!(changes));
    }
    Ok(Response::json(200, &body))
}

/// The changes to objects of a scope. What belongs to a consumer or service is where that was before and after the change.
async fn in_scope(
    api: &AdminApi,
    rights: &Rights,
    revision: u64,
    mut differences: Vec<Difference>,
) -> Result<Vec<Difference>, Response> {
    let mut owners = Vec::new();
    if differences.iter().any(|change| owner_kind(change.kind).is_some()) {
        for at in [revision.saturating_sub(1), revision] {
            owners.push(Owners::at(api, Point::Revision(at)).await?);
        }
    }
    differences.retain(|change| {
        let is_own = |value: &Value, owners: Option<&Owners>| {
            let owners = |kind: Kind, id: &str| owners.and_then(|owners| owners.get(kind, id));
            rights.see(change.kind, &change.id, value, &owners)
        };
        let versions = [(&change.before, owners.first()), (&change.after, owners.get(1))];
        let mut versions =
            versions.into_iter().filter_map(|(version, owners)| Some((version.as_ref()?, owners)));
        change.left_out.is_none() && versions.all(|(version, owners)| is_own(&version.value, owners))
    });
    Ok(differences)
}

fn entry(entry: &Entry) -> Value {
    let objects: Vec<Value> = entry
        .first
        .iter()
        .map(|(kind, id, action)| json!({"resource": resource(*kind, id), "action": action.name()}))
        .collect();
    let mut shown = json!({
        "revision": entry.revision,
        "time": time(entry.time_ms),
        "who": who(&entry.author),
        "request": entry.author.request,
        "note": entry.author.note,
        "total": entry.changes,
        "objects": objects,
    });
    if let Some(bytes) = entry.left_out_bytes {
        shown["left_out"] = json!(format!(
            "the values before and after take {bytes} bytes, more than history.max_bytes; they are not kept, \
             and this write cannot be rolled back"
        ));
    }
    shown
}

/// As in the answer to a transaction; secrets are not shown.
fn difference(api: &AdminApi, difference: &Difference) -> Value {
    let key = (difference.kind, difference.id.clone());
    let before = difference.before.as_ref().map(|version| version.value.as_ref());
    let after = difference.after.as_ref().map(|version| version.value.as_ref());
    let action = match (before, after) {
        (None, _) => "create",
        (Some(_), None) => "delete",
        (Some(_), Some(_)) => "update",
    };
    if let Some(action) = difference.left_out {
        return json!({"resource": resource(key.0, &key.1), "action": action.name(), "diff": null});
    }
    let diff = diff::of_object(&key, before, after, api.plugins().as_ref());
    json!({"resource": resource(key.0, &key.1), "action": action, "diff": diff})
}

fn resource(kind: Kind, id: &str) -> String {
    format!("{}/{id}", kind.directory())
}

fn who(author: &Author) -> Value {
    let mut fields = Map::new();
    fields.insert("name".to_owned(), json!(author.name));
    fields.insert("role".to_owned(), json!(author.role));
    fields.insert("address".to_owned(), json!(author.address.map(|address| address.to_string())));
    Value::Object(fields)
}

pub(super) fn time(time_ms: u64) -> String {
    clock::utc(i64::try_from(time_ms).unwrap_or(i64::MAX), RFC3339)
}

/// How many to skip, and how many to show.
fn page(request: &Request) -> Result<(usize, usize), Response> {
    let number = |name: &str| number(request, name);
    let page = number("page")?.unwrap_or(1).max(1) - 1;
    let size = number("page_size")?.map_or(PAGE_SIZE, |size| usize::try_from(size).unwrap_or(usize::MAX));
    if !(1..=LARGEST_PAGE).contains(&size) {
        return Err(Response::error(400, "page_size must be between 1 and 500"));
    }
    Ok((usize::try_from(page).unwrap_or(usize::MAX).saturating_mul(size), size))
}

fn number(request: &Request, name: &str) -> Result<Option<u64>, Response> {
    let parse = |text: String| {
        let parsed = text.trim().parse().ok();
        parsed.ok_or_else(|| Response::error(400, &format!("invalid argument {name}: should be a number")))
    };
    request.argument(name).map(parse).transpose()
}

/// The object that `key` names as the Admin API's paths do.
pub(super) fn object(key: &str) -> Result<(Kind, std::sync::Arc<str>), Response> {
    let path = key.strip_prefix("/apisix/admin").unwrap_or(key);
    let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
    let target = Target::parse(&segments);
    let id =
        target.as_ref().and_then(|target| target.id.clone().map(|id| (target.kind, target.store_id(&id))));
    let (kind, id) = id
        .ok_or_else(|| Response::error(400, "invalid argument key: should name an object, like /routes/1"))?;
    Ok((kind, id.into()))
}

pub(super) async fn checkpoints(api: &AdminApi) -> Result<Response, Response> {
    let found = ask(api, |history| history.checkpoints()).await?;
    let list: Vec<Value> = found.iter().map(checkpoint).collect();
    Ok(Response::json(200, &json!({"list": list, "total": list.len()})))
}

pub(super) async fn put_checkpoint(
    api: &AdminApi,
    request: &Request,
    name: &str,
) -> Result<Response, Response> {
    let good = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    // A number would be taken for a revision.
    let number = name.bytes().all(|byte| byte.is_ascii_digit());
    if number || name.len() > LONGEST_NAME || !name.chars().all(good) {
        let rule = "invalid checkpoint name; use 1 to 64 letters, digits, -, _ or ., and not only digits";
        return Err(Response::error(400, rule));
    }
    let (name, author) = (name.to_owned(), author(request, None));
    let (made, replaced) = ask(api, move |history| history.put_checkpoint(&name, &author)).await?;
    let status = if replaced { 200 } else { 201 };
    Ok(Response::json(status, &checkpoint(&made)).with_header(REVISION, made.revision.to_string()))
}

pub(super) async fn delete_checkpoint(api: &AdminApi, name: &str) -> Result<Response, Response> {
    let wanted = name.to_owned();
    if !ask(api, move |history| history.delete_checkpoint(&wanted)).await? {
        return Err(Response::error(404, &format!("checkpoint {name} not found")));
    }
    Ok(Response::json(200, &json!({"deleted": "1", "name": name})))
}

fn checkpoint(checkpoint: &Checkpoint) -> Value {
    json!({
        "name": checkpoint.name,
        "revision": checkpoint.revision,
        "time": time(checkpoint.time_ms),
        "who": who(&checkpoint.author),
        "objects": checkpoint.objects,
        "bytes": checkpoint.bytes,
    })
}
