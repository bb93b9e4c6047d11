//! What all providers share: the state readers see, what changed recently, and the signal that says so.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use parking_lot::RwLock;
use tidegate_model::Object;
use tokio::sync::watch;

use crate::{Change, Changes, State};

/// Changes kept for `changes_since`: so many, of so many bytes, for so long. A reader that falls further behind takes the
/// whole state. They hold objects that are kept nowhere else, and readers follow within seconds.
const MAX_LOGGED_CHANGES: usize = 10_000;
const MAX_LOGGED_BYTES: usize = 8 << 20;
const LONGEST_LOGGED: Duration = Duration::from_secs(60);

/// Of a change, beside its object's text.
const CHANGE_BYTES: usize = 256;

pub(crate) struct Live {
    inner: RwLock<Inner>,
    bell: watch::Sender<u64>,
}

struct Inner {
    state: State,
    /// Changes in revision order; complete for all revisions above `complete_above`.
    log: VecDeque<Logged>,
    log_bytes: usize,
    complete_above: u64,
}

struct Logged {
    revision: u64,
    change: Change,
    published: Instant,
}

impl Logged {
    fn bytes(&self) -> usize {
        CHANGE_BYTES + self.change.object.as_ref().map_or(0, |object| object.document.text().len())
    }
}

impl Inner {
    /// Takes what is too much off the log.
    fn trim(&mut self, now: Instant) -> Vec<Logged> {
        let mut dropped = Vec::new();
        while let Some(first) = self.log.front()
            && (self.log.len() > MAX_LOGGED_CHANGES
                || self.log_bytes > MAX_LOGGED_BYTES
                || now.saturating_duration_since(first.published) > LONGEST_LOGGED)
        {
            self.complete_above = first.revision;
            self.log_bytes = self.log_bytes.saturating_sub(first.bytes());
            dropped.extend(self.log.pop_front());
        }
        dropped
    }
}

impl Live {
    pub(crate) fn new(mut state: State) -> Self {
        state.pack();
        let revision = state.revision;
        let inner = Inner { state, log: VecDeque::new(), log_bytes: 0, complete_above: revision };
        Self { inner: RwLock::new(inner), bell: watch::Sender::new(revision) }
    }

    pub(crate) fn read<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        read(&self.inner.read().state)
    }

    /// Makes changes visible, all at once, then rings. Revisions must not fall.
    pub(crate) fn publish(&self, revision: u64, changes: Vec<(u64, Change)>) {
        let published = Instant::now();
        let removed = {
            let mut inner = self.inner.write();
            let mut removed: Vec<Option<Object>> = Vec::with_capacity(changes.len());
            for (at, change) in changes {
                removed.push(match &change.object {
                    Some(object) => inner.state.put(object.clone()),
                    None => inner.state.remove(change.kind, &change.id),
                });
                let logged = Logged { revision: at, change, published };
                inner.log_bytes += logged.bytes();
                inner.log.push_back(logged);
            }
            inner.state.revision = revision;
            (removed, inner.trim(published))
        };
        // Old values are freed after the lock is: a replaced file can hold a hundred thousand of them.
        drop(removed);
        self.bell.send_replace(revision);
    }

    /// As [`Live::publish`], where revisions start over: every reader takes the whole state next.
    #[cfg(feature = "etcd")]
    pub(crate) fn restart(&self, revision: u64, changes: Vec<(u64, Change)>) {
        {
            let mut inner = self.inner.write();
            for (_, change) in changes {
                match &change.object {
                    Some(object) => inner.state.put(object.clone()),
                    None => inner.state.remove(change.kind, &change.id),
                };
            }
            inner.log.clear();
            inner.log_bytes = 0;
            // Above the new revision: a reader may stand at the same number of the old count.
            inner.complete_above = revision + 1;
            inner.state.revision = revision;
        }
        self.bell.send_replace(revision);
    }

    pub(crate) fn changes_since(&self, revision: u64) -> Changes {
        let inner = self.inner.read();
        if revision < inner.complete_above || revision > inner.state.revision {
            return Changes::Reset;
        }
        let first = inner.log.partition_point(|logged| logged.revision <= revision);
        let changes = inner.log.range(first..).map(|logged| logged.change.clone()).collect();
        Changes::Delta { revision: inner.state.revision, changes }
    }

    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.bell.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;
    use tidegate_model::Kind;

    use super::*;

    fn change(revision: u64, id: &str) -> (u64, Change) {
        change_to(revision, id, &json!({}))
    }

    fn change_to(revision: u64, id: &str, value: &serde_json::Value) -> (u64, Change) {
        let id: Arc<str> = id.into();
        let object = Object {
            kind: Kind::Route,
            id: id.clone(),
            document: value.clone().into(),
            created: revision,
            modified: revision,
            fault: None,
            unread: None,
        };
        (revision, Change { kind: Kind::Route, id, object: Some(object) })
    }

    fn check(live: &Live, since: u64, expected: Option<&[&str]>) {
        let ids = match live.changes_since(since) {
            Changes::Delta { changes, .. } => {
                Some(changes.iter().map(|change| change.id.to_string()).collect())
            }
            Changes::Reset => None,
        };
        let expected: Option<Vec<String>> =
            expected.map(|ids| ids.iter().map(|id| (*id).to_owned()).collect());
        assert_eq!(ids, expected, "since {since}");
    }

    #[test]
    fn changes_since_a_revision() {
        let live = Live::new(State::at(5));
        let mut bell = live.watch();
        check(&live, 4, None);
        check(&live, 5, Some(&[]));
        check(&live, 6, None);
        live.publish(6, vec![change(6, "a"), change(6, "b")]);
        live.publish(7, vec![change(7, "c")]);
        assert_eq!(*bell.borrow_and_update(), 7);
        check(&live, 5, Some(&["a", "b", "c"]));
        check(&live, 6, Some(&["c"]));
        check(&live, 7, Some(&[]));
    }

    #[test]
    fn a_count_that_starts_over() {
        let live = Live::new(State::at(5));
        live.publish(6, vec![change(6, "a")]);
        live.restart(3, vec![change(3, "b")]);
        // A reader at any number of the old count takes the whole state, the same number included.
        for since in [2, 3, 5, 6] {
            check(&live, since, None);
        }
        live.publish(4, vec![change(4, "c")]);
        check(&live, 3, None);
        live.publish(5, vec![change(5, "d")]);
        check(&live, 4, Some(&["d"]));
        assert_eq!(live.read(|state| state.list(Kind::Route).count()), 4);
    }

    #[test]
    fn the_log_is_bounded_in_bytes_and_time() {
        let live = Live::new(State::default());
        let large = json!("a".repeat(1 << 20));
        for revision in 1..=20 {
            live.publish(revision, vec![change_to(revision, "a", &large)]);
        }
        check(&live, 12, None);
        check(&live, 13, Some(&["a"; 7]));
        // A change that alone is too large reaches only readers that take the whole state.
        live.publish(21, vec![change_to(21, "b", &json!("b".repeat(9 << 20)))]);
        check(&live, 20, None);
        check(&live, 21, Some(&[]));
        live.publish(22, vec![change(22, "c")]);
        check(&live, 21, Some(&["c"]));
        let mut inner = live.inner.write();
        assert!(inner.trim(Instant::now() + LONGEST_LOGGED / 2).is_empty());
        assert_eq!(inner.trim(Instant::now() + LONGEST_LOGGED * 2).len(), 1);
        assert_eq!((inner.log_bytes, inner.complete_above), (0, 22));
    }

    #[test]
    fn the_log_is_bounded() {
        let live = Live::new(State::default());
        for revision in 1..=(MAX_LOGGED_CHANGES as u64 + 2) {
            live.publish(revision, vec![change(revision, "a")]);
        }
        check(&live, 1, None);
        assert!(
            matches!(live.changes_since(2), Changes::Delta { changes, .. } if changes.len() == MAX_LOGGED_CHANGES)
        );
    }
}
