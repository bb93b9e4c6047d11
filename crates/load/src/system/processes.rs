//! CPU time of processes, of their threads that have ended, and of their children.

use std::{collections::HashMap, fs};

/// Of the processes that there are, and what belongs to them.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    processes: HashMap<u32, Process>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Process {
    parent: u32,
    /// When it began, so that a number that is used again is another process.
    began: u64,
    /// All threads, ended ones included, and the children that it has waited for: nanoseconds.
    own_ns: u64,
    reaped_ns: u64,
}

/// Linux counts CPU time in /proc in ticks of this length on all common architectures (`USER_HZ`, 100).
const TICK_NS: u64 = 10_000_000;

impl Tree {
    pub fn read() -> Tree {
        let mut processes = HashMap::new();
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            let text = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            processes.extend(parse(&text).map(|process| (pid, process)));
        }
        Tree { processes }
    }

    /// These processes and all that come from them.
    pub fn with_descendants(&self, roots: &[u32]) -> Vec<u32> {
        let mut found = roots.to_vec();
        let mut at = 0;
        while let Some(&parent) = found.get(at) {
            at += 1;
            let children = self.processes.iter().filter(|(_, process)| process.parent == parent);
            for (&pid, _) in children {
                if !found.contains(&pid) {
                    found.push(pid);
                }
            }
        }
        found
    }

    /// What the tree of `roots` used from `before` until now. A child that ended is counted where it was waited for.
    pub fn used_since(&self, before: &Tree, roots: &[u32]) -> u64 {
        let of = |pid: &u32| {
            let now = self.processes.get(pid)?;
            let then = before.processes.get(pid).filter(|then| then.began == now.began);
            let then = then.copied().unwrap_or_default();
            let reaped = now.reaped_ns.saturating_sub(then.reaped_ns);
            Some(now.own_ns.saturating_sub(then.own_ns) + reaped)
        };
        let used: u64 = self.with_descendants(roots).iter().filter_map(of).sum();
        // What children had used before is not of this time, although it is counted when they are waited for.
        let gone = before.with_descendants(roots).into_iter().filter(|pid| !self.processes.contains_key(pid));
        let earlier: u64 = gone
            .filter_map(|pid| before.processes.get(&pid))
            .map(|process| process.own_ns + process.reaped_ns)
            .sum();
        used.saturating_sub(earlier)
    }
}

/// /proc/PID/stat: fields 4 (parent), 14 to 17 (utime, stime, cutime, cstime), 22 (starttime).
fn parse(text: &str) -> Option<Process> {
    // The name may hold blanks and parentheses.
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<u64> = rest
        .split_whitespace()
        .skip(1)
        .map_while(|field| field.parse::<i64>().ok())
        .map(|field| field.max(0) as u64)
        .collect();
    let of = |number: usize| fields.get(number - 4).copied();
    Some(Process {
        parent: of(4)? as u32,
        began: of(22)?,
        own_ns: (of(14)? + of(15)?) * TICK_NS,
        reaped_ns: (of(16)? + of(17)?) * TICK_NS,
    })
}

#[cfg(test)]
mod tests {
    use rustix::time::{ClockId, clock_gettime};

    use super::*;

    fn thread_cpu_ns() -> u64 {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }

    #[test]
    fn ended_threads_and_children_count() {
        let own = [std::process::id()];
        let before = Tree::read();
        let burn = || {
            let begun = std::time::Instant::now();
            while thread_cpu_ns() < 60_000_000 && begun.elapsed().as_secs() < 20 {
                std::hint::black_box(begun.elapsed());
            }
        };
        std::thread::spawn(burn).join().expect("ended");
        let threads = Tree::read().used_since(&before, &own);
        assert!(threads >= 40_000_000, "{threads}");
        let before = Tree::read();
        let script = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
        let status = std::process::Command::new("sh").arg("-c").arg(script).status().expect("runs");
        let children = Tree::read().used_since(&before, &own);
        assert!(status.success() && children >= 20_000_000, "{children}");
    }

    #[test]
    fn names_with_parentheses() {
        let text = "7 (a) b (c) S 3 1 1 0 -1 4194560 1 0 0 0 5 6 7 8 20 0 1 0 99 0 0";
        let found = parse(text).expect("a process");
        assert_eq!(
            (found.parent, found.own_ns, found.reaped_ns, found.began),
            (3, 110_000_000, 150_000_000, 99)
        );
    }
}
