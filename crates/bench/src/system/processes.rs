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
    /// Page faults of the children that it has waited for: even one that did hardly anything has some.
    reaped_faults: u64,
}

/// Linux counts CPU time in /proc in ticks of this length on all common architectures (`USER_HZ`, 100).
const TICK_NS: u64 = 10_000_000;

impl Tree {
    /// All processes of now.
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
    pub(crate) fn with_descendants(&self, roots: &[u32]) -> Vec<u32> {
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

    /// What the tree of `roots` used from `before` until now. A child that ended is counted where it was waited for;
    /// one whose parent does not wait is lost, see [`Tree::comes_and_goes`].
    pub(crate) fn used_since(&self, before: &Tree, roots: &[u32]) -> u64 {
        self.members(before, roots).iter().map(|&pid| self.used_by(pid, before)).sum()
    }

    /// Whether processes of the tree began or ended since `before`. Then CPU time may be missing: the system forgets that of a
    /// child whose parent ignores SIGCHLD or has ended.
    pub(crate) fn comes_and_goes(&self, before: &Tree, roots: &[u32]) -> bool {
        let members = self.members(before, roots);
        let changed = |pid: &u32| match (self.get(*pid), before.get(*pid)) {
            (Some(now), Some(then)) => now.began != then.began || now.reaped_faults != then.reaped_faults,
            _ => true,
        };
        members.iter().chain(&before.with_descendants(roots)).any(changed)
    }

    fn get(&self, pid: u32) -> Option<&Process> {
        self.processes.get(&pid)
    }

    /// The current tree of `roots`, with those whose parent has ended since.
    fn members(&self, before: &Tree, roots: &[u32]) -> Vec<u32> {
        let mut known = before.with_descendants(roots);
        known.retain(|&pid| !self.is_gone(pid, before));
        self.with_descendants(&known)
    }

    /// Whether the process of `before` has ended. Another one may have its number.
    pub(crate) fn is_gone(&self, pid: u32, before: &Tree) -> bool {
        let then = before.get(pid).map(|then| then.began);
        self.get(pid).is_none_or(|now| then.is_some_and(|then| then != now.began))
    }

    fn used_by(&self, pid: u32, before: &Tree) -> u64 {
        let Some(now) = self.get(pid) else { return 0 };
        let then = before.get(pid).filter(|then| then.began == now.began).copied().unwrap_or_default();
        let reaped = now.reaped_ns.saturating_sub(then.reaped_ns);
        // What children had used before is not of this time, although it is counted when they are waited for. It is taken from
        // what their own parent has of them and from nothing else: a child that was not waited for is counted nowhere.
        let earlier = if reaped == 0 { 0 } else { self.used_before_by_ended_children(pid, before) };
        now.own_ns.saturating_sub(then.own_ns) + reaped.saturating_sub(earlier)
    }

    fn used_before_by_ended_children(&self, parent: u32, before: &Tree) -> u64 {
        let children = before.processes.iter().filter(|(_, process)| process.parent == parent);
        children
            .filter(|&(&pid, _)| pid != parent && self.is_gone(pid, before))
            .map(|(&pid, child)| {
                child.own_ns + child.reaped_ns + self.used_before_by_ended_children(pid, before)
            })
            .sum()
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
        reaped_faults: of(11)?,
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

    /// (pid, parent, when it began, own and reaped milliseconds).
    fn tree(processes: &[(u32, u32, u64, u64, u64)]) -> Tree {
        let of = |&(pid, parent, began, own, reaped)| {
            let (own_ns, reaped_ns) = (own * 1_000_000, reaped * 1_000_000);
            (pid, Process { parent, began, own_ns, reaped_ns, reaped_faults: reaped })
        };
        Tree { processes: processes.iter().map(of).collect() }
    }

    fn used_ms(now: &Tree, before: &Tree) -> u64 {
        now.used_since(before, &[10]) / 1_000_000
    }

    #[test]
    fn a_child_that_is_waited_for_counts_once() {
        let before = tree(&[(10, 1, 0, 100, 0), (11, 10, 1, 500, 0), (12, 11, 2, 40, 0)]);
        // 11 used 30 more and 12 used 20 more until they ended; 13 came and went.
        let now = tree(&[(10, 1, 0, 105, 500 + 30 + 40 + 20 + 7)]);
        assert_eq!(used_ms(&now, &before), 5 + 30 + 20 + 7);
        // 11 is not waited for yet.
        let now = tree(&[(10, 1, 0, 105, 0), (11, 10, 1, 530, 60)]);
        assert_eq!(used_ms(&now, &before), 5 + 30 + 20);
        // Its number is another process's by now.
        let now = tree(&[(10, 1, 0, 105, 597), (11, 1, 9, 4000, 0)]);
        assert_eq!(used_ms(&now, &before), 5 + 30 + 20 + 7);
    }

    #[test]
    fn who_is_not_waited_for_takes_nothing_from_others() {
        let before = tree(&[(10, 1, 0, 100, 0), (11, 10, 1, 500, 0), (12, 10, 2, 900, 0)]);
        let now = tree(&[(10, 1, 0, 130, 0), (12, 10, 2, 960, 0)]);
        assert_eq!(used_ms(&now, &before), 30 + 60);
        assert!(now.comes_and_goes(&before, &[10]));
        assert!(!before.comes_and_goes(&before, &[10]));
        // A child that came and went between the two.
        let mut now = before.clone();
        now.processes.entry(10).and_modify(|process| process.reaped_faults = 80);
        assert!(now.comes_and_goes(&before, &[10]));
        // 11 has ended, and its child has another parent.
        let before = tree(&[(10, 1, 0, 100, 0), (11, 10, 1, 0, 0), (12, 11, 2, 40, 0)]);
        let now = tree(&[(10, 1, 0, 100, 0), (12, 1, 2, 90, 0)]);
        assert_eq!(used_ms(&now, &before), 50);
    }

    #[test]
    fn names_with_parentheses() {
        let text = "7 (a) b (c) S 3 1 1 0 -1 4194560 1 0 0 0 5 6 7 8 20 0 1 0 99 0 0";
        let found = parse(text).expect("a process");
        assert_eq!(
            (found.parent, found.own_ns, found.reaped_ns, found.began, found.reaped_faults),
            (3, 110_000_000, 150_000_000, 99, 0)
        );
    }
}
