//! Bounds of the Admin and Control API, and of the configuration.

use super::{
    super::{
        Bound::{Const, Key},
        Row,
        Unit::{Bytes, Count, Milliseconds},
    },
    BAD, CLOSED, FORGOTTEN, NOTHING, TOO_LARGE, row,
};

pub(super) const ADMIN: &[Row] = &[
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
        [
            "Seconds that the response to a write waits until requests meet what was written",
            "写操作的应答等待其对请求生效的秒数",
        ],
        Key("deployment.admin.limits.compile_timeout"),
        [
            "200 or 201 with X-Tidegate-Warning, and a log line: it is stored, and follows",
            "200 或 201，带 X-Tidegate-Warning，并写日志：已保存，稍后生效",
        ],
    ),
    row(
        ["Body", "请求体"],
        Const("admin/src/api/body.rs", "BODY_LIMIT", Bytes),
        ["413, or APISIX's 400", "413，或 APISIX 的 400"],
    ),
    row(
        ["Body of PUT /import", "PUT /import 的请求体"],
        Const("admin/src/api/body.rs", "IMPORT_LIMIT", Bytes),
        TOO_LARGE,
    ),
    row(
        ["Body of PUT /configs", "PUT /configs 的请求体"],
        Const("admin/src/api/body.rs", "CONFIGURATION_LIMIT", Bytes),
        TOO_LARGE,
    ),
    row(
        ["Values in a body, and in all that are being processed", "一个请求体以及正在处理的所有请求体中的值"],
        Const("admin/src/api/values.rs", "MAX_VALUES", Count),
        ["400; 503 where others take them up", "400；被其他请求体占用时为 503"],
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
        ["Time to take a response", "接收应答的时间"],
        Const("admin/src/listener/clock.rs", "LONGEST_TAKING", Milliseconds),
        CLOSED,
    ),
    row(
        [
            "Responses of the Control API that clients have not taken, before another one is made",
            "开始生成下一个应答之前，Control API 中尚未被取走的应答",
        ],
        Const("admin/src/control.rs", "MOST_BYTES", Bytes),
        ["503; what is there already is shared", "503；已有的应答会被共享"],
    ),
    row(
        [
            "Lists and exports of the Admin API that clients have not taken, before another one is made",
            "开始生成下一个列表或导出之前，Admin API 中尚未被取走的列表与导出",
        ],
        Const("admin/src/admin_api.rs", "MOST_LISTED_BYTES", Bytes),
        ["503; what is there already is shared", "503；已有的会被共享"],
    ),
    row(
        ["Objects on a page", "每页对象"],
        Const("admin/src/resource/history.rs", "LARGEST_PAGE", Count),
        BAD,
    ),
];

pub(super) const STORE: &[Row] = &[
    row(["Entries of the history", "历史条目"], Key("history.max_entries"), FORGOTTEN),
    row(["Age of the history", "历史的保留时间"], Key("history.max_age"), FORGOTTEN),
    row(
        ["Bytes that the history takes on the disk", "历史在磁盘上占用的字节"],
        Key("history.max_bytes"),
        [
            "nothing; the oldest are forgotten, and a write that alone takes more is kept without its values",
            "无影响；最旧的被遗忘，单独超过它的写入只保留记录，不保留其前后的值",
        ],
    ),
    row(["Checkpoints", "检查点"], Const("store/src/history.rs", "MAX_CHECKPOINTS", Count), BAD),
    row(
        [
            "Bytes of all checkpoints on the disk, as a multiple of `history.max_bytes`",
            "所有检查点在磁盘上占用的字节，为 `history.max_bytes` 的倍数",
        ],
        Const("store/src/history.rs", "CHECKPOINT_SHARE", Count),
        BAD,
    ),
    row(
        ["Changes kept in memory for who follows them", "为跟随者保留在内存中的变更"],
        Const("store/src/live.rs", "MAX_LOGGED_CHANGES", Count),
        NOTHING,
    ),
    row(["Bytes of those", "这些变更的字节"], Const("store/src/live.rs", "MAX_LOGGED_BYTES", Bytes), NOTHING),
    row(
        ["How long they are kept", "保留多久"],
        Const("store/src/live.rs", "LONGEST_LOGGED", Milliseconds),
        NOTHING,
    ),
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
        ["Hosts times paths of a route", "路由的主机数乘以路径数"],
        Const("compiler/src/routes.rs", "MOST_PLACES", Count),
        ["400; in a file the route answers 503", "400；文件中的路由返回 503"],
    ),
    row(
        ["Answer of etcd", "etcd 的应答"],
        Const("store/src/etcd/rpc.rs", "MAX_ANSWER_BYTES", Bytes),
        NOTHING,
    ),
    row(
        ["Answer of a secret manager", "密钥管理服务的应答"],
        Const("clients/src/secrets/manager.rs", "MAX_ANSWER", Bytes),
        ["503", "503"],
    ),
    row(
        ["Values in it", "其中的值"],
        Const("clients/src/secrets/manager.rs", "MAX_VALUES", Count),
        ["503", "503"],
    ),
];
