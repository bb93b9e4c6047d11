//! Functions of one configuration, and running them for a request.

use std::{
    net::IpAddr,
    rc::{Rc, Weak},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use mlua::{Lua, MultiValue, Table, Value};
use tidegate_plugin_api::{
    BodyChunk, Owner, Passage, Reply, Request, RequestBody, Step, memory, reply::FINAL_STATUSES,
    step::Verdict,
};
use tidegate_telemetry::error_log::{self, Level};

pub(crate) use super::current::Phase;
use super::{
    api, chunk, clock, current, json, phases, timers,
    vm::{self, Loaded, Vm},
    waiting::{self, MAX_BODY_BYTES, Woken},
};

/// `ngx.DECLINED`.
const DECLINED: i32 = -5;

/// Texts that make a function look at the request's body: it is read before the call.
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
#[derive(Default)]
pub(super) struct InFile {
    /// Whose configuration it has.
    pub owner: Option<Owner>,
    pub metadata: Option<serde_json::Value>,
    pub waits: bool,
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

/// How a call ended.
enum Ending {
    /// Nothing said: the next function runs.
    Next,
    Answer(Box<Reply>),
}

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
        let unread = matches!(request.body, RequestBody::Unread { .. });
        if (self.needs_body && unread) || self.waits {
            return Step::wait(self.run_waiting(request, phase));
        }
        if request.extensions.get::<Spent>().is_some_and(|spent| spent.total >= TURN) {
            return Step::wait(async move {
                tokio::task::yield_now().await;
                self.finish(self.run_now(request, phase))
            });
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

    async fn run_waiting(&self, request: &mut Request, phase: Phase) -> Verdict {
        if self.needs_body {
            request.collect_body(MAX_BODY_BYTES).await?;
        }
        if !self.waits {
            return self.finish(self.run_now(request, phase));
        }
        let ended = self.run_coroutines(request, phase).await;
        self.finish(ended)
    }

    /// What was returned, where that counts.
    fn counted(&self, result: mlua::Result<MultiValue>) -> mlua::Result<MultiValue> {
        if self.is_before { result.map(|_| MultiValue::new()) } else { result }
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
            self.enter_file(&context)?;
            let first = self.first(&loaded, &context);
            return run_table(vm, &loaded, table, (first, &context), request, phase);
        }
        for function in &loaded.functions {
            let first = self.first(&loaded, &context);
            let result = enter(request, phase, || {
                vm.run.call::<MultiValue>((function, first, &context, &loaded.environment))
            });
            let result = self.counted(result);
            if let Ending::Answer(reply) = ending(&vm.lua, result, phase, request.remote_addr)? {
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
            Some(table) => {
                clock::limited(|| phases::function(table, phase_name(phase)))?.into_iter().collect()
            }
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
            let result = self.counted(result);
            let ended = clock::limited(|| ending(&vm.lua, result, phase, request.remote_addr));
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

/// The function of a table for a phase.
fn run_table(
    vm: &Vm,
    loaded: &Loaded,
    table: &Table,
    (first, context): (Value, &Table),
    request: &mut Request,
    phase: Phase,
) -> mlua::Result<Ending> {
    let Some(function) = phases::function(table, phase_name(phase))? else { return Ok(Ending::Next) };
    let result =
        enter(request, phase, || vm.run.call::<MultiValue>((function, first, context, &loaded.environment)));
    ending(&vm.lua, result, phase, request.remote_addr)
}

/// The interpreter hands whole numbers over as integers.
pub(super) fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(value) => Some(*value as f64),
        Value::Number(value) => Some(*value),
        _ => None,
    }
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

/// What a call's results, `ngx.exit` and `ngx.say` mean together.
fn ending(lua: &Lua, result: mlua::Result<MultiValue>, phase: Phase, client: IpAddr) -> mlua::Result<Ending> {
    let exit = current::call(|call| call.exit.take());
    let output = current::call(|call| call.output.take());
    let status = current::call(|call| call.status.take());
    let returned = match (result, exit) {
        (Err(error), None) => return Err(error),
        (Err(_), Some(_)) => MultiValue::new(),
        (Ok(values), _) => values,
    };
    if !phase.may_answer() {
        return match exit {
            Some(code) if !matches!(code, 0 | DECLINED) => Err(mlua::Error::runtime(format!(
                "ngx.exit({code}) cannot end the request in phase {}",
                phase.name()
            ))),
            _ => Ok(Ending::Next),
        };
    }
    let output = Output { status, bytes: output, client };
    if let Some(code) = exit {
        return exited(code, output);
    }
    let code = returned.front().filter(|value| !value.is_nil());
    let body = returned.get(1).filter(|value| !value.is_nil());
    returned_values(lua, code, body, output)
}

/// What was said so far, and the status that was set.
struct Output {
    status: u16,
    bytes: Vec<u8>,
    client: IpAddr,
}

/// `return code, body`.
fn returned_values(
    lua: &Lua,
    code: Option<&Value>,
    body: Option<&Value>,
    mut output: Output,
) -> mlua::Result<Ending> {
    let code = match code {
        None => None,
        Some(code) => Some(
            number(code)
                .ok_or_else(|| mlua::Error::runtime("attempt to compare a status that is not a number"))?,
        ),
    };
    match body {
        Some(table @ Value::Table(_)) => {
            let text = json::from_lua(lua, table, false).and_then(|value| json::written(&value));
            let text =
                text.map_err(|reason| mlua::Error::runtime(format!("failed to encode data: {reason}")))?;
            output.bytes.extend_from_slice(&text);
            output.bytes.push(b'\n');
        }
        Some(value) => api::append(value, &mut output.bytes, 0)?,
        None => {}
    }
    if body.is_some() || !output.bytes.is_empty() {
        // Said something and continued: the answer is made, as nginx has sent it.
        output.status = code.map_or(Ok(output.status), final_status)?;
        return output.answer();
    }
    match code {
        // As `ngx.exit(ngx.OK)`.
        None | Some(0.0) => Ok(Ending::Next),
        Some(code) => Ok(page(final_status(code)?)),
    }
}

/// A status that ends a request; fractions are cut, as nginx-lua does.
pub(super) fn final_status(code: f64) -> mlua::Result<u16> {
    match code as u16 {
        0 if code == 0.0 => Ok(0),
        status if FINAL_STATUSES.contains(&status) => Ok(status),
        _ => Err(mlua::Error::runtime(format!("{code} is not a status that ends a request"))),
    }
}

/// `ngx.exit(code)`: `ngx.OK` and `ngx.DECLINED` end the function only.
fn exited(code: i32, mut output: Output) -> mlua::Result<Ending> {
    match code {
        0 | DECLINED if output.bytes.is_empty() => Ok(Ending::Next),
        0 | DECLINED => output.answer(),
        _ => {
            let status = final_status(code.into())?;
            if output.bytes.is_empty() {
                return Ok(page(status));
            }
            output.status = status;
            output.answer()
        }
    }
}

impl Output {
    /// Counted like a body that was gathered: the client may take its time to read it.
    fn answer(self) -> mlua::Result<Ending> {
        let status = if self.status == 0 { 200 } else { self.status };
        // The budget logs it.
        let Ok(body) = memory::hold(self.bytes, self.client) else { return Ok(page(503)) };
        Ok(Ending::Answer(Box::new(Reply::bytes(status, body))))
    }
}

fn no_memory() -> mlua::Error {
    mlua::Error::runtime("there is no memory left for bodies")
}

fn page(status: u16) -> Ending {
    Ending::Answer(Box::new(Reply::page(status)))
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
