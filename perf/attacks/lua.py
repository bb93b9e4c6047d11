"""Lua: scripts that will not stop, each in a request of its own."""

import time

MOST_MS, MOST_WAIT_MS = 100, 60
A = '("a"):rep(3000)'
SCRIPTS = {
    "endless loop": "while true do end",
    "find with twelve a-": f'{A}:find(("a-"):rep(12) .. "b")',
    "find with a*": f'{A}:find(("a*"):rep(20) .. "b")',
    "find with .-": '("x"):rep(5000):find(("x.-"):rep(10) .. "y")',
    "gsub": f'{A}:gsub(("a-"):rep(10) .. "b", "")',
    "gmatch with %b": 'for _ in ("("):rep(200000):gmatch("%b()") do end',
    "match with captures": f'{A}:match(("(a*)"):rep(12) .. "b")',
    "find with back-reference": f'{A}:find("(a*)(a*)%1%2b")',
    "many finds": 'while true do ("a"):rep(1000):find("a-b") end',
    "xpcall whose handler loops": "xpcall(error, function() while true do end end)",
    "xpcall whose handler matches": f'xpcall(error, function() {A}:find(("a-"):rep(12) .. "b") end)',
    "xpcall again and again": "while true do xpcall(error, function() end) end",
    "pcall that catches the end": "while true do pcall(function() while true do end end) end",
    "handler that raises": "local function h() error(xpcall(error, h)) end xpcall(error, h)",
    "recursion": "local function f() return 1 + f() end f()",
    "recursion through pcall": "local function f() pcall(f) end f()",
    "recursion through gsub": 'local function f() return (("a"):gsub("a", f)) end f()',
    "recursion through __index": "local t = setmetatable({}, {}) "
                                 "getmetatable(t).__index = function(t, k) return t[k .. 'x'] end return t.a",
    "recursion through __tostring": "local t = setmetatable({}, {}) "
                                    "getmetatable(t).__tostring = function(t) return tostring(t) end tostring(t)",
    "recursion through __eq": "local m = {} m.__eq = function(a, b) return setmetatable({}, m) == setmetatable({}, m) end "
                              "return setmetatable({}, m) == setmetatable({}, m)",
    "recursion through sort": "local function f() table.sort({3, 2, 1}, function(a, b) f() return a < b end) end f()",
    "sort that lies": "local t = {} for i = 1, 100000 do t[i] = i end "
                      "while true do table.sort(t, function() return true end) end",
    "giant string": 'local s = "x" while true do s = s .. s end',
    "giant rep": 'local s = ("x"):rep(2^30) return #s',
    "giant table": "local t = {} for i = 1, 1e9 do t[i] = i end",
    "giant concat": 'local t = {} for i = 1, 1e6 do t[i] = ("x"):rep(1000) end table.concat(t)',
    "giant format": 'while true do string.format("%99.99f", 1e300) end',
    "coroutines": "while true do coroutine.wrap(function() coroutine.yield() end)() end",
    "coroutine that loops": "coroutine.wrap(function() while true do end end)()",
    "coroutines in coroutines": "local function f() coroutine.wrap(f)() end f()",
    "ngx.re": 'while true do ngx.re.find(("a"):rep(5000), "(a+)+b(?=c)") end',
    "ngx.re once": 'ngx.re.match(("a"):rep(30000), "(?:(?=a)a|a)*b")',
    "expression of 16 MB": 'ngx.re.find("a", ("(a|b)"):rep(3000000))',
    "gsub with 1 MB": 'local r = ("b"):rep(1e6) while true do local _ = ("a"):rep(60):gsub("a", function() return r end) end',
    "error with 16 MB": 'local s = ("x"):rep(16e6) while true do pcall(error, s) end error(s)',
    "say 7,000 MB": 'local s, t = ("x"):rep(1e6), {} for i = 1, 7000 do t[i] = s end ngx.say(unpack(t))',
    "concat in a loop": 'local s = ("x"):rep(1e6) local t = s while true do t = t .. s if #t > 15e6 then t = s end end',
    "concat of numbers": "local t = {} for i = 1, 2e5 do t[i] = 1.1e300 end while true do table.concat(t) end",
    "format of numbers": 'local t = {} for i = 1, 7000 do t[i] = 1.7e308 end ("%99.99f"):rep(7000):format(unpack(t))',
    "json of controls": 'local s = ("\\1"):rep(16e6) while true do require("cjson").encode({s}) end',
    "arguments of 4 MB": 'local s = (" "):rep(4e6) while true do ngx.encode_args({a = s}) end',
    "number of 16 MB": 'local s = (" "):rep(16e6) .. "1" while true do local _ = s + s + s + s end',
    "digest of 16 MB": 'local s = ("x"):rep(16e6) while true do ngx.md5(s) end',
    "no status": "ngx.exit(100)",
    "base64": 'local s = ("x"):rep(1e6) while true do ngx.encode_base64(s) end',
    "json": 'local cjson = require("cjson") local s = ("["):rep(1e5) while true do pcall(cjson.decode, s) end',
}


def run(scene):
    gateway = scene.gateway()
    gateway.route("quiet", "/quiet")
    known = list(SCRIPTS)
    for number, name in enumerate(known):
        function = f"return function(conf, ctx) {SCRIPTS[name]} end"
        gateway.put("routes", f"lua{number}", {"uri": f"/lua{number}", "plugins": {
            "serverless-pre-function": {"phase": "rewrite", "functions": [function]}, "mocking": {"response_example": "x"}}})
    for number, name in enumerate(known):
        if not gateway.lives():
            # The next script shall not be blamed for the one before.
            gateway.running = False
            gateway.start()
        one(scene, gateway, f"/lua{number}", name)


def one(scene, gateway, path, name):
    def work():
        start = time.monotonic()
        status, _ = gateway.ask(path, timeout=5)
        took = (time.monotonic() - start) * 1000
        # A process that aborts takes a while to end, and closes its connections first.
        lives = gateway.lives() if status else gateway.ask("/quiet", timeout=2)[0] == 200 or not gateway.ended(1)
        return (f"{took:.0f} ms, answer {status}, {'lives' if lives else gateway.fate()}",
                took <= MOST_MS and status is not None and lives)

    scene.beside(gateway, name, work, f"<= {MOST_MS} ms, lives", MOST_WAIT_MS)
    if gateway.lives() and not answers(gateway):
        # A worker that never comes back; its gateway is of no more use.
        scene.check(f"{name}: the gateway afterwards", "does not answer", "answers", False)
        gateway.kill()


def answers(gateway):
    return all(gateway.ask("/quiet", timeout=2)[0] == 200 for _ in range(4))
