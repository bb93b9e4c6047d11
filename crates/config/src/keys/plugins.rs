//! The list of plugins, and what else config.yaml says of extensions.

use super::{
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
    unset("wasm.plugins", List(&FreeTable), "[{\"name\": \"wasm_log\", \"priority\": 7999, \"file\": \"log.wasm\"}]",
        "Their names, priorities and files.")
        .no_effect("there are no plugins in WebAssembly: a route that names one is refused"),
    unset("xrpc", Table, "{}", "Protocols on top of TCP."),
    unset("xrpc.protocols", List(&FreeTable), "[{\"name\": \"redis\"}]",
        "Those that stream routes may name: redis, dubbo."),
];
