//! Kong's declarative configuration, formats 1.1, 2.1 and 3.0.
//!
//! Every entity may stand in a list of its own or inside the one it belongs to; [`entities`] brings both together.
//! A route here carries the plugins of the whole file, of its service and its own, because in Kong the narrowest
//! instance of a plugin takes the place of the wider ones.

mod authentication;
mod conditions;
mod consumers;
pub(super) mod converted;
mod entities;
mod entry;
mod expression;
mod grpc_gateway;
mod lists;
mod loggers;
mod merge;
mod named;
mod networks;
mod node;
mod order;
mod partials;
mod pattern;
mod plugins;
mod prepare;
mod priority;
mod rate_limiting;
mod routes;
mod shapes;
mod ties;
mod traffic;
mod transform;
mod unique;
mod upstreams;

use tidegate_config::yaml::Node;

use crate::{
    imported::Imported,
    input::{Files, Options},
};
use entities::Entities;
pub(crate) use prepare::readable;

pub(crate) fn convert(
    root: &mut Node,
    files: &dyn Files,
    options: &Options,
    imported: &mut Imported,
) -> Result<(), String> {
    imported.report.count_parts("routes", "Kong");
    partials::one_workspace(root)?;
    prepare::prepare(root, files, &mut imported.report)?;
    lists::check(root)?;
    shapes::check(root)?;
    let version = root.get("_format_version").and_then(crate::fields::text);
    let regex_needs_tilde = match version.as_deref() {
        Some("1.1" | "2.1") => false,
        Some("3.0") => true,
        Some(other) => return Err(format!("_format_version {other:?} is not known; 1.1, 2.1 and 3.0 are")),
        None => {
            return Err("_format_version is missing; a declarative configuration of Kong has it".to_owned());
        }
    };
    let mut entities = Entities::collect(root, &mut imported.report)?;
    entities.regex_needs_tilde = regex_needs_tilde;
    entities.allow_missing = options.allow_missing.clone();
    unique::plugins(&entities)?;
    entities.consumers_differ = consumers::convert(&entities, imported);
    upstreams::certificates(&entities, imported);
    plugins::everywhere(&entities, imported);
    routes::convert(&entities, &|name| files.read(name), imported);
    Ok(())
}
