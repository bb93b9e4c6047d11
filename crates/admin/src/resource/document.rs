//! `GET /export`, and the form it shares with apisix.yaml: one list for each kind, credentials among the consumers.

use serde_json::{Map, Value, json};
use tidegate_model::{Kind, Object};
use tidegate_store::{COLLECTIONS, State, Store};

use super::checks::is_readable;
use crate::{
    AdminApi,
    documents::Holds,
    message::{REVISION, Response},
};

/// What the file form ends with, so that half of a file is not taken for the whole.
pub(super) const END: &str = "#END";

/// Private keys and passwords are in it, in plain: it is for role admin, which `caller.rs` knows.
pub(super) async fn export(api: &AdminApi) -> Result<Response, Response> {
    let store = api.store.clone();
    let make = move || exported(store.as_ref());
    Ok(api.documents.get("export".to_owned(), Holds::AtRevision(api.stored_revision()), make).await)
}

fn exported(store: &dyn Store) -> Response {
    let mut state = State::default();
    store.read(&mut |current| state = current.clone());
    if let Some(reason) = unreadable(&state) {
        return Response::error(409, &reason);
    }
    match text_of(&state) {
        Ok(text) => {
            Response::typed(200, "application/yaml", &text).with_header(REVISION, state.revision.to_string())
        }
        Err(error) => Response::error(500, &format!("failed to encode yaml: {error}")),
    }
}

/// An export without an object that cannot be read lacks a guard; with its encrypted text, that text becomes the secret where
/// the export is imported.
fn unreadable(state: &State) -> Option<String> {
    const MOST_NAMED: usize = 10;
    let mut objects = state.all().filter(|object| !is_readable(object));
    let named: Vec<String> = objects
        .by_ref()
        .take(MOST_NAMED)
        .map(|object| {
            let reason = object.fault.as_ref().map_or("it cannot be read", |fault| &fault.reason);
            format!("{}/{}: {reason}", object.kind.directory(), object.id)
        })
        .collect();
    let more = match objects.count() {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    (!named.is_empty()).then(|| {
        format!(
            "nothing was exported because some objects cannot be read; repair or delete them: {}{more}",
            named.join("; ")
        )
    })
}

fn text_of(state: &State) -> Result<String, String> {
    let mut text = String::new();
    let left_out = state.list(Kind::GraphqlCostDecoration).count();
    if left_out > 0 {
        text.push_str(&format!(
            "# {left_out} graphql_cost_decorations cannot be represented in this format\n"
        ));
    }
    let document = of_state(state);
    // Quoted throughout: what reads it may take on, no, 010 and others for more than text.
    let options = serde_saphyr::ser_options! { quote_all: true };
    serde_saphyr::to_fmt_writer_with_options(&mut text, &document, options)
        .map_err(|error| error.to_string())?;
    text.truncate(text.trim_end().len());
    text.push_str(&format!("\n{END}\n"));
    Ok(text)
}

fn of_state(state: &State) -> Value {
    let mut document = Map::new();
    for (name, kind) in COLLECTIONS {
        let mut items: Vec<Value> = state.list(kind).map(item).collect();
        if kind == Kind::Consumer {
            items.extend(state.list(Kind::Credential).map(item));
        }
        if !items.is_empty() {
            document.insert(name.to_owned(), Value::Array(items));
        }
    }
    if document.is_empty() {
        document.insert("routes".to_owned(), json!([]));
    }
    Value::Object(document)
}

/// With the id that is its name in the store, first; consumers are named by `username`. The other fields are in the order of
/// their names, at each depth: equal objects are equal texts, in whichever order they were written.
fn item(object: &Object) -> Value {
    let mut value = object.value().as_ref().clone();
    value.sort_all_objects();
    let Value::Object(fields) = value else { return value };
    let mut item = Map::new();
    if object.kind != Kind::Consumer {
        item.insert("id".to_owned(), json!(object.id.as_ref()));
    }
    for (name, value) in fields {
        if name != "id" || object.kind == Kind::Consumer {
            item.insert(name, value);
        }
    }
    Value::Object(item)
}
