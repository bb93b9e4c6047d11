//! `POST /transactions`: many changes, checked against what the configuration is after all of them, written as one
//! revision or not at all.

pub(super) mod change;
pub(super) mod diff;
mod stage;

use serde_json::{Value, json};
use tidegate_model::schema::lua;
use tidegate_store::{Author, State, StoreError, Write};

use self::change::{Change, Fault};
pub(super) use self::stage::{Stage, Wanted};
use super::answers::store_failed;
use crate::{
    AdminApi,
    api::{body::read_body, configurations::MOST_FAULTS},
    message::{REVISION, Request, Response},
    permission::scope::Rights,
};

const MAX_CHANGES: usize = 10_000;

/// Others may write while the changes are checked; then they are checked again.
pub(super) const ATTEMPTS: usize = 8;

pub(super) async fn run(api: &AdminApi, request: &Request) -> Result<Response, Response> {
    let order = Order::of(api, request)?;
    let body = read_body(request)?.ok_or_else(|| Response::error(400, "missing changes"))?;
    let (changes, dry_run) = parse(&body)?;
    let order = Order { dry_run, ..order };
    for _ in 0..ATTEMPTS {
        let state = order.current(api)?;
        let revision = state.revision;
        let stage = Stage::play(api, &order.rights, state, &changes)
            .map_err(|faults| refused("transaction", &faults))?;
        if let Some(response) = order.carry_out(api, &stage, revision).await? {
            return Ok(response);
        }
    }
    Err(busy())
}

/// How several changes are made as one, and for whom.
pub(super) struct Order {
    pub author: Author,
    pub rights: Rights,
    /// `If-Match`
    pub expected: Option<u64>,
    pub dry_run: bool,
}

impl Order {
    pub(super) fn of(api: &AdminApi, request: &Request) -> Result<Order, Response> {
        if !api.store.is_writable() {
            return Err(Response::error(
                501,
                "this configuration provider is read-only: change its file instead",
            ));
        }
        let author = super::submit::author(request, None);
        Ok(Order { author, rights: api.rights(request), expected: if_match(request)?, dry_run: false })
    }

    /// The configuration, provided that it is at the expected revision.
    pub(super) fn current(&self, api: &AdminApi) -> Result<State, Response> {
        let mut state = State::default();
        api.store.read(&mut |current| state = current.clone());
        match self.expected.filter(|expected| *expected != state.revision) {
            Some(expected) => Err(mismatch(expected, state.revision)),
            None => Ok(state),
        }
    }

    /// Writes what was staged at `revision`, or only reports it. `None`: another write came first; stage it again.
    pub(super) async fn carry_out(
        &self,
        api: &AdminApi,
        stage: &Stage,
        revision: u64,
    ) -> Result<Option<Response>, Response> {
        if self.dry_run {
            let mut body = json!({"dry_run": true, "revision": revision, "changes": stage.differences(api)});
            set_texts(&mut body, "warnings", &stage.without_effect(api, &self.rights));
            set_texts(&mut body, "kept", stage.kept());
            set_texts(&mut body, "left", stage.left());
            return Ok(Some(Response::json(200, &body)));
        }
        let (operations, author) = (stage.operations(), self.author.clone());
        match api.write(Write { operations, at: Some(revision), author }).await {
            Ok(written) => {
                let mut body = json!({"revision": written.revision, "changes": stage.summary()});
                set_texts(&mut body, "warnings", &stage.warnings(api, &self.rights));
                set_texts(&mut body, "kept", stage.kept());
                set_texts(&mut body, "left", stage.left());
                Ok(Some(Response::json(200, &body).with_header(REVISION, written.revision.to_string())))
            }
            Err(StoreError::Conflict) => match self.expected {
                Some(expected) => Err(mismatch(expected, api.stored_revision())),
                None => Ok(None),
            },
            Err(error @ (StoreError::Unsupported(_) | StoreError::ReadOnly)) => {
                Err(Response::error(501, &error.to_string()))
            }
            Err(error) => Err(store_failed(&error)),
        }
    }
}

fn set_texts(body: &mut Value, name: &str, texts: &[String]) {
    if let Some(fields) = body.as_object_mut().filter(|_| !texts.is_empty()) {
        fields.insert(name.to_owned(), json!(texts));
    }
}

pub(super) fn busy() -> Response {
    Response::error(409, "the configuration kept changing concurrently; nothing was written, try again")
}

/// The revision of `If-Match`, bare or in quotes.
fn if_match(request: &Request) -> Result<Option<u64>, Response> {
    let Some(text) = request.header("if-match") else { return Ok(None) };
    let text = text.trim();
    if text == "*" {
        return Ok(None);
    }
    let number = text.trim_matches('"').parse();
    number.map(Some).map_err(|_| Response::error(400, "If-Match: should be a revision from GET /revision"))
}

fn mismatch(expected: u64, revision: u64) -> Response {
    let message = format!("the configuration is at revision {revision}, not {expected}; nothing was written");
    Response::json(412, &json!({"error_msg": message, "revision": revision}))
}

/// Why `what` (a transaction, a rollback, an import) cannot be.
pub(super) fn refused(what: &str, faults: &[Fault]) -> Response {
    let first =
        faults.first().map(|fault| format!(": changes[{}] {}: {}", fault.index, fault.path, fault.error));
    let message = format!("{what} refused, nothing was written{}", first.unwrap_or_default());
    let errors: Vec<Value> = faults.iter().take(MOST_FAULTS).map(Fault::to_json).collect();
    let mut body = json!({"error_msg": message, "errors": errors});
    let more = faults.len().saturating_sub(MOST_FAULTS);
    if more > 0
        && let Some(fields) = body.as_object_mut()
    {
        fields.insert("more".to_owned(), json!(more));
    }
    Response::json(400, &body)
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
            "invalid transaction: {} changes, at most {MAX_CHANGES} are allowed",
            items.len()
        )));
    }
    let changes = items.iter().enumerate().map(|(index, item)| change(index, item));
    Ok((changes.collect::<Result<_, _>>().map_err(|fault| refused("transaction", &[fault]))?, dry_run))
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
