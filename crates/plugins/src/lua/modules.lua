-- Modules for plugins in files, beside those that functions of configurations have as well. Returns a table of them.
local native, core, ngx, wait, may_wait, current = ...

local type, pairs, ipairs, tostring, tonumber, error, setmetatable, getmetatable, rawget, select, next =
    type, pairs, ipairs, tostring, tonumber, error, setmetatable, getmetatable, rawget, select, next
local concat, insert, sort = table.concat, table.insert, table.sort
local sub, find, byte, format, gsub, lower, match = string.sub, string.find, string.byte, string.format, string.gsub,
    string.lower, string.match
local floor = math.floor
local modules = {}

-- Waiting: where a phase cannot wait, the function gets an error.
local function waits(name)
    if not may_wait() then
        error("API disabled in the context of " .. ngx.get_phase() .. ": " .. name .. " waits", 3)
    end
end

-- config ------------------------------------------------------------------------------------------------------
local settings
local function local_conf()
    if not settings then settings = native.local_conf() end
    return settings
end
core.config = {
    local_conf = local_conf,
    type = "tidegate",
    new = function() error("core.config.new is not available: objects are written with the Admin API", 2) end,
}
modules["apisix.core.config_local"] = { local_conf = local_conf, clear_cache = function() end }

-- schema ------------------------------------------------------------------------------------------------------
local function check_schema(schema, value) return native.schema_check(schema, value) end
core.schema = {
    TYPE_CONSUMER = 1, TYPE_METADATA = 2, check = check_schema,
    valid = function(schema)
        if type(schema) ~= "table" then return nil, "a schema is a table" end
        return function(value) return check_schema(schema, value) end
    end,
}
local host_def = { type = "string", pattern = "^\\*?[0-9a-zA-Z-._\\[\\]:]+$" }
local id_def = { anyOf = {
    { type = "string", minLength = 1, maxLength = 64, pattern = "^[a-zA-Z0-9-_.]+$" },
    { type = "integer", minimum = 1 },
} }
local ip_def = {
    { title = "IPv4", type = "string", format = "ipv4" },
    { title = "IPv4/CIDR", type = "string",
        pattern = "^([0-9]{1,3}\\.){3}[0-9]{1,3}/([12]?[0-9]|3[0-2])$" },
    { title = "IPv6", type = "string", format = "ipv6" },
    { title = "IPv6/CIDR", type = "string", pattern = "^([a-fA-F0-9]{0,4}:){1,8}(:[a-fA-F0-9]{0,4}){0,8}"
        .. "([a-fA-F0-9]{0,4})?/[0-9]{1,3}$" },
}
local definitions = { host_def = host_def, id_schema = id_def, ip_def = ip_def,
    uri_def = { type = "string", pattern = "^[^\\/]+:\\/\\/([\\da-zA-Z.-]+|\\[[\\da-fA-F:]+\\])(:\\d+)?" } }
for name, definition in pairs(definitions) do core.schema[name] = definition end
modules["apisix.schema_def"] = definitions

-- plugin ------------------------------------------------------------------------------------------------------
local metadata, loaded = current.metadata, current.modules
-- Functions of configurations get a copy, whose functions call those of the plugin: what they write changes no plugin.
local function shown(value, seen)
    if type(value) == "function" then return function(...) return value(...) end end
    if type(value) ~= "table" then return value end
    if not seen[value] then
        local copy = {}
        seen[value] = copy
        for key, entry in next, value do copy[key] = shown(entry, seen) end
    end
    return seen[value]
end
modules["apisix.plugin"] = {
    plugin_attr = function(name) return core.table.try_read_attr(local_conf(), "plugin_attr", name) end,
    plugin_metadata = function(name)
        local value = metadata[name]
        return value ~= nil and { value = value } or nil
    end,
    get = function(name)
        if current.is_of_files() then return loaded[name] end
        return shown(loaded[name], {})
    end,
    conf_version = function(conf) return tostring(conf) end,
    enable_debug = function() return false end,
}

-- consumers ---------------------------------------------------------------------------------------------------
local consumer = {}
local by_plugin = { __index = function(conf, key)
    if key ~= "nodes" and key ~= "len" then return nil end
    local nodes = native.consumers_all(rawget(conf, "plugin_name"))
    conf.nodes, conf.len = nodes, #nodes
    return conf[key]
end }
function consumer.plugin(name)
    local version = native.consumers_version(name)
    if not version then return nil end
    return setmetatable({ plugin_name = name, conf_version = version }, by_plugin)
end
consumer.consumers_conf = consumer.plugin
function consumer.consumers_kv(name, _, field)
    return setmetatable({}, { __index = function(_, value)
        return native.consumer_find(name, field, value)
    end })
end
function consumer.find_consumer(name, field, value)
    local conf = consumer.plugin(name)
    if not conf then return nil, nil, "Missing related consumer" end
    if value == nil then return nil, conf end
    return native.consumer_find(name, field, value), conf
end
function consumer.attach_consumer(ctx, found)
    local name = found.consumer_name or found.username
    if type(name) ~= "string" or not native.consumer_attach(name, found.credential_id) then
        error("unknown consumer " .. tostring(name), 2)
    end
    ctx.consumer = found
end
function consumer.get_anonymous_consumer(name)
    local found = native.consumer_named(name)
    if not found then return nil, nil, "failed to get anonymous consumer " .. tostring(name) end
    found.consumer_name = found.username
    return found, {}
end
modules["apisix.consumer"] = consumer

-- HTTP --------------------------------------------------------------------------------------------------------
local http = { _VERSION = "0.17.1", _USER_AGENT = "tidegate" }
local client = {}
local client_mt = { __index = client, __metatable = false }
http._M = client
local any_case = { __index = function(t, key)
    if type(key) ~= "string" then return nil end
    local wanted = gsub(lower(key), "_", "-")
    for name, value in next, t do
        if type(name) == "string" and lower(name) == wanted then return value end
    end
    return nil
end, __metatable = false }

function http.new() return setmetatable({ keepalive = true }, client_mt) end
function client.new() return http.new() end
function client:set_timeout(time) self.timeout = time return true end
function client:set_timeouts(connect, send, read)
    self.timeout = math.max(tonumber(connect) or 0, tonumber(send) or 0, tonumber(read) or 0)
    return true
end
function client:set_proxy_options() error("proxies of resty.http are not available", 2) end
function client:ssl_handshake(_, host, verify)
    self.scheme, self.ssl_verify = "https", verify ~= false
    self.host = self.host or host
    return true
end
function client:set_keepalive() return 1 end
function client:get_reused_times() return 0 end
function client:close() return 1 end

function client:parse_uri(uri, query_in_path)
    local scheme, authority, rest = match(tostring(uri), "^(%a[%w+.-]*)://([^/?#]*)(.*)$")
    if not scheme then
        authority, rest = match(tostring(uri), "^//([^/?#]*)(.*)$")
        scheme = self and self.scheme or "http"
    end
    scheme = scheme and lower(scheme)
    if not authority or authority == "" or scheme ~= "http" and scheme ~= "https" then
        return nil, "bad uri: " .. tostring(uri)
    end
    local host, port = match(authority, "^(.-):(%d+)$")
    local path, query = match(rest, "^([^?#]*)%??([^#]*)")
    if path == "" then path = "/" end
    if query_in_path ~= false and query ~= "" then path, query = path .. "?" .. query, "" end
    return { scheme, host or authority, tonumber(port) or (scheme == "https" and 443 or 80), path, query }
end
http.parse_uri = client.parse_uri

local function text_of(body)
    if body == nil then return "" end
    if type(body) == "table" then return concat(body) end
    if type(body) == "function" then
        local parts, size = {}, 0
        while true do
            local part = body()
            if not part or part == "" then break end
            size = size + #part
            if size > 8388608 then error("the body is too long", 3) end
            parts[#parts + 1] = part
        end
        return concat(parts)
    end
    return tostring(body)
end
local function listed(headers)
    local list = {}
    for name, value in pairs(headers or {}) do
        if type(name) == "string" and lower(name) ~= "content-length" and lower(name) ~= "transfer-encoding" then
            for _, one in ipairs(type(value) == "table" and value or { value }) do
                list[#list + 1] = name
                list[#list + 1] = tostring(one)
            end
        end
    end
    return list
end
local response = {}
local response_mt = { __index = response, __metatable = false }
function response:read_body()
    local body = rawget(self, "_body")
    self._body = nil
    return body or ""
end
local function send(self, url, params)
    waits("resty.http")
    if params.ssl_client_cert or params.proxy_opts or params.ssl_cert_path then
        return nil, "client certificates and proxies of resty.http are not available"
    end
    local verify, keep = params.ssl_verify, params.keepalive
    if verify == nil then verify = self.ssl_verify end
    if keep == nil then keep = self.keepalive end
    local answer, err = wait("http", {
        url = url, method = params.method, body = text_of(params.body), headers = listed(params.headers),
        timeout = self.timeout, ssl_verify = verify ~= false, keepalive = keep ~= false,
        keepalive_timeout = params.keepalive_timeout, keepalive_pool = params.keepalive_pool,
    })
    if not answer then return nil, err end
    answer.headers = setmetatable(answer.headers, any_case)
    answer.reason, answer.has_body = "", #answer.body > 0
    return answer
end
local function with_query(path, query)
    path = path or "/"
    if sub(path, 1, 1) ~= "/" then path = "/" .. path end
    if type(query) == "table" then query = ngx.encode_args(query) end
    if query == nil or query == "" then return path end
    return path .. (find(path, "?", 1, true) and "&" or "?") .. query
end
function client:request_uri(uri, params)
    params = params or {}
    local parts, err = self:parse_uri(uri, true)
    if not parts then return nil, err end
    local path = with_query(params.path or parts[4], params.query)
    return send(self, parts[1] .. "://" .. parts[2] .. ":" .. parts[3] .. path, params)
end
function client:connect(options, port)
    if type(options) ~= "table" then options = { host = options, port = port } end
    if type(options.host) ~= "string" or find(options.host, "unix:", 1, true) then
        return nil, "sockets of a file are not available"
    end
    self.host, self.scheme = options.host, options.scheme or self.scheme or "http"
    self.port = tonumber(options.port) or (self.scheme == "https" and 443 or 80)
    if options.ssl_verify ~= nil then self.ssl_verify = options.ssl_verify end
    return 1
end
function client:request(params)
    if not self.host then return nil, "not connected" end
    local host = find(self.host, ":", 1, true) and "[" .. self.host .. "]" or self.host
    local url = self.scheme .. "://" .. host .. ":" .. self.port .. with_query(params.path, params.query)
    local answer, err = send(self, url, params)
    if not answer then return nil, err end
    answer._body, answer.body = answer.body, nil
    answer.body_reader = function()
        local part = response.read_body(answer)
        return part ~= "" and part or nil
    end
    return setmetatable(answer, response_mt)
end
modules["resty.http"] = http

-- timers ------------------------------------------------------------------------------------------------------
local function timer(delay, repeats, func, ...)
    if type(delay) ~= "number" or type(func) ~= "function" then error("a delay and a function are needed", 3) end
    local arguments, count = { ... }, select("#", ...)
    if not current.timer then return true end
    return current.timer(delay, repeats, function(premature)
        return func(premature, unpack(arguments, 1, count))
    end, current.environment())
end
ngx.timer = {
    at = function(delay, func, ...) return timer(delay, false, func, ...) end,
    every = function(delay, func, ...)
        if delay == 0 then error("delay cannot be zero", 2) end
        return timer(delay, true, func, ...)
    end,
    running_count = function() return 0 end,
}
core.timer = { new = function(_, func, options)
    local interval = options and options.check_interval or 1
    local ok, err = ngx.timer.every(interval, function() return func() end)
    if not ok then return nil, err end
    return { cancel = function() end }
end }
-- APISIX calls these functions once a second.
local background = {}
modules["apisix.timers"] = {
    register_timer = function(name, func)
        if background[name] then return end
        background[name] = func
        ngx.timer.every(1, function() if background[name] == func then return func() end end)
    end,
    unregister_timer = function(name) background[name] = nil end,
}

-- digests and texts -------------------------------------------------------------------------------------------
local function digest(name, bytes)
    local maker = { _VERSION = "0.15" }
    local kept = { __index = {
        update = function(self, text)
            self[#self + 1] = text
            return true
        end,
        final = function(self) return name == "md5" and ngx.md5_bin(concat(self)) or native.digest(name, concat(self)) end,
        reset = function(self)
            for at = #self, 1, -1 do self[at] = nil end
            return true
        end,
    }, __metatable = false }
    function maker.new() return setmetatable({}, kept) end
    maker.digest_length = bytes
    return maker
end
modules["resty.md5"], modules["resty.sha1"] = digest("md5", 16), digest("sha1", 20)
modules["resty.sha256"], modules["resty.sha512"] = digest("sha256", 32), digest("sha512", 64)
local function to_hex(text) return (gsub(text, ".", function(one) return format("%02x", byte(one)) end)) end
modules["resty.string"] = {
    to_hex = to_hex,
    atoi = function(text) return tonumber(match(text, "^%s*(%-?%d+)")) or 0 end,
}
modules["resty.random"] = { bytes = function(length) return native.random_bytes(length) end }
local hmac = { ALGOS = { SHA1 = "sha1", SHA256 = "sha256", SHA384 = "sha384", SHA512 = "sha512" } }
local hmac_mt = { __index = {
    update = function(self, text)
        self[#self + 1] = text
        return true
    end,
    final = function(self, text, as_hex)
        if text then self[#self + 1] = text end
        local mac = native.hmac(self.algorithm, self.key, concat(self))
        return as_hex and to_hex(mac) or mac
    end,
    reset = function(self)
        for at = #self, 1, -1 do self[at] = nil end
        return true
    end,
}, __metatable = false }
function hmac:new(key, algorithm)
    if not algorithm then return nil, "md5 is not available: name an algorithm of ALGOS" end
    return setmetatable({ key = key, algorithm = algorithm }, hmac_mt)
end
modules["resty.hmac"] = hmac
local function uuid()
    local b = { byte(native.random_bytes(16), 1, 16) }
    b[7], b[9] = b[7] % 16 + 64, b[9] % 64 + 128
    return format("%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", unpack(b))
end
modules["resty.jit-uuid"] = setmetatable({ generate_v4 = uuid, seed = function() end }, { __call = uuid })
core.id = { get = function() return native.hostname() end, gen_uuid_v4 = uuid }
core.utils.uuid = uuid

-- caches ------------------------------------------------------------------------------------------------------
local cache_mt = { __index = {
    get = function(self, key)
        local entry = self.entries[key]
        if not entry then return nil end
        if entry.ends and entry.ends <= ngx.now() then return nil, entry.value end
        return entry.value, nil, entry.flags
    end,
    set = function(self, key, value, seconds, flags)
        if not self.entries[key] then
            if self.held >= self.most then self.entries, self.held = {}, 0 end
            self.held = self.held + 1
        end
        self.entries[key] = { value = value, flags = flags, ends = seconds and seconds > 0 and ngx.now() + seconds }
    end,
    delete = function(self, key)
        if self.entries[key] then self.entries[key], self.held = nil, self.held - 1 end
    end,
    flush_all = function(self) self.entries, self.held = {}, 0 end,
    count = function(self) return self.held end,
    capacity = function(self) return self.most end,
    get_keys = function(self)
        local keys = {}
        for key in pairs(self.entries) do keys[#keys + 1] = key end
        return keys
    end,
}, __metatable = false }
modules["resty.lrucache"] = { new = function(most)
    most = tonumber(most)
    if not most or most < 1 then return nil, "size must be at least 1" end
    return setmetatable({ entries = {}, held = 0, most = math.min(most, 65536) }, cache_mt)
end }
local plain_cache = core.lrucache.new({ count = 1024 })
core.lrucache.global = function(key, version, create, ...) return plain_cache(key, version, create, ...) end
local function context_key(ctx, extra)
    local key = concat({ tostring(ctx.conf_type), tostring(ctx.conf_id) }, "#")
    return extra and key .. "#" .. tostring(extra) or key, ctx.conf_version
end
core.lrucache.plugin_ctx = function(cache, ctx, extra, create, ...)
    local key, version = context_key(ctx, extra)
    return cache(key, version, create, ...)
end
core.lrucache.plugin_ctx_key_and_ver = context_key

-- addresses ---------------------------------------------------------------------------------------------------
local function numbers(text)
    local a, b, c, d = match(text, "^(%d+)%.(%d+)%.(%d+)%.(%d+)$")
    if a then
        local list = { tonumber(a), tonumber(b), tonumber(c), tonumber(d) }
        for _, part in ipairs(list) do if part > 255 then return nil end end
        return list
    end
    local head, tail = text, nil
    if find(text, "::", 1, true) then head, tail = match(text, "^(.-)::(.*)$") end
    local function words(of)
        local list = {}
        for word in string.gmatch(of or "", "[^:]+") do
            local value = #word <= 4 and tonumber(word, 16)
            if not value then return nil end
            list[#list + 1] = floor(value / 256)
            list[#list + 1] = value % 256
        end
        return list
    end
    local first, last = words(head), words(tail)
    if not first or not last or not find(text, ":", 1, true) or #first + #last > 16 then return nil end
    if not tail and #first ~= 16 then return nil end
    for _ = #first + #last + 1, 16 do first[#first + 1] = 0 end
    for _, value in ipairs(last) do first[#first + 1] = value end
    return first
end
local function network(text)
    local address, bits = match(tostring(text), "^([^/]+)/?(%d*)$")
    local parts = address and numbers(address)
    if not parts then return nil end
    bits = bits ~= "" and tonumber(bits) or #parts * 8
    if bits > #parts * 8 then return nil end
    return parts, bits
end
local function is_in(parts, of, bits)
    if #parts ~= #of then return false end
    for at = 1, #parts do
        local left = bits - (at - 1) * 8
        if left <= 0 then return true end
        local step = left >= 8 and 1 or 2 ^ (8 - left)
        if floor(parts[at] / step) ~= floor(of[at] / step) then return false end
    end
    return true
end
local matcher_mt = { __index = {
    match = function(self, text)
        local parts = numbers(tostring(text))
        if not parts then return false, "invalid ip address, not ipv4 and ipv6" end
        for _, one in ipairs(self.networks) do
            if is_in(parts, one.parts, one.bits) then return one.value end
        end
        return false
    end,
    match_bin = function() error("match_bin is not available: use match", 2) end,
}, __metatable = false }
local function matcher(list, values)
    local networks = {}
    for at, text in ipairs(list) do
        local parts, bits = network(text)
        if not parts then return nil, "invalid ip address: " .. tostring(text) end
        networks[at] = { parts = parts, bits = bits, value = values == nil or values[text] }
    end
    return setmetatable({ networks = networks }, matcher_mt)
end
modules["resty.ipmatcher"] = {
    new = function(list) return matcher(list) end,
    new_with_value = function(values)
        local list = {}
        for text in pairs(values) do list[#list + 1] = text end
        sort(list)
        return matcher(list, values)
    end,
    parse_ipv4 = function(text)
        local parts = numbers(tostring(text))
        if not parts or #parts ~= 4 then return false, "invalid ipv4" end
        return ((parts[1] * 256 + parts[2]) * 256 + parts[3]) * 256 + parts[4]
    end,
    parse_ipv6 = function(text)
        local parts = numbers(tostring(text))
        return parts and #parts == 16 and parts or false
    end,
}
core.ip = { create_ip_matcher = function(list)
    local made, err = matcher(list)
    if not made then core.log.error("failed to create ip matcher: ", err) end
    return made
end, validate_cidr_or_ip = function(text) return network(text) ~= nil end }
core.utils.parse_ipv4, core.utils.parse_ipv6 =
    modules["resty.ipmatcher"].parse_ipv4, modules["resty.ipmatcher"].parse_ipv6

-- the rest of core --------------------------------------------------------------------------------------------
core.math = { gcd = function(a, b)
    while b ~= 0 do a, b = b, a % b end
    return a
end }
core.env = { fetch_by_uri = function(uri) return nil, "environment variables are not available: " .. tostring(uri) end }
core.version.VERSION = core.version.VERSION or "3.18.0"
core.utils.validate_header_field = function(field)
    return type(field) == "string" and match(field, "^[%w!#$%%&'*+%-.^_`|~]+$") ~= nil
end
core.utils.validate_header_value = function(value)
    return (type(value) == "string" or type(value) == "number") and not find(tostring(value), "[%z\r\n]")
end
core.utils.dns_parse = function() return nil, "names are resolved by resty.http" end
core.utils.get_seed_from_urandom = function() return (byte(native.random_bytes(1))) end
core.utils.split_uri = function(uri)
    local parts = {}
    for part in string.gmatch(uri .. "/", "(.-)/") do parts[#parts + 1] = part end
    return parts
end
core.utils.get_last_index = function(text, char) return core.string.rfind_char(text, char) end
core.utils.parse_addr = function(address)
    local host, port = match(tostring(address), "^(.-):(%d+)$")
    return host or address, tonumber(port)
end
local request = core.request
request.get_path = function() return ngx.var.uri end
request.set_body_data = function(_, body) ngx.req.set_body_data(body) end
request.set_method = function(_, method) ngx.req.set_method(method) end
request.set_uri = function(_, uri) ngx.req.set_uri(uri) end
request.get_header = request.header

-- Penlight's stringx, as far as plugins trim and split with it.
local function trimmed(text, left, right, signs)
    local set = signs and "[" .. gsub(signs, "%W", "%%%0") .. "]" or "%s"
    if left then text = gsub(text, "^" .. set .. "+", "") end
    while right and text ~= "" and find(sub(text, -1), set) do text = sub(text, 1, -2) end
    return text
end
modules["pl.stringx"] = {
    strip = function(text, signs) return trimmed(text, true, true, signs) end,
    lstrip = function(text, signs) return trimmed(text, true, false, signs) end,
    rstrip = function(text, signs) return trimmed(text, false, true, signs) end,
    startswith = core.string.has_prefix, endswith = core.string.has_suffix,
    split = function(text, by)
        local parts, at = {}, 1
        if not by then
            for part in string.gmatch(text, "%S+") do parts[#parts + 1] = part end
            return parts
        end
        while true do
            local first, last = find(text, by, at, true)
            parts[#parts + 1] = sub(text, at, first and first - 1)
            if not first or by == "" then return parts end
            at = last + 1
        end
    end,
}

-- Names of modules that are parts of others.
for _, name in ipairs({ "schema", "id", "ip", "math", "env", "timer", "version", "config" }) do
    modules["apisix.core." .. name] = core[name]
end
modules["ngx"] = ngx
return modules
