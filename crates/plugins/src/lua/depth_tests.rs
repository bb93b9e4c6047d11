//! How much of its thread's stack Lua takes at most: measured where the interpreter asks for memory, and at its hook.

use std::cell::Cell;

use super::{check_function, clock, vm};

/// Stack of a worker (`proxy/src/worker.rs`), and of the runtime's threads for blocking work, which check what is written.
const WORKER: usize = 4 << 20;
const BLOCKING: usize = 2 << 20;

thread_local! {
    static LOWEST: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Called by the allocator and the hook in tests.
pub(super) fn record_depth() {
    let here = 0_u8;
    let address = std::ptr::from_ref(&here).addr();
    LOWEST.set(LOWEST.get().min(address));
}

/// Each nests by another way.
const NESTS: &[&str] = &[
    "local function f() ('x'):gsub('x', f) end f()",
    "local t t = setmetatable({}, {__index = function() return (('x'):gsub('x', t)) end}) return t.a",
    "local t t = setmetatable({}, {__index = function(_, k) return t[k .. 'x'] end}) return t.a",
    "local function f() table.sort({1, 2, 3}, f) return true end f()",
    "local t t = setmetatable({}, {__tostring = function() return tostring(t) end}) tostring(t)",
    "local t t = setmetatable({}, {__tostring = function() return ('%s'):format(t) end}) tostring(t)",
    "local t t = setmetatable({}, {__tostring = function() ngx.log(ngx.ERR, t) return '' end}) tostring(t)",
    "local t t = setmetatable({}, {__tostring = function() print(t) error(t) end}) print(t) error(t)",
    "local function f() return coroutine.wrap(f)() end f()",
    "local function f() return assert(coroutine.resume(coroutine.create(f))) end f()",
    "local function f() ('x'):gsub('x', coroutine.wrap(f)) end f()",
    "local function f() return coroutine.wrap(function() return ('x'):gsub('x', f) end)() end f()",
    "local function f() return coroutine.wrap(function() return pcall(f) end)() end f() error('end')",
    "local function f() return pcall(f) and pcall(f) end f()",
    "local function f() return xpcall(f, f) end f() error('end')",
    "local function f() load(f) end load(f) f()",
    "assert(loadstring('return ' .. ('('):rep(100000) .. '1'))",
    "assert(loadstring('return ' .. ('{'):rep(100000)))",
    "assert(loadstring('return ' .. ('function() return '):rep(10000)))",
    "assert(loadstring('return ' .. ('- '):rep(100000) .. '1'))",
    "local t = {} for i = 1, 250 do t = {t} end require('cjson').encode(t) error('end')",
    "local j = require('cjson') j.decode(('['):rep(100000)) error('end')",
    "local j = require('cjson') assert(j.decode(('['):rep(120) .. (']'):rep(120))) error('end')",
    "local t = {} for i = 1, 1e4 do t = {t} end ngx.print(t)",
    "('a'):rep(300):match(('a?'):rep(250) .. 'b') error('end')",
    "('a'):rep(300):match(('(a?)'):rep(30) .. ('.-'):rep(150) .. 'b') error('end')",
    "ngx.re.match('a', ('('):rep(10000) .. 'a' .. (')'):rep(10000)) error('end')",
    "ngx.re.match(('a'):rep(5000), '(?=(a+)+b)(a|b)*') error('end')",
    "local function f(...) return f(1, ...) end f()",
];

/// In coroutines as deep as they go, everything else again.
fn nested_in_coroutines(source: &str) -> String {
    format!(
        "local function last() {source} end
        local function f(n) if n == 0 then return last() end return coroutine.wrap(f)(n - 1) end f(158)"
    )
}

#[test]
fn the_deepest_use_leaves_a_margin() {
    let deepest = std::thread::Builder::new().stack_size(WORKER).spawn(|| {
        let base = {
            record_depth();
            LOWEST.get()
        };
        let mut deepest = (0, String::new());
        for source in NESTS.iter().flat_map(|source| [(*source).to_owned(), nested_in_coroutines(source)]) {
            LOWEST.set(base);
            let error = check_function(&source).expect_err(&source);
            assert!(error.starts_with("pcall error"), "{source}: {error}");
            let used = base - LOWEST.get();
            if used > deepest.0 {
                deepest = (used, source);
            }
        }
        // The interpreter still works.
        let lua = &vm::vm().unwrap().lua;
        assert_eq!(clock::limited(|| lua.load("return 1 + 1").eval::<u32>()).unwrap(), 2);
        deepest
    });
    let (used, source) = deepest.unwrap().join().unwrap();
    println!("{used} bytes of stack: {source}");
    assert!(used > 10_000, "something was measured: {used}");
    assert!(used * 8 <= WORKER && used * 4 <= BLOCKING, "{used} bytes of stack: {source}");
}
