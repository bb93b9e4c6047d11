//! The instances of one plugin on one worker.
//!
//! Requests take an instance that serves no other, as long as there are few of them: when a callback fails, only what shares its
//! instance fails with it. New instances are made beside the worker, and those that are left over are dropped.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use tidegate_telemetry::error_log::{self, Level};
use tokio::sync::Notify;

use super::{
    hosted::Hosted,
    instance::{Conf, Instance},
    timers,
    wasm::Wasm,
};

/// Instances of one plugin on a worker. Requests beyond share them.
const MAX_INSTANCES: usize = 8;
/// An instance that cannot be made for a configuration is not tried again before.
const RETRY: Duration = Duration::from_secs(1);
/// So often unused instances are looked for.
const SWEEP: Duration = Duration::from_secs(10);

pub(super) struct Pool {
    plugin: &'static Wasm,
    hosted: RefCell<Vec<Rc<Hosted>>>,
    is_making: Cell<bool>,
    made: Notify,
    /// The last configuration that no instance could be made for, when, and why.
    failed: RefCell<Option<(u64, Instant, String)>>,
    is_swept: Cell<bool>,
}

thread_local! {
    /// By the number of the plugin.
    static POOLS: RefCell<Vec<Option<Rc<Pool>>>> = const { RefCell::new(Vec::new()) };
}

/// This worker's instances of a plugin.
pub(super) fn of(plugin: &'static Wasm) -> Rc<Pool> {
    POOLS.with_borrow_mut(|pools| {
        if pools.len() <= plugin.number {
            pools.resize(plugin.number + 1, None);
        }
        let pool = pools[plugin.number].get_or_insert_with(|| Rc::new(Pool::new(plugin)));
        pool.clone()
    })
}

impl Pool {
    fn new(plugin: &'static Wasm) -> Pool {
        Pool {
            plugin,
            hosted: RefCell::default(),
            is_making: Cell::new(false),
            made: Notify::new(),
            failed: RefCell::default(),
            is_swept: Cell::new(false),
        }
    }

    /// An instance for a request; `None`: it is being made.
    pub(super) fn pick(self: &Rc<Pool>, conf: &Arc<Conf>) -> Option<Rc<Hosted>> {
        let mut hosted = self.hosted.borrow_mut();
        let load = |one: &Rc<Hosted>| {
            one.instance.try_borrow().map_or((true, usize::MAX), |one| (one.is_dead, one.streams))
        };
        if let Some(first) = hosted.first()
            && load(first) == (false, 0)
        {
            first.was_used.set(true);
            return Some(first.clone());
        }
        // Requests under way hold on to a dead one.
        hosted.retain(|one| !load(one).0);
        let least = hosted.iter().min_by_key(|one| load(one)).cloned();
        let is_idle = least.as_ref().is_some_and(|one| load(one).1 == 0);
        let has_room = hosted.len() < MAX_INSTANCES;
        drop(hosted);
        if !is_idle && has_room && self.make(conf) {
            return None;
        }
        if let Some(one) = &least {
            one.was_used.set(true);
        }
        least
    }

    /// An instance that is there, whatever it serves.
    pub(super) fn any(&self) -> Option<Rc<Hosted>> {
        let hosted = self.hosted.borrow();
        hosted.iter().find(|one| one.instance.try_borrow().is_ok_and(|instance| !instance.is_dead)).cloned()
    }

    /// Waits for an instance, or returns the reason why none can be made.
    pub(super) async fn wait(self: &Rc<Pool>, conf: &Arc<Conf>) -> Result<Rc<Hosted>, String> {
        let mut has_waited = false;
        loop {
            if let Some(one) = self.pick(conf) {
                return Ok(one);
            }
            if let Some(reason) = self.failure(conf) {
                return Err(reason);
            }
            if has_waited && !self.is_making.get() {
                return Err("no instance could be made".to_owned());
            }
            self.made.notified().await;
            has_waited = true;
        }
    }

    fn failure(&self, conf: &Conf) -> Option<String> {
        let failed = self.failed.borrow();
        let (_, _, reason) =
            failed.as_ref().filter(|(serial, at, _)| *serial == conf.serial && at.elapsed() < RETRY)?;
        Some(reason.clone())
    }

    /// Whether one more is on its way.
    fn make(self: &Rc<Pool>, conf: &Arc<Conf>) -> bool {
        let Some(host) = tidegate_plugin_api::host().filter(|_| self.failure(conf).is_none()) else {
            return false;
        };
        if self.is_making.replace(true) {
            return true;
        }
        let (plugin, wanted) = (self.plugin, conf.clone());
        let making = host.background.spawn_blocking(move || -> (Option<Instance>, Option<String>) {
            match plugin.instance() {
                Err(reason) => (None, Some(reason)),
                Ok(mut instance) => {
                    let fault = instance.prepare(&wanted).err();
                    (Some(instance).filter(|instance| !instance.is_dead), fault)
                }
            }
        });
        let (pool, conf) = (self.clone(), conf.clone());
        tokio::task::spawn_local(async move {
            let (instance, fault) =
                making.await.unwrap_or_else(|_| (None, Some("making an instance failed".to_owned())));
            if let Some(reason) = fault {
                error_log::log(
                    Level::Error,
                    format_args!("{}: failed to fetch wasm plugin ctx: {reason}", pool.plugin.name),
                );
                *pool.failed.borrow_mut() = Some((conf.serial, Instant::now(), reason));
            }
            if let Some(instance) = instance {
                pool.adopt(instance);
            }
            pool.is_making.set(false);
            pool.made.notify_waiters();
        });
        true
    }

    fn adopt(self: &Rc<Pool>, mut instance: Instance) {
        let wishes = instance.wishes();
        let one = Rc::new(Hosted { instance: RefCell::new(instance), was_used: Cell::new(true) });
        timers::fulfil(&one, wishes);
        self.hosted.borrow_mut().push(one);
        if !self.is_swept.replace(true) {
            let pool = self.clone();
            tokio::task::spawn_local(async move {
                while pool.sweep() {
                    tokio::time::sleep(SWEEP).await;
                }
                pool.is_swept.set(false);
            });
        }
    }

    /// Ends what belongs to configurations that are gone, and drops instances that are left over. `false`: none is left.
    fn sweep(&self) -> bool {
        let mut hosted = self.hosted.borrow_mut();
        let mut first = true;
        hosted.retain(|one| {
            let Ok(mut instance) = one.instance.try_borrow_mut() else { return true };
            instance.sweep();
            let is_first = std::mem::take(&mut first);
            let was_used = one.was_used.replace(false);
            !instance.is_dead && !instance.is_unused() && (is_first || was_used || instance.streams > 0)
        });
        !hosted.is_empty()
    }
}
