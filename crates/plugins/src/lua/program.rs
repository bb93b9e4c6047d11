//! Functions of one configuration, and running them for a request.

use std::{
    rc::{Rc, Weak},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use mlua::{Lua, MultiValue, Table, Value};
use tidegate_plugin_api::{
    BodyChunk, Owner, Passage, Phases, Reply, Request, RequestBody, Step, memory, step::Verdict,
};
use tidegate_telemetry::error_log::{self, Level};

pub(crate) use super::current::Phase;
use super::{
    api, chunk, clock, current,
    ending::{Ending, ending, page},
    json, phases, timers,
    vm::{self, Loaded, Vm},
    waiting::{self, MAX_BODY_BYTES, Woken},
};
use crate::common::auth::under_multi_auth;

/// Texts that make a function look at the request's body: it is read before the call. One that asks for it under a name that it
/// makes runs as a coroutine, and waits there.
const BODY_WORDS: [&str; 6] = ["body", "get_post_args", "post_arg", "graphql", "get_body", "set_body"];

pub(crate) struct Program {
    /// For messages: the plugin's name.
    name: &'static str,
    serial: u64,
    alive: Arc<()>,
    sources: Vec<String>,
    conf: serde_json::Value,
    needs_body: bool,
    /// Calls `ngx.sleep` or `resty.http`: runs as a coroutine.
    waits: bool,
    is_script: bool,
    /// Runs before a phase of another plugin: what it returns does not matter.
    is_before: bool,
    /// The texts are functions of an answer: see `exits.rs`.
    is_exit: bool,
    /// A plugin in a file, in place of texts.
    file: Option<InFile>,
}

/// An instance of a plugin in a file.
pub(super) struct InFile {
    /// Whose configuration it has.
    pub owner: Option<Owner>,
    pub metadata: Option<serde_json::Value>,
    pub waits: bool,
    /// The functions that it had when it was declared.
    pub phases: Phases,
    /// It answers the URI with this number, in place of the phases.
    pub api: Option<usize>,
}

/// A request's `ctx`, kept from function to function as long as its interpreter is there.
struct Context {
    table: Table,
    vm: Weak<Vm>,
}

/// What the longer calls of a request took.
#[derive(Default)]
struct Spent {
    /// Calls that used their time up: each later one gets a quarter.
    overruns: u32,
    total: Duration,
}

/// A call that comes after so much lets others have their turn first.
const TURN: Duration = Duration::from_millis(10);

/// A call that would get less is refused.
const LEAST_TIME: Duration = Duration::from_millis(1);

impl Program {
    pub(crate) fn new(name: &'static str, sources: Vec<String>, conf: serde_json::Value) -> Program {
        static SERIAL: AtomicU64 = AtomicU64::new(1);
        let mentions =
            |words: &[&str]| sources.iter().any(|source| words.iter().any(|word| source.contains(word)));
        Program {
            name,
            serial: SERIAL.fetch_add(1, Ordering::Relaxed),
            alive: Arc::new(()),
            needs_body: mentions(&BODY_WORDS),
            waits: mentions(&["sleep", "resty.http"]),
            is_script: false,
            is_before: false,
            is_exit: false,
            file: None,
            sources,
            conf,
        }
    }

    pub(crate) fn script(source: &str) -> Program {
        Program {
            is_script: true,
            ..Program::new("script", vec![source.to_owned()], serde_json::Value::Null)
        }
    }

    /// `_meta.pre_function`.
    pub(crate) fn before(source: &str, conf: serde_json::Value) -> Program {
        Program { is_before: true, ..Program::new("_meta.pre_function", vec![source.to_owned()], conf) }
    }

    /// The plugin of that name, in a file.
    pub(super) fn of_file(name: &'static str, conf: serde_json::Value, file: InFile) -> Program {
        Program { waits: file.waits, file: Some(file), ..Program::new(name, Vec::new(), conf) }
    }

    /// Each source is a function of an answer's status, body and headers.
    pub(super) fn of_answers(name: &'static str, sources: Vec<String>) -> Program {
        Program { is_exit: true, ..Program::new(name, sources, serde_json::Value::Null) }
    }

    pub(crate) fn loaded(&self, vm: &Vm) -> mlua::Result<Rc<Loaded>> {
        vm.loaded(self.serial, &self.alive, |vm| self.load(vm))
    }

    fn load(&self, vm: &Vm) -> mlua::Result<Loaded> {
        if let Some(file) = &self.file {
            return self.load_file(vm, file);
        }
        let mut loaded = Loaded {
            functions: Vec::new(),
            conf: json::to_lua(&vm.lua, &self.conf)?,
            table: None,
            environment: vm.new_environment.call(())?,
        };
        for source in &self.sources {
            let chunk =
                chunk::load(&vm.lua, source, source, &loaded.environment).map_err(mlua::Error::runtime)?;
            if self.is_exit {
                loaded.functions.push(chunk::of_one_argument(&vm.lua, &chunk)?);
                continue;
            }
            match vm.run.call::<Value>((chunk, Value::Nil, Value::Nil, &loaded.environment))? {
                Value::Function(function) => loaded.functions.push(function),
                Value::Table(table) if self.is_script => loaded.table = Some(table),
                other => {
                    return Err(mlua::Error::runtime(format!(
                        "a function is needed, not {}",
                        other.type_name()
                    )));
                }
            }
        }
        Ok(loaded)
    }

    fn load_file(&self, vm: &Vm, file: &InFile) -> mlua::Result<Loaded> {
        let module = vm.plugin(self.name)?;
        let environment = vm.files()?;
        if let Some(number) = file.api {
            let apis: Table = vm.call_file(module.get::<Value>("api")?, ())?;
            let functions = vec![apis.get::<Table>(number + 1)?.get("handler")?];
            return Ok(Loaded { functions, conf: Value::Nil, table: None, environment });
        }
        file.check_phases(&module)?;
        let conf = json::to_lua(&vm.lua, &self.conf)?;
        let metadata = file.metadata.as_ref().map_or(Ok(Value::Nil), |value| json::to_lua(&vm.lua, value))?;
        vm.set_metadata(self.name, metadata)?;
        // As in APISIX, where the table that was checked is the one that the phases get.
        if let Some(check) = phases::function(&module, "check_schema")? {
            let (ok, reason): (Value, Value) = vm.call_file(check, &conf)?;
            if matches!(ok, Value::Nil | Value::Boolean(false)) {
                let mut text = Vec::new();
                api::append(&reason, &mut text, 0)?;
                return Err(mlua::Error::runtime(String::from_utf8_lossy(&text)));
            }
        }
        Ok(Loaded { functions: Vec::new(), conf, table: Some(module), environment })
    }

    /// What a function gets first.
    fn first(&self, loaded: &Loaded, context: &Table) -> Value {
        let takes_context = self.is_script || self.file.as_ref().is_some_and(|file| file.api.is_some());
        if takes_context { Value::Table(context.clone()) } else { loaded.conf.clone() }
    }

    /// The object whose configuration runs, as APISIX shows it.
    fn enter_file(&self, context: &Table) -> mlua::Result<()> {
        let Some(InFile { owner: Some(owner), .. }) = &self.file else { return Ok(()) };
        context.raw_set("conf_type", tidegate_model::schemas::name_of_kind(owner.kind))?;
        context.raw_set("conf_id", &*owner.id)?;
        context.raw_set("conf_version", owner.version)
    }

    /// Runs the functions in a phase that may answer.
    pub(crate) fn run<'a>(&'a self, request: &'a mut Request, phase: Phase) -> Step<'a> {
        let has_had_its_turn = request.extensions.get::<Spent>().is_some_and(|spent| spent.total >= TURN);
        if self.waits || is_unread(request) || has_had_its_turn {
            return Step::wait(self.run_waiting(request, phase, has_had_its_turn));
        }
        self.finish(self.run_now(request, phase)).into()
    }

    /// Runs the functions in a phase that cannot answer any more. A header filter that fails may be what hides a field.
    pub(crate) fn run_late(&self, request: &mut Request, phase: Phase) {
        if let Err(error) = self.run_now(request, phase) {
            if phase == Phase::HeaderFilter {
                request.response.refuse(500);
            }
            self.log(&error);
        }
    }

    /// Runs the functions on a piece of a body. What they were to take out of it must not pass when they fail.
    pub(crate) fn run_on_chunk(&self, request: &mut Request, chunk: &mut BodyChunk, phase: Phase) {
        if let Err(error) = current::with_chunk(chunk, || self.run_now(request, phase)) {
            self.log(&error);
            chunk.passage = Passage::Refused(500);
        }
    }

    async fn run_waiting(&self, request: &mut Request, phase: Phase, has_had_its_turn: bool) -> Verdict {
        if has_had_its_turn {
            tokio::task::yield_now().await;
        }
        if self.needs_body {
            request.collect_body(MAX_BODY_BYTES).await?;
        }
        if !self.waits && !is_unread(request) {
            return self.finish(self.run_now(request, phase));
        }
        let ended = self.run_coroutines(request, phase).await;
        self.finish(ended)
    }

    /// The function of a table for a phase.
    fn function(&self, table: &Table, request: &Request, phase: Phase) -> mlua::Result<Option<Value>> {
        let Some(file) = &self.file else { return phases::function(table, phase_name(phase)) };
        if phase == Phase::Rewrite {
            file.check_phases(table)?;
        }
        let function = phases::function(table, phase_name(phase))?;
        if function.is_none() && is_asked_by_multi_auth(request, phase) {
            return Err(mlua::Error::runtime("multi-auth calls rewrite, which it does not have"));
        }
        Ok(function)
    }

    /// What becomes of the request.
    fn ended(
        &self,
        lua: &Lua,
        result: mlua::Result<MultiValue>,
        phase: Phase,
        request: &Request,
    ) -> mlua::Result<Ending> {
        let result = if self.is_before { result.map(|_| MultiValue::new()) } else { result };
        // As in APISIX, where any code is a refusal there, and `ngx.exit(0)` identifies no consumer.
        let has_code = result.as_ref().is_ok_and(|values| values.front().is_some_and(|code| !code.is_nil()))
            || current::call(|call| call.exit.get().is_some());
        let is_refusal = has_code && self.file.is_some() && is_asked_by_multi_auth(request, phase);
        match ending(lua, result, phase, request.remote_addr)? {
            Ending::Next if is_refusal => Ok(page(401)),
            ended => Ok(ended),
        }
    }

    fn finish(&self, ended: mlua::Result<Ending>) -> Verdict {
        match ended {
            Ok(Ending::Next) => Ok(()),
            Ok(Ending::Answer(reply)) => Err(reply),
            Err(error) => {
                self.log(&error);
                Err(Box::new(Reply::page(500)))
            }
        }
    }

    pub(super) fn log(&self, error: &mlua::Error) {
        error_log::log(
            Level::Error,
            format_args!("failed to run Lua of plugin {}: {}", self.name, chunk::message(error)),
        );
    }

    /// All functions share the time of one call: nothing else runs between them.
    fn run_now(&self, request: &mut Request, phase: Phase) -> mlua::Result<Ending> {
        let vm = vm::vm().map_err(mlua::Error::runtime)?;
        let time = time_of(request, phase)?;
        let ended = clock::limited_by(time, || self.run_all(&vm, request, phase).map_err(clock::in_time));
        spend(request, clock::lasted(), clock::ran_out());
        vm::tidy(&vm);
        ended
    }

    fn run_all(&self, vm: &Rc<Vm>, request: &mut Request, phase: Phase) -> mlua::Result<Ending> {
        vm.offer_timers(timers::function)?;
        let loaded = self.loaded(vm)?;
        let context = context(vm, request)?;
        if let Some(table) = &loaded.table {
            let Some(function) = self.function(table, request, phase)? else { return Ok(Ending::Next) };
            self.enter_file(&context)?;
            let first = self.first(&loaded, &context);
            let result = enter(request, phase, || {
                vm.run.call::<MultiValue>((function, first, &context, &loaded.environment))
            });
            return self.ended(&vm.lua, result, phase, request);
        }
        for function in &loaded.functions {
            let first = self.first(&loaded, &context);
            let result = enter(request, phase, || {
                vm.run.call::<MultiValue>((function, first, &context, &loaded.environment))
            });
            if let Ending::Answer(reply) = self.ended(&vm.lua, result, phase, request)? {
                return Ok(Ending::Answer(reply));
            }
        }
        Ok(Ending::Next)
    }

    /// Each function is a coroutine that yields where it sleeps.
    async fn run_coroutines(&self, request: &mut Request, phase: Phase) -> mlua::Result<Ending> {
        let vm = vm::vm().map_err(mlua::Error::runtime)?;
        vm.offer_timers(timers::function)?;
        let loaded = clock::limited(|| self.loaded(&vm))?;
        let context = context(&vm, request)?;
        let functions: Vec<Value> = match &loaded.table {
            Some(table) => clock::limited(|| self.function(table, request, phase))?.into_iter().collect(),
            None => loaded.functions.iter().cloned().map(Value::Function).collect(),
        };
        for function in &functions {
            let first = self.first(&loaded, &context);
            self.enter_file(&context)?;
            let thread = vm.lua.create_thread(vm.run.clone())?;
            // Sleeping does not count; what is computed between does.
            let mut left = time_of(request, phase)?;
            let mut said = memory::Lease::new(request.remote_addr);
            let mut result = timed(&mut left, request, |request| {
                enter_waiting(request, phase, || {
                    thread.resume::<MultiValue>((function, first, &context, &loaded.environment))
                })
            });
            while thread.is_resumable() {
                // What was said before the sleep is said after it.
                let output = current::call(|call| call.output.take());
                let status = current::call(|call| call.status.take());
                if output.len() > memory::UNCOUNTED {
                    said.grow_to(output.capacity()).map_err(|memory::Spent| no_memory())?;
                }
                let woken = match waiting::wait(&vm.lua, Some(request), result?).await? {
                    Woken::With(values) => values,
                    Woken::Answered(reply) => return Ok(Ending::Answer(reply)),
                };
                result = timed(&mut left, request, |request| {
                    enter_waiting(request, phase, || {
                        current::call(|call| {
                            call.output.replace(output);
                            call.status.set(status);
                        });
                        thread.resume::<MultiValue>(woken)
                    })
                });
            }
            drop(said);
            let ended = clock::limited(|| self.ended(&vm.lua, result, phase, request));
            vm::tidy(&vm);
            if let Ending::Answer(reply) = ended? {
                return Ok(Ending::Answer(reply));
            }
        }
        Ok(Ending::Next)
    }
}

/// What a call of the request may take. All of them together have twice the limit, but for the chunks of a body, which
/// can be any number.
pub(super) fn time_of(request: &Request, phase: Phase) -> mlua::Result<Duration> {
    let limit = clock::time_limit();
    let Some(spent) = request.extensions.get::<Spent>() else { return Ok(limit) };
    let left = if phase.is_of_chunks() { limit } else { (limit * 2).saturating_sub(spent.total) };
    let time = (limit / 4_u32.saturating_pow(spent.overruns)).min(left);
    if time < LEAST_TIME {
        return Err(mlua::Error::runtime("the functions of this request have used up its time"));
    }
    Ok(time)
}

/// Short calls are not counted.
pub(super) fn spend(request: &mut Request, lasted: Duration, over: bool) {
    if !lasted.is_zero() || over {
        let spent = request.extensions.get_or_insert_with(Spent::default);
        spent.total += lasted;
        spent.overruns += u32::from(over);
    }
}

fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Rewrite => "rewrite",
        Phase::BeforeProxy => "before_proxy",
        Phase::DelayedBodyFilter => "delayed_body_filter",
        other => other.name(),
    }
}

impl InFile {
    /// What runs is what was declared: a guard that comes or goes later would be called in none of its phases, or miss one.
    fn check_phases(&self, module: &Table) -> mlua::Result<()> {
        match phases::of_plugin(module)? == self.phases {
            true => Ok(()),
            false => Err(mlua::Error::runtime(
                "its functions are no longer those that it had after init, when the gateway started; assign each of them in the \
                 file or in init, the same in every worker",
            )),
        }
    }
}

fn is_unread(request: &Request) -> bool {
    matches!(request.body, RequestBody::Unread { .. })
}

fn is_asked_by_multi_auth(request: &Request, phase: Phase) -> bool {
    phase == Phase::Rewrite && under_multi_auth(request)
}

/// The request's `ctx`, made for its first function.
pub(super) fn context(vm: &Rc<Vm>, request: &mut Request) -> mlua::Result<Table> {
    if let Some(Context { table, vm: of }) = request.extensions.get::<Context>()
        && Weak::ptr_eq(of, &Rc::downgrade(vm))
    {
        return Ok(table.clone());
    }
    let table = vm.new_context.call::<Table>(())?;
    request.extensions.insert(Context { table: table.clone(), vm: Rc::downgrade(vm) });
    Ok(table)
}

/// What a function left in a field of `ctx`, for the plugins that APISIX lets read it there.
pub(crate) fn context_field(request: &Request, name: &str) -> Option<serde_json::Value> {
    let Context { table, vm } = request.extensions.get::<Context>()?;
    let vm = vm.upgrade()?;
    let value = table.raw_get::<Value>(name).ok().filter(|value| !value.is_nil())?;
    clock::limited(|| json::from_lua(&vm.lua, &value, true)).ok()
}

/// Makes the request the running one for the time of a call.
pub(super) fn enter<R>(request: &mut Request, phase: Phase, run: impl FnOnce() -> R) -> R {
    current::begin(phase, false);
    let result = clock::limited(|| current::with_request(request, run));
    current::call(|call| call.phase.set(Phase::Load));
    result
}

/// The same for a coroutine.
fn enter_waiting<R>(request: &mut Request, phase: Phase, run: impl FnOnce() -> R) -> R {
    enter(request, phase, || {
        current::call(|call| call.may_wait.set(true));
        let result = run();
        current::call(|call| call.may_wait.set(false));
        result
    })
}

fn no_memory() -> mlua::Error {
    mlua::Error::runtime("there is no memory left for bodies")
}

/// Runs a piece of a call that sleeps, and takes what it computed off the call's time.
fn timed<R>(
    left: &mut Duration,
    request: &mut Request,
    run: impl FnOnce(&mut Request) -> mlua::Result<R>,
) -> mlua::Result<R> {
    let (result, took) =
        clock::measured(|| clock::limited_by(*left, || run(request).map_err(clock::in_time)));
    *left = left.saturating_sub(took);
    let over = clock::ran_out() || left.is_zero();
    spend(request, clock::lasted(), over);
    if over {
        return result.and(Err(mlua::Error::runtime(clock::message())));
    }
    result
}
