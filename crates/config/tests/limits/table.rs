//! Every bound of the gateway: one row each. To add one, add a row and run `UPDATE_DOCS=1 cargo test -p config --test limits`.
//!
//! Numbers are not repeated here: a row names a key of config.yaml, a field of a plugin's schema, or a constant of the code.

use super::{
    Bound::{Const, Field, Key, Schema},
    Row,
    Unit::{Bytes, Count, Milliseconds},
};

const fn row(what: [&'static str; 2], bound: super::Bound, seen: [&'static str; 2]) -> Row {
    Row { what, bound, seen }
}

const CLOSED: [&str; 2] = ["the connection closes", "连接关闭"];
const TOO_LARGE: [&str; 2] = ["413", "413"];
const BAD: [&str; 2] = ["400", "400"];
const UNDECIDED: [&str; 2] = ["the request is refused, and a log line", "请求被拒绝，并写日志"];
const NOTHING: [&str; 2] = ["nothing", "无影响"];
const GONE_502: [&str; 2] = ["502", "502"];
const NOT_SENT: [&str; 2] = ["502 instead of the answer, and a log line", "以 502 代替该应答，并写日志"];
const FORGOTTEN: [&str; 2] = ["nothing; the oldest are forgotten", "无影响；最旧的被遗忘"];
const DROPPED: [&str; 2] = ["nothing; entries are dropped and counted", "无影响；条目被丢弃并计数"];

/// Groups with their titles.
pub const TABLE: &[([&str; 2], &[Row])] = &[
    (["Connections of clients", "客户端连接"], CONNECTIONS),
    (["Heads of requests", "请求头"], HEADS),
    (["Bodies of requests", "请求体"], BODIES),
    (["HTTP/2", "HTTP/2"], HTTP2),
    (["Upstreams", "上游"], UPSTREAMS),
    (["Admin API, Control API, metrics and status page", "Admin API、Control API、指标与状态页"], ADMIN),
    (["Conditions, patterns and schemas", "条件、模式与 schema"], CONDITIONS),
    (["Lua", "Lua"], LUA),
    (["Plugins", "插件"], PLUGINS),
    (["Limiters and caches", "限流器与缓存"], CACHES),
    (["Loggers and metrics", "日志插件与指标"], LOGS),
    (["The configuration", "配置"], STORE),
];

const CONNECTIONS: &[Row] = &[
    row(
        ["Connections of each worker", "每个工作线程的连接"],
        Key("nginx_config.event.worker_connections"),
        CLOSED,
    ),
    row(
        ["Connections of all clients (0: no limit)", "所有客户端的连接（0 为不限）"],
        Key("apisix.client_limits.connections"),
        CLOSED,
    ),
    row(
        [
            "Connections of one address, IPv6: of one /64 (0: no limit)",
            "每个地址的连接，IPv6 为每个 /64（0 为不限）",
        ],
        Key("apisix.client_limits.connections_per_address"),
        CLOSED,
    ),
    row(
        ["File descriptors left for the Admin API", "为 Admin API 保留的文件描述符"],
        Key("deployment.admin.limits.reserved_descriptors"),
        ["a new connection waits or closes", "新连接等待或关闭"],
    ),
    row(
        ["Unfinished TLS handshakes (unset: by memory)", "未完成的 TLS 握手（未设置：按内存）"],
        Key("apisix.client_limits.handshakes"),
        CLOSED,
    ),
    row(
        ["The same of one address (unset: a quarter)", "单个地址的未完成握手（未设置：四分之一）"],
        Key("apisix.client_limits.handshakes_per_address"),
        CLOSED,
    ),
    row(
        ["Time for a TLS handshake", "TLS 握手的时间"],
        Key("apisix.client_limits.handshake_timeout"),
        CLOSED,
    ),
    row(
        ["Rounds of a request that comes back to the gateway", "请求返回网关自身的次数"],
        Key("apisix.max_own_hops"),
        ["508", "508"],
    ),
    row(
        [
            "Requests of plugins in a row that lead to the gateway itself",
            "插件发出并返回网关自身的连续请求数",
        ],
        Const("plugin/src/hops/side.rs", "MOST", Count),
        ["the guard refuses; what is a copy is left out", "守卫插件拒绝；副本不再发送"],
    ),
    row(
        ["Idle between two requests", "两个请求之间的空闲时间"],
        Key("nginx_config.http.keepalive_timeout"),
        CLOSED,
    ),
    row(
        ["Pause while an answer is taken", "接收应答时的停顿"],
        Key("nginx_config.http.send_timeout"),
        CLOSED,
    ),
    row(
        ["Least rate at which an answer is taken (0: no limit)", "接收应答的最低速率（0 为不限）"],
        Key("apisix.client_limits.min_answer_rate"),
        CLOSED,
    ),
    row(
        ["Time over which a rate is judged", "判断速率的时间"],
        Key("apisix.client_limits.rate_window"),
        NOTHING,
    ),
    row(
        [
            "Bytes read and dropped after the last answer, so that no reset cuts it",
            "最后一个应答之后读取并丢弃的字节，以免复位截断应答",
        ],
        Const("proxy/src/linger.rs", "DROPPED_BYTES", Bytes),
        NOTHING,
    ),
    row(
        ["Silence that ends this", "结束此读取的静默时间"],
        Const("proxy/src/linger.rs", "QUIET_MS", Milliseconds),
        CLOSED,
    ),
    row(
        ["Time for this in all", "此读取的总时间"],
        Const("proxy/src/linger.rs", "TOTAL_MS", Milliseconds),
        CLOSED,
    ),
    row(
        ["Connections of a worker in this state", "每个工作线程处于此状态的连接"],
        Const("proxy/src/linger.rs", "MOST", Count),
        ["the connection closes at once", "连接立即关闭"],
    ),
    row(
        ["PROXY header, text", "PROXY 头（文本）"],
        Const("wire/src/proxy_protocol.rs", "LONGEST_LINE", Bytes),
        CLOSED,
    ),
    row(
        ["PROXY header, binary", "PROXY 头（二进制）"],
        Const("wire/src/proxy_protocol.rs", "LONGEST_BINARY", Bytes),
        CLOSED,
    ),
];

const HEADS: &[Row] = &[
    row(
        ["Request line and fields together", "请求行与所有字段之和"],
        Field("wire/src/request.rs", "head_bytes", Bytes),
        ["431", "431"],
    ),
    row(["Target", "请求目标"], Field("wire/src/request.rs", "target_bytes", Bytes), ["414", "414"]),
    row(["Fields", "字段数"], Field("wire/src/request.rs", "fields", Count), ["431", "431"]),
    row(["Method", "方法"], Const("wire/src/request.rs", "MAX_METHOD", Bytes), ["501", "501"]),
    row(
        ["Time for the head", "请求头的时间"],
        Key("nginx_config.http.client_header_timeout"),
        ["408", "408"],
    ),
];

const BODIES: &[Row] = &[
    row(
        ["Body (0: no limit)", "请求体（0 为不限）"],
        Key("nginx_config.http.client_max_body_size"),
        TOO_LARGE,
    ),
    row(
        ["Pause within a body", "请求体中的停顿"],
        Key("nginx_config.http.client_body_timeout"),
        ["408", "408"],
    ),
    row(
        ["Least rate of a body that is waited for (0: no limit)", "等待请求体时的最低速率（0 为不限）"],
        Key("apisix.client_limits.min_body_rate"),
        ["408", "408"],
    ),
    row(
        [
            "Bodies in memory together (unset: a quarter of the machine's or cgroup's memory, 64 MiB at least)",
            "内存中请求体之和（未设置：机器或 cgroup 内存的四分之一，至少 64 MiB）",
        ],
        Key("apisix.body_memory.total"),
        ["503", "503"],
    ),
    row(
        ["Part of it that one client may hold: one in", "其中一个客户端可占的份额：分之一"],
        Const("plugin/src/memory.rs", "CLIENT_PART", Count),
        ["503", "503"],
    ),
    row(
        ["What is made of one body when it is read", "读取一个请求体所产生的数据"],
        Key("apisix.body_memory.parsed"),
        TOO_LARGE,
    ),
    row(
        ["Least rate of a body that holds memory", "占用内存的请求体的最低速率"],
        Key("apisix.body_memory.min_rate"),
        ["408", "408"],
    ),
    row(
        ["Time over which that is judged", "判断该速率的时间"],
        Key("apisix.body_memory.rate_window"),
        NOTHING,
    ),
    row(
        [
            "Body that a condition (post_arg) looks into, in MB (0: no limit)",
            "条件（post_arg）读取的请求体，单位 MB（0 为不限）",
        ],
        Key("apisix.max_post_args_readable_size"),
        TOO_LARGE,
    ),
    row(
        [
            "Body that is read by a worker itself; larger ones by threads for blocking work",
            "由工作线程自己读取的请求体；更大的由专门线程读取",
        ],
        Const("plugin/src/aside.rs", "SMALL", Bytes),
        NOTHING,
    ),
    row(
        ["Steps of a path like post_arg.a.b", "post_arg.a.b 这类路径的步数"],
        Const("plugin/src/variables/json_path.rs", "MOST_STEPS", Count),
        ["the Admin API refuses the condition", "Admin API 拒绝该条件"],
    ),
    row(
        ["Line with the size of a chunk", "分块大小行"],
        Const("wire/src/chunked.rs", "MAX_SIZE_LINE", Bytes),
        BAD,
    ),
    row(
        ["Chunk extensions of one body", "一个请求体的分块扩展"],
        Const("wire/src/chunked.rs", "MAX_EXTENSION_BYTES", Bytes),
        BAD,
    ),
    row(["Trailers", "尾部字段"], Const("wire/src/chunked.rs", "MAX_TRAILER_BYTES", Bytes), ["431", "431"]),
    row(
        ["Number of trailers", "尾部字段数"],
        Const("wire/src/chunked.rs", "MAX_TRAILERS", Count),
        ["431", "431"],
    ),
    row(
        ["Body that is read and dropped to keep a connection", "为保持连接而读取并丢弃的请求体"],
        Const("proxy/src/respond.rs", "DRAINED_BODY_BYTES", Bytes),
        CLOSED,
    ),
];

const HTTP2: &[Row] = &[
    row(
        ["Requests of one connection at the same time", "一个连接的并发请求"],
        Key("apisix.http2.max_concurrent_streams"),
        ["REFUSED_STREAM", "REFUSED_STREAM"],
    ),
    row(
        ["Body bytes of one request under way", "一个请求在途的请求体字节"],
        Key("apisix.http2.stream_window"),
        ["flow control", "流量控制"],
    ),
    row(
        ["Body bytes of a connection under way", "一个连接在途的请求体字节"],
        Key("apisix.http2.connection_window"),
        ["flow control", "流量控制"],
    ),
    row(
        ["Requests cancelled within the window", "时间窗内取消的请求"],
        Key("apisix.http2.max_resets"),
        ["GOAWAY, then the connection closes", "GOAWAY，随后连接关闭"],
    ),
    row(
        ["PING, SETTINGS and PRIORITY frames within the window", "时间窗内的 PING、SETTINGS 与 PRIORITY 帧"],
        Key("apisix.http2.max_control_frames"),
        ["GOAWAY, then the connection closes", "GOAWAY，随后连接关闭"],
    ),
    row(["This window", "该时间窗"], Const("proxy/src/http2/frames.rs", "WINDOW_MS", Milliseconds), NOTHING),
    row(
        ["Time for a goodbye", "告别的时间"],
        Const("proxy/src/http2.rs", "GOODBYE_MS", Milliseconds),
        CLOSED,
    ),
];

const UPSTREAMS: &[Row] = &[
    row(
        [
            "Nodes that are tried after the first, where `retries` is not set",
            "未设 `retries` 时首个节点之后尝试的节点",
        ],
        Const("upstream/src/retry.rs", "MOST_UNSET", Count),
        GONE_502,
    ),
    row(
        ["Head of an answer", "应答头"],
        Field("proxy/src/settings.rs", "max_response_head_bytes", Bytes),
        GONE_502,
    ),
    row(
        ["Idle connections of each worker to an upstream", "每个工作线程到一个上游的空闲连接"],
        Key("nginx_config.http.upstream.keepalive"),
        NOTHING,
    ),
    row(
        ["Requests of one connection", "一个连接的请求数"],
        Key("nginx_config.http.upstream.keepalive_requests"),
        NOTHING,
    ),
    row(
        ["Idle time of a connection", "连接的空闲时间"],
        Key("nginx_config.http.upstream.keepalive_timeout"),
        NOTHING,
    ),
    row(
        ["HTTP/2 streams of one connection", "一个连接的 HTTP/2 流"],
        Const("proxy/src/http2/pool.rs", "MOST_STREAMS", Count),
        ["the request waits", "请求等待"],
    ),
    row(
        ["HTTP/2 connections of a worker to one node", "每个工作线程到一个节点的 HTTP/2 连接"],
        Const("proxy/src/http2/pool.rs", "MOST_CONNECTIONS", Count),
        ["the request waits", "请求等待"],
    ),
    row(
        ["Silence of an HTTP/2 connection until PING", "HTTP/2 连接静默多久后发送 PING"],
        Const("proxy/src/http2/pool/silence.rs", "QUIET_MS", Milliseconds),
        NOTHING,
    ),
    row(
        ["Time for its answer", "等待 PING 应答的时间"],
        Const("proxy/src/http2/pool/silence.rs", "PATIENCE_MS", Milliseconds),
        ["504 or 502", "504 或 502"],
    ),
    row(
        ["Sent bytes without acknowledgement (TCP)", "已发送字节未被确认（TCP）"],
        Const("proxy/src/exchange/connect.rs", "UNACKNOWLEDGED_MS", Milliseconds),
        GONE_502,
    ),
    row(
        ["Points of a hash ring", "哈希环的点数"],
        Const("upstream/src/balancer/ring.rs", "MAX_POINTS", Count),
        NOTHING,
    ),
    row(
        ["Answer of a registry", "注册中心的应答"],
        Const("discovery/src/http.rs", "MAX_BODY_BYTES", Bytes),
        NOTHING,
    ),
    row(
        ["Nodes of a name", "一个名称的节点"],
        Const("discovery/src/dns/records.rs", "MAX_NODES", Count),
        NOTHING,
    ),
];

const ADMIN: &[Row] = &[
    row(["Connections", "连接"], Key("deployment.admin.limits.connections"), CLOSED),
    row(
        [
            "Connections of one address that is not on allow_admin (0: no limit)",
            "不在 allow_admin 中的一个地址的连接（0 为不限）",
        ],
        Key("deployment.admin.limits.connections_per_address"),
        CLOSED,
    ),
    row(
        ["Seconds for the head", "请求头的秒数"],
        Key("deployment.admin.limits.header_timeout"),
        ["408", "408"],
    ),
    row(
        ["Seconds for the body, or for its next part", "请求体或其下一部分的秒数"],
        Key("deployment.admin.limits.body_timeout"),
        ["408", "408"],
    ),
    row(["Such a part", "这样的一部分"], Const("admin/src/listener/body.rs", "PROGRESS", Bytes), NOTHING),
    row(["Seconds of idleness", "空闲秒数"], Key("deployment.admin.limits.keepalive_timeout"), CLOSED),
    row(
        ["Large bodies at a time", "同时处理的大请求体"],
        Key("deployment.admin.limits.large_bodies"),
        ["503", "503"],
    ),
    row(
        ["Body", "请求体"],
        Const("admin/src/api.rs", "BODY_LIMIT", Bytes),
        ["413, or APISIX's 400", "413，或 APISIX 的 400"],
    ),
    row(
        ["Body of PUT /import", "PUT /import 的请求体"],
        Const("admin/src/api.rs", "IMPORT_LIMIT", Bytes),
        TOO_LARGE,
    ),
    row(
        ["Body of PUT /configs", "PUT /configs 的请求体"],
        Const("admin/src/api.rs", "CONFIGURATION_LIMIT", Bytes),
        TOO_LARGE,
    ),
    row(
        ["Changes of a transaction", "一个事务的修改"],
        Const("admin/src/resource/transaction.rs", "MAX_CHANGES", Count),
        BAD,
    ),
    row(
        ["Bytes of a refused body that are read and dropped", "被拒请求体中读取并丢弃的字节"],
        Const("admin/src/listener/connection.rs", "LINGER_BYTES", Bytes),
        NOTHING,
    ),
    row(
        ["Time for that", "用于此的时间"],
        Const("admin/src/listener/connection.rs", "LINGER", Milliseconds),
        CLOSED,
    ),
    row(
        ["Time to take an answer", "接收应答的时间"],
        Const("admin/src/listener/clock.rs", "LONGEST_TAKING", Milliseconds),
        CLOSED,
    ),
    row(
        ["Objects on a page", "每页对象"],
        Const("admin/src/resource/history.rs", "LARGEST_PAGE", Count),
        BAD,
    ),
];

const CONDITIONS: &[Row] = &[
    row(
        ["Steps back of a pattern with look-around or back-references", "含环视或反向引用的模式的回溯步数"],
        Const("backtrack/src/lib.rs", "MAX_STEPS", Count),
        UNDECIDED,
    ),
    row(
        [
            "Bytes that all of its steps may look at: on longer texts fewer steps",
            "其全部步数可查看的字节：文本越长步数越少",
        ],
        Const("backtrack/src/lib.rs", "MAX_BYTES", Bytes),
        UNDECIDED,
    ),
    row(
        ["Groups of such a pattern", "此类模式的分组数"],
        Const("backtrack/src/lib.rs", "MAX_GROUPS", Count),
        ["the Admin API refuses it", "Admin API 拒绝"],
    ),
    row(
        ["Groups of other patterns of plugins", "插件其他模式的分组数"],
        Const("plugins/src/common/regexes.rs", "MAX_GROUPS", Count),
        ["the Admin API refuses it", "Admin API 拒绝"],
    ),
    row(
        ["Depth of an expression", "表达式的深度"],
        Const("routing/src/expr/compile.rs", "MAX_DEPTH", Count),
        ["the Admin API refuses it", "Admin API 拒绝"],
    ),
    row(
        ["Steps of a path with several *", "含多个 * 的路径的步数"],
        Const("routing/src/router/parameters.rs", "MAX_STEPS", Count),
        ["the path does not match", "路径不匹配"],
    ),
    row(
        ["Steps of a check by a JSON schema", "一次 JSON schema 检查的步数"],
        Const("model/src/schema.rs", "MOST_STEPS", Count),
        ["the plugin's code for a bad request", "插件用于错误请求的状态码"],
    ),
    row(
        ["Depth of a value and of a schema", "值与 schema 的深度"],
        Const("model/src/schema.rs", "DEPTH_LIMIT", Count),
        ["the plugin's code for a bad request", "插件用于错误请求的状态码"],
    ),
    row(
        ["Depth of YAML", "YAML 的深度"],
        Const("config/src/yaml/build.rs", "MAX_DEPTH", Count),
        ["the file is refused", "拒绝该文件"],
    ),
    row(
        ["Nodes that aliases of YAML copy", "YAML 别名复制的节点"],
        Const("config/src/yaml/build.rs", "MAX_COPIED_NODES", Count),
        ["the file is refused", "拒绝该文件"],
    ),
];

const LUA: &[Row] = &[
    row(
        ["Milliseconds of one call (unset: 50)", "一次调用的毫秒数（未设置：50）"],
        Key("plugin_attr.serverless.time_limit_ms"),
        ["500", "500"],
    ),
    row(
        ["Memory of one worker's interpreter", "一个工作线程的解释器内存"],
        Const("plugins/src/lua/bounds.rs", "MAX_BYTES", Bytes),
        ["500", "500"],
    ),
    row(
        ["Strings, tables and functions in it", "其中的字符串、表和函数"],
        Const("plugins/src/lua/bounds.rs", "MAX_OBJECTS", Count),
        ["500", "500"],
    ),
    row(
        ["A string or table that a function makes", "函数生成的字符串或表"],
        Const("plugins/src/lua/bounds.rs", "MAX_BLOCK_BYTES", Bytes),
        ["500", "500"],
    ),
    row(
        ["Source of one function", "一个函数的源码"],
        Const("plugins/src/lua/vm.rs", "MAX_SOURCE_BYTES", Bytes),
        ["the object is refused", "拒绝该对象"],
    ),
    row(
        ["Text that becomes JSON or comes from it", "转换为 JSON 或由 JSON 转换的文本"],
        Const("plugins/src/lua/json.rs", "MAX_TEXT_BYTES", Bytes),
        ["an error in Lua", "Lua 错误"],
    ),
    row(
        ["Texts in a document made of tables", "由表生成的文档中的文本"],
        Const("plugins/src/lua/json.rs", "MAX_DOCUMENT_BYTES", Bytes),
        ["an error in Lua", "Lua 错误"],
    ),
    row(
        ["Values in it", "其中的值"],
        Const("plugins/src/lua/json.rs", "MAX_VALUES", Count),
        ["an error in Lua", "Lua 错误"],
    ),
    row(
        ["A regular expression", "正则表达式"],
        Const("plugins/src/lua/api/regex.rs", "MAX_PATTERN_BYTES", Bytes),
        ["an error in Lua", "Lua 错误"],
    ),
    row(
        ["Headers and variables that one call writes", "一次调用写入的请求头与变量"],
        Const("plugins/src/lua/current.rs", "MAX_WRITTEN_BYTES", Bytes),
        ["500", "500"],
    ),
    row(
        ["What a function says", "函数的输出"],
        Const("plugins/src/lua/current.rs", "MAX_OUTPUT_BYTES", Bytes),
        ["500", "500"],
    ),
    row(
        ["Body that a function reads", "函数读取的请求体"],
        Const("plugins/src/lua/program.rs", "MAX_BODY_BYTES", Bytes),
        TOO_LARGE,
    ),
    row(
        ["Depth of JSON", "JSON 的深度"],
        Const("plugins/src/lua/json.rs", "MAX_DEPTH", Count),
        ["an error in Lua", "Lua 错误"],
    ),
    row(
        ["Patterns that are kept compiled", "保留的已编译模式"],
        Const("plugins/src/lua/api/regex.rs", "MAX_CACHED", Count),
        FORGOTTEN,
    ),
];

const PLUGINS: &[Row] = &[
    row(
        ["body-transformer: body of a request", "body-transformer：请求体"],
        Schema("body-transformer", "/properties/max_req_body_size"),
        TOO_LARGE,
    ),
    row(
        ["body-transformer: body of an answer", "body-transformer：应答体"],
        Schema("body-transformer", "/properties/max_resp_body_size"),
        NOT_SENT,
    ),
    row(
        ["body-transformer: depth of XML", "body-transformer：XML 深度"],
        Const("plugins/src/body_transformer/xml.rs", "MAX_DEPTH", Count),
        BAD,
    ),
    row(
        ["request-validation: body", "request-validation：请求体"],
        Schema("request-validation", "/properties/max_req_body_size"),
        TOO_LARGE,
    ),
    row(
        ["forward-auth: body that is sent along", "forward-auth：一同发送的请求体"],
        Schema("forward-auth", "/properties/max_req_body_size"),
        TOO_LARGE,
    ),
    row(
        ["hmac-auth: body that is signed", "hmac-auth：参与签名的请求体"],
        Schema("hmac-auth", "/properties/max_req_body_size"),
        TOO_LARGE,
    ),
    row(
        ["response-rewrite: body of an answer", "response-rewrite：应答体"],
        Schema("response-rewrite", "/properties/max_resp_body_size"),
        NOT_SENT,
    ),
    row(
        [
            "response-rewrite: processor time of its filters over one answer",
            "response-rewrite：过滤器处理一个应答的处理器时间",
        ],
        Const("plugins/src/response_rewrite/filtering.rs", "MOST_MS", Milliseconds),
        NOT_SENT,
    ),
    row(
        [
            "response-rewrite: steps of a pattern with look-around or back-references, each search",
            "response-rewrite：含环视或反向引用的模式每次搜索的步数",
        ],
        Const("plugins/src/response_rewrite/filtering.rs", "PATIENT_STEPS", Count),
        NOT_SENT,
    ),
    row(
        ["grpc-transcode: reply", "grpc-transcode：应答"],
        Schema("grpc-transcode", "/properties/max_resp_body_size"),
        NOT_SENT,
    ),
    row(
        ["grpc-transcode: body of a request", "grpc-transcode：请求体"],
        Const("plugins/src/grpc_transcode.rs", "MAX_REQUEST_BYTES", Bytes),
        TOO_LARGE,
    ),
    row(
        ["grpc-web: body of a request", "grpc-web：请求体"],
        Schema("grpc-web", "/properties/max_req_body_size"),
        TOO_LARGE,
    ),
    row(
        ["batch-requests: body", "batch-requests：请求体"],
        Schema("batch-requests.metadata", "/properties/max_body_size"),
        TOO_LARGE,
    ),
    row(
        ["batch-requests: requests", "batch-requests：请求数"],
        Schema("batch-requests.metadata", "/properties/max_pipeline_items"),
        BAD,
    ),
    row(
        ["batch-requests: bodies of all answers", "batch-requests：所有应答体之和"],
        Const("plugins/src/batch_requests/client.rs", "MAX_BODIES_BYTES", Bytes),
        ["504 for that one", "该请求为 504"],
    ),
    row(
        ["batch-requests: head of a request", "batch-requests：请求头"],
        Const("plugins/src/batch_requests/outgoing.rs", "MAX_HEAD_BYTES", Bytes),
        ["431 for that one", "该请求为 431"],
    ),
    row(
        ["batch-requests: head of an answer", "batch-requests：应答头"],
        Const("plugins/src/batch_requests/client.rs", "MAX_HEAD_BYTES", Bytes),
        ["504 for that one", "该请求为 504"],
    ),
    row(
        ["proxy-mirror: body that is mirrored", "proxy-mirror：镜像的请求体"],
        Const("plugins/src/proxy_mirror.rs", "BODY_BYTES", Bytes),
        ["nothing; it is not mirrored", "无影响；不镜像"],
    ),
    row(
        [
            "proxy-mirror: bodies of mirrored requests, as a part of `apisix.body_memory.total` (one in)",
            "proxy-mirror：镜像请求体占 `apisix.body_memory.total` 的份额（几分之一）",
        ],
        Const("plugin/src/memory/copies.rs", "PART", Count),
        ["nothing; it is not mirrored, and a log line", "无影响；不镜像，并写日志"],
    ),
    row(
        [
            "The same, as a part of what one address may hold (one in)",
            "同上，占一个地址可用份额的份额（几分之一）",
        ],
        Const("plugin/src/memory/copies.rs", "PART_OF_CLIENT", Count),
        ["nothing; it is not mirrored, and a log line", "无影响；不镜像，并写日志"],
    ),
    row(
        ["proxy-mirror: mirrored requests under way", "proxy-mirror：进行中的镜像请求"],
        Const("plugins/src/proxy_mirror.rs", "MAX_IN_FLIGHT", Count),
        ["nothing; it is not mirrored", "无影响；不镜像"],
    ),
    row(
        ["static-files: ranges of a request", "static-files：一个请求的范围数"],
        Schema("static-files", "/properties/max_ranges"),
        ["200 with the whole file", "200 与整个文件"],
    ),
    row(
        ["static-files: reads that wait (unset: 4096)", "static-files：等待的读取（未设置：4096）"],
        Key("plugin_attr.static-files.queue"),
        ["503", "503"],
    ),
    row(
        ["mocking: depth of a schema", "mocking：schema 深度"],
        Const("plugins/src/mocking.rs", "MAX_DEPTH", Count),
        ["the example ends there", "示例到此为止"],
    ),
    row(
        ["ldap-auth: answer of the server", "ldap-auth：服务器应答"],
        Const("plugins/src/ldap_auth/bind.rs", "LONGEST_RESPONSE_BYTES", Bytes),
        ["401", "401"],
    ),
    row(
        [
            "Answers of services that plugins ask, together (unset: an eighth of memory)",
            "插件所询问服务的应答总内存（未设置：内存的八分之一）",
        ],
        Key("apisix.plugin_answer_memory"),
        ["as if the service had failed", "按服务失败处理"],
    ),
    row(
        ["One of them: forward-auth, opa, openid-connect", "其中单个应答：forward-auth、opa、openid-connect"],
        Const("plugins/src/common/http_client.rs", "MAX_ANSWER_BYTES", Bytes),
        ["as if the service had failed", "按服务失败处理"],
    ),
    row(
        ["Head of such an answer", "此类应答的响应头"],
        Const("plugins/src/common/http_client.rs", "MAX_HEAD_BYTES", Bytes),
        ["as if the service had failed", "按服务失败处理"],
    ),
    row(
        [
            "What comes before such an answer is whole: interim answers and its head",
            "此类应答的响应头完整之前：临时应答与响应头",
        ],
        Const("plugins/src/common/http_client.rs", "MAX_BEFORE_ANSWER_BYTES", Bytes),
        ["as if the service had failed", "按服务失败处理"],
    ),
    row(
        ["Values in such an answer that is JSON", "此类 JSON 应答中的值"],
        Const("plugins/src/common/json.rs", "MAX_ANSWER_VALUES", Count),
        ["as if the service had failed", "按服务失败处理"],
    ),
    row(
        ["openid-connect: keys of a provider", "openid-connect：一个提供方的密钥"],
        Const("plugins/src/openid_connect/provider.rs", "MAX_KEYS", Count),
        ["nothing; further ones do not count, and a log line", "无影响；更多的不计，并写日志"],
    ),
    row(
        ["openid-connect: keys that are tried for a token", "openid-connect：一个令牌尝试的密钥"],
        Const("plugins/src/openid_connect/provider.rs", "MAX_TRIED", Count),
        ["401, and a log line", "401，并写日志"],
    ),
    row(
        ["Replies of Redis to the commands under way on a connection", "Redis 对一个连接上进行中命令的应答"],
        Const("plugins/src/common/redis_client/tls.rs", "MAX_REPLY_BYTES", Bytes),
        ["as if Redis had failed", "按 Redis 失败处理"],
    ),
    row(
        [
            "Answer of a mirror or of a receiver of logs that is read and dropped",
            "镜像或日志接收方的应答中读取并丢弃的字节",
        ],
        Const("plugins/src/common/http_client.rs", "MAX_DROPPED_BYTES", Bytes),
        NOTHING,
    ),
    row(
        ["openid-connect: cookies of a session", "openid-connect：会话的 cookie 数"],
        Const("plugins/src/openid_connect/session.rs", "MAX_COOKIES", Count),
        ["500", "500"],
    ),
    row(
        ["openid-connect: bytes of each", "openid-connect：每个 cookie 的字节"],
        Const("plugins/src/openid_connect/session.rs", "COOKIE_BYTES", Bytes),
        NOTHING,
    ),
];

const CACHES: &[Row] = &[
    row(
        [
            "Keys of limit-count, limit-req, limit-conn and api-breaker: per shard of 64",
            "limit-count、limit-req、limit-conn 与 api-breaker 的键：64 个分片中的每一个",
        ],
        Const("plugins/src/common/shards.rs", "SHARD_LIMIT", Count),
        FORGOTTEN,
    ),
    row(
        ["Counts of limit-count that wait for Redis", "limit-count 等待写入 Redis 的计数"],
        Const("plugins/src/limit_count/delayed.rs", "MAX_KEYS", Count),
        NOTHING,
    ),
    row(
        ["proxy-cache: body of an answer", "proxy-cache：应答体"],
        Schema("proxy-cache", "/properties/max_resp_body_size"),
        ["nothing; it is not cached", "无影响；不缓存"],
    ),
    row(
        ["proxy-cache: variants of one address", "proxy-cache：一个地址的变体"],
        Const("plugins/src/proxy_cache/entry.rs", "MAX_VARIANTS", Count),
        FORGOTTEN,
    ),
    row(
        ["openid-connect: introspections that are kept", "openid-connect：保留的内省结果"],
        Const("plugins/src/openid_connect/bearer.rs", "MAX_INTROSPECTIONS", Count),
        FORGOTTEN,
    ),
    row(
        ["openid-connect: documents of providers that are kept", "openid-connect：保留的提供方文档"],
        Const("plugins/src/openid_connect/provider.rs", "MAX_DOCUMENTS", Count),
        FORGOTTEN,
    ),
    row(
        ["Verified tokens that are kept: bytes of one", "保留的已验证令牌：单个字节数"],
        Const("plugins/src/common/token_cache.rs", "LONGEST_TOKEN_BYTES", Bytes),
        ["nothing; it is verified each time", "无影响；每次验证"],
    ),
    row(
        ["Pools of connections of plugins", "插件的连接池"],
        Const("plugins/src/common/http_client.rs", "MAX_POOLS", Count),
        FORGOTTEN,
    ),
];

const LOGS: &[Row] = &[
    row(
        ["Memory of entries that wait, over all loggers", "所有日志插件等待条目的内存"],
        Key("apisix.log_memory"),
        DROPPED,
    ),
    row(
        ["Entries of a logger that wait", "一个日志插件等待的条目"],
        Const("plugins/src/common/batch.rs", "DEFAULT_MAX_PENDING", Count),
        DROPPED,
    ),
    row(
        ["Batches under way", "发送中的批次"],
        Const("plugins/src/common/batch.rs", "MAX_SENDING", Count),
        DROPPED,
    ),
    row(
        ["Body of a request in an entry", "条目中的请求体"],
        Schema("http-logger", "/properties/max_req_body_bytes"),
        ["nothing; it is cut in the log", "无影响；在日志中截断"],
    ),
    row(
        ["Body of an answer in an entry", "条目中的应答体"],
        Schema("http-logger", "/properties/max_resp_body_bytes"),
        ["nothing; it is cut in the log", "无影响；在日志中截断"],
    ),
    row(
        ["Lines of the access log that wait for the disk", "等待写盘的访问日志"],
        Const("telemetry/src/log_writer/lines.rs", "WAITING_BYTES", Bytes),
        DROPPED,
    ),
    row(
        ["Line of the error log", "错误日志的一行"],
        Const("telemetry/src/error_log.rs", "LONGEST_LINE_BYTES", Bytes),
        ["nothing; it is cut", "无影响；截断"],
    ),
    row(
        [
            "Sets of labels of prometheus, over all workers (10,000 with extra_labels)",
            "prometheus 在所有工作线程中的标签组合（有 extra_labels 时为 10,000）",
        ],
        Const("plugins/src/prometheus.rs", "SERIES_LIMIT", Count),
        ["nothing; further ones share one", "无影响；更多的合为一个"],
    ),
    row(
        ["Memory of one of them, on average", "其中平均每个的内存"],
        Const("telemetry/src/metrics/budget.rs", "BYTES_PER_SERIES", Bytes),
        ["nothing; further ones share one", "无影响；更多的合为一个"],
    ),
    row(
        ["Pages of metrics that are held for readers", "为读取者保留的指标页面"],
        Const("tidegate/src/boot/metrics/pages.rs", "MOST_PAGES", Count),
        ["the newest of them, with a line in the log", "其中最新的一个，并在日志中记录"],
    ),
];

const STORE: &[Row] = &[
    row(["Entries of the history", "历史条目"], Key("history.max_entries"), FORGOTTEN),
    row(["Age of the history", "历史的保留时间"], Key("history.max_age"), FORGOTTEN),
    row(["Checkpoints", "检查点"], Const("store/src/history.rs", "MAX_CHECKPOINTS", Count), BAD),
    row(
        ["Writes that share one sync of the disk", "共用一次落盘的写入"],
        Const("store/src/embedded/writer.rs", "MAX_GROUP", Count),
        NOTHING,
    ),
    row(
        [
            "Writes after which a copy of the last good configuration begins",
            "多少次写入后开始写最后的完好配置的副本",
        ],
        Const("store/src/embedded/copier.rs", "MOST_WRITES", Count),
        NOTHING,
    ),
    row(
        ["Time after which it begins while writes go on", "持续写入时多久后开始"],
        Const("store/src/embedded/copier.rs", "LONGEST_WAIT", Milliseconds),
        NOTHING,
    ),
    row(
        ["Disk that it leaves free", "它保留的磁盘空间"],
        Const("store/src/embedded/copier.rs", "SPARE_BYTES", Bytes),
        NOTHING,
    ),
    row(
        ["apisix.yaml, apisix.json", "apisix.yaml、apisix.json"],
        Const("store/src/file/read.rs", "MAX_BYTES", Bytes),
        ["the file is refused", "拒绝该文件"],
    ),
    row(
        ["Answer of etcd", "etcd 的应答"],
        Const("store/src/etcd/rpc.rs", "MAX_ANSWER_BYTES", Bytes),
        NOTHING,
    ),
    row(
        ["Answer of a secret manager", "密钥管理服务的应答"],
        Const("plugins/src/common/secret_manager.rs", "MAX_ANSWER", Bytes),
        ["503", "503"],
    ),
];
