//! One interpreter per worker: made on first use, with limits on time and memory and without a way to the system.
//!
//! The JIT compiler stays off (library `jit` is not opened): compiled traces do not look at the instruction hook that
//! is the time limit. `io`, `os.execute`, `ffi`, `package` and bytecode are deliberately not there.
//!
//! An interpreter whose memory stays full is replaced: its globals and upvalues are what filled it.

use std::{
    cell::{Cell, OnceCell, RefCell},
    rc::Rc,
    time::{Duration, Instant},
};

use mlua::{Function, IntoLuaMulti, Lua, LuaOptions, StdLib, Table, Value};
use rustc_hash::FxHashMap;
use tidegate_telemetry::error_log::{self, Level};

use super::{
    api, array,
    bounds::{self, Meter},
    chunk, clock,
};

/// From here on garbage is collected between calls: this part of the limits.
const FULL: (usize, usize) = (3, 4);
/// What a retired interpreter may still hold when the rest is freed at once: some milliseconds of work.
const LIGHT_BYTES: usize = 16 << 20;
/// Collecting takes so long between two calls.
const COLLECTING: Duration = Duration::from_millis(5);
/// What a check may leave behind in its thread.
const CHECKED_BYTES: usize = 8 << 20;

/// The functions of one configuration, loaded into this worker's interpreter.
pub(crate) struct Loaded {
    pub functions: Vec<Function>,
    /// What the functions get as `conf`.
    pub conf: Value,
    /// A route's script: the table whose functions are phases.
    pub table: Option<Table>,
    /// Their globals.
    pub environment: Table,
}

pub(crate) struct Vm {
    pub lua: Lua,
    /// Makes a request's `ctx`.
    pub(crate) new_context: Function,
    /// Calls a function for a request.
    pub run: Function,
    /// Makes the globals of a configuration.
    pub(crate) new_environment: Function,
    /// What the prelude knows of plugins in files.
    plugins: Table,
    offers_timers: Cell<bool>,
    /// The globals of plugins in files, and their modules.
    files: OnceCell<Table>,
    modules: RefCell<FxHashMap<&'static str, Tried>>,
    /// `ngx.var`.
    pub variables: Table,
    meter: &'static Meter,
    /// Collections that ended while memory was full.
    collected: Cell<u8>,
    programs: RefCell<Programs>,
}

/// A module that was loaded, or when it could not be.
enum Tried {
    Loaded(Table),
    Failed(Instant, String),
}

/// A file that cannot be loaded is not tried again before.
const RETRY: Duration = Duration::from_secs(1);

/// By the program's serial number; those of configurations that are gone are swept when the map has doubled.
#[derive(Default)]
struct Programs {
    loaded: FxHashMap<u64, (std::sync::Weak<()>, Rc<Loaded>)>,
    sweep_at: usize,
}

thread_local! {
    static VM: RefCell<Option<Rc<Vm>>> = const { RefCell::new(None) };
    /// The one before, as long as it is not empty.
    static RETIRED: RefCell<Option<Rc<Vm>>> = const { RefCell::new(None) };
}

/// This thread's interpreter.
pub(super) fn vm() -> Result<Rc<Vm>, String> {
    VM.with_borrow_mut(|slot| {
        if let Some(vm) = slot {
            return Ok(vm.clone());
        }
        let vm = Vm::new().map(Rc::new).map_err(|error| chunk::message(&error))?;
        Ok(slot.insert(vm).clone())
    })
}

/// Whether it is this thread's.
pub(super) fn is_current(vm: &Rc<Vm>) -> bool {
    VM.with_borrow(|slot| slot.as_ref().is_some_and(|current| Rc::ptr_eq(current, vm)))
}

/// Gives this thread's interpreter back.
pub(crate) fn forget() {
    VM.set(None);
}

/// After a check of a source: what it left behind goes with its interpreter.
pub(crate) fn forget_checked() {
    VM.with_borrow_mut(|slot| {
        if slot.as_ref().is_some_and(|vm| vm.meter.used() > CHECKED_BYTES) {
            *slot = None;
        }
    });
}

/// Between two calls: frees memory piece by piece where it is full, and replaces an interpreter that stays full.
pub(super) fn tidy(vm: &Rc<Vm>) {
    let retired = RETIRED.with_borrow(|slot| slot.is_some());
    if retired || vm.is_full() {
        tidy_full(vm, retired);
    }
}

#[cold]
fn tidy_full(vm: &Rc<Vm>, retired: bool) {
    if retired {
        // One at a time: together they hold no more than twice the limit.
        RETIRED.with_borrow_mut(|slot| {
            if slot.as_ref().is_some_and(|old| old.collect() && old.collected.get() > 1 || old.is_light()) {
                *slot = None;
            }
        });
        return;
    }
    if !vm.collect() || !vm.is_full() {
        return;
    }
    // Garbage that was made during a collection is found by the next.
    if vm.collected.get() < 2 {
        return;
    }
    let (held, objects) = (vm.meter.used() >> 20, vm.meter.objects());
    error_log::log(
        Level::Error,
        format_args!(
            "Lua holds {held} MiB in {objects} objects in globals and upvalues: the interpreter is replaced \
             and they are lost"
        ),
    );
    VM.with_borrow_mut(|slot| {
        if slot.as_ref().is_some_and(|current| Rc::ptr_eq(current, vm)) {
            *slot = None;
        }
    });
    vm.empty();
    RETIRED.set(Some(vm.clone()));
}

impl Vm {
    fn new() -> mlua::Result<Vm> {
        let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH | StdLib::BIT;
        let lua = Lua::new_with(libraries, LuaOptions::new())?;
        let meter = bounds::install(&lua)?;
        array::install(&lua)?;
        let api::Installed { new_context, run, new_environment, plugins } = api::install(&lua)?;
        let variables = lua.globals().get::<Table>("ngx")?.get("var")?;
        Ok(Vm {
            lua,
            variables,
            new_context,
            run,
            new_environment,
            plugins,
            offers_timers: Cell::new(false),
            files: OnceCell::new(),
            modules: RefCell::default(),
            meter,
            collected: Cell::new(0),
            programs: RefCell::default(),
        })
    }

    fn is_full(&self) -> bool {
        self.meter.is_full(FULL.0, FULL.1)
    }

    fn is_light(&self) -> bool {
        self.meter.used() < LIGHT_BYTES
    }

    /// Collects for some milliseconds; true when a collection has ended.
    fn collect(&self) -> bool {
        let started = Instant::now();
        while started.elapsed() < COLLECTING {
            match self.lua.gc_step() {
                Ok(false) => {}
                // Finalizers of ours do not fail; an error would come back for ever.
                Ok(true) | Err(_) => {
                    self.collected.set(self.collected.get().saturating_add(1));
                    return true;
                }
            }
        }
        false
    }

    /// Makes garbage of everything but what calls under way hold.
    fn empty(&self) {
        self.collected.set(0);
        self.programs.take();
        self.modules.take();
        let _ = self.lua.globals().clear();
        for name in ["_LOADED", "_PRELOAD"] {
            let _ = self.lua.unset_named_registry_value(name);
        }
    }

    /// The program's functions in this interpreter, loaded at the first call.
    pub(crate) fn loaded(
        &self,
        serial: u64,
        alive: &std::sync::Arc<()>,
        load: impl FnOnce(&Vm) -> mlua::Result<Loaded>,
    ) -> mlua::Result<Rc<Loaded>> {
        if let Some((_, loaded)) = self.programs.borrow().loaded.get(&serial) {
            return Ok(loaded.clone());
        }
        let loaded = Rc::new(clock::limited(|| load(self))?);
        let mut programs = self.programs.borrow_mut();
        if programs.loaded.len() >= programs.sweep_at {
            programs.loaded.retain(|_, (alive, _)| alive.strong_count() > 0);
            programs.sweep_at = (programs.loaded.len() * 2).max(64);
        }
        programs.loaded.insert(serial, (std::sync::Arc::downgrade(alive), loaded.clone()));
        Ok(loaded)
    }

    /// The globals of plugins in files.
    pub(super) fn files(&self) -> mlua::Result<Table> {
        if let Some(files) = self.files.get() {
            return Ok(files.clone());
        }
        let files = self.new_environment.call::<Table>(true)?;
        Ok(self.files.get_or_init(|| files).clone())
    }

    /// Calls a function of the prelude, or of a plugin in a file.
    pub(super) fn call_file<R: mlua::FromLuaMulti>(
        &self,
        function: impl mlua::IntoLua,
        arguments: impl IntoLuaMulti,
    ) -> mlua::Result<R> {
        let mut arguments = arguments.into_lua_multi(&self.lua)?;
        let (first, second) = (arguments.pop_front(), arguments.pop_front());
        clock::limited(|| self.run.call::<R>((function, first, second, self.files()?)))
    }

    /// On a worker, functions may run later.
    pub(super) fn offer_timers(
        &self,
        function: impl FnOnce(&Lua) -> mlua::Result<Function>,
    ) -> mlua::Result<()> {
        if self.offers_timers.get() {
            return Ok(());
        }
        self.plugins.raw_set("timer", function(&self.lua)?)?;
        self.offers_timers.set(true);
        Ok(())
    }

    /// Loads a plugin's file without starting it.
    pub(super) fn load_plugin(&self, name: &str) -> mlua::Result<Table> {
        self.call_file(self.plugins.get::<Function>("load")?, name)
    }

    /// Starts what was loaded.
    pub(super) fn start_plugin(&self, module: &Table, name: &str) -> mlua::Result<()> {
        self.call_file(self.plugins.get::<Function>("start")?, (module, name))
    }

    /// The metadata that `plugin_metadata` of a plugin gives from now on.
    pub(super) fn set_metadata(&self, name: &str, metadata: Value) -> mlua::Result<()> {
        self.plugins.get::<Table>("metadata")?.raw_set(name, metadata)
    }

    /// The module of a plugin, loaded and started at the first call.
    pub(super) fn plugin(&self, name: &'static str) -> mlua::Result<Table> {
        match self.modules.borrow().get(name) {
            Some(Tried::Loaded(module)) => return Ok(module.clone()),
            Some(Tried::Failed(at, reason)) if at.elapsed() < RETRY => {
                return Err(mlua::Error::runtime(reason.clone()));
            }
            _ => {}
        }
        let loaded = self.load_plugin(name).and_then(|module| {
            self.start_plugin(&module, name)?;
            Ok(module)
        });
        let tried = match &loaded {
            Ok(module) => Tried::Loaded(module.clone()),
            Err(error) => Tried::Failed(Instant::now(), chunk::message(error)),
        };
        self.modules.borrow_mut().insert(name, tried);
        loaded
    }

    /// Runs what a configuration says once, to see what it is.
    pub(crate) fn evaluate(&self, source: &str, name: &str) -> Result<mlua::Result<Value>, String> {
        let environment = self.new_environment.call::<Table>(()).map_err(|error| chunk::message(&error))?;
        let function = chunk::load(&self.lua, source, name, &environment)?;
        Ok(clock::limited(|| self.run.call::<Value>((function, Value::Nil, Value::Nil, environment))))
    }
}
