//! The server's processes on this machine during a run: CPU time, and of the thread that wants most of it.

use std::collections::HashMap;

use crate::{
    outcome::Server,
    system::{Listener, Thread, Tree},
};

#[derive(Debug)]
pub(super) struct Watched {
    listener: Listener,
    before: HashMap<u32, Thread>,
    tree: Tree,
}

/// Ticks that rounding may add to a process.
const ROUNDING_NS: u64 = 20_000_000;

impl Watched {
    pub(super) fn new(listener: Listener) -> Watched {
        let before = listener.threads().into_iter().map(|thread| (thread.id, thread)).collect();
        Watched { listener, before, tree: Tree::read() }
    }

    /// From now on.
    pub(super) fn again(self) -> Watched {
        Watched::new(self.listener)
    }

    /// What they used since, in a run of so many seconds: threads that ended and processes that came from them included.
    pub(super) fn over(self, seconds: f64) -> Server {
        let used: Vec<(u64, u64)> =
            self.listener.threads().into_iter().map(|thread| self.since(thread)).collect();
        let share = |ns: u64| ns as f64 / 1e9 / seconds.max(1e-9);
        let busiest = used.iter().max_by_key(|(cpu, waited)| cpu + waited).copied().unwrap_or_default();
        // Threads are counted to the nanosecond, but only those that are there; processes in ticks, with all that ended.
        let threads: u64 = used.iter().map(|(cpu, _)| cpu).sum();
        let now = Tree::read();
        let all = now.used_since(&self.tree, &self.listener.pids);
        let rounding = ROUNDING_NS * self.listener.pids.len() as u64;
        Server {
            cpu_seconds: if all > threads + rounding { all } else { threads } as f64 / 1e9,
            busiest_thread: share(busiest.0),
            busiest_waited: share(busiest.1),
            memory_kib: self.listener.memory_kib(),
            processes: now.with_descendants(&self.listener.pids).len(),
            is_gone: self.listener.pids.iter().all(|&pid| now.is_gone(pid, &self.tree)),
            comes_and_goes: now.comes_and_goes(&self.tree, &self.listener.pids),
            name: self.listener.name,
        }
    }

    fn since(&self, now: Thread) -> (u64, u64) {
        let (cpu, waited) =
            self.before.get(&now.id).map_or((0, 0), |thread| (thread.cpu_ns, thread.waited_ns));
        (now.cpu_ns.saturating_sub(cpu), now.waited_ns.saturating_sub(waited))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::system::find_listener;

    #[test]
    fn the_thread_that_works_is_seen() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let watched = Watched::new(find_listener(address).expect("this process listens"));
        let begun = Instant::now();
        let mut turns = 0u64;
        while begun.elapsed().as_millis() < 100 {
            turns = std::hint::black_box(turns + 1);
        }
        let server = watched.over(begun.elapsed().as_secs_f64());
        // Other tests may take the CPU, but not without its being seen.
        assert!(server.busiest_thread > 0.0, "{server:?}");
        assert!(server.busiest_thread + server.busiest_waited > 0.5, "{server:?}");
        assert!(server.cpu_seconds >= server.busiest_thread * 0.1, "{server:?}");
    }
}
