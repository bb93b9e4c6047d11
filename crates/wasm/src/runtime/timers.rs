//! What runs beside requests on a worker: timers of configurations, queues that they wait for, and calls that no request waits for.
//!
//! A callback that has computed for a while makes the next one wait four times as long, so that timers have a fifth of the worker at
//! most.

use std::{
    rc::{Rc, Weak},
    sync::Arc,
    time::{Duration, Instant},
};

use tidegate_clients::http::Incoming;
use tidegate_telemetry::error_log::{self, Level};
use wasmtime::Store;

use super::{
    calls::Dispatched,
    host,
    hosted::Hosted,
    module::Exports,
    shared,
    state::{Entry, State, Wish},
};

/// So many times as long as a callback took, none runs.
const PAUSE: u32 = 4;

/// Does what callbacks of configurations have asked for.
pub(super) fn fulfil(hosted: &Rc<Hosted>, wishes: Vec<Wish>) {
    for wish in wishes {
        let one = Rc::downgrade(hosted);
        match wish {
            Wish::Call(call) => drop(tokio::task::spawn_local(answer(one, *call))),
            Wish::Tick(context) => {
                if let Some((of, Some(period))) = OfTimer::of(hosted, context) {
                    drop(tokio::task::spawn_local(tick(one, of, period)));
                }
            }
            Wish::Listen { context, queue } => {
                if let Some((of, _)) = OfTimer::of(hosted, context) {
                    drop(tokio::task::spawn_local(listen(one, of, queue)));
                }
            }
        }
    }
}

/// Runs a callback of a configuration. `None`: its instance is gone. Logged is why it failed.
fn run(
    hosted: &Weak<Hosted>,
    context: u32,
    callback: impl FnOnce(&mut Store<State>, &Exports) -> wasmtime::Result<()>,
) -> Option<Duration> {
    let hosted = hosted.upgrade()?;
    let begun = Instant::now();
    let wishes = {
        let mut instance = hosted.instance.try_borrow_mut().ok().filter(|instance| !instance.is_dead)?;
        if let Err(reason) = instance.call(Entry::Root, context, callback) {
            let plugin = instance.store.data().plugin;
            error_log::log(Level::Error, format_args!("{plugin}: failed to run wasm plugin: {reason}"));
            return None;
        }
        instance.finish_done();
        instance.wishes()
    };
    fulfil(&hosted, wishes);
    Some(begun.elapsed())
}

/// The configuration that a timer or a queue belongs to.
#[derive(Clone, Copy)]
struct OfTimer {
    context: u32,
    serial: u64,
    /// Of the timer's period.
    set: u32,
}

impl OfTimer {
    fn of(hosted: &Hosted, context: u32) -> Option<(OfTimer, Option<Duration>)> {
        let mut instance = hosted.instance.try_borrow_mut().ok()?;
        let conf = instance.store.data_mut().contexts.conf(context)?;
        Some((OfTimer { context, serial: conf.serial, set: conf.ticks_set }, conf.tick))
    }

    /// Whether its configuration is still there. Those that are gone are ended.
    fn is_there(self, hosted: &Weak<Hosted>) -> bool {
        let Some(hosted) = hosted.upgrade() else { return false };
        let Ok(mut instance) = hosted.instance.try_borrow_mut() else { return false };
        instance.sweep();
        instance.store.data_mut().contexts.conf(self.context).is_some_and(|conf| conf.serial == self.serial)
    }

    fn is_newest(self, hosted: &Weak<Hosted>) -> bool {
        self.is_there(hosted)
            && hosted
                .upgrade()
                .and_then(|hosted| OfTimer::of(&hosted, self.context))
                .is_some_and(|(now, _)| now.set == self.set)
    }
}

async fn tick(hosted: Weak<Hosted>, of: OfTimer, period: Duration) {
    let mut pause = period;
    loop {
        tokio::time::sleep(pause).await;
        if !of.is_newest(&hosted) {
            return;
        }
        let took = run(&hosted, of.context, |store, exports| match &exports.tick {
            Some(tick) => tick.call(store, of.context),
            None => Ok(()),
        });
        let Some(took) = took else { return };
        pause = period.max(took * PAUSE);
    }
}

async fn listen(hosted: Weak<Hosted>, of: OfTimer, number: u32) {
    let Some(queue) = shared::queue(number) else { return };
    let mut is_stuck = false;
    loop {
        if is_stuck || queue.is_empty() {
            queue.filled.notified().await;
        }
        let before = queue.len();
        let took = match of.is_there(&hosted) {
            false => None,
            true => run(&hosted, of.context, |store, exports| match &exports.queue_ready {
                Some(ready) => ready.call(store, (of.context, number)),
                None => Ok(()),
            }),
        };
        let Some(took) = took else {
            // Another instance takes what this one was woken for.
            return queue.filled.notify_one();
        };
        // One that takes nothing is asked again with the next item.
        is_stuck = queue.len() >= before;
        tokio::time::sleep(took * PAUSE).await;
    }
}

async fn answer(hosted: Weak<Hosted>, call: Dispatched) {
    let (id, root) = (call.id, call.root);
    let answer = call.send().await;
    let Some(one) = hosted.upgrade() else { return };
    let plugin = one.instance.try_borrow().map_or("", |instance| instance.store.data().plugin);
    let answer = answer.map(Arc::new).inspect_err(|reason| report(plugin, reason)).ok();
    drop(one);
    run(&hosted, root, |store, exports| deliver(store, exports, root, id, answer));
}

/// Why a call has no answer.
pub(super) fn report(plugin: &str, reason: &str) {
    error_log::log(Level::Warn, format_args!("{plugin}: a call of the wasm plugin has no answer: {reason}"));
}

/// Hands the answer to a call over; none: it failed.
pub(super) fn deliver(
    store: &mut Store<State>,
    exports: &Exports,
    root: u32,
    id: u32,
    answer: Option<Arc<Incoming>>,
) -> wasmtime::Result<()> {
    let state = store.data_mut();
    state.calls = state.calls.saturating_sub(1);
    state.effective = root;
    let fields = answer.as_ref().map_or(0, host::count_of_call);
    let bytes = answer.as_ref().map_or(0, |answer| answer.body.len() as u32);
    state.answer = answer;
    let result = match &exports.call_response {
        Some(response) => response.call(&mut *store, (root, id, fields, bytes, 0)),
        None => Ok(()),
    };
    store.data_mut().answer = None;
    result
}
