//! Every plugin there is. Sorted by name; a test refuses a plugin file that is missing here.

use plugin::PluginDef;

pub static PLUGINS: &[&PluginDef] = &[
    &crate::batch_requests::PLUGIN,
    &crate::brotli::PLUGIN,
    &crate::client_control::PLUGIN,
    &crate::cors::PLUGIN,
    &crate::echo::PLUGIN,
    &crate::fault_injection::PLUGIN,
    &crate::gzip::PLUGIN,
    &crate::ip_restriction::PLUGIN,
    &crate::key_auth::PLUGIN,
    &crate::limit_count::PLUGIN,
    &crate::mocking::PLUGIN,
    &crate::prometheus::PLUGIN,
    &crate::proxy_rewrite::PLUGIN,
    &crate::public_api::PLUGIN,
    &crate::real_ip::PLUGIN,
    &crate::redirect::PLUGIN,
    &crate::referer_restriction::PLUGIN,
    &crate::request_id::PLUGIN,
    &crate::request_validation::PLUGIN,
    &crate::response_rewrite::PLUGIN,
    &crate::traffic_split::PLUGIN,
    &crate::ua_restriction::PLUGIN,
    &crate::uri_blocker::PLUGIN,
];
