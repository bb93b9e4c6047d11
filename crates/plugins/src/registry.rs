//! Every plugin there is. Sorted by name; a test refuses a plugin file that is missing here.

use plugin::PluginDef;

pub static PLUGINS: &[&PluginDef] = &[
    &crate::example_plugin::PLUGIN,
    &crate::key_auth::PLUGIN,
    &crate::limit_count::PLUGIN,
    &crate::mocking::PLUGIN,
    &crate::prometheus::PLUGIN,
];
