//! The list of plugins, and what else config.yaml says of extensions.

use super::{
    forms,
    key::Takes::*,
    key::{Key, key, unset},
};

#[rustfmt::skip]
pub(super) const KEYS: &[Key] = &[
    key("graphql", Table, "{}", "GraphQL requests."),
    key("graphql.max_size", Integer(1, i64::MAX), "1048576",
        "The largest request in bytes whose graphql_* variables routes can match."),
    key("plugins", List(&Text), "[]",
        "The plugins that are on. A list here takes the place of the whole default list."),
    key("stream_plugins", List(&Text), "[\"ip-restriction\", \"limit-conn\", \"mqtt-proxy\", \"syslog\", \"traffic-split\"]", "The plugins of stream routes that are on."),
    unset("ext-plugin", Table, "{}", "External plugins."),
    unset("ext-plugin.cmd", List(&Text), "[\"/path/to/runner\"]", "The runner of external plugins."),
    unset("ext-plugin.path_for_test", Text, "\"/tmp/runner.sock\"", "Socket of a runner that was started by hand."),
    unset("wasm", Table, "{}", "Plugins in WebAssembly."),
    unset("wasm.plugins", List(&FreeTable), "[{\"name\": \"wasm_log\", \"priority\": 7999, \"file\": \"log.wasm\", \"http_request_phase\": \"access\"}]",
        "Their names, priorities and files; relative files begin at the prefix. http_request_phase is access (the default) or rewrite. With process_bodies, which APISIX does not have, callbacks of bodies run without being asked for."),
    unset("wasm.time_limit_ms", Integer(1, 60_000), "50",
        "Milliseconds on a processor that one callback may take. Not in APISIX."),
    unset("wasm.instance_memory", Form(&forms::INSTANCE_MEMORY), "\"64m\"",
        "Memory that one instance of a module may have. Not in APISIX."),
    unset("wasm.memory", Form(&forms::WASM_MEMORY), "\"512m\"",
        "Memory that all instances may have together. Not in APISIX."),
    unset("xrpc", Table, "{}", "Protocols on top of TCP."),
    unset("xrpc.protocols", List(&FreeTable), "[{\"name\": \"redis\"}]",
        "Those that stream routes may name: redis, dubbo."),
];
