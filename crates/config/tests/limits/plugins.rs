//! Bounds of plugins.

use super::{
    super::{
        Bound::{Const, Key, Schema},
        Row,
        Unit::{Bytes, Count, Milliseconds},
    },
    BAD, NOT_SENT, NOTHING, TOO_LARGE, row,
};

pub(super) const PLUGINS: &[Row] = &[
    row(
        ["body-transformer: body of a request", "body-transformer：请求体"],
        Schema("body-transformer", "/properties/max_req_body_size"),
        TOO_LARGE,
    ),
    row(
        ["body-transformer: body of a response", "body-transformer：应答体"],
        Schema("body-transformer", "/properties/max_resp_body_size"),
        NOT_SENT,
    ),
    row(
        ["body-transformer: depth of XML", "body-transformer：XML 深度"],
        Const("plugins/src/transformation/body_transformer/xml.rs", "MAX_DEPTH", Count),
        BAD,
    ),
    row(
        [
            "gzip, brotli: memory of the compressors under way, as a part of `apisix.body_memory.total` (one in)",
            "gzip、brotli：进行中的压缩器的内存，占 `apisix.body_memory.total` 的份额（几分之一）",
        ],
        Const("plugins/src/common/compression/memory.rs", "PART", Count),
        ["nothing; the response is not compressed, and a log line", "无影响；应答不压缩，并写日志"],
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
        ["response-rewrite: body of a response", "response-rewrite：应答体"],
        Schema("response-rewrite", "/properties/max_resp_body_size"),
        NOT_SENT,
    ),
    row(
        [
            "response-rewrite: processor time of its filters over one answer",
            "response-rewrite：过滤器处理一个应答的处理器时间",
        ],
        Const("plugins/src/transformation/response_rewrite/filtering.rs", "MOST_MS", Milliseconds),
        NOT_SENT,
    ),
    row(
        [
            "response-rewrite: steps of a pattern with look-around or back-references, each search",
            "response-rewrite：含环视或反向引用的模式每次搜索的步数",
        ],
        Const("plugins/src/transformation/response_rewrite/filtering.rs", "PATIENT_STEPS", Count),
        NOT_SENT,
    ),
    row(
        ["grpc-transcode: reply", "grpc-transcode：应答"],
        Schema("grpc-transcode", "/properties/max_resp_body_size"),
        NOT_SENT,
    ),
    row(
        ["grpc-transcode: body of a request", "grpc-transcode：请求体"],
        Const("plugins/src/transformation/grpc_transcode.rs", "MAX_REQUEST_BYTES", Bytes),
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
        ["batch-requests: bodies of all responses", "batch-requests：所有应答体之和"],
        Const("plugins/src/other/batch_requests/client.rs", "MAX_BODIES_BYTES", Bytes),
        ["504 for that one", "该请求为 504"],
    ),
    row(
        [
            "batch-requests: least rate of a response in bytes per second, beyond twice the batch's `timeout`",
            "batch-requests：超过批请求 `timeout` 两倍后，应答的最低速率（字节每秒）",
        ],
        Const("clients/src/verbatim.rs", "LEAST_BYTES_PER_SECOND", Count),
        ["504 in its place in the list", "列表中其位置为 504"],
    ),
    row(
        ["batch-requests: head of a request", "batch-requests：请求头"],
        Const("plugins/src/other/batch_requests/outgoing.rs", "MAX_HEAD_BYTES", Bytes),
        ["431 for that one", "该请求为 431"],
    ),
    row(
        ["batch-requests: head of a response", "batch-requests：应答头"],
        Const("clients/src/verbatim.rs", "MAX_HEAD_BYTES", Bytes),
        ["504 for that one", "该请求为 504"],
    ),
    row(
        ["proxy-mirror: body that is mirrored", "proxy-mirror：镜像的请求体"],
        Const("plugins/src/traffic/proxy_mirror.rs", "BODY_BYTES", Bytes),
        ["nothing; it is not mirrored", "无影响；不镜像"],
    ),
    row(
        [
            "proxy-mirror: bodies of mirrored requests, as a part of `apisix.body_memory.total` (one in)",
            "proxy-mirror：镜像请求体占 `apisix.body_memory.total` 的份额（几分之一）",
        ],
        Const("plugin-api/src/memory/copies.rs", "PART", Count),
        ["nothing; it is not mirrored, and a log line", "无影响；不镜像，并写日志"],
    ),
    row(
        [
            "The same, as a part of what one address may hold (one in)",
            "同上，占一个地址可用份额的份额（几分之一）",
        ],
        Const("plugin-api/src/memory/copies.rs", "PART_OF_CLIENT", Count),
        ["nothing; it is not mirrored, and a log line", "无影响；不镜像，并写日志"],
    ),
    row(
        ["proxy-mirror: mirrored requests under way", "proxy-mirror：进行中的镜像请求"],
        Const("plugins/src/traffic/proxy_mirror.rs", "MAX_IN_FLIGHT", Count),
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
        Const("plugins/src/transformation/mocking.rs", "MAX_DEPTH", Count),
        ["the example ends there", "示例到此为止"],
    ),
    row(
        ["ldap-auth, ldap-auth-advanced: answer of the server", "ldap-auth、ldap-auth-advanced：服务器应答"],
        Const("plugins/src/common/ber.rs", "LONGEST_BYTES", Bytes),
        ["401, 500", "401、500"],
    ),
    row(
        [
            "Responses of services that plugins ask, together (unset: an eighth of memory)",
            "插件所询问服务的应答总内存（未设置：内存的八分之一）",
        ],
        Key("apisix.plugin_answer_memory"),
        ["as if the service had failed", "按服务失败处理"],
    ),
    row(
        [
            "Part of it that the responses to one client may hold, more than one response: one in",
            "其中一个客户端所得应答可占的份额，超过一个应答时：几分之一",
        ],
        Const("plugin-api/src/answers.rs", "CLIENT_PART", Count),
        ["as if the service had failed", "按服务失败处理"],
    ),
    row(
        ["One of them: forward-auth, opa, openid-connect", "其中单个应答：forward-auth、opa、openid-connect"],
        Const("clients/src/http.rs", "MAX_ANSWER_BYTES", Bytes),
        ["as if the service had failed", "按服务失败处理"],
    ),
    row(
        ["Head of such a response", "此类应答的响应头"],
        Const("clients/src/http/connection.rs", "MAX_HEAD_BYTES", Bytes),
        ["as if the service had failed", "按服务失败处理"],
    ),
    row(
        [
            "What comes before such a response is whole: interim responses and its head",
            "此类应答的响应头完整之前：临时应答与响应头",
        ],
        Const("clients/src/http/connection.rs", "MAX_BEFORE_ANSWER_BYTES", Bytes),
        ["as if the service had failed", "按服务失败处理"],
    ),
    row(
        ["Values in such a response that is JSON", "此类 JSON 应答中的值"],
        Const("plugins/src/common/json.rs", "MAX_ANSWER_VALUES", Count),
        ["as if the service had failed", "按服务失败处理"],
    ),
    row(
        ["wolf-rbac: body of a login or a change of a password", "wolf-rbac：登录或修改密码的请求体"],
        Const("plugins/src/authentication/wolf_rbac/api.rs", "MAX_BODY_BYTES", Bytes),
        ["413", "413"],
    ),
    row(
        ["authz-casbin: file with a model or policy", "authz-casbin：模型或策略文件"],
        Const("plugins/src/authentication/authz_casbin.rs", "MAX_FILE_BYTES", Bytes),
        ["the object is refused", "拒绝该对象"],
    ),
    row(
        ["authz-casdoor: logins of a browser in progress", "authz-casdoor：一个浏览器进行中的登录"],
        Const("plugins/src/authentication/authz_casdoor/session.rs", "MAX_LOGINS", Count),
        ["the oldest begins again", "最早的重新开始"],
    ),
    row(
        ["cas-auth: sessions", "cas-auth：会话"],
        Const("plugins/src/authentication/cas_auth/sessions.rs", "CAPACITY", Count),
        ["401 to further logins", "更多的登录返回 401"],
    ),
    row(
        ["openid-connect: keys of a provider", "openid-connect：一个提供方的密钥"],
        Const("plugins/src/authentication/openid_connect/provider.rs", "MAX_KEYS", Count),
        ["nothing; further ones do not count, and a log line", "无影响；更多的不计，并写日志"],
    ),
    row(
        ["openid-connect: keys that are tried for a token", "openid-connect：一个令牌尝试的密钥"],
        Const("plugins/src/authentication/openid_connect/provider.rs", "MAX_TRIED", Count),
        ["401, and a log line", "401，并写日志"],
    ),
    row(
        ["Names of services that are looked up at once", "同时解析的服务名字"],
        Const("clients/src/names.rs", "MOST_LOOKUPS", Count),
        [
            "as if the service had failed, counted in `name_lookups_refused_total`",
            "按服务失败处理，计入 `name_lookups_refused_total`",
        ],
    ),
    row(
        ["Names of services whose addresses are kept", "保留其地址的服务名字"],
        Const("clients/src/names.rs", "MOST_NAMES", Count),
        ["nothing; they are looked up again", "无影响；重新解析"],
    ),
    row(
        [
            "Threads that wait for the system's resolver, used where no name server is configured",
            "等待系统解析器的线程；仅在没有域名服务器时使用",
        ],
        Const("clients/src/names.rs", "MOST_THREADS", Count),
        ["the name is looked up when one is free", "有空闲线程时才解析"],
    ),
    row(
        ["Replies of Redis to the commands in flight on a connection", "Redis 对一个连接上进行中命令的应答"],
        Const("clients/src/redis/tls.rs", "MAX_REPLY_BYTES", Bytes),
        ["as if Redis had failed", "按 Redis 失败处理"],
    ),
    row(
        [
            "Answer of a mirror or of a receiver of logs that is read and dropped",
            "镜像或日志接收方的应答中读取并丢弃的字节",
        ],
        Const("clients/src/http/connection.rs", "MAX_DROPPED_BYTES", Bytes),
        NOTHING,
    ),
    row(
        ["openid-connect: cookies of a session", "openid-connect：会话的 cookie 数"],
        Const("plugins/src/common/cookies.rs", "MAX_COOKIES", Count),
        ["500", "500"],
    ),
    row(
        ["openid-connect: bytes of each", "openid-connect：每个 cookie 的字节"],
        Const("plugins/src/common/cookies.rs", "COOKIE_BYTES", Bytes),
        NOTHING,
    ),
];
