-- Shapes the native functions into `ngx` and `apisix.core`. Runs once per worker; what it returns makes a `ctx`.
local native, environments = ...

local type, pairs, ipairs, select, tostring, tonumber, error, setmetatable, getmetatable, rawset, next =
    type, pairs, ipairs, select, tostring, tonumber, error, setmetatable, getmetatable, rawset, next
local concat, insert, remove, sort = table.concat, table.insert, table.remove, table.sort
local sub, find, byte, rep = string.sub, string.find, string.byte, string.rep
local yield = coroutine.yield
local unpack = unpack or table.unpack
table.unpack = unpack

-- The system is out of reach. What the hook does not see (finalizers, C that sorts or moves entries) is gone or is here.
for _, name in ipairs({ "dofile", "loadfile", "collectgarbage", "newproxy", "module", "gcinfo" }) do
    _G[name] = nil
end

string.dump = nil
getmetatable("").__metatable = "strings"
local close, hide = environments.close, environments.hide

-- Nothing that Lua can call from C calls Lua back: what does so in Lua's library is written in Lua here. A recursion
-- through it ends at the limit of Lua's stack, and never reaches that of the process.

-- The end of a call and its time limit cannot be caught. A handler of xpcall runs after the stack is unwound: LuaJIT
-- runs it inside of the hook where the hook has failed, and there nothing would stop it.
local pcall0, resume0, create = pcall, coroutine.resume, coroutine.create
local ending = native.ending
local function passed(ok, ...)
    if not ok and ending() then error((...), 0) end
    return ok, ...
end
function pcall(...) return passed(pcall0(...)) end
local function handled(handler, ok, ...)
    if ok then return true, ... end
    if ending() then error((...), 0) end
    local _, value = passed(pcall0(handler, (...)))
    return false, value
end
function xpcall(func, handler, ...)
    if type(handler) ~= "function" then error("bad argument #2 to 'xpcall' (function expected)", 2) end
    return handled(handler, pcall0(func, ...))
end

-- Each coroutine inside of another takes a piece of the C stack.
local MAX_NESTED = 160
local nested = 0
local function left(ok, ...)
    nested = nested - 1
    return ok, ...
end

-- The running request's ctx: every call begins with it. And the globals of its configuration.
local running, environment

-- What is waited for goes out through all coroutines, and the result in again.
local WAIT = {}
local function woken(mine, own, depth, ...)
    running, environment, nested = mine, own, depth
    return ...
end
local function wait(...) return woken(running, environment, nested, yield(WAIT, ...)) end
local function settled(co, ok, mark, ...)
    if ok and mark == WAIT then return settled(co, resume0(co, wait(...))) end
    return ok, mark, ...
end
local function resume(co, ...)
    if type(co) ~= "thread" then error("bad argument #1 to 'resume' (coroutine expected)", 3) end
    if nested >= MAX_NESTED then return false, "C stack overflow" end
    nested = nested + 1
    return left(settled(co, resume0(co, ...)))
end
local function unwrapped(ok, ...)
    if ok then return ... end
    local reason = ...
    error(reason, type(reason) == "string" and not ending() and 2 or 0)
end
function coroutine.resume(...) return passed(resume(...)) end
function coroutine.wrap(func)
    local co = create(func)
    return function(...) return unwrapped(resume(co, ...)) end
end

-- Numbers become texts one after the other in C, and lists can be long.
local concat0 = concat
function concat(list, separator, first, last)
    first, last = first or 1, last or (type(list) == "table" and #list)
    if type(first) ~= "number" or type(last) ~= "number" or last - first < 256 then
        return concat0(list, separator, first, last or nil)
    end
    local parts, count = {}, 0
    for from = first, last, 256 do
        count = count + 1
        parts[count] = concat0(list, separator, from, from + 255 < last and from + 255 or last)
    end
    return concat(parts, separator)
end
table.concat = concat

local gsub, seek, format = native.gsub, native.seek, string.format
-- One replacement: where the search goes on, and what may follow as it is.
local function replace_one(parts, text, at, with, first, last, ...)
    if not first then
        if first == false then error(last, 4) end
        return nil
    end
    parts[#parts + 1] = sub(text, at, first - 1)
    local value
    if type(with) == "table" then value = with[(...)] else value = with(...) end
    local kind = type(value)
    if not value then
        value = sub(text, first, last)
    elseif kind ~= "string" and kind ~= "number" then
        error("invalid replacement value (a " .. kind .. ")", 4)
    end
    parts[#parts + 1] = value
    if last >= first then return last + 1 end
    parts[#parts + 1] = sub(text, first, first)
    return first + 1
end
local function replace_all(text, pattern, with, most)
    local parts, at, count, anchored = {}, 1, 0, byte(pattern) == 94
    local one = type(with) == "table"
    while count < most do
        local next_at = replace_one(parts, text, at, with, seek(text, pattern, at, one))
        if not next_at then break end
        at, count = next_at, count + 1
        if anchored or at > #text + 1 then break end
    end
    parts[#parts + 1] = sub(text, at)
    return concat(parts), count
end
local function checked(value, argument, name)
    local kind = type(value)
    if kind == "string" then return value end
    if kind == "number" then return tostring(value) end
    error("bad argument #" .. argument .. " to '" .. name .. "' (string expected, got " .. kind .. ")", 3)
end
function string.gsub(text, pattern, with, most)
    local kind = type(with)
    if kind ~= "function" and (kind ~= "table" or not getmetatable(with)) then
        return gsub(text, pattern, with, most)
    end
    text, pattern = checked(text, 1, "gsub"), checked(pattern, 2, "gsub")
    local found, count = replace_all(text, pattern, with, most and tonumber(most) or #text + 1)
    return found, count
end

-- `%s` of a table calls its `__tostring`. What one call makes of numbers and quotes is bounded by their count and length.
local MAX_FORMATTED, MAX_FORMAT = 250, 65536
local function with_texts(count, ...)
    if count > MAX_FORMATTED then error("too many values to format", 3) end
    local values = { ... }
    for at = 2, count do
        if type(values[at]) == "table" and getmetatable(values[at]) ~= nil then values[at] = tostring(values[at]) end
    end
    return format(unpack(values, 1, count))
end
function string.format(...)
    local pattern, a, b, c, d, e, f = ...
    if type(pattern) == "string" and #pattern > MAX_FORMAT then error("format is too long", 2) end
    if type(a) == "table" or type(b) == "table" or type(c) == "table" or type(d) == "table" or type(e) == "table"
        or type(f) == "table" or select("#", ...) > 7 then
        return with_texts(select("#", ...), ...)
    end
    return format(...)
end

-- One call must not make gigabytes between two looks of the limits.
function string.rep(text, count, separator)
    text, count = checked(text, 1, "rep"), count or 0
    if (#text + #(separator or "")) * count > 16777216 then error("resulting string too large", 2) end
    return rep(text, count, separator)
end

-- `#t` can be far more than what a table holds: entries are moved in Lua.
local insert0 = insert
function insert(t, at, ...)
    if select("#", ...) ~= 1 or type(t) ~= "table" or type(at) ~= "number" then return insert0(t, at, ...) end
    local last = #t + 1
    at = at - at % 1
    if last - at < 64 then return insert0(t, at, ...) end
    for place = last, at + 1, -1 do t[place] = t[place - 1] end
    t[at] = (...)
end
table.insert = insert

-- LuaJIT's quicksort, so that the hook sees every comparison.
local function less(a, b) return a < b end
local function order(t, low, high, before)
    while low < high do
        local a, b = t[low], t[high]
        if before(b, a) then t[low], t[high] = b, a end
        if high - low == 1 then break end
        local middle = low + (high - low - (high - low) % 2) / 2
        a, b = t[middle], t[low]
        if before(a, b) then
            t[middle], t[low] = b, a
        else
            b = t[high]
            if before(b, a) then t[middle], t[high] = b, a end
        end
        if high - low == 2 then break end
        local pivot = t[middle]
        t[middle], t[high - 1] = t[high - 1], pivot
        local i, j = low, high - 1
        while true do
            i = i + 1
            while before(t[i], pivot) do
                if i >= high then error("invalid order function for sorting", 3) end
                i = i + 1
            end
            j = j - 1
            while before(pivot, t[j]) do
                if j <= low then error("invalid order function for sorting", 3) end
                j = j - 1
            end
            if j < i then break end
            t[i], t[j] = t[j], t[i]
        end
        t[high - 1], t[i] = t[i], t[high - 1]
        if i - low < high - i then
            order(t, low, i - 1, before)
            low = i + 1
        else
            order(t, i + 1, high, before)
            high = i - 1
        end
    end
end
function sort(t, before)
    if type(t) ~= "table" then error("bad argument #1 to 'sort' (table expected, got " .. type(t) .. ")", 2) end
    if before ~= nil and type(before) ~= "function" then
        error("bad argument #2 to 'sort' (function expected, got " .. type(before) .. ")", 2)
    end
    order(t, 1, #t, before or less)
end
table.sort = sort

-- Texts of values: `__tostring` is called here, not by what writes them.
local function as_texts(count, ...)
    local values = { ... }
    for at = 1, count do
        local value = values[at]
        if type(value) == "table" then values[at] = tostring(value) end
    end
    return unpack(values, 1, count)
end
local function log(level, ...)
    if native.log_enabled(level) then return native.log(level, as_texts(select("#", ...), ...)) end
end
function print(...) return log(6, ...) end

table.new = function() return {} end
table.clear = function(t) for key in pairs(t) do t[key] = nil end end
table.nkeys = function(t)
    local count = 0
    for _ in pairs(t) do count = count + 1 end
    return count
end
table.isempty = function(t) return next(t) == nil end
table.isarray = function(t)
    local count = 0
    for key in pairs(t) do
        if type(key) ~= "number" then return false end
        count = count + 1
    end
    return count == #t
end
table.clone = function(t)
    local copy = {}
    for key, value in pairs(t) do copy[key] = value end
    return copy
end

os = { time = function(t)
    if t then return native.seconds_of(t) end
    return math.floor(native.now())
end, date = function(form, seconds)
    form = form or "%c"
    if sub(form, 1, 1) == "!" then form = sub(form, 2) end
    return native.date(form, tonumber(seconds) or native.now())
end, difftime = function(a, b) return a - b end, clock = native.now, getenv = function() return nil end }
math.random = function(low, high)
    local value = native.random()
    if not low then return value end
    if not high then low, high = 1, low end
    return low + math.floor(value * (high - low + 1))
end
math.randomseed = function() end

-- Tables whose fields are functions of the request.
local function proxy(get, set)
    return close(setmetatable({}, {
        __index = function(_, key) return get(key) end,
        __newindex = function(_, key, value) set(key, value) end,
        __metatable = false,
    }))
end
local function refuse() error("this table belongs to all functions", 2) end

-- A body that is not read yet is read where a function asks for it.
local function read_body()
    if native.body_unread() then wait("body") end
end
local function body()
    read_body()
    return native.body()
end

-- Variables that functions made known, by name.
local registered = {}
local var = proxy(function(name)
    local value = native.var_get(name)
    if value == nil and type(name) == "string" and native.body_unread()
        and (sub(name, 1, 8) == "post_arg" or sub(name, 1, 7) == "graphql" or name == "request_body") then
        read_body()
        value = native.var_get(name)
    end
    if value == nil and registered[name] and running then value = registered[name](running) end
    return value
end, native.var_set)
-- What ngx.var has is nginx's: names of arguments and cookies in any case, nothing decoded, the target as it came.
local function as_nginx(name)
    if type(name) ~= "string" then return name end
    if sub(name, 1, 4) == "arg_" or sub(name, 1, 7) == "cookie_" then return "raw_" .. name end
    return name == "request_uri" and "real_request_uri" or name
end
local nginx_var = proxy(function(name) return var[as_nginx(name)] end, native.var_set)
local header = proxy(native.resp_get, native.resp_set)
local null = native.null

local log_levels = { STDERR = 0, EMERG = 1, ALERT = 2, CRIT = 3, ERR = 4, WARN = 5, NOTICE = 6, INFO = 7, DEBUG = 8 }

ngx = {
    OK = 0, ERROR = -1, AGAIN = -2, DONE = -4, DECLINED = -5,
    null = null, var = nginx_var, header = header,
    arg = proxy(native.chunk_get, native.chunk_set),
    log = log, print = native.print, exit = native.exit,
    say = function(...)
        native.print(...)
        native.print("\n")
    end,
    flush = function() return 1 end, eof = function() return 1 end,
    now = native.now, update_time = function() end,
    time = function() return math.floor(native.now()) end,
    localtime = native.localtime, utctime = native.localtime,
    today = function() return sub(native.localtime(), 1, 10) end,
    cookie_time = native.cookie_time, http_time = native.http_time,
    encode_base64 = function(text, bare)
        if bare then return native.encode_base64_bare(text) end
        return native.encode_base64(text)
    end,
    decode_base64 = native.decode_base64,
    md5 = native.md5, md5_bin = native.md5_bin, sha1_bin = native.sha1_bin, hmac_sha1 = native.hmac_sha1,
    escape_uri = native.escape_uri, unescape_uri = native.unescape_uri,
    get_phase = native.phase,
    is_subrequest = false, headers_sent = false,
    worker = { id = native.worker_id, pid = function() return tonumber(var.pid) end,
        exiting = function() return false end, count = function() return 1 end },
    config = { subsystem = "http", debug = false, nginx_version = 1029002, ngx_lua_version = 10029,
        prefix = function() return "" end },
    redirect = function(uri, status)
        status = status == nil and 302 or tonumber(status)
        if not (status and (status >= 301 and status <= 303 or status == 307 or status == 308)) then
            error("only ngx.HTTP_MOVED_TEMPORARILY, ngx.HTTP_MOVED_PERMANENTLY, ngx.HTTP_SEE_OTHER, "
                .. "ngx.HTTP_PERMANENT_REDIRECT, and ngx.HTTP_TEMPORARY_REDIRECT are allowed", 2)
        end
        header["Location"] = uri
        native.exit(status)
    end,
    re = {}, req = {}, resp = {},
}
ngx.resp.get_headers = native.resp_all
ngx.resp.add_header = native.resp_add
for name, level in pairs(log_levels) do ngx[name] = level end
for name, code in pairs({
    HTTP_CONTINUE = 100, HTTP_OK = 200, HTTP_CREATED = 201, HTTP_ACCEPTED = 202, HTTP_NO_CONTENT = 204,
    HTTP_PARTIAL_CONTENT = 206, HTTP_SPECIAL_RESPONSE = 300, HTTP_MOVED_PERMANENTLY = 301,
    HTTP_MOVED_TEMPORARILY = 302, HTTP_SEE_OTHER = 303, HTTP_NOT_MODIFIED = 304, HTTP_TEMPORARY_REDIRECT = 307,
    HTTP_PERMANENT_REDIRECT = 308, HTTP_BAD_REQUEST = 400, HTTP_UNAUTHORIZED = 401, HTTP_PAYMENT_REQUIRED = 402,
    HTTP_FORBIDDEN = 403, HTTP_NOT_FOUND = 404, HTTP_NOT_ALLOWED = 405, HTTP_NOT_ACCEPTABLE = 406,
    HTTP_REQUEST_TIMEOUT = 408, HTTP_CONFLICT = 409, HTTP_GONE = 410, HTTP_UPGRADE_REQUIRED = 426,
    HTTP_TOO_MANY_REQUESTS = 429, HTTP_CLOSE = 444, HTTP_ILLEGAL = 451, HTTP_INTERNAL_SERVER_ERROR = 500,
    HTTP_METHOD_NOT_IMPLEMENTED = 501, HTTP_BAD_GATEWAY = 502, HTTP_SERVICE_UNAVAILABLE = 503,
    HTTP_GATEWAY_TIMEOUT = 504, HTTP_VERSION_NOT_SUPPORTED = 505, HTTP_INSUFFICIENT_STORAGE = 507,
}) do ngx[name] = code end

local methods = {}
for at, name in ipairs({ "GET", "HEAD", "POST", "PUT", "DELETE", "MKCOL", "COPY", "MOVE", "OPTIONS", "PROPFIND", "PROPPATCH", "LOCK",
    "UNLOCK", "PATCH", "TRACE" }) do
    ngx["HTTP_" .. name], methods[2 ^ at] = 2 ^ at, name
end

local function encode_args(arguments)
    local parts = {}
    local function one(name, value)
        name = native.escape_uri(name)
        if value == true then
            parts[#parts + 1] = name
        elseif value ~= false and value ~= nil then
            parts[#parts + 1] = name .. "=" .. native.escape_uri(tostring(value))
        end
    end
    local names = {}
    for name in pairs(arguments) do names[#names + 1] = name end
    sort(names, function(a, b) return tostring(a) < tostring(b) end)
    for _, name in ipairs(names) do
        local value = arguments[name]
        if type(value) == "table" then
            for _, item in ipairs(value) do one(name, item) end
        else
            one(name, value)
        end
    end
    return concat(parts, "&")
end
ngx.encode_args = encode_args
ngx.decode_args = native.decode_args

-- Header tables are asked in any case, with `_` for `-`.
local any_case = hide({ __index = function(t, key)
    if type(key) ~= "string" or #key > 1024 then return nil end
    return rawget(t, (key:lower():gsub("_", "-")))
end })
local function request_headers() return setmetatable(native.req_headers(), any_case) end

local req = ngx.req
req.get_headers = request_headers
req.set_header = native.req_set_header
req.clear_header = function(name) native.req_set_header(name, nil) end
req.get_method = native.method
req.set_method = function(method)
    native.set_method(type(method) == "number" and methods[method] or method)
end
req.get_uri_args = native.uri_args
req.set_uri_args = function(arguments)
    if type(arguments) == "table" then arguments = encode_args(arguments) end
    native.set_args(tostring(arguments))
end
req.set_uri = native.set_uri
req.read_body = read_body
req.discard_body = function() end
req.get_body_data = body
req.get_body_file = function() return nil end
req.set_body_data = native.set_body
req.get_post_args = function(most) return native.decode_args(body() or "", most) end
req.http_version = native.http_version
req.start_time = native.start_time
req.is_internal = function() return false end
req.raw_header = function() error("ngx.req.raw_header is not offered", 2) end

local exec = native.re_exec
local re = ngx.re
function re.match(subject, pattern, options, context, into)
    local captures, _, last, err = exec(tostring(subject), pattern, options, context and context.pos or 1)
    if captures and context then context.pos = last + 1 end
    if captures and into then
        for key, value in pairs(captures) do into[key] = value end
        captures = into
    end
    return captures, err
end
function re.find(subject, pattern, options, context, nth)
    local captures, first, last, err = exec(tostring(subject), pattern, options, context and context.pos or 1)
    if not captures then return nil, nil, err end
    if context then context.pos = last + 1 end
    if nth and nth > 0 then
        local group = captures[nth]
        if not group then return nil, nil end
        local at = find(subject, group, first, true)
        return at, at + #group - 1
    end
    return first, last
end
function re.gmatch(subject, pattern, options)
    local position = 1
    return function()
        local captures, first, last, err = exec(subject, pattern, options, position)
        if not captures then return nil, err end
        position = last >= first and last + 1 or first + 1
        return captures
    end
end
local function replaced(replace, captures)
    if type(replace) == "function" then return tostring(replace(captures)) end
    local text = replace:gsub("%$(%$?)(%{?)(%w*)(%}?)", function(dollar, open, name, close)
        if dollar == "$" then return "$" .. open .. name .. close end
        local digits = open == "{" and name or (name:match("^%d+") or name)
        local value = captures[tonumber(digits) or digits]
        return (value or "") .. (open == "{" and "" or sub(name, #digits + 1) .. close)
    end)
    return text
end
local function substitute(subject, pattern, replace, options, most)
    local parts, position, count = {}, 1, 0
    while count < most do
        local captures, first, last, err = exec(subject, pattern, options, position)
        if err then return nil, nil, err end
        if not captures then break end
        count = count + 1
        parts[#parts + 1] = sub(subject, position, first - 1)
        parts[#parts + 1] = replaced(replace, captures)
        if last < first then
            parts[#parts + 1] = sub(subject, first, first)
            position = first + 1
            if position > #subject + 1 then break end
        else
            position = last + 1
        end
    end
    parts[#parts + 1] = sub(subject, position)
    return concat(parts), count
end
function re.sub(subject, pattern, replace, options) return substitute(subject, pattern, replace, options, 1) end
function re.gsub(subject, pattern, replace, options) return substitute(subject, pattern, replace, options, 1e9) end

-- Shared dictionaries live in one worker here, without a limit on time but on entries.
local function dictionary()
    local values, count, dict = {}, 0, {}
    local kept = { string = true, number = true, boolean = true }
    local function live(key)
        local entry = values[key]
        if entry and entry.expires and entry.expires <= native.now() then
            values[key], count, entry = nil, count - 1, nil
        end
        return entry
    end
    function dict:get(key)
        local entry = live(key)
        if entry then return entry.value, entry.flags end
    end
    function dict:set(key, value, seconds, flags)
        if value == nil then return self:delete(key) end
        if not kept[type(value)] then return nil, "bad value type", false end
        if not live(key) then
            if count >= 65536 then values, count = {}, 0 end
            count = count + 1
        end
        values[key] = { value = value, flags = flags,
            expires = seconds and seconds > 0 and native.now() + seconds or nil }
        return true, nil, false
    end
    dict.safe_set = dict.set
    function dict:add(key, value, seconds, flags)
        if live(key) then return false, "exists", false end
        return self:set(key, value, seconds, flags)
    end
    function dict:replace(key, value, seconds, flags)
        if not live(key) then return false, "not found", false end
        return self:set(key, value, seconds, flags)
    end
    function dict:delete(key)
        if live(key) then values[key], count = nil, count - 1 end
        return true
    end
    function dict:incr(key, by, initial, seconds)
        local entry = live(key)
        if not entry then
            if initial == nil then return nil, "not found" end
            self:set(key, initial + by, seconds)
            return initial + by
        end
        entry.value = entry.value + by
        return entry.value
    end
    function dict:ttl(key)
        local entry = live(key)
        if not entry then return nil, "not found" end
        return entry.expires and entry.expires - native.now() or 0
    end
    function dict:flush_all() values, count = {}, 0 end
    function dict:flush_expired()
        local gone = 0
        for key in pairs(values) do if not live(key) then gone = gone + 1 end end
        return gone
    end
    function dict:get_stale(key)
        local value, flags = self:get(key)
        return value, flags, false
    end
    function dict:get_keys(most)
        local keys = {}
        for key in pairs(values) do
            if live(key) then keys[#keys + 1] = key end
            if #keys == (most or 1024) then break end
        end
        return keys
    end
    function dict:capacity() return 65536 end
    function dict:free_space() return 65536 - count end
    return close(setmetatable({}, { __index = dict, __newindex = refuse, __metatable = false }))
end
local dictionaries = {}
ngx.shared = close(setmetatable({}, {
    __index = function(_, name)
        local dict = dictionaries[name] or dictionary()
        dictionaries[name] = dict
        return dict
    end,
    __newindex = refuse, __metatable = false,
}))

-- ctx: fields of its own, then what the request tells.
local context_base = hide({ __index = function(_, key)
    if key == "var" then return var end
    if key == "req_post_args" then return (req.get_post_args(0)) end
    return native.context_get(key)
end })
local function new_context() return setmetatable({}, context_base) end

-- Methods that a configuration added to `string` are methods of texts for its own functions.
setmetatable(string, { __index = function(_, key)
    local mine = environment and rawget(environment, "string")
    return mine and rawget(mine, key)
end })

-- A message is cut before it is copied from hand to hand.
local MAX_MESSAGE = 4096
local function ended(ok, ...)
    if ok then return ... end
    local reason = ...
    if type(reason) == "string" and #reason > MAX_MESSAGE then reason = sub(reason, 1, MAX_MESSAGE) end
    error(reason, 0)
end
local function run(func, first, ctx, env)
    running, nested, environment = ctx, 0, env
    return ended(pcall0(func, first, ctx))
end

local function ngx_ctx()
    if not running then return nil end
    local t = rawget(running, "_ngx_ctx")
    if not t then
        t = { api_ctx = running }
        rawset(running, "_ngx_ctx", t)
    end
    return t
end

function ngx.sleep(seconds)
    seconds = tonumber(seconds)
    if not seconds or seconds < 0 then error("invalid sleep duration", 2) end
    wait("sleep", seconds)
end

environments.dynamic[ngx] = { status = true, ctx = true }
setmetatable(ngx, { __index = function(_, key)
    if key == "status" then return native.status_get() end
    if key == "ctx" then return ngx_ctx() end
end })
environments.share(ngx)
environments.view_metatable(ngx).__newindex = function(t, key, value)
    if key == "status" then
        native.status_set(tonumber(value) or 0)
    elseif key == "ctx" then
        if running then rawset(running, "_ngx_ctx", value) end
    else
        rawset(t, key, value)
    end
end

-- cjson -------------------------------------------------------------------------------------------------------

local function strict(value, err)
    if value == nil and err then error(err, 3) end
    return value
end
-- One result when it went well: `ngx.say(cjson.encode(x))` must not say `nil` after it.
local function encoded(text, err)
    if text == nil then return nil, err end
    return text
end
local cjson_safe = {
    null = null, array_mt = native.array_mt, empty_array_mt = native.array_mt,
    empty_array = {},
    encode = function(value) return encoded(native.json_encode(value)) end,
    decode = function(text)
        if type(text) ~= "string" then return nil, "bad argument #1 to 'decode' (string expected)" end
        return native.json_decode(text)
    end,
}
-- Functions set it as a metatable, and nobody writes into it.
close(setmetatable(native.array_mt, { __newindex = refuse, __metatable = false }))
environments.fresh[cjson_safe.empty_array] = function() return setmetatable({}, native.array_mt) end
for _, option in ipairs({ "encode_empty_table_as_object", "decode_array_with_array_mt", "encode_number_precision",
    "encode_sparse_array", "encode_max_depth", "decode_max_depth", "encode_escape_forward_slash" }) do
    cjson_safe[option] = function() end
end
local cjson = setmetatable({
    encode = function(value) return strict(native.json_encode(value)) end,
    decode = function(text) return strict(cjson_safe.decode(text)) end,
}, { __index = cjson_safe })
cjson_safe.new = function() return cjson_safe end
cjson.new = function() return cjson end

-- YAML --------------------------------------------------------------------------------------------------------
local function read_yaml(text)
    if type(text) ~= "string" then error("bad argument #1 to 'parse' (string expected)", 2) end
    return native.yaml_decode(text)
end

-- apisix.core -------------------------------------------------------------------------------------------------

local nothing = {}
environments.fresh[nothing] = function() return {} end
local core = { version = { VERSION = "3.18.0" }, empty_tab = nothing, lua_version = 5.1 }

local delayed_mt = hide({ __tostring = function(self)
    return native.json_encode(self.data, self.force) or tostring(self.data)
end })
core.json = {
    null = null, array_mt = native.array_mt,
    encode = function(value, force) return encoded(native.json_encode(value, force)) end,
    decode = cjson_safe.decode,
    delay_encode = function(data, force) return setmetatable({ data = data, force = force }, delayed_mt) end,
}
-- Object members come out in the order of their names.
local function stable(value)
    if type(value) ~= "table" or getmetatable(value) == native.array_mt or #value > 0 then
        if type(value) ~= "table" then return (native.json_encode(value)) end
        local items = {}
        for at, item in ipairs(value) do items[at] = stable(item) end
        return "[" .. concat(items, ",") .. "]"
    end
    local names, parts = {}, {}
    for name in pairs(value) do names[#names + 1] = tostring(name) end
    sort(names)
    for at, name in ipairs(names) do
        parts[at] = native.json_encode(name) .. ":" .. stable(value[name])
    end
    return "{" .. concat(parts, ",") .. "}"
end
core.json.stably_encode = stable
core.json.canonical_encode = stable

core.log = { delay_exec = function(func, ...)
    local arguments, count = { ... }, select("#", ...)
    return setmetatable({}, { __tostring = function() return tostring(func(unpack(arguments, 1, count))) end })
end }
for name, level in pairs({ emerg = 1, alert = 2, crit = 3, error = 4, warn = 5, notice = 6, info = 7, debug = 8 }) do
    core.log[name] = function(...) return log(level, ...) end
end

local function deepcopy(value, seen)
    if type(value) ~= "table" then return value end
    if seen[value] then return seen[value] end
    local copy = {}
    seen[value] = copy
    for key, item in pairs(value) do copy[deepcopy(key, seen)] = deepcopy(item, seen) end
    local metatable = getmetatable(value)
    return type(metatable) == "table" and setmetatable(copy, metatable) or copy
end
local function merge(base, over)
    for key, value in pairs(over) do
        if type(value) == "table" and type(base[key]) == "table" and #base[key] == 0 then
            merge(base[key], value)
        else
            base[key] = value
        end
    end
    return base
end
local function deep_eq(a, b)
    if type(a) ~= "table" or type(b) ~= "table" then return a == b end
    for key, value in pairs(a) do if not deep_eq(value, b[key]) then return false end end
    for key in pairs(b) do if a[key] == nil then return false end end
    return true
end
core.table = setmetatable({
    insert = insert, concat = concat, sort = sort, remove = remove, unpack = unpack,
    new = table.new, clear = table.clear, nkeys = table.nkeys, clone = table.clone,
    isarray = table.isarray, isempty = table.isempty,
    deepcopy = function(value) return deepcopy(value, {}) end,
    merge = merge, patch = merge, deep_eq = deep_eq,
    insert_tail = function(t, ...)
        for at = 1, select("#", ...) do t[#t + 1] = (select(at, ...)) end
        return #t
    end,
    set = function(t, ...)
        for at = 1, select("#", ...) do t[at] = (select(at, ...)) end
    end,
    try_read_attr = function(t, ...)
        for at = 1, select("#", ...) do
            if type(t) ~= "table" then return nil end
            t = t[(select(at, ...))]
        end
        return t
    end,
    array_find = function(t, wanted)
        for at, value in ipairs(t) do if value == wanted then return at end end
        return nil
    end,
    pick = function(t, names)
        local picked = {}
        for key, value in pairs(t) do if names[key] then picked[key] = value end end
        return picked
    end,
    pool_fetch = function() return {} end, pool_release = function() end,
}, { __index = table })

core.string = setmetatable({
    find = function(text, part, from) return find(text, part, from, true) end,
    has_prefix = function(text, prefix) return sub(text, 1, #prefix) == prefix end,
    has_suffix = function(text, suffix) return suffix == "" or sub(text, -#suffix) == suffix end,
    rfind_char = function(text, char, from)
        for at = from or #text, 1, -1 do if sub(text, at, at) == char then return at end end
        return nil
    end,
    encode_args = encode_args, decode_args = native.decode_args, escape_uri = native.escape_uri,
}, { __index = string })

local function first_of(value)
    if type(value) == "table" then return value[1] end
    return value
end
core.request = {
    header = function(_, name) return first_of(native.req_header(name)) end,
    headers = function() return request_headers() end,
    set_header = function(ctx, name, value)
        if type(ctx) == "string" then name, value = ctx, name end
        native.req_set_header(name, value)
    end,
    add_header = function(ctx, name, value)
        if type(ctx) == "string" then name, value = ctx, name end
        native.req_add_header(name, value)
    end,
    get_ip = function() return var.realip_remote_addr end,
    get_remote_client_ip = function() return var.remote_addr end,
    get_remote_client_port = function() return tonumber(var.remote_port) end,
    -- All of them, as in APISIX.
    get_uri_args = function() return native.uri_args(0) end,
    set_uri_args = function(_, arguments) req.set_uri_args(arguments) end,
    get_post_args = function() return req.get_post_args(0) end,
    get_body = function(most)
        local text = body()
        if text and most and #text > most then
            return nil, "request size " .. #text .. " is greater than the maximum size " .. most .. " allowed"
        end
        return text
    end,
    get_json_request_body_table = function()
        local text = body()
        if not text then return nil, { message = "could not get body: request body is empty" } end
        local value, err = native.json_decode(text)
        if value == nil then return nil, { message = "could not parse JSON request body: " .. tostring(err) } end
        return value
    end,
    get_scheme = function() return var.scheme end,
    get_host = function() return var.host end,
    get_port = function() return tonumber(var.server_port) end,
    get_http_version = native.http_version,
    get_method = native.method,
}

local function exit(code, ...)
    local count = select("#", ...)
    if code ~= nil and type(code) ~= "number" then
        native.print(code)
        code = nil
    end
    if code then native.status_set(code) end
    for at = 1, count do
        local value = select(at, ...)
        if type(value) == "table" then
            local text, err = native.json_encode(value)
            if not text then error("failed to encode data: " .. err, 2) end
            native.print(text, "\n")
        elseif value ~= nil then
            native.print(value)
        end
    end
    if code then native.exit(code) end
end
local function each_header(set, ...)
    local first = ...
    local count = select("#", ...)
    if count == 1 then
        if type(first) ~= "table" then return set(first, nil) end
        for name, value in pairs(first) do set(name, value) end
        return
    end
    for at = 1, count, 2 do set((select(at, ...)), (select(at + 1, ...))) end
end
core.response = {
    exit = exit,
    say = function(...) exit(nil, ...) end,
    set_header = function(...) each_header(native.resp_set, ...) end,
    add_header = function(...) each_header(native.resp_add, ...) end,
    clear_header_as_body_modified = native.body_modified,
    get_upstream_status = function() return tonumber(sub(var.upstream_status or "", -3)) end,
    hold_body_chunk = function(ctx, keeps, most)
        local held = ctx._body_buffer or { size = 0 }
        ctx._body_buffer = held
        local part = ngx.arg[1]
        if type(part) == "string" and (not most or held.size < most) then
            if most and held.size + #part > most then part = sub(part, 1, most - held.size) end
            held.size = held.size + #part
            held[#held + 1] = part
        end
        if ngx.arg[2] then
            ctx._body_buffer = nil
            return concat(held)
        end
        if not keeps then ngx.arg[1] = nil end
    end,
}

core.utils = {
    resolve_var = function(text, vars, escaper)
        if type(text) ~= "string" then return text, nil, 0 end
        local count = 0
        local function value(name)
            local found = vars[name]
            if found == nil then return "" end
            count = count + 1
            found = tostring(found)
            return escaper and escaper(found) or found
        end
        text = text:gsub("%${([%w_%.%-]+)}", value):gsub("%$([%w_]+)", value)
        return text, nil, count
    end,
    gethostname = native.hostname,
    -- nginx's NGX_ESCAPE_URI.
    uri_safe_encode = function(uri)
        return (uri:gsub("[%c #%%?\127-\255]", function(sign) return format("%%%02X", byte(sign)) end))
    end,
    escape_uri_control_chars = function(uri)
        return (uri:gsub("%c", function(sign) return format("%%%02X", byte(sign)) end))
    end,
    sleep = ngx.sleep,
}
core.ctx = {
    set_vars_meta = function() end, release_vars = function() end,
    -- The value goes into the running request, so that templates outside of Lua see it too.
    register_var = function(name, func)
        if type(name) ~= "string" or type(func) ~= "function" then
            error("register_var: a name and a function are needed", 2)
        end
        registered[name] = func
        if running then
            local value = func(running)
            -- Outside of Lua there are texts only.
            if type(value) == "table" then value = core.json.encode(value) end
            if value ~= nil then var[name] = tostring(value) end
        end
    end,
}
core.lrucache = {
    new = function(options)
        local cache, count = {}, 0
        local most = math.min(options and tonumber(options.count) or 1024, 65536)
        local seconds = options and tonumber(options.ttl) or 0
        return function(key, version, create, ...)
            local entry = cache[key]
            if entry and entry.ends and entry.ends <= native.now() then entry.version, entry.late = {}, true end
            if not entry or entry.version ~= version then
                local value, err = create(...)
                if value == nil then return nil, err end
                if not cache[key] then
                    -- APISIX's default; there the oldest make way.
                    if count >= most then cache, count = {}, 0 end
                    count = count + 1
                end
                entry = { version = version, value = value, ends = seconds > 0 and native.now() + seconds or nil }
                cache[key] = entry
            end
            return entry.value
        end
    end,
}

-- net.url ------------------------------------------------------------------------------------------------------
-- The module of that name (Bertrand Mansion's neturl 1.1) as far as functions use it: parse, build, and queries.

local gsub, gmatch, match, format, char, lower =
    string.gsub, string.gmatch, string.match, string.format, string.char, string.lower
local url = { options = { separator = "&" } }

local function unescape(text)
    return (gsub(text, "%%(%x%x)", function(digits) return char(tonumber(digits, 16)) end))
end
local function escape(text, kept)
    return (gsub(text, "[^%w" .. kept .. "]", function(one) return format("%%%02X", byte(one)) end))
end
local in_path, in_query = "%-_%.!~%*'%(%):@&=%+%$,;", "%-_%.!~%*'%(%):@%$,;/%?"

function url.parseQuery(text)
    local query = {}
    for pair in gmatch(text or "", "[^&;]+") do
        local name, value = match(pair, "^([^=]*)=?(.*)$")
        name, value = unescape((gsub(name, "%+", " "))), unescape((gsub(value, "%+", " ")))
        local found = query[name]
        if found == nil then
            query[name] = value
        elseif type(found) == "table" then
            insert(found, value)
        else
            query[name] = { found, value }
        end
    end
    return setmetatable(query, { __tostring = url.buildQuery })
end

function url.buildQuery(query, separator)
    local names, parts = {}, {}
    for name in pairs(query) do insert(names, name) end
    sort(names, function(a, b) return tostring(a) < tostring(b) end)
    for _, name in ipairs(names) do
        local values = query[name]
        for _, value in ipairs(type(values) == "table" and values or { values }) do
            local part = escape(tostring(name), in_query)
            if value ~= "" then part = part .. "=" .. escape(tostring(value), in_query) end
            insert(parts, part)
        end
    end
    return concat(parts, type(separator) == "string" and separator or url.options.separator)
end

function url.build(parts)
    local text = parts.path and escape(unescape(parts.path), in_path .. "/") or ""
    local query = parts.query and tostring(parts.query) or ""
    if query ~= "" then text = text .. "?" .. query end
    if parts.host then
        local authority = parts.host
        if parts.port then authority = authority .. ":" .. parts.port end
        if parts.userinfo and parts.userinfo ~= "" then authority = parts.userinfo .. "@" .. authority end
        if text ~= "" and sub(text, 1, 1) ~= "/" and sub(text, 1, 1) ~= "?" then text = "/" .. text end
        text = "//" .. authority .. text
    end
    if parts.scheme then text = parts.scheme .. ":" .. text end
    if parts.fragment then text = text .. "#" .. parts.fragment end
    return text
end

local function authority_of(parts, authority)
    parts.authority, parts.userinfo, parts.host, parts.port = authority, "", "", nil
    parts.user, parts.password = nil, nil
    local userinfo, rest = match(authority, "^([^@]*)@(.*)$")
    if userinfo then
        parts.userinfo = userinfo
        parts.user, parts.password = match(userinfo, "^([^:]*):?(.*)$")
        if parts.password == "" then parts.password = nil end
        authority = rest
    end
    local host, port = match(authority, "^(.-):(%d+)$")
    parts.host, parts.port = lower(host or authority), tonumber(port)
end

function url.parse(text)
    local parts = { authority = "", query = url.parseQuery("") }
    local rest = tostring(text or "")
    local before, fragment = match(rest, "^(.-)#(.*)$")
    if before then rest, parts.fragment = before, fragment end
    local scheme, behind = match(rest, "^(%w[%w+.-]*):(.*)$")
    if scheme then parts.scheme, rest = lower(scheme), behind end
    local path, query = match(rest, "^(.-)%?(.*)$")
    if path then rest, parts.query = path, url.parseQuery(query) end
    local authority, after = match(rest, "^//([^/]*)(.*)$")
    if authority then
        authority_of(parts, authority)
        rest = after
    end
    parts.path = gsub(rest, "[^/]+", function(segment) return escape(unescape(segment), in_path) end)
    return setmetatable(parts, { __tostring = url.build, __index = { build = url.build } })
end

local modules = {
    ["net.url"] = url, tinyyaml = { parse = read_yaml, null = null }, lyaml = { load = read_yaml, null = null },
    ["apisix.core"] = core, cjson = cjson, ["cjson.safe"] = cjson_safe,
    ["table.new"] = table.new, ["table.clear"] = table.clear, ["table.nkeys"] = table.nkeys,
    ["table.clone"] = table.clone, ["table.isarray"] = table.isarray, ["table.isempty"] = table.isempty,
    bit = bit, string = string, table = table, math = math, os = os, coroutine = coroutine,
    ["ngx.base64"] = { encode_base64url = native.encode_base64url, decode_base64url = native.decode_base64url },
    ["ngx.resp"] = ngx.resp, ["ngx.re"] = re, ["ngx.req"] = { add_header = native.req_add_header },
    ["ngx.errlog"] = { raw_log = log },
}
for _, name in ipairs({ "json", "log", "request", "response", "table", "string", "utils", "ctx", "lrucache" }) do
    modules["apisix.core." .. name] = core[name]
end
function re.split(subject, pattern, options)
    local parts, position = {}, 1
    while true do
        local captures, first, last = exec(subject, pattern, options, position)
        if not captures or last < first then break end
        parts[#parts + 1] = sub(subject, position, first - 1)
        position = last + 1
    end
    parts[#parts + 1] = sub(subject, position)
    return parts
end

-- Plugins in files: their modules, loaded into one environment, and the newest metadata of each.
local plugins = { metadata = {}, modules = {}, environment = function() return environment end }
function plugins.is_of_files() return environments.has_files(environment) end
for name, module in pairs(native.more(native, core, ngx, wait, native.may_wait, plugins)) do modules[name] = module end

function plugins.load(name)
    local module = environment.require("apisix.plugins." .. name)
    if type(module) ~= "table" then error("invalid plugin: the file returns a " .. type(module) .. ", not a table", 0) end
    for _, field in ipairs({ "priority", "version", "schema" }) do
        local wanted = field == "schema" and "table" or "number"
        local kind = type(module[field])
        if kind == "nil" then error("invalid plugin: missing field: " .. field, 0) end
        if kind ~= wanted then error("invalid plugin: " .. field .. " should be a " .. wanted .. ", not a " .. kind, 0) end
    end
    return module
end
-- What each plugin may have in addition, and the plugin's own start.
function plugins.start(module, name)
    module.schema.properties = module.schema.properties or {}
    if module.schema.properties._meta then
        error("invalid plugin: found forbidden '_meta' field in the schema", 0)
    end
    module.schema.properties._meta = { type = "object" }
    module.name = name
    module.attr = modules["apisix.plugin"].plugin_attr(name)
    plugins.modules[name] = module
    if module.init then module.init() end
end

environments.finish(modules)
return new_context, run, environments.new, plugins
