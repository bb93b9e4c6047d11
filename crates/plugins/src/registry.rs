//! Every plugin there is. Sorted by name; a test refuses a plugin file that is missing here.

use tidegate_plugin_api::PluginDef;

pub static PLUGINS: &[&PluginDef] = &[
    &crate::security::acl::PLUGIN,
    &crate::traffic::api_breaker::PLUGIN,
    &crate::authentication::app_key::PLUGIN,
    &crate::transformation::attach_consumer_label::PLUGIN,
    &crate::authentication::basic_auth::PLUGIN,
    &crate::other::batch_requests::PLUGIN,
    #[cfg(feature = "lua")]
    &crate::transformation::body_transformer::PLUGIN,
    &crate::other::brotli::PLUGIN,
    &crate::traffic::client_control::PLUGIN,
    &crate::security::consumer_restriction::PLUGIN,
    &crate::security::cors::PLUGIN,
    &crate::security::csrf::PLUGIN,
    &crate::other::echo::PLUGIN,
    &crate::observability::elasticsearch_logger::PLUGIN,
    &crate::other::example_plugin::PLUGIN,
    &crate::transformation::fault_injection::PLUGIN,
    &crate::observability::file_logger::PLUGIN,
    &crate::authentication::forward_auth::PLUGIN,
    #[cfg(feature = "grpc-transcode")]
    &crate::transformation::grpc_transcode::PLUGIN,
    &crate::transformation::grpc_web::PLUGIN,
    &crate::other::gzip::PLUGIN,
    &crate::authentication::hmac_auth::PLUGIN,
    &crate::observability::http_logger::PLUGIN,
    &crate::security::ip_restriction::PLUGIN,
    &crate::authentication::jwt_auth::PLUGIN,
    &crate::observability::kafka_logger::PLUGIN,
    &crate::authentication::key_auth::PLUGIN,
    &crate::authentication::ldap_auth::PLUGIN,
    &crate::traffic::limit_conn::PLUGIN,
    &crate::traffic::limit_count::PLUGIN,
    &crate::traffic::limit_req::PLUGIN,
    &crate::observability::log_rotate::PLUGIN,
    &crate::observability::loki_logger::PLUGIN,
    &crate::transformation::mocking::PLUGIN,
    &crate::authentication::multi_auth::PLUGIN,
    &crate::observability::node_status::PLUGIN,
    &crate::other::ocsp_stapling::PLUGIN,
    &crate::authentication::opa::PLUGIN,
    &crate::authentication::openid_connect::PLUGIN,
    &crate::observability::opentelemetry::PLUGIN,
    &crate::observability::prometheus::PLUGIN,
    &crate::traffic::proxy_cache::PLUGIN,
    &crate::traffic::proxy_control::PLUGIN,
    &crate::traffic::proxy_mirror::PLUGIN,
    &crate::transformation::proxy_redirect::PLUGIN,
    &crate::transformation::proxy_rewrite::PLUGIN,
    &crate::security::public_api::PLUGIN,
    &crate::other::real_ip::PLUGIN,
    &crate::other::redirect::PLUGIN,
    &crate::security::referer_restriction::PLUGIN,
    &crate::traffic::request_id::PLUGIN,
    &crate::traffic::request_validation::PLUGIN,
    &crate::transformation::response_rewrite::PLUGIN,
    #[cfg(feature = "lua")]
    &crate::serverless::function::POST_FUNCTION,
    #[cfg(feature = "lua")]
    &crate::serverless::function::PRE_FUNCTION,
    &crate::traffic::sla::PLUGIN,
    &crate::other::static_files::PLUGIN,
    &crate::observability::syslog::PLUGIN,
    &crate::observability::tcp_logger::PLUGIN,
    &crate::traffic::traffic_split::PLUGIN,
    &crate::security::ua_restriction::PLUGIN,
    &crate::observability::udp_logger::PLUGIN,
    &crate::security::uri_blocker::PLUGIN,
    &crate::traffic::workflow::PLUGIN,
    &crate::observability::zipkin::PLUGIN,
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
