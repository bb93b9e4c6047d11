//! One instance of a module: its callbacks, each with a limit on time, and what becomes of it when one fails.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use bytes::Bytes;
use rustc_hash::FxHashMap;
use tidegate_telemetry::error_log::{self, Level};
use wasmtime::{InstancePre, Store, Trap, UpdateDeadline};

use super::{
    contexts::{Context, OfConf, OfStream},
    deadline::TimeIsUp,
    host::Exit,
    module::Exports,
    room::Room,
    state::{Entry, State, Wish},
};

/// The start of a module, and looks at configurations, run beside requests.
const BESIDE: Duration = Duration::from_secs(2);

/// The limits of instances.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub time: Duration,
    pub instance_memory: usize,
    pub memory: usize,
}

/// A configuration of a plugin, which has a context in each instance that serves it.
pub(super) struct Conf {
    /// Never used again within the process.
    pub serial: u64,
    pub text: Bytes,
    /// Dropped with the plugin's instance of the snapshot.
    pub alive: Arc<()>,
}

struct Known {
    context: u32,
    alive: Weak<()>,
}

pub(super) struct Instance {
    pub store: Store<State>,
    pub exports: Exports,
    confs: FxHashMap<u64, Known>,
    limits: Limits,
    /// `proxy_on_vm_start` was called.
    is_started: bool,
    /// A callback failed in the middle: nothing in it can be relied on.
    pub is_dead: bool,
    /// Requests under way.
    pub streams: usize,
}

/// Why a configuration has no context.
pub(super) type Refused = String;

impl Instance {
    /// Not for a worker: it may take long.
    pub(super) fn new(
        plugin: &'static str,
        module: &InstancePre<State>,
        limits: Limits,
    ) -> Result<Instance, String> {
        let room = Room::new(limits.instance_memory, limits.memory);
        let mut store = Store::new(module.module().engine(), State::new(plugin, room, BESIDE));
        store.limiter(|state| &mut state.room);
        store.epoch_deadline_callback(|mut context| {
            context.data_mut().deadline.check_time()?;
            Ok(UpdateDeadline::Continue(1))
        });
        store.set_epoch_deadline(1);
        store.data_mut().deadline.begin(BESIDE);
        let made = module.instantiate(&mut store);
        let instance = made.map_err(|error| reason(&error, store.data_mut()))?;
        let exports = Exports::of(&instance, &mut store)?;
        let memory = instance.get_memory(&mut store, "memory");
        let state = store.data_mut();
        state.memory = memory;
        state.allocate = exports.allocate.clone();
        let mut instance = Instance {
            store,
            exports,
            confs: FxHashMap::default(),
            limits,
            is_started: false,
            is_dead: false,
            streams: 0,
        };
        instance.initialize()?;
        Ok(instance)
    }

    fn initialize(&mut self) -> Result<(), String> {
        self.within(BESIDE, Entry::Root, 0, |store, exports| {
            let ended = match (&exports.initialize, &exports.main, &exports.start) {
                (Some(initialize), main, _) => initialize.call(&mut *store, ()).and_then(|()| match main {
                    Some(main) => main.call(&mut *store, (0, 0)).map(drop),
                    None => Ok(()),
                }),
                (None, _, Some(start)) => start.call(&mut *store, ()),
                (None, _, None) => Ok(()),
            };
            // A program that ends well has said what it had to.
            ended.or_else(|error| match error.downcast_ref::<Exit>() {
                Some(Exit(0)) => Ok(()),
                _ => Err(error),
            })
        })
    }

    /// Runs a callback. After an error the instance is dead.
    pub(super) fn call<R>(
        &mut self,
        entry: Entry,
        context: u32,
        run: impl FnOnce(&mut Store<State>, &Exports) -> wasmtime::Result<R>,
    ) -> Result<R, String> {
        self.within(self.limits.time, entry, context, run)
    }

    fn within<R>(
        &mut self,
        limit: Duration,
        entry: Entry,
        context: u32,
        run: impl FnOnce(&mut Store<State>, &Exports) -> wasmtime::Result<R>,
    ) -> Result<R, String> {
        if self.is_dead {
            return Err("its instance failed at another request".to_owned());
        }
        let state = self.store.data_mut();
        state.entry = entry;
        state.entered = context;
        state.effective = context;
        state.deadline.begin(limit);
        self.store.set_epoch_deadline(1);
        run(&mut self.store, &self.exports).map_err(|error| {
            self.is_dead = true;
            reason(&error, self.store.data_mut())
        })
    }

    /// The context of a configuration, made at its first request.
    pub(super) fn context_of(&mut self, conf: &Conf) -> Result<u32, Refused> {
        match self.confs.get(&conf.serial) {
            Some(known) => Ok(known.context),
            None => self.begin_conf(conf, self.limits.time),
        }
    }

    /// As [`Instance::context_of`], beside requests.
    pub(super) fn prepare(&mut self, conf: &Conf) -> Result<u32, Refused> {
        match self.confs.get(&conf.serial) {
            Some(known) => Ok(known.context),
            None => self.begin_conf(conf, BESIDE),
        }
    }

    fn begin_conf(&mut self, conf: &Conf, limit: Duration) -> Result<u32, Refused> {
        self.sweep();
        let of_conf = OfConf { serial: conf.serial, conf: conf.text.clone(), tick: None, ticks_set: 0 };
        let context = self.store.data_mut().contexts.add(Context::Conf(of_conf));
        let is_first = !std::mem::replace(&mut self.is_started, true);
        let length = u32::try_from(conf.text.len()).unwrap_or(u32::MAX);
        let begun = self.within(limit, Entry::Root, context, |store, exports| {
            if let Some(create) = &exports.context_create {
                create.call(&mut *store, (context, 0))?;
            }
            if let Some(vm_start) = exports.vm_start.as_ref().filter(|_| is_first)
                && vm_start.call(&mut *store, (context, 0))? == 0
            {
                return Ok(Err("proxy_on_vm_start returned false"));
            }
            match &exports.configure {
                Some(configure) if configure.call(&mut *store, (context, length))? == 0 => {
                    Ok(Err("proxy_on_configure returned false"))
                }
                _ => Ok(Ok(())),
            }
        });
        match begun {
            Ok(Ok(())) => {
                self.confs.insert(conf.serial, Known { context, alive: Arc::downgrade(&conf.alive) });
                Ok(context)
            }
            Ok(Err(refusal)) => {
                if refusal.starts_with("proxy_on_vm_start") {
                    self.is_dead = true;
                } else {
                    self.end_conf(context);
                }
                Err(refusal.to_owned())
            }
            Err(fault) => Err(fault),
        }
    }

    /// Ends the contexts of configurations that are gone.
    pub(super) fn sweep(&mut self) {
        let gone = |known: &Known| known.alive.strong_count() == 0;
        let serials: Vec<u64> =
            self.confs.iter().filter(|(_, known)| gone(known)).map(|(serial, _)| *serial).collect();
        for serial in serials {
            self.forget(serial);
        }
    }

    /// Ends the context of a configuration.
    pub(super) fn forget(&mut self, serial: u64) {
        if let Some(known) = self.confs.remove(&serial) {
            self.end_conf(known.context);
        }
    }

    /// Whether no configuration has a context here.
    pub(super) fn is_unused(&self) -> bool {
        self.confs.is_empty() && self.streams == 0
    }

    fn end_conf(&mut self, context: u32) {
        let ended = self.call(Entry::Root, context, |store, exports| {
            if let Some(done) = &exports.done {
                done.call(&mut *store, context)?;
            }
            match &exports.delete {
                Some(delete) => delete.call(&mut *store, context),
                None => Ok(()),
            }
        });
        self.report(ended);
        self.store.data_mut().contexts.remove(context);
    }

    /// A request's context.
    pub(super) fn begin_stream(&mut self, parent: u32) -> Result<u32, String> {
        let stream = OfStream { parent, ..OfStream::default() };
        let context = self.store.data_mut().contexts.add(Context::Stream(stream));
        self.streams += 1;
        self.call(Entry::RequestHeaders, context, |store, exports| match &exports.context_create {
            Some(create) => create.call(store, (context, parent)),
            None => Ok(()),
        })?;
        Ok(context)
    }

    /// The end of a request's context. What is not done yet says so later.
    pub(super) fn end_stream(&mut self, context: u32) {
        self.streams = self.streams.saturating_sub(1);
        if self.is_dead {
            return;
        }
        let is_done = self.call(Entry::Log, context, |store, exports| match &exports.done {
            Some(done) => done.call(store, context),
            None => Ok(1),
        });
        match is_done {
            Ok(0) => {
                if let Some(stream) = self.store.data_mut().contexts.stream(context) {
                    stream.lingers = true;
                }
            }
            Ok(_) => self.finish_stream(context),
            Err(_) => self.report(is_done),
        }
        self.finish_done();
    }

    fn finish_stream(&mut self, context: u32) {
        let ended = self.call(Entry::Log, context, |store, exports| {
            if let Some(log) = &exports.log {
                log.call(&mut *store, context)?;
            }
            match &exports.delete {
                Some(delete) => delete.call(store, context),
                None => Ok(()),
            }
        });
        self.report(ended);
        self.store.data_mut().contexts.remove(context);
    }

    /// Contexts that lingered, and are done now.
    pub(super) fn finish_done(&mut self) {
        while let Some(context) = self.store.data_mut().done.pop() {
            self.finish_stream(context);
        }
    }

    /// What the last callbacks asked for.
    pub(super) fn wishes(&mut self) -> Vec<Wish> {
        std::mem::take(&mut self.store.data_mut().wishes)
    }

    fn report<R>(&self, ended: Result<R, String>) {
        if let Err(reason) = ended {
            let plugin = self.store.data().plugin;
            error_log::log(Level::Error, format_args!("{plugin}: failed to run wasm plugin: {reason}"));
        }
    }
}

/// Why a callback failed, for the error log.
fn reason(error: &wasmtime::Error, state: &mut State) -> String {
    if let Some(time) = error.downcast_ref::<TimeIsUp>() {
        return time.to_string();
    }
    let cause = match error.downcast_ref::<Trap>() {
        Some(Trap::StackOverflow) => "stack overflow".to_owned(),
        Some(trap) => trap.to_string(),
        None => format!("{:#}", error),
    };
    match state.room.refused.take() {
        Some(refused) => format!("{cause} ({refused})"),
        None => cause,
    }
}
