//! What a worker is doing: written by the worker alone, read by the stall watch afterwards and by the watchdog meanwhile.
//!
//! Names are kept as addresses of entries in the tables of plugins, and routes by their serial numbers: another thread can
//! read a number at any time, and resolves it only when it has something to report.

use std::{
    array,
    cell::Cell,
    sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst},
};

/// How many are remembered of a poll; the newest overwrite the oldest.
const MARKS: usize = 8;

thread_local! {
    /// The progress of this thread's worker.
    static OWN: Cell<Option<&'static Progress>> = const { Cell::new(None) };
}

/// Where in a request something ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum At {
    Matching = 1,
    Rewrite,
    Access,
    Stored,
    Departing,
    BeforeProxy,
    HeaderFilter,
    BodyFilter,
    Log,
}

const PLACES: [(At, &str); 9] = [
    (At::Matching, "matching"),
    (At::Rewrite, "rewrite"),
    (At::Access, "access"),
    (At::Stored, "stored"),
    (At::Departing, "departing"),
    (At::BeforeProxy, "before_proxy"),
    (At::HeaderFilter, "header_filter"),
    (At::BodyFilter, "body_filter"),
    (At::Log, "log"),
];

impl At {
    pub(crate) fn name(self) -> &'static str {
        PLACES.get(self as usize - 1).map_or("", |(_, name)| name)
    }
}

/// The name of the code that runs at [`At::Matching`].
pub(crate) static FILTER_FUNC: &str = "filter_func";

/// Something begins that may take time. `route`: its serial number, or 0.
#[inline]
pub(crate) fn mark(at: At, name: &'static str, route: u64) {
    let Some(own) = OWN.get() else { return };
    let count = own.marked.load(Relaxed);
    if let Some(mark) = own.marks.get(count % MARKS) {
        mark.name.store(name.as_ptr().addr(), Relaxed);
        mark.place.store(route << 8 | at as u64, Relaxed);
    }
    own.marked.store(count + 1, Relaxed);
}

#[derive(Debug)]
pub(crate) struct Progress {
    /// Counts polls of tasks; a worker that is not held up has one every 50 ms at least, by its clock.
    polls: AtomicU32,
    /// Marks since the poll began.
    marked: AtomicUsize,
    marks: [Mark; MARKS],
    /// Another worker has taken this one's place.
    lost: AtomicBool,
}

#[derive(Debug, Default)]
struct Mark {
    name: AtomicUsize,
    /// The route's serial number over [`At`].
    place: AtomicU64,
}

/// A mark in readable form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Marked {
    pub at: &'static str,
    pub name: &'static str,
    pub route: u64,
}

impl Default for Progress {
    fn default() -> Progress {
        Progress {
            polls: AtomicU32::new(0),
            marked: AtomicUsize::new(0),
            marks: array::from_fn(|_| Mark::default()),
            lost: AtomicBool::new(false),
        }
    }
}

impl Progress {
    /// Marks of this thread go here from now on.
    pub(crate) fn is_of_this_thread(&'static self) {
        OWN.set(Some(self));
    }

    #[inline]
    pub(crate) fn begin_poll(&self) {
        self.marked.store(0, Relaxed);
    }

    /// How many there were.
    #[inline]
    pub(crate) fn end_poll(&self) -> u32 {
        let polls = self.polls.load(Relaxed).wrapping_add(1);
        self.polls.store(polls, Relaxed);
        polls
    }

    pub(crate) fn polls(&self) -> u32 {
        self.polls.load(Relaxed)
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Relaxed)
    }

    pub(crate) fn set_lost(&self) {
        self.lost.store(true, SeqCst);
    }

    /// The plugins that ran in the poll, oldest first; only the latest are remembered.
    pub(crate) fn ran(&self) -> Vec<Marked> {
        let count = self.marked.load(Relaxed);
        let numbers = count.saturating_sub(MARKS)..count;
        numbers.filter_map(|number| self.marks.get(number % MARKS)).map(Mark::read).collect()
    }
}

impl Mark {
    fn read(&self) -> Marked {
        let place = self.place.load(Relaxed);
        let at = PLACES.iter().find(|(at, _)| *at as u64 == place & 0xff).map_or("", |(_, name)| name);
        Marked { at, name: name_at(self.name.load(Relaxed)), route: place >> 8 }
    }
}

/// The plugin whose name is kept there.
fn name_at(address: usize) -> &'static str {
    let names =
        tidegate_plugin_api::host().into_iter().flat_map(|host| host.catalog.defs()).map(|def| def.name);
    let mut names = names.chain([FILTER_FUNC]);
    names.find(|name| name.as_ptr().addr() == address).unwrap_or("a plugin")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_marks_of_a_poll_are_told() {
        let progress: &'static Progress = Box::leak(Box::default());
        mark(At::Log, FILTER_FUNC, 1);
        assert!(progress.ran().is_empty(), "another thread's");
        progress.is_of_this_thread();
        mark(At::Access, FILTER_FUNC, 7);
        mark(At::Log, "unknown", 0);
        let expected = [
            Marked { at: "access", name: "filter_func", route: 7 },
            Marked { at: "log", name: "a plugin", route: 0 },
        ];
        assert_eq!(progress.ran(), expected);
        (0..MARKS).for_each(|_| mark(At::HeaderFilter, FILTER_FUNC, 9));
        assert!(progress.ran().iter().all(|mark| mark.at == "header_filter" && mark.route == 9));
        assert_eq!(progress.ran().len(), MARKS);
        assert_eq!(progress.end_poll(), 1);
        progress.begin_poll();
        assert!(progress.ran().is_empty());
    }

    #[test]
    fn every_place_has_its_name() {
        for (at, name) in PLACES {
            assert_eq!(at.name(), name);
        }
    }
}
