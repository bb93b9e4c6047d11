//! Every plugin there is. Sorted by name; a test refuses a plugin file that is missing here.

use plugin::PluginDef;

pub static PLUGINS: &[&PluginDef] = &[
    &crate::acl::PLUGIN,
    &crate::attach_consumer_label::PLUGIN,
    &crate::basic_auth::PLUGIN,
    &crate::consumer_restriction::PLUGIN,
    &crate::csrf::PLUGIN,
    &crate::forward_auth::PLUGIN,
    &crate::hmac_auth::PLUGIN,
    &crate::jwt_auth::PLUGIN,
    &crate::key_auth::PLUGIN,
    &crate::ldap_auth::PLUGIN,
    &crate::limit_count::PLUGIN,
    &crate::mocking::PLUGIN,
    &crate::multi_auth::PLUGIN,
    &crate::opa::PLUGIN,
    &crate::prometheus::PLUGIN,
];
