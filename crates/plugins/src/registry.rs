//! Every plugin there is. Sorted by name; a test refuses a plugin file that is missing here.

use tidegate_plugin_api::PluginDef;

pub static PLUGINS: &[&PluginDef] = &[
    &crate::acl::PLUGIN,
    &crate::api_breaker::PLUGIN,
    &crate::app_key::PLUGIN,
    &crate::attach_consumer_label::PLUGIN,
    &crate::basic_auth::PLUGIN,
    &crate::batch_requests::PLUGIN,
    #[cfg(feature = "lua")]
    &crate::body_transformer::PLUGIN,
    &crate::brotli::PLUGIN,
    &crate::client_control::PLUGIN,
    &crate::consumer_restriction::PLUGIN,
    &crate::cors::PLUGIN,
    &crate::csrf::PLUGIN,
    &crate::echo::PLUGIN,
    &crate::elasticsearch_logger::PLUGIN,
    &crate::example_plugin::PLUGIN,
    &crate::fault_injection::PLUGIN,
    &crate::file_logger::PLUGIN,
    &crate::forward_auth::PLUGIN,
    #[cfg(feature = "grpc-transcode")]
    &crate::grpc_transcode::PLUGIN,
    &crate::grpc_web::PLUGIN,
    &crate::gzip::PLUGIN,
    &crate::hmac_auth::PLUGIN,
    &crate::http_logger::PLUGIN,
    &crate::ip_restriction::PLUGIN,
    &crate::jwt_auth::PLUGIN,
    &crate::kafka_logger::PLUGIN,
    &crate::key_auth::PLUGIN,
    &crate::ldap_auth::PLUGIN,
    &crate::limit_conn::PLUGIN,
    &crate::limit_count::PLUGIN,
    &crate::limit_req::PLUGIN,
    &crate::log_rotate::PLUGIN,
    &crate::loki_logger::PLUGIN,
    &crate::mocking::PLUGIN,
    &crate::multi_auth::PLUGIN,
    &crate::node_status::PLUGIN,
    &crate::ocsp_stapling::PLUGIN,
    &crate::opa::PLUGIN,
    &crate::openid_connect::PLUGIN,
    &crate::opentelemetry::PLUGIN,
    &crate::prometheus::PLUGIN,
    &crate::proxy_cache::PLUGIN,
    &crate::proxy_control::PLUGIN,
    &crate::proxy_mirror::PLUGIN,
    &crate::proxy_redirect::PLUGIN,
    &crate::proxy_rewrite::PLUGIN,
    &crate::public_api::PLUGIN,
    &crate::real_ip::PLUGIN,
    &crate::redirect::PLUGIN,
    &crate::referer_restriction::PLUGIN,
    &crate::request_id::PLUGIN,
    &crate::request_validation::PLUGIN,
    &crate::response_rewrite::PLUGIN,
    #[cfg(feature = "lua")]
    &crate::serverless::POST_FUNCTION,
    #[cfg(feature = "lua")]
    &crate::serverless::PRE_FUNCTION,
    &crate::sla::PLUGIN,
    &crate::static_files::PLUGIN,
    &crate::syslog::PLUGIN,
    &crate::tcp_logger::PLUGIN,
    &crate::traffic_split::PLUGIN,
    &crate::ua_restriction::PLUGIN,
    &crate::udp_logger::PLUGIN,
    &crate::uri_blocker::PLUGIN,
    &crate::workflow::PLUGIN,
    &crate::zipkin::PLUGIN,
];

/// Plugins that this build is without, and the feature that each needs.
pub static MISSING: &[(&str, &str)] = &[
    #[cfg(not(feature = "lua"))]
    ("body-transformer", "lua"),
    #[cfg(not(feature = "grpc-transcode"))]
    ("grpc-transcode", "grpc-transcode"),
    #[cfg(not(feature = "lua"))]
    ("serverless-post-function", "lua"),
    #[cfg(not(feature = "lua"))]
    ("serverless-pre-function", "lua"),
];
