//! What answers about objects have in common.

use std::sync::Arc;

use serde_json::{Value, json};
use tidegate_model::{Kind, Object, Objects, idle};
use tidegate_store::{StoreError, Stored, Written};

use crate::{
    AdminApi, AdminSettings, Remark,
    message::{REVISION, Request, Response, WARNING, header_text},
    permission::scope::Rights,
};

/// Says that an object was stored and cannot be used yet, because a secret or what it names is not there, that some of it
/// has no effect, or what else to know of it.
pub(super) fn warned(
    api: &AdminApi,
    request: &Request,
    response: Response,
    kind: Kind,
    id: &str,
) -> Response {
    let told = [api.compiled.rejected(), api.compiled.warnings()].concat();
    let told = told.iter().filter(|object| object.kind == kind && &*object.id == id);
    let mut warnings: Vec<String> = told.map(|object| object.reason.clone()).collect();
    if let Some(object) = api.store.get(kind, id) {
        warnings.extend(in_vain(api, &object, &Stored(api.store.as_ref())));
        warnings.extend(place(api, &api.rights(request), &object));
    }
    if warnings.is_empty() {
        return response;
    }
    response.with_header(WARNING, header_text(&warnings.join("; ")))
}

/// The parts of an object that have no effect.
pub(crate) fn in_vain(api: &AdminApi, object: &Object, all: &dyn Objects) -> Vec<String> {
    let plugins = api.plugins();
    let catalog = idle::catalog_of(object, plugins.as_ref(), api.stream_plugins.as_deref());
    let mut found = idle::of(object, api.settings.matching, catalog, all);
    found.extend(idle::fields(object, api.settings.matching).map(idle::Field::in_words));
    found
}

/// What is to be known of a stored route's place.
pub(crate) fn place(api: &AdminApi, rights: &Rights, object: &Object) -> Vec<String> {
    let remarks = if object.kind == Kind::Route { api.compiled.place(&object.id) } else { Vec::new() };
    remarks.into_iter().map(|remark| for_reader(api, rights, remark)).collect()
}

/// Of routes that who asks is not shown, nothing but their ids.
pub(super) fn for_reader(api: &AdminApi, rights: &Rights, remark: Remark) -> String {
    let is_shown = |id: &Arc<str>| api.shows(rights, Kind::Route, id);
    if remark.others.iter().all(is_shown) { remark.text } else { remark.discreet }
}

pub(super) fn key(settings: &AdminSettings, kind: Kind, id: &str) -> String {
    format!("{}/{}/{id}", settings.key_prefix, kind.directory())
}

pub(super) fn object_key(settings: &AdminSettings, object: &Object) -> String {
    key(settings, object.kind, &object.id)
}

/// An answer to a write, with the revision that it led to.
pub(super) fn written(status: u16, body: &Value, written: &Written) -> Response {
    Response::json(status, body).with_header(REVISION, written.revision.to_string())
}

pub(super) fn not_found() -> Response {
    Response::json(404, &json!({"message": "Key not found"}))
}

/// Why a write of one object did not happen.
pub(super) enum Failed {
    /// Another write of the object came between looking at it and writing it.
    Overtaken,
    /// It stays so, however often it is tried.
    Refused(Response),
}

impl From<Response> for Failed {
    fn from(response: Response) -> Failed {
        Failed::Refused(response)
    }
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Failed {
        match error {
            StoreError::Conflict => Failed::Overtaken,
            error => Failed::Refused(store_failed(&error)),
        }
    }
}

pub(super) fn store_failed(error: &StoreError) -> Response {
    let response = Response::error(503, &error.to_string());
    match error {
        StoreError::HandedOver => response.with_header("Retry-After", "1"),
        _ => response,
    }
}
