//! Every bound of the gateway: one row each. To add one, add a row and run `UPDATE_DOCS=1 cargo test -p tidegate-config --test limits`.
//!
//! Numbers are not repeated here: a row names a key of config.yaml, a field of a plugin's schema, or a constant of the code.

mod administration;
mod clients;
mod computing;
mod kept;
mod plugins;

use administration::{ADMIN, STORE};
use clients::{BODIES, CONNECTIONS, HEADS, HTTP2, UPSTREAMS};
use computing::{CONDITIONS, LUA, WASM};
use kept::{CACHES, LOGS};
use plugins::PLUGINS;

use super::Row;

const fn row(what: [&'static str; 2], bound: super::Bound, seen: [&'static str; 2]) -> Row {
    Row { what, bound, seen }
}

const CLOSED: [&str; 2] = ["the connection closes", "连接关闭"];
const TOO_LARGE: [&str; 2] = ["413", "413"];
const BAD: [&str; 2] = ["400", "400"];
const UNDECIDED: [&str; 2] = ["the request is refused, and a log line", "请求被拒绝，并写日志"];
const NOTHING: [&str; 2] = ["nothing", "无影响"];
const GONE_502: [&str; 2] = ["502", "502"];
const NOT_SENT: [&str; 2] = ["502 instead of the response, and a log line", "以 502 代替该应答，并写日志"];
const FULL_HANDSHAKE: [&str; 2] = ["a full handshake the next time", "下一次为完整握手"];
const FORGOTTEN: [&str; 2] = ["nothing; the oldest are forgotten", "无影响；最旧的被遗忘"];
const DROPPED: [&str; 2] = ["nothing; entries are dropped and counted", "无影响；条目被丢弃并计数"];

const LINES_LOST: [&str; 2] = [
    "nothing; lines are lost and counted (log_lines_lost_total), and a log line says how many",
    "无影响；行丢失并计数（log_lines_lost_total），并有一条日志说明数目",
];

/// Groups with their titles.
pub(crate) const TABLE: &[([&str; 2], &[Row])] = &[
    (["Connections of clients", "客户端连接"], CONNECTIONS),
    (["Heads of requests", "请求头"], HEADS),
    (["Bodies of requests", "请求体"], BODIES),
    (["HTTP/2", "HTTP/2"], HTTP2),
    (["Upstreams", "上游"], UPSTREAMS),
    (["Admin API, Control API, metrics and status page", "Admin API、Control API、指标与状态页"], ADMIN),
    (["Conditions, patterns and schemas", "条件、模式与 schema"], CONDITIONS),
    (["Lua", "Lua"], LUA),
    (["WebAssembly", "WebAssembly"], WASM),
    (["Plugins", "插件"], PLUGINS),
    (["Limiters and caches", "限流器与缓存"], CACHES),
    (["Loggers and metrics", "日志插件与指标"], LOGS),
    (["The configuration", "配置"], STORE),
];
