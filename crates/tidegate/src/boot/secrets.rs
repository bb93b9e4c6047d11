//! Values of `$secret://` references: fetched ahead of the compiler, kept fresh, never waited for by a request.
//!
//! Every reference in a configuration has an entry. A value is asked for again after `apisix.lru.secret.ttl`; a failure
//! after a second, then each time after twice as long, up to `neg_ttl`. While a manager does not answer the last value stays in use; a value that the manager
//! says is gone is gone. A value that differs from before makes the compiler build its users again.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde_json::Value;
use tidegate_clients::secrets::{Failure, fetch};
use tidegate_config::Settings;
use tidegate_model::{Kind, Object};
use tidegate_telemetry::error_log::{self, Level};
use tokio::{
    runtime::Handle,
    sync::{Notify, Semaphore, watch},
    time::Instant,
};

/// Requests under way at once, over all managers.
const PARALLEL: usize = 16;

/// When an entry whose answer is under way is looked at again. Not at each answer: there may be 10,000s.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

type Key = (Kind, Arc<str>);

pub(super) struct Secrets {
    state: Mutex<State>,
    ttl: Duration,
    negative_ttl: Duration,
    /// Something is due.
    wake: Notify,
    /// Counts the answers that the compiler does not know yet.
    changes: watch::Sender<u64>,
    /// Woken by each answer.
    answered: Notify,
    permits: Semaphore,
}

#[derive(Default)]
struct State {
    /// `vault/1` to the resource.
    managers: HashMap<Arc<str>, Arc<Value>>,
    references: HashMap<Key, Vec<Arc<str>>>,
    entries: HashMap<Arc<str>, Entry>,
    changed: HashSet<Arc<str>>,
}

struct Entry {
    users: usize,
    value: Result<Arc<str>, String>,
    due: Instant,
    fetching: bool,
    /// In a row.
    failures: u32,
    /// The first answer, or the first from a changed manager, is still to come and worth waiting for.
    awaited: bool,
    /// Raised with the manager's resource: an answer to an older question does not count.
    generation: u64,
}

impl Secrets {
    pub(super) fn start(settings: &Settings, runtime: &Handle) -> Arc<Secrets> {
        let cache = &settings.apisix.secret_cache;
        let second = Duration::from_secs(1);
        let secrets = Arc::new(Secrets {
            state: Mutex::default(),
            ttl: cache.ttl.max(second),
            negative_ttl: cache.negative_ttl.max(second),
            wake: Notify::new(),
            changes: watch::Sender::new(0),
            answered: Notify::new(),
            permits: Semaphore::new(PARALLEL),
        });
        runtime.spawn(secrets.clone().run());
        secrets
    }

    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// The references whose answers differ from what the compiler may have used.
    pub(super) fn take_changed(&self) -> Vec<Arc<str>> {
        self.lock().changed.drain().collect()
    }

    /// Forgets everything that is not in `objects`, and takes over what is.
    pub(super) fn reset<'a>(&self, objects: impl Iterator<Item = &'a Object>) {
        let mut gone: HashSet<Key> = {
            let state = self.lock();
            let managers = state.managers.keys().map(|id| (Kind::Secret, id.clone()));
            managers.chain(state.references.keys().cloned()).collect()
        };
        for object in objects {
            let key = (object.kind, object.id.clone());
            gone.remove(&key);
            self.object_changed(&key, Some(object));
        }
        for key in gone {
            self.object_changed(&key, None);
        }
    }

    /// An object was written, or deleted. Nothing is fetched before [`Secrets::fetch_missing`].
    pub(super) fn object_changed(&self, key: &Key, object: Option<&Object>) {
        let mut state = self.lock();
        if key.0 == Kind::Secret {
            state.set_manager(&key.1, object.map(Object::value).as_ref());
        } else {
            // Most objects have none, and need not be read for that.
            let may_have = object.filter(|object| object.document.may_hold("$"));
            let value = may_have.map(Object::value);
            let references = value.as_deref().map(tidegate_compiler::secret_references);
            state.set_references(key, &references.unwrap_or_default());
        }
    }

    /// Requests what is new and waits for the answers, for at most `patience`.
    pub(super) async fn fetch_missing(&self, patience: Duration) {
        self.wake.notify_one();
        let settled = async {
            loop {
                let answered = self.answered.notified();
                tokio::pin!(answered);
                answered.as_mut().enable();
                if !self.lock().entries.values().any(|entry| entry.awaited) {
                    return;
                }
                answered.await;
            }
        };
        if tokio::time::timeout(patience, settled).await.is_err() {
            // Once is enough: a manager that hangs must not slow down every further change.
            self.lock().entries.values_mut().for_each(|entry| entry.awaited = false);
        }
    }

    async fn run(self: Arc<Secrets>) {
        loop {
            let next = self.start_due();
            match next {
                Some(due) => {
                    tokio::select! {
                        () = self.wake.notified() => {}
                        () = tokio::time::sleep_until(due) => {}
                    }
                }
                None => self.wake.notified().await,
            }
        }
    }

    /// Starts what is due, and returns when the next will be.
    fn start_due(self: &Arc<Secrets>) -> Option<Instant> {
        let now = Instant::now();
        let mut next: Option<Instant> = None;
        for (reference, entry) in &mut self.lock().entries {
            let due = if entry.fetching {
                now + LOOK_AGAIN
            } else if entry.due <= now {
                entry.fetching = true;
                tokio::spawn(self.clone().ask(reference.clone(), entry.generation));
                now + LOOK_AGAIN
            } else {
                entry.due
            };
            next = Some(next.map_or(due, |next| next.min(due)));
        }
        next
    }

    async fn ask(self: Arc<Secrets>, reference: Arc<str>, generation: u64) {
        let Ok(_permit) = self.permits.acquire().await else { return };
        let answer = match parts(&reference) {
            Err(reason) => Err(Failure::Missing(reason.to_owned())),
            Ok((id, manager, path)) => {
                let conf = self.lock().managers.get(id).cloned();
                match conf {
                    None => {
                        Err(Failure::Missing(format!("no secret conf, secret_uri: $secret://{reference}")))
                    }
                    Some(conf) => {
                        let mut conf = (*conf).clone();
                        tidegate_compiler::resolve_environment(&mut conf);
                        fetch(manager, &conf, path).await
                    }
                }
            }
        };
        self.take_answer(&reference, generation, answer);
    }

    fn take_answer(&self, reference: &Arc<str>, generation: u64, answer: Result<String, Failure>) {
        let mut state = self.lock();
        // No object refers to it any more.
        let Some(entry) = state.entries.get_mut(reference) else { return };
        entry.fetching = false;
        if entry.generation != generation {
            drop(state);
            return self.wake.notify_one();
        }
        entry.awaited = false;
        entry.failures = if answer.is_ok() { 0 } else { entry.failures + 1 };
        let wait = if answer.is_ok() { self.ttl } else { self.patience_after(entry.failures) };
        entry.due = Instant::now() + wait;
        if let Err(failure) = &answer {
            let kept = matches!(failure, Failure::Unavailable(_)) && entry.value.is_ok();
            let note = if kept { ", its last value stays in use" } else { "" };
            error_log::log(
                Level::Error,
                format_args!("failed to fetch $secret://{reference}: {failure}{note}"),
            );
        }
        let value = match answer {
            Ok(value) => Ok(Arc::from(value)),
            Err(Failure::Unavailable(_)) if entry.value.is_ok() => entry.value.clone(),
            Err(failure) => Err(failure.to_string()),
        };
        let differs = value.as_ref().ok() != entry.value.as_ref().ok();
        entry.value = value;
        if differs {
            state.changed.insert(reference.clone());
            self.changes.send_modify(|count| *count += 1);
        }
        drop(state);
        self.answered.notify_waiters();
    }

    /// A manager that starts a little later than the gateway should not cost a minute.
    fn patience_after(&self, failures: u32) -> Duration {
        let doubled = 1_u64.checked_shl(failures.saturating_sub(1)).unwrap_or(u64::MAX);
        Duration::from_secs(doubled).min(self.negative_ttl)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn set_manager(&mut self, id: &Arc<str>, conf: Option<&Arc<Value>>) {
        if self.managers.get(id) == conf {
            return;
        }
        match conf {
            Some(conf) => self.managers.insert(id.clone(), conf.clone()),
            None => self.managers.remove(id),
        };
        let now = Instant::now();
        for (reference, entry) in &mut self.entries {
            if parts(reference).is_ok_and(|(manager, ..)| manager == &**id) {
                entry.generation += 1;
                entry.failures = 0;
                entry.due = now;
                entry.awaited = true;
            }
        }
    }

    fn set_references(&mut self, key: &Key, references: &[&str]) {
        let old = self.references.remove(key).unwrap_or_default();
        let new: Vec<Arc<str>> = references.iter().map(|reference| Arc::from(*reference)).collect();
        for reference in &new {
            let entry = self.entries.entry(reference.clone()).or_insert_with(|| Entry {
                users: 0,
                value: Err("not fetched yet".to_owned()),
                due: Instant::now(),
                fetching: false,
                failures: 0,
                awaited: true,
                generation: 0,
            });
            entry.users += 1;
        }
        for reference in &old {
            if let Some(entry) = self.entries.get_mut(reference) {
                entry.users -= 1;
                if entry.users == 0 {
                    self.entries.remove(reference);
                    self.changed.remove(reference);
                }
            }
        }
        if !new.is_empty() {
            self.references.insert(key.clone(), new);
        }
    }
}

/// `vault/1/path/key`: the resource's id, its manager, and what is left.
pub(super) fn parts(reference: &str) -> Result<(&str, &str, &str), &'static str> {
    let (manager, rest) = reference.split_once('/').ok_or("error format: no secret manager")?;
    let (id, path) = rest.split_once('/').ok_or("error format: no secret conf id")?;
    if path.is_empty() {
        return Err("error format: no secret key id");
    }
    Ok((reference.get(..manager.len() + 1 + id.len()).unwrap_or_default(), manager, path))
}

impl tidegate_compiler::SecretSource for Secrets {
    fn get(&self, reference: &str) -> Result<String, String> {
        match self.lock().entries.get(reference).map(|entry| &entry.value) {
            Some(Ok(value)) => Ok(value.to_string()),
            Some(Err(reason)) => Err(reason.clone()),
            None => Err("not fetched yet".to_owned()),
        }
    }
}
