//! The routes that are disabled: no router has them, and people look for them.

use serde_json::{Value, json};
use tidegate_compiler::Trial;
use tidegate_model::{Document, Kind, Object, Objects};
use tidegate_routing::router::{Mode, Router};

use super::candidates::Disabled;

/// More are not looked at.
const MOST: usize = 500;

/// Builds a router of the disabled routes, as if they were enabled.
pub(crate) fn disabled(trial: &Trial, mode: Mode, all: &dyn Objects) -> Disabled {
    let off = all.with_field("status").into_iter().filter_map(|route| enabled(&route));
    let off: Vec<Object> = off.take(MOST).collect();
    let mut specs = trial.specs(&off, all);
    specs.sort_by(|left, right| left.order.cmp(&right.order));
    let name = |id: &str| {
        let object = off.iter().find(|object| &*object.id == id)?;
        Some(object.value().get("name")?.as_str()?.to_owned())
    };
    let routes = specs.iter().map(|spec| (spec.id, spec.order.clone(), name(&spec.order))).collect();
    Disabled { router: Router::build(mode, specs.into_iter()), routes }
}

/// The route with another status, if it is disabled.
fn enabled(route: &Object) -> Option<Object> {
    // Cheaper than reading each.
    let may_be_off = ["\"status\":0", "\"status\": 0"].iter().any(|text| route.document.may_hold(text));
    if route.kind != Kind::Route || !may_be_off {
        return None;
    }
    let mut value = Value::clone(&*route.value());
    let is_off = value.get("status") == Some(&json!(0));
    let fields = value.as_object_mut().filter(|_| is_off)?;
    fields.insert("status".to_owned(), json!(1));
    Some(Object { document: Document::new(&value), ..route.clone() })
}
