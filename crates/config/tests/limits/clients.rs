//! Bounds of clients and of nodes: connections, heads, bodies.

use super::{
    super::{
        Bound::{Const, Field, Key},
        Row,
        Unit::{Bytes, Count, Milliseconds},
    },
    BAD, CLOSED, FULL_HANDSHAKE, GONE_502, NOTHING, TOO_LARGE, row,
};

pub(super) const CONNECTIONS: &[Row] = &[
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
        ["Sessions of TLS to resume", "可恢复的 TLS 会话"],
        Const("compiler/src/certificates/session_cache.rs", "SESSIONS", Count),
        FULL_HANDSHAKE,
    ),
    row(
        ["Their memory", "其内存"],
        Const("compiler/src/certificates/session_cache.rs", "BYTES", Bytes),
        FULL_HANDSHAKE,
    ),
    row(
        ["Sessions of UDP", "UDP 会话"],
        Key("apisix.client_limits.udp_sessions"),
        [
            "the oldest one without an answer ends, or datagrams are dropped",
            "结束最早的未应答会话，或丢弃数据报",
        ],
    ),
    row(
        ["The same of one address (unset: a quarter)", "单个地址的 UDP 会话（未设置：四分之一）"],
        Key("apisix.client_limits.udp_sessions_per_address"),
        ["datagrams are dropped", "丢弃数据报"],
    ),
    row(
        ["Sessions of one stream route (0: no limit)", "一个 stream 路由的会话（0 为不限）"],
        Key("apisix.client_limits.sessions_per_stream_route"),
        CLOSED,
    ),
    row(
        ["Read of a session before its node is known", "会话在确定节点之前读取的字节"],
        Const("proxy/src/layer4/begin.rs", "MOST_EARLY", Bytes),
        CLOSED,
    ),
    row(
        ["Silence of a session of which one side has ended", "一侧已结束的会话的静默时间"],
        Const("proxy/src/layer4/relay.rs", "HALF_CLOSED_IDLE_MS", Milliseconds),
        CLOSED,
    ),
    row(
        ["Pipes for bytes between sockets", "套接字之间传输字节的管道"],
        Const("proxy/src/layer4/pipes.rs", "MOST_PIPES", Count),
        ["bytes are copied", "改为复制"],
    ),
    row(
        ["Bytes in a pipe", "一个管道中的字节"],
        Const("proxy/src/layer4/pipes.rs", "PIPE_BYTES", Bytes),
        ["the rest waits in the socket", "其余的在套接字中等待"],
    ),
    row(
        [
            "Message of a protocol of stream routes held until it is whole",
            "stream 路由的协议消息在完整之前保留的字节",
        ],
        Const("proxy/src/layer4/calls.rs", "HELD_BYTES", Bytes),
        ["it goes on in parts", "分段转发"],
    ),
    row(
        ["Commands of Redis without an answer, of one session", "一个会话中尚无应答的 Redis 命令"],
        Const("plugins/src/stream/xrpc/redis/calls.rs", "MOST_CALLS", Count),
        ["further ones are neither counted nor logged", "多出的不统计也不记录"],
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
        Const("plugin-api/src/hops/side.rs", "MOST", Count),
        ["the guard refuses; what is a copy is left out", "守卫插件拒绝；副本不再发送"],
    ),
    row(
        ["Idle between two requests", "两个请求之间的空闲时间"],
        Key("nginx_config.http.keepalive_timeout"),
        CLOSED,
    ),
    row(
        ["Pause while a response is taken", "接收应答时的停顿"],
        Key("nginx_config.http.send_timeout"),
        CLOSED,
    ),
    row(
        ["Least rate at which a response is taken (0: no limit)", "接收应答的最低速率（0 为不限）"],
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
            "Bytes read of a response at a time while its client takes little; up to 64 KiB while it takes all",
            "客户端接收很少时一次读取的应答字节；全部接收时至多 64 KiB",
        ],
        Const("proxy/src/read_ahead.rs", "LEAST_BYTES", Bytes),
        NOTHING,
    ),
    row(
        [
            "What was read of responses and waits for clients, as a part of `apisix.body_memory.total` (one in)",
            "已读取而等待客户端接收的应答，占 `apisix.body_memory.total` 的份额（几分之一）",
        ],
        Const("proxy/src/read_ahead.rs", "PART", Count),
        [
            "nothing is read ahead; a response taken more slowly than `apisix.body_memory.min_rate` is cut, and a log line",
            "不再预读；接收速率低于 `apisix.body_memory.min_rate` 的应答被截断，并写日志",
        ],
    ),
    row(
        [
            "Bytes read and dropped after the last response, so that no reset cuts it",
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
        [
            "Wait of a stream of HTTP/2 whose response is whole, while its client still sends",
            "HTTP/2 流的应答已完整发送而客户端仍在发送时的等待时间",
        ],
        Const("proxy/src/http2/stream_end.rs", "STREAM_MS", Milliseconds),
        ["the stream is reset (NO_ERROR)", "重置该流（NO_ERROR）"],
    ),
    row(
        ["Connections of a worker in this state", "每个工作线程处于此状态的连接"],
        Const("proxy/src/linger.rs", "MOST", Count),
        ["the connection closes at once", "连接立即关闭"],
    ),
    row(
        ["PROXY header, text", "PROXY 头（文本）"],
        Const("protocol/src/proxy_protocol.rs", "LONGEST_LINE", Bytes),
        CLOSED,
    ),
    row(
        ["PROXY header, binary", "PROXY 头（二进制）"],
        Const("protocol/src/proxy_protocol.rs", "LONGEST_BINARY", Bytes),
        CLOSED,
    ),
];

pub(super) const HEADS: &[Row] = &[
    row(
        ["Request line and fields together", "请求行与所有字段之和"],
        Field("protocol/src/request.rs", "head_bytes", Bytes),
        ["431", "431"],
    ),
    row(["Target", "请求目标"], Field("protocol/src/request.rs", "target_bytes", Bytes), ["414", "414"]),
    row(["Fields", "字段数"], Field("protocol/src/request.rs", "fields", Count), ["431", "431"]),
    row(["Method", "方法"], Const("protocol/src/request.rs", "MAX_METHOD", Bytes), ["501", "501"]),
    row(
        ["Time for the head", "请求头的时间"],
        Key("nginx_config.http.client_header_timeout"),
        ["408", "408"],
    ),
];

pub(super) const BODIES: &[Row] = &[
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
        Const("plugin-api/src/memory.rs", "CLIENT_PART", Count),
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
        Const("plugin-api/src/aside.rs", "SMALL", Bytes),
        NOTHING,
    ),
    row(
        [
            "Such bodies of one address that wait for one of these threads; addresses take turns",
            "同一地址等待这些线程的此类请求体；各地址轮流",
        ],
        Const("plugin-api/src/aside/turns.rs", "MOST_WAITING", Count),
        ["503 or 500, and a log line", "503 或 500，并写日志"],
    ),
    row(
        ["Steps of a path like post_arg.a.b", "post_arg.a.b 这类路径的步数"],
        Const("plugin-api/src/variables/json_path/path.rs", "MOST_STEPS", Count),
        ["the Admin API refuses the condition", "Admin API 拒绝该条件"],
    ),
    row(
        ["GraphQL request that a condition looks into, in bytes", "条件查看的 GraphQL 请求的字节数"],
        Key("graphql.max_size"),
        TOO_LARGE,
    ),
    row(
        ["Root fields of its operation", "其操作的根字段"],
        Const("plugin-api/src/variables/graphql.rs", "MAX_ROOT_FIELDS", Count),
        BAD,
    ),
    row(
        ["Line with the size of a chunk", "分块大小行"],
        Const("protocol/src/chunked.rs", "MAX_SIZE_LINE", Bytes),
        BAD,
    ),
    row(
        ["Chunk extensions of one body", "一个请求体的分块扩展"],
        Const("protocol/src/chunked.rs", "MAX_EXTENSION_BYTES", Bytes),
        BAD,
    ),
    row(["Trailers", "尾部字段"], Const("protocol/src/trailers.rs", "MOST_BYTES", Bytes), ["431", "431"]),
    row(
        ["Number of trailers", "尾部字段数"],
        Const("protocol/src/trailers.rs", "MOST_FIELDS", Count),
        ["431", "431"],
    ),
    row(
        ["Body that is read and dropped to keep a connection", "为保持连接而读取并丢弃的请求体"],
        Const("proxy/src/respond.rs", "DRAINED_BODY_BYTES", Bytes),
        CLOSED,
    ),
];

pub(super) const UPSTREAMS: &[Row] = &[
    row(
        [
            "Nodes that are tried after the first, where `retries` is not set",
            "未设 `retries` 时首个节点之后尝试的节点",
        ],
        Const("balancing/src/retry.rs", "MOST_UNSET", Count),
        GONE_502,
    ),
    row(
        [
            "Nodes that are tried after the first, whatever `retries` says",
            "无论 `retries` 为何，首个节点之后尝试的节点",
        ],
        Const("model/src/resources/upstream.rs", "MOST_RETRIES", Count),
        GONE_502,
    ),
    row(
        ["Head of a response", "应答头"],
        Field("proxy/src/settings.rs", "max_response_head_bytes", Bytes),
        GONE_502,
    ),
    row(
        [
            "Interim answers (1xx) to a request; together as long as one head",
            "一个请求的临时应答（1xx）；合计不长于一个应答头",
        ],
        Const("proxy/src/exchange/attempt.rs", "MOST_INTERIM", Count),
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
        Const("proxy/src/http2/pool/window.rs", "MOST_STREAMS", Count),
        ["the request waits", "请求等待"],
    ),
    row(
        [
            "HTTP/2 connections of a worker to one node, from dialling until closed (with a PROXY header: of each client connection)",
            "每个工作线程到一个节点的 HTTP/2 连接，自拨号至关闭（带 PROXY 头时：按每个客户端连接）",
        ],
        Const("proxy/src/http2/pool/gate.rs", "MOST_CONNECTIONS", Count),
        [
            "the request waits; 504 after the upstream's connect timeout",
            "请求等待；超过上游的连接超时后为 504",
        ],
    ),
    row(
        ["The last of them, whose responses have small windows", "其中最后几个，其应答使用小窗口"],
        Const("proxy/src/http2/pool/gate.rs", "SMALL_CONNECTIONS", Count),
        NOTHING,
    ),
    row(
        [
            "Body bytes of one HTTP/2 answer that its client has not taken; of a connection together: of all its streams",
            "一个 HTTP/2 应答中客户端尚未接收的响应体字节；整个连接合计为其全部流之和",
        ],
        Const("proxy/src/http2/pool/window.rs", "FULL_WINDOW_BYTES", Bytes),
        ["flow control", "流量控制"],
    ),
    row(
        [
            "The same, once what waits for the client's other responses, or for all clients, is half of what may wait",
            "同上，当该客户端的其他应答或全部客户端等待接收的字节达到允许值的一半时",
        ],
        Const("proxy/src/http2/pool/window.rs", "SMALL_WINDOW_BYTES", Bytes),
        ["flow control", "流量控制"],
    ),
    row(
        ["Silence of an HTTP/2 connection until PING", "HTTP/2 连接静默多久后发送 PING"],
        Const("proxy/src/http2/pool/silence.rs", "QUIET_MS", Milliseconds),
        NOTHING,
    ),
    row(
        ["Time for its response", "等待 PING 应答的时间"],
        Const("proxy/src/http2/pool/silence.rs", "PATIENCE_MS", Milliseconds),
        ["504 or 502", "504 或 502"],
    ),
    row(
        [
            "Sent bytes without acknowledgement, or without room at the node (TCP); the upstream's `timeout.send` where it is longer",
            "已发送字节未被确认，或节点没有空间（TCP）；上游的 `timeout.send` 更长时以它为准",
        ],
        Const("proxy/src/dial.rs", "UNACKNOWLEDGED_MS", Milliseconds),
        GONE_502,
    ),
    row(
        ["Points of a hash ring", "哈希环的点数"],
        Const("balancing/src/balancer/ring.rs", "MAX_POINTS", Count),
        NOTHING,
    ),
    row(
        ["Answer of a registry", "注册中心的应答"],
        Const("discovery/src/http.rs", "MAX_BODY_BYTES", Bytes),
        ["nothing; the nodes stay as they were, and a log line", "无影响；节点保持原样，并写日志"],
    ),
    row(
        ["Values in it", "其中的值"],
        Const("discovery/src/http.rs", "MAX_VALUES", Count),
        ["nothing; the nodes stay as they were, and a log line", "无影响；节点保持原样，并写日志"],
    ),
    row(
        ["Nodes of a name", "一个名称的节点"],
        Const("discovery/src/known.rs", "MOST_NODES", Count),
        ["nothing; further ones do not count", "无影响；更多的不计"],
    ),
    row(
        ["Services and nodes that one server of a registry names", "注册中心的一台服务器给出的服务与节点"],
        Const("discovery/src/known.rs", "MOST_OF_SERVER", Count),
        ["nothing; the nodes stay as they were, and a log line", "无影响；节点保持原样，并写日志"],
    ),
];
