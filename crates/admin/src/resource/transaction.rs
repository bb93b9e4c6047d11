//! `POST /transactions`: many changes, checked against what the configuration is after all of them, written as one
//! revision or not at all.

mod diff;
mod stage;

use model::schema::lua;
use serde_json::{Value, json};
use store::{State, StoreError};

use self::stage::Stage;
use super::store_failed;
use crate::{
    AdminApi,
    api::{read_body, revisions::REVISION},
    message::{Request, Response},
};

const MAX_CHANGES: usize = 10_000;

/// Others may write while the changes are checked; then they are checked again.
const ATTEMPTS: usize = 8;

/// One change as it was asked for.
pub(super) struct Change {
    pub index: usize,
    pub method: String,
    pub path: String,
    pub value: Option<Value>,
}

/// What is wrong with one change.
pub(super) struct Fault {
    pub index: usize,
    pub path: String,
    pub error: String,
}

impl Fault {
    fn to_json(&self) -> Value {
        let mut fault = json!({"index": self.index, "path": self.path, "error": self.error});
        if let (Some(field), Some(fields)) = (named_field(&self.error), fault.as_object_mut()) {
            fields.insert("field".to_owned(), json!(field));
        }
        fault
    }
}

/// The field that a message of a check is about: `property "uri" ...`.
fn named_field(message: &str) -> Option<&str> {
    let (_, rest) = message.split_once("property \"")?;
    rest.split_once('"').map(|(field, _)| field)
}

pub(crate) async fn answer(api: &AdminApi, request: &Request) -> Response {
    run(api, request).await.unwrap_or_else(|refused| refused)
}

async fn run(api: &AdminApi, request: &Request) -> Result<Response, Response> {
    if !api.store.is_writable() {
        return Err(Response::error(
            501,
            "this configuration provider is read-only: change its file instead",
        ));
    }
    let expected = if_match(request)?;
    let body = read_body(request)?.ok_or_else(|| Response::error(400, "missing changes"))?;
    let (changes, dry_run) = parse(&body)?;
    for _ in 0..ATTEMPTS {
        let mut state = State::default();
        api.store.read(&mut |current| state = current.clone());
        let revision = state.revision;
        if let Some(expected) = expected.filter(|expected| *expected != revision) {
            return Err(mismatch(expected, revision));
        }
        let stage = Stage::play(api, state, &changes).map_err(|faults| refused(&faults))?;
        if dry_run {
            let body = json!({"dry_run": true, "revision": revision, "changes": stage.differences(api)});
            return Ok(Response::json(200, &body));
        }
        match api.store.write_at(revision, stage.operations()).await {
            Ok(written) => {
                let body = json!({"revision": written.revision, "changes": stage.summary()});
                return Ok(Response::json(200, &body).with_header(REVISION, written.revision.to_string()));
            }
            Err(StoreError::Conflict) => {}
            Err(error @ (StoreError::Unsupported(_) | StoreError::ReadOnly)) => {
                return Err(Response::error(501, &error.to_string()));
            }
            Err(error) => return Err(store_failed(&error)),
        }
        if let Some(expected) = expected {
            return Err(mismatch(expected, api.stored_revision()));
        }
    }
    Err(Response::error(
        409,
        "others kept changing the configuration meanwhile; nothing was written, try again",
    ))
}

/// The revision of `If-Match`, bare or in quotes.
fn if_match(request: &Request) -> Result<Option<u64>, Response> {
    let Some(text) = request.header("if-match") else { return Ok(None) };
    let text = text.trim();
    if text == "*" {
        return Ok(None);
    }
    let number = text.trim_matches('"').parse();
    number
        .map(Some)
        .map_err(|_| Response::error(400, "If-Match: should be a revision, as GET /revision tells it"))
}

fn mismatch(expected: u64, revision: u64) -> Response {
    let message = format!("the configuration is at revision {revision}, not {expected}; nothing was written");
    Response::json(412, &json!({"error_msg": message, "revision": revision}))
}

fn refused(faults: &[Fault]) -> Response {
    let first =
        faults.first().map(|fault| format!(": changes[{}] {}: {}", fault.index, fault.path, fault.error));
    let message = format!("transaction refused, nothing was written{}", first.unwrap_or_default());
    let errors: Vec<Value> = faults.iter().map(Fault::to_json).collect();
    Response::json(400, &json!({"error_msg": message, "errors": errors}))
}

fn parse(body: &Value) -> Result<(Vec<Change>, bool), Response> {
    let refuse = |message: String| Response::error(400, &message);
    let fields =
        body.as_object().ok_or_else(|| refuse("invalid transaction: should be an object".to_owned()))?;
    if let Some(unknown) = fields.keys().find(|name| !matches!(name.as_str(), "dry_run" | "changes")) {
        return Err(refuse(format!("invalid transaction: unknown field {unknown}")));
    }
    let dry_run = match fields.get("dry_run") {
        None => false,
        Some(Value::Bool(dry_run)) => *dry_run,
        Some(_) => return Err(refuse("invalid transaction: dry_run should be true or false".to_owned())),
    };
    let Some(items) = fields.get("changes").and_then(Value::as_array).filter(|items| !items.is_empty())
    else {
        return Err(refuse("invalid transaction: changes should be a list that is not empty".to_owned()));
    };
    if items.len() > MAX_CHANGES {
        return Err(refuse(format!(
            "invalid transaction: {} changes, {MAX_CHANGES} is the most",
            items.len()
        )));
    }
    let changes = items.iter().enumerate().map(|(index, item)| change(index, item));
    Ok((changes.collect::<Result<_, _>>().map_err(|fault| refused(&[fault]))?, dry_run))
}

fn change(index: usize, item: &Value) -> Result<Change, Fault> {
    let path = item.get("path").map(lua::text).unwrap_or_default();
    let fault = |error: String| Fault { index, path: path.clone(), error };
    let Some(fields) = item.as_object() else { return Err(fault("should be an object".to_owned())) };
    if let Some(unknown) = fields.keys().find(|name| !matches!(name.as_str(), "method" | "path" | "value")) {
        return Err(fault(format!("unknown field {unknown}")));
    }
    let method = item.get("method").and_then(Value::as_str).unwrap_or_default();
    let value = fields.get("value").cloned();
    match (method, &value) {
        ("PUT" | "PATCH", None) => return Err(fault(format!("{method} needs a value"))),
        ("DELETE", Some(_)) => return Err(fault("DELETE takes no value".to_owned())),
        ("PUT" | "PATCH" | "DELETE", _) => {}
        _ => return Err(fault("method should be PUT, PATCH or DELETE".to_owned())),
    }
    Ok(Change { index, method: method.to_owned(), path, value })
}
