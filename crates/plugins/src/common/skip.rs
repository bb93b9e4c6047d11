//! Plugins that another plugin has done the work of for this request.

use tidegate_plugin_api::Request;

#[derive(Default)]
struct Skipped(Vec<&'static str>);

/// The plugin of that name in the request's chain must not run.
pub fn skip(request: &mut Request, plugin: &'static str) {
    request.extensions.get_or_insert_with(Skipped::default).0.push(plugin);
}

pub(crate) fn is_skipped(request: &Request, plugin: &str) -> bool {
    request.extensions.get::<Skipped>().is_some_and(|skipped| skipped.0.contains(&plugin))
}
