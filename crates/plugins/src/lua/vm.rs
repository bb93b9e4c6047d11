//! One interpreter per worker: made on first use, with limits on time and memory and without a way to the system.
//!
//! The JIT compiler stays off (library `jit` is not opened): compiled traces do not look at the instruction hook that
//! is the time limit. `io`, `os.execute`, `ffi`, `package` and bytecode are deliberately not there.

use std::{
    cell::{OnceCell, RefCell},
    rc::Rc,
    sync::OnceLock,
    time::{Duration, Instant},
};

use mlua::{Function, HookTriggers, Lua, LuaOptions, StdLib, Table, Value, VmState};
use rustc_hash::FxHashMap;

use super::{api, current, json};

/// Instructions between two looks at the clock: about 20 us.
const INSTRUCTIONS_PER_LOOK: u32 = 2_000;

/// Memory of one worker's interpreter.
const MAX_MEMORY_BYTES: usize = 256 << 20;

/// `plugin_attr.serverless.time_limit_ms`, 50 by default: one call may run that long on a worker.
pub fn time_limit() -> Duration {
    static LIMIT: OnceLock<Duration> = OnceLock::new();
    *LIMIT.get_or_init(|| {
        let configured = ["serverless", "serverless-pre-function"].into_iter().find_map(|name| {
            plugin::host::plugin_attribute(name)?.get("time_limit_ms").and_then(serde_json::Value::as_u64)
        });
        Duration::from_millis(configured.unwrap_or(50).clamp(1, 60_000))
    })
}

/// The functions of one configuration, loaded into this worker's interpreter.
pub struct Loaded {
    pub functions: Vec<Function>,
    /// What the functions get as `conf`.
    pub conf: Value,
    /// A route's script: the table whose functions are phases.
    pub table: Option<Table>,
}

pub struct Vm {
    pub lua: Lua,
    /// Makes a request's `ctx`.
    pub new_context: Function,
    /// Calls a function for a request.
    pub run: Function,
    /// `ngx.var`.
    pub variables: Table,
    programs: RefCell<Programs>,
}

/// By the program's serial number; those of configurations that are gone are swept when the map has doubled.
#[derive(Default)]
struct Programs {
    loaded: FxHashMap<u64, (std::sync::Weak<()>, Rc<Loaded>)>,
    sweep_at: usize,
}

thread_local! {
    static VM: OnceCell<Result<Rc<Vm>, String>> = const { OnceCell::new() };
}

/// This thread's interpreter.
pub fn vm() -> Result<Rc<Vm>, String> {
    VM.with(|vm| vm.get_or_init(|| Vm::new().map(Rc::new).map_err(|error| error.to_string())).clone())
}

impl Vm {
    fn new() -> mlua::Result<Vm> {
        let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH | StdLib::BIT;
        let lua = Lua::new_with(libraries, LuaOptions::new())?;
        // Where the allocator cannot be ours the hook below looks at the total.
        let _ = lua.set_memory_limit(MAX_MEMORY_BYTES);
        json::install(&lua)?;
        let (new_context, run) = api::install(&lua)?;
        lua.set_global_hook(HookTriggers::new().every_nth_instruction(INSTRUCTIONS_PER_LOOK), |lua, _| {
            look(lua).map(|()| VmState::Continue)
        })?;
        let variables = lua.globals().get::<Table>("ngx")?.get("var")?;
        Ok(Vm { lua, variables, new_context, run, programs: RefCell::default() })
    }

    /// The program's functions in this interpreter, loaded at the first call.
    pub fn loaded(
        &self,
        serial: u64,
        alive: &std::sync::Arc<()>,
        load: impl FnOnce(&Lua) -> mlua::Result<Loaded>,
    ) -> mlua::Result<Rc<Loaded>> {
        if let Some((_, loaded)) = self.programs.borrow().loaded.get(&serial) {
            return Ok(loaded.clone());
        }
        let loaded = Rc::new(load(&self.lua)?);
        let mut programs = self.programs.borrow_mut();
        if programs.loaded.len() >= programs.sweep_at {
            programs.loaded.retain(|_, (alive, _)| alive.strong_count() > 0);
            programs.sweep_at = (programs.loaded.len() * 2).max(64);
        }
        programs.loaded.insert(serial, (std::sync::Arc::downgrade(alive), loaded.clone()));
        Ok(loaded)
    }

    /// Loads a text as Lua names it: `[string "first line..."]`. Bytecode is refused.
    pub fn load(lua: &Lua, source: &str, name: &str) -> Result<Function, String> {
        lua.load(source)
            .set_name(name)
            .set_mode(mlua::chunk::ChunkMode::Text)
            .into_function()
            .map_err(|error| message(&error))
    }
}

/// Called by the hook: ends what runs too long or grew too large.
fn look(lua: &Lua) -> mlua::Result<()> {
    if expired() {
        return Err(mlua::Error::runtime(format!("time limit of {} ms exceeded", time_limit().as_millis())));
    }
    if lua.used_memory() > MAX_MEMORY_BYTES {
        return Err(mlua::Error::runtime("memory limit exceeded"));
    }
    Ok(())
}

pub fn expired() -> bool {
    current::call(|call| call.deadline.get()).is_some_and(|deadline| Instant::now() >= deadline)
}

/// Runs something under the time limit.
pub fn limited<R>(run: impl FnOnce() -> R) -> R {
    let before = current::call(|call| call.deadline.replace(Some(Instant::now() + time_limit())));
    let result = run();
    current::call(|call| call.deadline.set(before));
    result
}

/// The message as Lua prints it, without a stack.
pub fn message(error: &mlua::Error) -> String {
    match error {
        mlua::Error::SyntaxError { message, .. } => message.clone(),
        mlua::Error::RuntimeError(message) => {
            message.split("\nstack traceback:").next().unwrap_or_default().to_owned()
        }
        mlua::Error::CallbackError { cause, .. } => message(cause),
        other => other.to_string(),
    }
}
