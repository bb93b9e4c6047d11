//! Bounds of connections with HTTP/2: streams, frames, windows.

use super::{
    super::{
        Bound::{Const, Key},
        Row,
        Unit::{Bytes, Count, Milliseconds},
    },
    CLOSED, NOTHING, row,
};

pub(super) const HTTP2: &[Row] = &[
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
    row(
        [
            "What was read of the responses of a connection and waits for it",
            "一个连接已读取而等待接收的应答字节",
        ],
        Const("proxy/src/read_ahead.rs", "CONNECTION_BYTES", Bytes),
        NOTHING,
    ),
    row(
        [
            "Bytes of responses handed over for a connection before it has to take some",
            "一个连接须先接收之前已移交的应答字节",
        ],
        Const("proxy/src/http2/sending.rs", "HANDED_BYTES", Bytes),
        NOTHING,
    ),
    row(["This window", "该时间窗"], Const("proxy/src/http2/frames.rs", "WINDOW_MS", Milliseconds), NOTHING),
    row(
        [
            "The same where answers that are not taken hold all the memory that they may",
            "未被接收的应答占满其可用内存时的上述字节",
        ],
        Const("proxy/src/http2/sending.rs", "HANDED_LEAST", Bytes),
        NOTHING,
    ),
    row(
        [
            "Memory that is counted for a request, without its body and what was read of its response",
            "每个请求计入的内存，不含请求体与已读取的应答",
        ],
        Const("proxy/src/http2/untaken.rs", "STREAM_BYTES", Bytes),
        NOTHING,
    ),
    row(
        [
            "Time for which a new request counts; it counts again whenever it waits for its client",
            "新请求计入的时间；之后等待客户端接收应答时再次计入",
        ],
        Const("proxy/src/http2/places.rs", "COUNTED_AFTER_MS", Milliseconds),
        NOTHING,
    ),
    row(
        [
            "Memory of those that count, as a part of `apisix.body_memory.total`; of one address (IPv6: one /64) as much as is free (one in)",
            "计入的请求的内存，占 `apisix.body_memory.total` 的份额；每个地址（IPv6 为每个 /64）不超过空闲的部分（几分之一）",
        ],
        Const("proxy/src/http2/untaken.rs", "PART", Count),
        [
            "the request waits, for 10 s at most, then REFUSED_STREAM; a log line",
            "请求等待，最多 10 秒，之后得到 REFUSED_STREAM；并写日志",
        ],
    ),
    row(
        [
            "The same for older ones that wait for an upstream to answer (one in)",
            "等待上游应答的较早请求的上述份额（几分之一）",
        ],
        Const("proxy/src/http2/untaken.rs", "SLOW_PART", Count),
        ["the same", "同上"],
    ),
    row(
        [
            "Requests of each connection that begin all the same; they are not counted",
            "每个连接不受上述限制的请求；不计入",
        ],
        Const("proxy/src/http2/untaken.rs", "ALWAYS", Count),
        NOTHING,
    ),
    row(
        ["Longest wait of a request", "请求的最长等待时间"],
        Const("proxy/src/http2/line.rs", "LONGEST_LINED_MS", Milliseconds),
        [
            "REFUSED_STREAM; it begins where the connection keeps taking answers",
            "REFUSED_STREAM；持续接收应答的连接则开始处理该请求",
        ],
    ),
    row(
        ["Memory that is counted for a request that waits", "每个等待中的请求计入的内存"],
        Const("proxy/src/http2/untaken.rs", "LINED_BYTES", Bytes),
        NOTHING,
    ),
    row(
        [
            "Memory of those, as a part of `apisix.body_memory.total` (one in)",
            "等待中的请求的内存，占 `apisix.body_memory.total` 的份额（几分之一）",
        ],
        Const("proxy/src/http2/untaken.rs", "LINED_PART", Count),
        ["REFUSED_STREAM, and a log line", "REFUSED_STREAM，并写日志"],
    ),
    row(
        [
            "The part of this that any address may fill; beyond it each address has an equal share, and what exceeds one is refused (one in)",
            "其中任一地址可占用的部分；超出后各地址份额相等，超出份额的请求被拒绝（几分之一）",
        ],
        Const("proxy/src/http2/untaken.rs", "SHARED_PART", Count),
        ["REFUSED_STREAM, and a log line", "REFUSED_STREAM，并写日志"],
    ),
    row(
        [
            "Pause of a connection that leaves answers, after which its requests wait only while half of that is free",
            "有应答未被接收的连接的停顿，超过后其请求仅在上述内存尚有一半空闲时等待",
        ],
        Const("proxy/src/http2/places.rs", "STALLS_AFTER_MS", Milliseconds),
        ["REFUSED_STREAM, and a log line", "REFUSED_STREAM，并写日志"],
    ),
    row(
        [
            "Bytes of responses that a connection has to take in a second, or its requests that wait for it are left",
            "连接每秒须接收的应答字节，否则其等待接收的请求视为被搁置",
        ],
        Const("proxy/src/http2/places.rs", "KEEPS_UP_BYTES", Bytes),
        NOTHING,
    ),
    row(
        [
            "Memory of those that are left, as a part of the memory above, in all; of one address as much as is free (one in)",
            "被搁置的请求的内存，占上述内存总量的份额；每个地址不超过空闲的部分（几分之一）",
        ],
        Const("proxy/src/http2/untaken.rs", "LEFT_PART", Count),
        ["the response is cut, and a log line", "应答被截断，并写日志"],
    ),
    row(
        ["Time for a client to end after GOAWAY", "GOAWAY 之后客户端关闭连接的时间"],
        Const("proxy/src/http2.rs", "GOODBYE_MS", Milliseconds),
        CLOSED,
    ),
];
