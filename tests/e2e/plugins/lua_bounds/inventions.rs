//! More of what nobody should write, by somebody who had not seen the first table: what C does in one go, what the
//! collector does in one step, what callbacks, objects and phases hide.

/// Name, what stays from call to call and the body (` KEPT ` between them), and the status of the answer.
pub(super) const INVENTIONS: &[(&str, &str, u16)] = &[
    // One call of C.
    ("replacement of 1 MB", "local r = ('b'):rep(1000000) while true do local _ = ('a'):rep(60):gsub('a', r) end", 500),
    ("table of 1 MB", "local r = ('b'):rep(1000000) while true do local _ = ('a'):rep(60):gsub('a', {a = r}) end", 500),
    ("function of 1 MB", "local r = ('b'):rep(1000000) while true do local _ = ('a'):rep(60):gsub('a', function() return r end) end", 500),
    ("concat of numbers", "kept = {} KEPT for i = #kept + 1, #kept + 200000 do kept[i] = 1.1e300 end while true do table.concat(kept) end", 500),
    ("format of numbers", "local t = {} for i = 1, 7000 do t[i] = 1.7976931348623157e308 end
        while true do local _ = ('%99.99f'):rep(7000):format(unpack(t)) end", 500),
    ("quotes", "local s = ('\\0'):rep(16000000) while true do string.format('%q', s) end", 500),
    ("format of nothing", "local f = ('%%'):rep(8000000) while true do string.format(f) end", 500),
    ("width", "string.format('%99999s', 'x')", 500),
    ("upper limit of a text", "local s = ('x'):rep(16000000) return s .. s", 500),
    ("many to one", "local s = ('x'):rep(1000000) while true do local _ = s .. s .. s .. s .. s .. s .. s .. s .. s .. s .. s .. s .. s .. s .. s .. s .. s end", 500),
    ("blanks as a number", "local s = (' '):rep(16000000) .. '1' while true do local _ = s + s + s + s + s + s + s + s end", 500),
    ("limits of a loop", "local s = (' '):rep(16000000) .. '1' while true do for i = s, s do end end", 500),
    ("plain search", "local s, p = ('a'):rep(16000000), ('a'):rep(1000000) .. 'b' while true do s:find(p, 1, true) end", 500),
    ("long pattern", "local s = ('a'):rep(16000000) while true do ('x'):find(s) end", 500),
    ("all of a table", "kept = {} KEPT for i = #kept + 1, #kept + 300000 do kept[i] = 1 end while true do table.maxn(kept) end", 500),
    ("front of a table", "kept = {} KEPT for i = #kept + 1, #kept + 300000 do kept[i] = 1 end while true do table.remove(kept, 1) end", 500),
    ("source again", "local s = 'return {' .. ('1,'):rep(500000) .. '}' while true do loadstring(s) end", 500),
    ("source of comments", "local s = ('--x\\n'):rep(260000) while true do loadstring(s) end", 500),
    // Messages.
    ("message", "error(('x'):rep(16000000))", 500),
    ("message without a place", "error(('x'):rep(16000000), 0)", 500),
    ("assertion", "assert(false, ('x'):rep(16000000))", 500),
    ("messages caught", "local s = ('x'):rep(16000000) while true do pcall(error, s) end", 500),
    ("messages in messages", "local function f(n) local ok, e = pcall(f, n + 1) error(e .. 'x') end f(1)", 500),
    ("objects as messages", "error(setmetatable({}, {__tostring = function() error('x') end}))", 500),
    // What is said.
    ("7,000 MB said", "local s = ('x'):rep(1000000) local t = {} for i = 1, 7000 do t[i] = s end ngx.say(unpack(t))", 500),
    ("a list said", "local s = ('x'):rep(1000000) local t = {} for i = 1, 7000 do t[i] = s end ngx.say(t)", 500),
    ("15 MB said", "for i = 1, 15 do ngx.say(('x'):rep(1000000)) end", 200),
    ("names of 16 MB", "local s = ('A_'):rep(8000000) while true do local _ = ngx.var[s], ngx.header[s], ngx.req.get_headers()[s] end", 500),
    ("path of 16 MB", "ngx.req.set_uri(('/ '):rep(8000000))", 500),
    ("query of 16 MB", "ngx.req.set_uri_args((' '):rep(16000000))", 500),
    ("many headers", "for i = 1, 5000 do ngx.header['x-' .. i] = 'y' end", 500),
    ("many of the request", "for i = 1, 5000 do ngx.req.add_header('x-' .. i, 'y') end", 500),
    // JSON, texts, expressions.
    ("controls", "local s = ('\\1'):rep(16000000) while true do assert(require('cjson').encode({s})) end", 500),
    ("no UTF-8", "local s = ('\\255'):rep(16000000) while true do assert(require('cjson').encode({s})) end", 500),
    ("no UTF-8 as a name", "local s = ('\\255'):rep(5000000) while true do assert(require('cjson').encode({[s] = 1})) end", 500),
    ("controls returned", "return 200, {('\\1'):rep(16000000)}", 500),
    ("decoding of escapes", "local s = '\"' .. ('\\\\u00e9'):rep(690000) .. '\"' while true do require('cjson').decode(s) end", 500),
    ("decoding of digits", "local s = '[' .. ('1'):rep(4000000) .. ']' while true do pcall(require('cjson').decode, s) end", 500),
    ("arguments of blanks", "local s = (' '):rep(4000000) while true do ngx.encode_args({a = s}) end", 500),
    ("many arguments", "local t = {} for i = 1, 50000 do t['k' .. i] = i end while true do ngx.encode_args(t) end", 500),
    ("expression of 16 MB", "local s = ('(a|b)'):rep(3000000) while true do ngx.re.find('a', s) end", 500),
    ("expression of brackets", "local s = ('('):rep(500000) while true do ngx.re.find('a', s) end", 500),
    ("class of 1 MB", "local s = '[' .. ('a-z'):rep(300000) .. ']' while true do ngx.re.find('a', s) end", 500),
    ("expressions of states", "local i = 0 while true do i = i + 1 ngx.re.find('a', '(a{1000}){10}' .. i) end", 500),
    ("subject of 16 MB", "local s = ('x'):rep(16000000) while true do ngx.re.find(s, 'y') end", 500),
    // Memory in many pieces.
    ("keys between numbers", "kept, n = {}, 0 KEPT while true do n = n + 1 kept[n + 0.5] = 1 end", 500),
    ("texts for keys", "kept, n = {}, 0 KEPT while true do n = n + 1 kept[n .. ''] = 1 end", 500),
    ("small tables", "kept, n = {}, 0 KEPT while true do n = n + 1 kept[n] = {} end", 500),
    ("weak keys", "local t = setmetatable({}, {__mode = 'k'}) while true do t[{}] = {} end", 500),
    ("chain of weak keys", "local t, k = setmetatable({}, {__mode = 'k'}), {} while true do local n = {} t[n], k = k, n end", 500),
    ("stacks", "local function deep(n) if n == 0 then coroutine.yield() end return 1 + deep(n - 1) end
        local t = {} while true do local c = coroutine.wrap(deep) c(5000) t[#t + 1] = c end", 500),
    ("functions in functions", "local f = function() return 1 end for i = 1, 50000 do local g = f f = function() return 1 + g() end end f()", 500),
    ("dictionaries", "for i = 1, 1e9 do ngx.shared['d' .. i]:set('k', ('v'):rep(1000)) end", 500),
    // Callbacks and objects.
    ("sorting loops", "table.sort({3, 2, 1}, function() repeat until false end)", 500),
    ("comparing loops", "local m = {__lt = function() repeat until false end} table.sort({setmetatable({}, m), setmetatable({}, m)})", 500),
    ("replacing loops", "ngx.re.gsub('x', 'x', function() repeat until false end)", 500),
    ("reading loops", "load(function() repeat until false end)", 500),
    ("logging loops", "local log = require('apisix.core').log log.error(log.delay_exec(function() repeat until false end))", 500),
    ("caching loops", "require('apisix.core').lrucache.new()('k', 1, function() repeat until false end)", 500),
    ("variable loops", "require('apisix.core').ctx.register_var('invented', function() repeat until false end)", 500),
    ("iterating loops", "for _ in setmetatable({}, {__call = function() repeat until false end}) do end", 500),
    ("equality recursion", "local m = {} m.__eq = function() return setmetatable({}, m) == setmetatable({}, m) end
        return setmetatable({}, m) == setmetatable({}, m)", 500),
    ("long chains", "local t = {} for i = 1, 60 do local u = t t = setmetatable({}, {__index = function(_, k) return u[k] end}) end
        while true do local _ = t.a end", 500),
    ("ping-pong", "local a = coroutine.wrap(function() while true do coroutine.yield() end end)
        local b = coroutine.wrap(function() while true do a() coroutine.yield() end end) while true do b() end", 500),
    ("exit and on", "while true do pcall(ngx.exit, 403) end", 403),
    ("exit of a handler", "xpcall(function() ngx.exit(403) end, function() while true do end end) while true do end", 403),
    ("merging of itself", "local t = {} t.t = t require('apisix.core').table.merge(t, {t = t}) while true do end", 500),
    ("sum of floats", "local x = 1.0 while x > 0 do x = x * 1.0000001 end while true do x = x * 0.5 + 1 end", 500),
    ("out of reach", "return debug == nil and io == nil and ffi == nil and jit == nil and newproxy == nil and collectgarbage == nil
        and os.execute == nil and string.dump == nil and not pcall(require, 'ffi') and not pcall(require, 'string.buffer')
        and not pcall(require, 'jit.util') and not pcall(require, 'io') and 204 or 500", 204),
];
