//! Bounds of what computes: conditions, patterns, schemas, Lua.

use super::{
    super::{
        Bound::{Const, Key},
        Row,
        Unit::{Bytes, Count, Milliseconds},
    },
    FORGOTTEN, NOTHING, TOO_LARGE, UNDECIDED, row,
};

pub(super) const CONDITIONS: &[Row] = &[
    row(
        ["Steps back of a pattern with look-around or back-references", "含环视或反向引用的模式的回溯步数"],
        Const("backtrack/src/steps.rs", "MAX_STEPS", Count),
        UNDECIDED,
    ),
    row(
        [
            "Bytes that all of its steps may look at: on longer texts fewer steps",
            "其全部步数可查看的字节：文本越长步数越少",
        ],
        Const("backtrack/src/steps.rs", "MAX_BYTES", Bytes),
        UNDECIDED,
    ),
    row(
        [
            "Processor time of all patterns asked of one request, in conditions and in plugins",
            "一个请求的条件与插件中全部模式的处理器时间",
        ],
        Const("backtrack/src/time.rs", "MAX_TIME", Milliseconds),
        UNDECIDED,
    ),
    row(
        [
            "States of a pattern times bytes of a text: beyond that an automaton searches that ends when the time is up",
            "模式的状态数乘以文本字节数：超出后由会在时间用尽时结束的自动机搜索",
        ],
        Const("backtrack/src/time.rs", "MAX_WORK", Count),
        ["nothing, while there is time", "有时间时无影响"],
    ),
    row(
        ["States of a pattern that has such an automaton", "拥有此类自动机的模式的状态数"],
        Const("backtrack/src/lazy.rs", "MAX_STATES", Count),
        UNDECIDED,
    ),
    row(
        ["Memory of a compiled pattern", "编译后模式的内存"],
        Const("backtrack/src/automaton.rs", "MAX_COMPILED_BYTES", Bytes),
        ["the Admin API refuses it", "Admin API 拒绝"],
    ),
    row(
        [
            "States of a pattern whose counts multiply each other, from which on the write is warned of",
            "计数相乘的模式的状态数：达到后写入会有警告",
        ],
        Const("backtrack/src/large.rs", "MANY_STATES", Count),
        NOTHING,
    ),
    row(
        ["Groups of such a pattern", "此类模式的分组数"],
        Const("backtrack/src/steps.rs", "MAX_GROUPS", Count),
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
        ["Steps of a check by a JSON schema", "一次 JSON schema 检查的步数"],
        Const("model/src/schema.rs", "MOST_STEPS", Count),
        ["the plugin's code for a bad request", "插件用于错误请求的状态码"],
    ),
    row(
        ["Depth of a value and of a schema", "值与 schema 的深度"],
        Const("model/src/schema/rules.rs", "DEPTH_LIMIT", Count),
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

pub(super) const LUA: &[Row] = &[
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
        Const("plugins/src/lua/chunk.rs", "MAX_SOURCE_BYTES", Bytes),
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
        [
            "States of a regular expression of ngx.re times bytes of its subject, with a limit of 50 ms; more with a longer one",
            "ngx.re 的正则表达式状态数乘以主题字节数（时限 50 毫秒时；时限更长则更多）",
        ],
        Const("plugins/src/lua/api/regex.rs", "MAX_WORK", Count),
        ["an error in Lua", "Lua 错误"],
    ),
    row(
        [
            "The square of the subject's bytes, where it looks around or back",
            "含环视或反向引用时主题字节数的平方",
        ],
        Const("plugins/src/lua/api/regex.rs", "MAX_SQUARE", Count),
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
        Const("plugins/src/lua/waiting.rs", "MAX_BODY_BYTES", Bytes),
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
    row(
        ["A file with a module", "一个模块文件"],
        Const("plugins/src/lua_files.rs", "MAX_FILE_BYTES", Bytes),
        ["the plugin cannot be loaded", "插件不能加载"],
    ),
    row(
        ["Modules of all plugins in files", "所有文件形式的插件的模块"],
        Const("plugins/src/lua_files.rs", "MAX_MODULES", Count),
        ["the plugin cannot be loaded", "插件不能加载"],
    ),
    row(
        ["Timers of a worker", "一个 worker 的定时器"],
        Const("plugins/src/lua/timers.rs", "MAX_TIMERS", Count),
        ["an error in Lua", "Lua 错误"],
    ),
    row(
        ["Response that resty.http gets", "resty.http 得到的响应"],
        Const("plugins/src/lua/http.rs", "MAX_ANSWER_BYTES", Bytes),
        ["an error in Lua", "Lua 错误"],
    ),
];

pub(super) const WASM: &[Row] = &[
    row(
        ["Milliseconds of one callback (unset: 50)", "一次回调的毫秒数（未设置：50）"],
        Key("wasm.time_limit_ms"),
        ["503", "503"],
    ),
    row(
        ["Memory of one instance (unset: 64 MiB)", "一个实例的内存（未设置：64 MiB）"],
        Key("wasm.instance_memory"),
        ["503", "503"],
    ),
    row(
        ["Memory of all instances (unset: 512 MiB)", "所有实例的内存（未设置：512 MiB）"],
        Key("wasm.memory"),
        ["503", "503"],
    ),
    row(
        ["Stack of a callback", "回调的栈"],
        Const("wasm/src/runtime/engine.rs", "STACK_BYTES", Bytes),
        ["503", "503"],
    ),
    row(
        ["A module's file", "模块的文件"],
        Const("wasm/src/runtime/module.rs", "MAX_FILE_BYTES", Bytes),
        ["503", "503"],
    ),
    row(
        ["Instances of a plugin on one worker", "一个工作线程上一个插件的实例"],
        Const("wasm/src/runtime/pool.rs", "MAX_INSTANCES", Count),
        ["nothing; requests share them", "无影响；请求共用它们"],
    ),
    row(
        ["Body of a request that a module sees", "模块所见的请求体"],
        Const("wasm/src/runtime/request.rs", "MAX_BODY_BYTES", Bytes),
        ["413", "413"],
    ),
    row(
        ["Body of a response that a module holds", "模块保留的响应体"],
        Const("wasm/src/runtime/filter.rs", "MAX_HELD_BYTES", Bytes),
        ["502", "502"],
    ),
    row(
        ["Calls of one instance under way", "一个实例进行中的调用"],
        Const("wasm/src/runtime/host/http.rs", "MAX_CALLS", Count),
        ["an error in the module", "模块得到错误"],
    ),
    row(
        ["Body of a call and of its answer", "调用及其应答的正文"],
        Const("wasm/src/runtime/calls.rs", "MAX_BYTES", Bytes),
        ["an error in the module", "模块得到错误"],
    ),
    row(
        ["Shared data of one plugin, and each of its queues", "一个插件的共享数据，以及它的每个队列"],
        Const("wasm/src/runtime/shared.rs", "MAX_BYTES", Bytes),
        ["an error in the module", "模块得到错误"],
    ),
    row(
        ["Queues of one plugin", "一个插件的队列"],
        Const("wasm/src/runtime/shared.rs", "MAX_QUEUES", Count),
        ["an error in the module", "模块得到错误"],
    ),
    row(
        ["Metrics of one plugin", "一个插件的指标"],
        Const("wasm/src/runtime/metrics.rs", "MAX_METRICS", Count),
        ["an error in the module", "模块得到错误"],
    ),
    row(
        ["Elements of a table", "一个表的元素"],
        Const("wasm/src/runtime/room.rs", "MAX_ELEMENTS", Count),
        ["an error in the module", "模块得到错误"],
    ),
];
