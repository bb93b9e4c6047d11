//! Every plugin there is. Sorted by name; a test refuses a plugin file that is missing here.

use plugin::PluginDef;

pub static PLUGINS: &[&PluginDef] = &[
    &crate::basic_auth::PLUGIN,
    &crate::elasticsearch_logger::PLUGIN,
    &crate::file_logger::PLUGIN,
    &crate::http_logger::PLUGIN,
    &crate::kafka_logger::PLUGIN,
    &crate::key_auth::PLUGIN,
    &crate::limit_count::PLUGIN,
    &crate::log_rotate::PLUGIN,
    &crate::loki_logger::PLUGIN,
    &crate::mocking::PLUGIN,
    &crate::opentelemetry::PLUGIN,
    &crate::prometheus::PLUGIN,
    &crate::serverless::POST_FUNCTION,
    &crate::serverless::PRE_FUNCTION,
    &crate::syslog::PLUGIN,
    &crate::tcp_logger::PLUGIN,
    &crate::udp_logger::PLUGIN,
];
