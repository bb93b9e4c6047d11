//! `/schema/{name}` and `/schema/validate/{resource}`.

use serde_json::Value;
use tidegate_model::schemas::{document, of_kind};

use super::body::read_body;
use crate::{
    admin_api::AdminApi,
    message::{Request, Response},
    resource::target::kind_of,
};

pub(super) fn get(name: &str) -> Response {
    match document(name) {
        Some(schema) => Response::json(200, schema),
        None => Response::error(400, &format!("not found schema: {name}")),
    }
}

impl AdminApi {
    /// Checks a body against the schema alone; what has no schema accepts everything.
    pub(super) fn validate_resource(&self, request: &Request, name: &str) -> Response {
        let kind = kind_of(name);
        if kind.is_none() && !matches!(name, "schema" | "plugins") {
            return Response::error(404, &format!("Unsupported resource type: {name}"));
        }
        let body = match read_body(request) {
            Ok(body) => body,
            Err(refused) => return refused,
        };
        let Some(schema) = kind.and_then(of_kind) else { return Response::empty(200) };
        let checked = match body {
            Some(mut body) => schema.check(&mut body),
            None => Err(schema.check(&mut Value::Null).map_or_else(
                |error| error.replace("got userdata", "got nil"),
                |()| "missing configurations".into(),
            )),
        };
        checked.map_or_else(|error| Response::error(400, &error), |()| Response::empty(200))
    }
}
