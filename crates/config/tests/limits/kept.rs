//! Bounds of what is kept: limiters, caches, log entries, metrics.

use super::{
    super::{
        Bound::{Const, Key, Schema},
        Row,
        Unit::{Bytes, Count, Milliseconds},
    },
    DROPPED, FORGOTTEN, LINES_LOST, NOTHING, row,
};

pub(super) const CACHES: &[Row] = &[
    row(
        [
            "Keys of limit-count, limit-req, limit-conn and api-breaker: per shard of 64",
            "limit-count、limit-req、limit-conn 与 api-breaker 的键：64 个分片中的每一个",
        ],
        Const("plugins/src/common/shards.rs", "SHARD_LIMIT", Count),
        [
            "nothing; those that end soonest are forgotten, of the configurations with the most, and a log line",
            "无影响；键最多的配置中最早到期的被遗忘，并写日志",
        ],
    ),
    row(
        ["Counts of limit-count that wait for Redis", "limit-count 等待写入 Redis 的计数"],
        Const("plugins/src/traffic/limit_count/delayed.rs", "MAX_KEYS", Count),
        NOTHING,
    ),
    row(
        ["proxy-cache: body of a response", "proxy-cache：应答体"],
        Schema("proxy-cache", "/properties/max_resp_body_size"),
        ["nothing; it is not cached", "无影响；不缓存"],
    ),
    row(
        ["proxy-cache: variants of one address", "proxy-cache：一个地址的变体"],
        Const("plugins/src/traffic/proxy_cache/entry.rs", "MAX_VARIANTS", Count),
        FORGOTTEN,
    ),
    row(
        ["openid-connect: introspections that are kept", "openid-connect：保留的内省结果"],
        Const("plugins/src/authentication/openid_connect/bearer.rs", "MAX_INTROSPECTIONS", Count),
        FORGOTTEN,
    ),
    row(
        ["openid-connect: documents of providers that are kept", "openid-connect：保留的提供方文档"],
        Const("plugins/src/authentication/openid_connect/provider.rs", "MAX_DOCUMENTS", Count),
        FORGOTTEN,
    ),
    row(
        ["Verified tokens that are kept: bytes of one", "保留的已验证令牌：单个字节数"],
        Const("plugins/src/common/token_cache.rs", "LONGEST_TOKEN_BYTES", Bytes),
        ["nothing; it is verified each time", "无影响；每次验证"],
    ),
    row(
        ["Pools of connections of plugins", "插件的连接池"],
        Const("clients/src/http/idle.rs", "MAX_POOLS", Count),
        FORGOTTEN,
    ),
];

pub(super) const LOGS: &[Row] = &[
    row(
        ["Memory of entries that wait, over all loggers", "所有日志插件等待条目的内存"],
        Key("apisix.log_memory"),
        DROPPED,
    ),
    row(
        ["Entries of a logger that wait", "一个日志插件等待的条目"],
        Const("clients/src/batch.rs", "DEFAULT_MAX_PENDING", Count),
        DROPPED,
    ),
    row(["Batches under way", "发送中的批次"], Const("clients/src/batch.rs", "MAX_SENDING", Count), DROPPED),
    row(
        [
            "kafka-logger, error-log-logger, kafka-proxy: brokers of a cluster",
            "kafka-logger、error-log-logger、kafka-proxy：集群的 broker",
        ],
        Const("plugins/src/observability/kafka_logger/metadata.rs", "MOST_BROKERS", Count),
        ["nothing; batches fail, and a log line", "无影响；批次失败，并写日志"],
    ),
    row(
        ["The same: partitions of a topic", "同上：主题的分区"],
        Const("plugins/src/observability/kafka_logger/metadata.rs", "MOST_PARTITIONS", Count),
        ["nothing; batches fail, and a log line", "无影响；批次失败，并写日志"],
    ),
    row(
        ["rocketmq-logger: values in an answer of a name server", "rocketmq-logger：名称服务器应答中的值"],
        Const("plugins/src/observability/rocketmq_logger/route.rs", "MAX_VALUES", Count),
        ["nothing; batches fail, and a log line", "无影响；批次失败，并写日志"],
    ),
    row(
        ["The same: brokers of a topic", "同上：主题的 broker"],
        Const("plugins/src/observability/rocketmq_logger/route.rs", "MOST_BROKERS", Count),
        ["nothing; batches fail, and a log line", "无影响；批次失败，并写日志"],
    ),
    row(
        ["The same: queues of a broker", "同上：一个 broker 的队列"],
        Const("plugins/src/observability/rocketmq_logger/route.rs", "MOST_QUEUES", Count),
        ["nothing; further ones get no messages", "无影响；更多的不会收到消息"],
    ),
    row(
        ["Connections of such a logger to brokers", "此类日志插件到 broker 的连接"],
        Const("plugins/src/common/kept_connections.rs", "MOST", Count),
        ["nothing; the one that was used longest ago closes", "无影响；最久未用的关闭"],
    ),
    row(
        ["Body of a request in an entry", "条目中的请求体"],
        Schema("http-logger", "/properties/max_req_body_bytes"),
        ["nothing; it is cut in the log", "无影响；在日志中截断"],
    ),
    row(
        ["Body of a response in an entry", "条目中的应答体"],
        Schema("http-logger", "/properties/max_resp_body_bytes"),
        ["nothing; it is cut in the log", "无影响；在日志中截断"],
    ),
    row(
        [
            "Lines of the access, error or audit log that wait for the disk, each",
            "等待写盘的访问日志、错误日志或审计日志，各自",
        ],
        Const("telemetry/src/log_writer/sink.rs", "MOST_WAITING_BYTES", Bytes),
        LINES_LOST,
    ),
    row(
        ["file-logger: lines of a file that wait for the disk", "file-logger：等待写盘的一个文件的行"],
        Const("telemetry/src/log_writer/sink.rs", "WAITING_BYTES", Bytes),
        LINES_LOST,
    ),
    row(
        ["Time between two lines about lost lines", "关于丢失行的两条日志之间的时间"],
        Const("telemetry/src/log_writer/loss_report.rs", "BETWEEN_TWO_LINES", Milliseconds),
        NOTHING,
    ),
    row(
        ["Line of the error log", "错误日志的一行"],
        Const("telemetry/src/error_log.rs", "LONGEST_LINE_BYTES", Bytes),
        ["nothing; it is cut", "无影响；截断"],
    ),
    row(
        [
            "Lines that one place in the code writes to it in a second, on one worker",
            "代码中一处在一个工作线程上每秒写入的行数",
        ],
        Const("telemetry/src/error_log/places.rs", "MOST_LINES", Count),
        ["nothing; a line counts the others", "无影响；其余由一行计数"],
    ),
    row(
        ["Bytes of those lines", "这些行的字节"],
        Const("telemetry/src/error_log/places.rs", "MOST_BYTES", Bytes),
        ["nothing; a line counts the others", "无影响；其余由一行计数"],
    ),
    row(
        [
            "Sets of labels of prometheus, over all workers (10,000 with extra_labels)",
            "prometheus 在所有工作线程中的标签组合（有 extra_labels 时为 10,000）",
        ],
        Const("plugins/src/observability/prometheus.rs", "SERIES_LIMIT", Count),
        ["nothing; further ones share one", "无影响；更多的合为一个"],
    ),
    row(
        ["Memory of one of them, on average", "其中平均每个的内存"],
        Const("telemetry/src/metrics/budget.rs", "BYTES_PER_SERIES", Bytes),
        ["nothing; further ones share one", "无影响；更多的合为一个"],
    ),
    row(
        [
            "Their lines on the page of metrics, on average: a histogram repeats its labels in each line",
            "其在指标页面上的行，平均每个：直方图在每一行都重复其标签",
        ],
        Const("telemetry/src/metrics/budget.rs", "PAGE_BYTES_PER_SERIES", Bytes),
        ["nothing; further ones share one", "无影响；更多的合为一个"],
    ),
    row(
        ["Pages of metrics that are held for readers", "为读取者保留的指标页面"],
        Const("tidegate/src/boot/metrics/pages.rs", "MOST_PAGES", Count),
        ["the newest of them, with a line in the log", "其中最新的一个，并在日志中记录"],
    ),
];
