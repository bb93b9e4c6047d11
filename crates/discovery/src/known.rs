//! What one registry has said: services and their nodes.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use model::resources::Node;

use crate::Signals;

pub type Services = BTreeMap<String, Arc<[Node]>>;

/// The answers of one or several servers. Where several know a service, the one that changed its mind last is right.
pub struct Known {
    state: Mutex<State>,
    signals: Signals,
}

#[derive(Default)]
struct State {
    answers: BTreeMap<usize, Answer>,
    /// Counts answers.
    turn: u64,
    /// An answer or a failure has come.
    attempted: bool,
}

struct Answer {
    services: Services,
    turn: u64,
}

impl Known {
    pub fn new(signals: &Signals) -> Known {
        Known { state: Mutex::default(), signals: signals.clone() }
    }

    /// Replaces everything that a server said before.
    pub fn set(&self, server: usize, services: Services) {
        self.update(server, |known| *known = services);
    }

    /// Changes what a server said before.
    pub fn update(&self, server: usize, change: impl FnOnce(&mut Services)) {
        let mut state = self.lock();
        state.attempted = true;
        let before = state.answers.get(&server).map(|answer| &answer.services);
        let mut services = before.cloned().unwrap_or_default();
        change(&mut services);
        let same = before == Some(&services);
        if !same {
            state.turn += 1;
            let turn = state.turn;
            state.answers.insert(server, Answer { services, turn });
        }
        drop(state);
        if !same {
            self.signals.changed();
        }
        self.signals.attempted();
    }

    /// There was no answer; the old one stays.
    pub fn failed(&self) {
        self.lock().attempted = true;
        self.signals.attempted();
    }

    pub fn is_settled(&self) -> bool {
        self.lock().attempted
    }

    pub fn nodes(&self, service: &str) -> Option<Arc<[Node]>> {
        let state = self.lock();
        let knowing = state.answers.values().filter_map(|it| Some((it.turn, it.services.get(service)?)));
        knowing.max_by_key(|(turn, _)| *turn).map(|(_, nodes)| nodes.clone())
    }

    /// What a server said last.
    pub fn of(&self, server: usize) -> Services {
        self.lock().answers.get(&server).map(|it| it.services.clone()).unwrap_or_default()
    }

    pub fn all(&self) -> Services {
        let state = self.lock();
        let mut answers: Vec<&Answer> = state.answers.values().collect();
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
