//! The names of the interface: what a module may export, and what it may import without getting it.

use tidegate_model::nearest;
use wasmtime::Module;

/// Callbacks of requests and of what a plugin does beside them.
const CALLED: [&str; 12] = [
    "proxy_on_request_headers",
    "proxy_on_request_body",
    "proxy_on_request_trailers",
    "proxy_on_response_headers",
    "proxy_on_response_body",
    "proxy_on_response_trailers",
    "proxy_on_http_call_response",
    "proxy_on_queue_ready",
    "proxy_on_tick",
    "proxy_on_done",
    "proxy_on_log",
    "proxy_on_configure",
];

/// Those that do nothing by themselves, and those that other hosts call: of TCP streams, gRPC calls, foreign functions. SDKs export them all.
const OTHERS: [&str; 19] = [
    "proxy_on_memory_allocate",
    "proxy_on_context_create",
    "proxy_on_vm_start",
    "proxy_on_delete",
    "proxy_on_new_connection",
    "proxy_on_downstream_data",
    "proxy_on_downstream_connection_close",
    "proxy_on_upstream_data",
    "proxy_on_upstream_connection_close",
    "proxy_on_grpc_receive_initial_metadata",
    "proxy_on_grpc_receive_trailing_metadata",
    "proxy_on_grpc_receive",
    "proxy_on_grpc_close",
    "proxy_on_foreign_function",
    "proxy_on_request_metadata",
    "proxy_on_response_metadata",
    "proxy_on_stats_update",
    "proxy_validate_configuration",
    "proxy_on_redis_call_response",
];

/// Functions that answer UNIMPLEMENTED.
pub(super) const NOT_OFFERED: [&str; 8] = [
    "proxy_grpc_call",
    "proxy_grpc_stream",
    "proxy_grpc_send",
    "proxy_grpc_cancel",
    "proxy_grpc_close",
    "proxy_call_foreign_function",
    "proxy_clear_route_cache",
    "proxy_get_configuration",
];

/// A guard whose callback has a misspelled name would let every request through.
pub(super) fn check_callbacks(module: &Module) -> Result<(), String> {
    let names = || module.exports().map(|export| export.name());
    let known = || CALLED.into_iter().chain(OTHERS);
    for name in names().filter(|name| name.starts_with("proxy_") && !known().any(|known| known == *name)) {
        if let Some(meant) = nearest::nearest(name, known()) {
            return Err(format!("its function {name} is never called; did you mean {meant}?"));
        }
    }
    match names().any(|name| CALLED.contains(&name)) {
        true => Ok(()),
        false => Err(format!("none of its functions runs: it exports none of {}", CALLED.join(", "))),
    }
}
