//! `POST /rollback`: the configuration, or one object of it, as it was at a revision or a checkpoint, as one transaction.

use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};
use tidegate_model::{Kind, Object};
use tidegate_store::{
    State,
    history::{Past, Point, Version},
};

use super::{
    answers::not_found,
    asking,
    checks::{now, set},
    history,
    owners::Owners,
    transaction::{ATTEMPTS, Order, Stage, Wanted, busy, refused},
};
use crate::{
    AdminApi,
    api::body::read_body,
    at_length::at_length,
    message::{Request, Response},
    permission::scope::{Rights, owner_id, owner_kind},
};

pub(super) async fn run(api: &AdminApi, request: &Request) -> Result<Response, Response> {
    let order = Order::of(api, request)?;
    let body = read_body(request)?.ok_or_else(|| Response::error(400, "missing revision or checkpoint"))?;
    let Asked { point, only, dry_run } = parse(&body)?;
    if only.is_none() && order.rights.scope.is_some() {
        let message =
            "a rollback of everything is not for a scope: name an object of yours with the field key";
        return Err(Response::error(403, message));
    }
    if let (Point::Checkpoint(_), Some(_)) = (&point, &order.rights.scope) {
        let message = "checkpoints are of the whole gateway: name a revision of an object of yours";
        return Err(Response::error(403, message));
    }
    let mut order = Order { dry_run, ..order };
    for _ in 0..ATTEMPTS {
        let wanted = point.clone();
        let past = asking::ask(api, move |history| history.past(&wanted)).await?;
        let what =
            only.as_ref().map(|(kind, id)| format!(" of {}/{id}", kind.directory())).unwrap_or_default();
        order.author.note = Some(match &point {
            Point::Revision(revision) => format!("rollback{what} to revision {revision}"),
            Point::Checkpoint(name) => {
                format!("rollback{what} to checkpoint {name} of revision {}", past.revision)
            }
        });
        let mut visible = api.store.watch();
        let _ = tokio::time::timeout(asking::VISIBLE_PATIENCE, visible.wait_for(|at| *at >= past.base)).await;
        let state = order.current(api)?;
        let base = past.base;
        if state.revision != base {
            continue;
        }
        let owners = Owners::of(&past, state.clone());
        let mut wanted = wanted_of(past);
        wanted.retain(|object| only.as_ref().is_none_or(|only| goes_with(only, object)));
        own_now_or_then(&order.rights, only.as_ref(), &state, &owners, &wanted)?;
        own_then(&order.rights, &owners, &wanted)?;
        if order.rights.scope.is_some() {
            keep_creation(&state, &mut wanted);
        }
        let stage = at_length(|| Stage::for_state(api, &order.rights, state, wanted));
        let stage = stage.map_err(|faults| refused("rollback", &faults))?;
        if let Some(response) = order.carry_out(api, &stage, base).await? {
            return Ok(response);
        }
    }
    Err(busy())
}

/// Whether the object that was asked for is, or was then, of who asks. What becomes of others' tells when they changed.
fn own_now_or_then(
    rights: &Rights,
    only: Option<&(Kind, Arc<str>)>,
    state: &State,
    owners: &Owners,
    wanted: &[Wanted],
) -> Result<(), Response> {
    let Some((kind, id)) = only.filter(|_| rights.scope.is_some()) else { return Ok(()) };
    let now = |kind: Kind, id: &str| state.get(kind, id).map(Object::value);
    let sees = |kind: Kind, id: &str| now(kind, id).map(|value| rights.see(kind, id, &value, &now));
    let is_own = match owner_kind(*kind) {
        Some(owner) => sees(owner, owner_id(id)).unwrap_or(false),
        None => sees(*kind, id).unwrap_or_else(|| {
            let then = |kind: Kind, id: &str| owners.get(kind, id);
            let mut found = wanted.iter().filter(|object| (object.kind, &object.id) == (*kind, id));
            found.any(|object| object.value.as_ref().is_some_and(|value| rights.see(*kind, id, value, &then)))
        }),
    };
    if is_own { Ok(()) } else { Err(not_found()) }
}

/// Objects are as old as they are now: what is not there is a new one, and others may have had its id before.
fn keep_creation(state: &State, wanted: &mut [Wanted]) {
    for object in wanted {
        let current = state.get(object.kind, &object.id).map(Object::value);
        let created = match &current {
            Some(current) => current.get("create_time").cloned(),
            None => Some(json!(now())),
        };
        let value = object.value.as_mut().filter(|value| value.get("create_time").is_some());
        if let Some((value, created)) = value.zip(created) {
            let mut kept = (**value).clone();
            set(&mut kept, "create_time", created);
            *value = Arc::new(kept);
        }
    }
}

/// Refuses to bring back what was a part of a consumer or service of others at that time.
fn own_then(rights: &Rights, owners: &Owners, wanted: &[Wanted]) -> Result<(), Response> {
    let then = |kind: Kind, id: &str| owners.get(kind, id);
    let of_others = wanted.iter().find(|object| {
        let value = object.value.as_deref().filter(|_| owner_kind(object.kind).is_some());
        value.is_some_and(|value| !rights.see(object.kind, &object.id, value, &then))
    });
    let Some(object) = of_others else { return Ok(()) };
    let message = format!(
        "rollback refused, nothing was written: {}/{} was outside of your scope at that revision",
        object.kind.directory(),
        object.id
    );
    Err(Response::error(403, &message))
}

/// Whether an object is the one that was asked for, or comes and goes with it.
fn goes_with((kind, id): &(Kind, Arc<str>), object: &Wanted) -> bool {
    let nested = match kind {
        Kind::Consumer => Some((Kind::Credential, "credentials")),
        Kind::Service => Some((Kind::GraphqlCostDecoration, "graphql_cost_decorations")),
        _ => None,
    };
    let is_nested = |(nested, name): (Kind, &str)| {
        object.kind == nested && object.id.starts_with(&format!("{id}/{name}/"))
    };
    (object.kind, &object.id) == (*kind, id) || nested.is_some_and(is_nested)
}

struct Asked {
    point: Point,
    /// The object; `None`: all.
    only: Option<(Kind, Arc<str>)>,
    dry_run: bool,
}

fn parse(body: &Value) -> Result<Asked, Response> {
    let refuse = |message: &str| Response::error(400, &format!("invalid rollback: {message}"));
    let fields = body.as_object().ok_or_else(|| refuse("should be an object"))?;
    let known = |name: &str| matches!(name, "revision" | "checkpoint" | "key" | "dry_run");
    if let Some(unknown) = fields.keys().find(|name| !known(name)) {
        return Err(refuse(&format!("unknown field {unknown}")));
    }
    let dry_run = match fields.get("dry_run") {
        None => false,
        Some(Value::Bool(dry_run)) => *dry_run,
        Some(_) => return Err(refuse("dry_run should be true or false")),
    };
    let point = match (fields.get("revision"), fields.get("checkpoint")) {
        (Some(revision), None) => {
            Point::Revision(revision.as_u64().ok_or_else(|| refuse("revision should be a number"))?)
        }
        (None, Some(Value::String(name))) => Point::Checkpoint(name.clone()),
        _ => return Err(refuse("give either revision, a number, or checkpoint, a name")),
    };
    let only = match fields.get("key") {
        None => None,
        Some(Value::String(key)) => Some(history::object(key)?),
        Some(_) => return Err(refuse("key should name an object, like /routes/1")),
    };
    Ok(Asked { point, only, dry_run })
}

fn wanted_of(past: Past) -> Vec<Wanted> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
    let objects = past.objects.into_iter();
    objects
        .map(|(kind, id, version)| match version.filter(|version| lives(version, now_ms)) {
            None => Wanted { kind, id, value: None, ttl_seconds: None, sealed: None },
            Some(Version { value, expires_at_ms, sealed }) => {
                let left = expires_at_ms.map(|at| at.saturating_sub(now_ms).div_ceil(1000));
                Wanted { kind, id, value: Some(value), ttl_seconds: left, sealed }
            }
        })
        .collect()
}

/// What has expired since does not come back.
fn lives(version: &Version, now_ms: u64) -> bool {
    version.expires_at_ms.is_none_or(|at| at > now_ms)
}
