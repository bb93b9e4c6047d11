//! What one registry has said: services and their nodes.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tidegate_model::resources::Node;

use crate::registry::Signals;

pub(crate) type Services = BTreeMap<String, Arc<[Node]>>;

/// Of one name: more than any balancer here takes. Further ones do not count.
pub(crate) const MOST_NODES: usize = 65_535;

/// Services and nodes that one server of a registry names, together.
pub(crate) const MOST_OF_SERVER: usize = 1_000_000;

/// What a server names beyond [`MOST_OF_SERVER`] is not an answer: what is known stays.
pub(crate) fn check_count(count: usize) -> Result<(), String> {
    match count > MOST_OF_SERVER {
        true => Err(format!("names more than {MOST_OF_SERVER} services and nodes")),
        false => Ok(()),
    }
}

/// The number, in place of a server's, of what a file says until the first answer comes.
pub(crate) const FILE: usize = usize::MAX;

/// The answers of one or several servers. Where several know a service, the one that changed its mind last is right.
/// What a server removes is also removed from servers that do not answer: they may be members of one cluster.
pub(crate) struct Known {
    state: Mutex<State>,
    signals: Signals,
}

#[derive(Default)]
struct State {
    answers: BTreeMap<usize, LastLookup>,
    /// Counts answers.
    turn: u64,
    /// An answer or a failure has come.
    attempted: bool,
}

#[derive(Default)]
struct LastLookup {
    services: Services,
    turn: u64,
    /// The server does not answer now.
    stale: bool,
}

impl Known {
    pub(crate) fn new(signals: &Signals) -> Known {
        Known { state: Mutex::default(), signals: signals.clone() }
    }

    /// Replaces everything that a server said before.
    pub(crate) fn set(&self, server: usize, services: Services) {
        self.update(server, |known| *known = services);
    }

    /// Changes what a server said before.
    pub(crate) fn update(&self, server: usize, change: impl FnOnce(&mut Services)) {
        let mut state = self.lock();
        state.attempted = true;
        let before = state.answers.remove(&server);
        let same_file = state.answers.remove(&FILE).is_none();
        let known = before.is_some();
        let before = before.unwrap_or_default();
        let mut services = before.services.clone();
        change(&mut services);
        let mut same = known && same_file && before.services == services;
        for gone in before.services.keys().filter(|name| !services.contains_key(*name)) {
            for other in state.answers.values_mut().filter(|other| other.stale) {
                same &= other.services.remove(gone).is_none();
            }
        }
        state.turn += u64::from(!same);
        let turn = if same { before.turn } else { state.turn };
        state.answers.insert(server, LastLookup { services, turn, stale: false });
        drop(state);
        if !same {
            self.signals.changed();
        }
        self.signals.attempted();
    }

    /// There was no answer; the old one stays.
    pub(crate) fn failed(&self, server: usize) {
        let mut state = self.lock();
        state.attempted = true;
        if let Some(answer) = state.answers.get_mut(&server) {
            answer.stale = true;
        }
        drop(state);
        self.signals.attempted();
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.lock().attempted
    }

    pub(crate) fn nodes(&self, service: &str) -> Option<Arc<[Node]>> {
        let state = self.lock();
        let knowing = state.answers.values().filter_map(|it| Some((it.turn, it.services.get(service)?)));
        knowing.max_by_key(|(turn, _)| *turn).map(|(_, nodes)| nodes.clone())
    }

    /// What a server said last.
    pub(crate) fn of(&self, server: usize) -> Services {
        self.lock().answers.get(&server).map(|it| it.services.clone()).unwrap_or_default()
    }

    pub(crate) fn all(&self) -> Services {
        let state = self.lock();
        let mut answers: Vec<&LastLookup> = state.answers.values().collect();
        answers.sort_by_key(|answer| answer.turn);
        let mut all = Services::new();
        for answer in answers {
            all.extend(answer.services.iter().map(|(name, nodes)| (name.clone(), nodes.clone())));
        }
        all
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::watch;

    fn services(names: &[&str]) -> Services {
        names.iter().map(|name| ((*name).to_owned(), Arc::from([]))).collect()
    }

    fn known() -> Known {
        Known::new(&Signals { changes: watch::Sender::new(0), attempts: watch::Sender::new(0) })
    }

    fn names(known: &Known) -> Vec<String> {
        known.all().into_keys().collect()
    }

    #[test]
    fn what_is_taken_back_is_not_kept_by_a_server_that_is_down() {
        let known = known();
        known.set(0, services(&["a", "b"]));
        known.set(1, services(&["a", "b"]));
        known.set(1, services(&["b"]));
        assert_eq!(names(&known), ["a", "b"], "the first server still says so");
        known.set(1, services(&["a", "b"]));
        known.failed(0);
        known.set(1, services(&["b"]));
        assert_eq!(names(&known), ["b"]);
    }

    #[test]
    fn a_file_counts_until_somebody_answers() {
        let known = known();
        known.set(FILE, services(&["old"]));
        known.failed(0);
        assert_eq!(names(&known), ["old"]);
        known.set(1, services(&["new"]));
        assert_eq!(names(&known), ["new"]);
    }

    #[test]
    fn only_changes_are_told() {
        let known = known();
        let changes = known.signals.changes.subscribe();
        known.set(0, services(&[]));
        known.set(0, services(&[]));
        assert_eq!(*changes.borrow(), 1, "the first answer is one");
        known.set(0, services(&["a"]));
        known.set(0, services(&["a"]));
        assert_eq!(*changes.borrow(), 2);
    }
}
