//! What Linux says about this machine: read before and after a run, the difference is evidence.

use std::{collections::BTreeMap, fs};

use serde::{Deserialize, Serialize};

pub mod process;
mod processes;
pub mod sockets;

pub use process::Listener;
pub(crate) use process::{Thread, find_listener, find_program};
pub use processes::Tree;

/// How long the calling thread was ready to run and had no CPU, since it began.
pub(crate) fn thread_wait_ns() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().nth(1).and_then(|field| field.parse().ok()).unwrap_or(0)
}

/// That this process may use.
pub fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Counters of the kernel that explain latency. All of this machine: a remote server's are not seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Segments sent again.
    pub(crate) retransmitted: u64,
    /// Retransmission timers that fired.
    pub timeouts: u64,
    /// SYN and SYN-ACK segments sent again.
    pub(crate) syn_retransmitted: u64,
    /// Connections that found the accept queue full.
    pub(crate) listen_overflows: u64,
    pub(crate) listen_drops: u64,
    /// Acknowledgements that waited for the delay timer.
    pub(crate) delayed_acks: u64,
    /// CPU time of the machine in ticks: all, idle, taken by the hypervisor.
    pub(crate) cpu_total: u64,
    pub(crate) cpu_idle: u64,
    pub(crate) cpu_steal: u64,
}

impl Counters {
    /// The counters of now; what cannot be read is 0.
    pub fn read() -> Counters {
        let mut found = BTreeMap::new();
        for file in ["/proc/net/netstat", "/proc/net/snmp"] {
            read_pairs(&fs::read_to_string(file).unwrap_or_default(), &mut found);
        }
        let of = |name: &str| found.get(name).copied().unwrap_or(0);
        let cpu = cpu_line(&fs::read_to_string("/proc/stat").unwrap_or_default());
        Counters {
            retransmitted: of("Tcp.RetransSegs"),
            timeouts: of("TcpExt.TCPTimeouts"),
            syn_retransmitted: of("TcpExt.TCPSynRetrans"),
            listen_overflows: of("TcpExt.ListenOverflows"),
            listen_drops: of("TcpExt.ListenDrops"),
            delayed_acks: of("TcpExt.DelayedACKs"),
            cpu_total: cpu.iter().take(8).sum(),
            cpu_idle: cpu.get(3).unwrap_or(&0) + cpu.get(4).unwrap_or(&0),
            cpu_steal: cpu.get(7).copied().unwrap_or(0),
        }
    }

    /// What was added since `before`.
    pub fn since(&self, before: &Counters) -> Counters {
        let less = |now: u64, then: u64| now.saturating_sub(then);
        Counters {
            retransmitted: less(self.retransmitted, before.retransmitted),
            timeouts: less(self.timeouts, before.timeouts),
            syn_retransmitted: less(self.syn_retransmitted, before.syn_retransmitted),
            listen_overflows: less(self.listen_overflows, before.listen_overflows),
            listen_drops: less(self.listen_drops, before.listen_drops),
            delayed_acks: less(self.delayed_acks, before.delayed_acks),
            cpu_total: less(self.cpu_total, before.cpu_total),
            cpu_idle: less(self.cpu_idle, before.cpu_idle),
            cpu_steal: less(self.cpu_steal, before.cpu_steal),
        }
    }

    /// Of the machine's CPU time, that of all processes.
    pub(crate) fn busy_share(&self) -> f64 {
        let idle = self.cpu_idle + self.cpu_steal;
        self.cpu_total.saturating_sub(idle) as f64 / self.cpu_total.max(1) as f64
    }

    pub(crate) fn steal_percent(&self) -> f64 {
        100.0 * self.cpu_steal as f64 / self.cpu_total.max(1) as f64
    }
}

/// `TcpExt: A B` above `TcpExt: 1 2`.
fn read_pairs(text: &str, found: &mut BTreeMap<String, u64>) {
    let lines: Vec<&str> = text.lines().collect();
    for pair in lines.chunks_exact(2) {
        let [names, values] = pair else { continue };
        let Some((group, names)) = names.split_once(": ") else { continue };
        let Some((_, values)) = values.split_once(": ") else { continue };
        for (name, value) in names.split_whitespace().zip(values.split_whitespace()) {
            if let Ok(value) = value.parse() {
                found.insert(format!("{group}.{name}"), value);
            }
        }
    }
}

/// user, nice, system, idle, iowait, irq, softirq, steal.
fn cpu_line(stat: &str) -> Vec<u64> {
    let line = stat.lines().find(|line| line.starts_with("cpu "));
    line.into_iter()
        .flat_map(|line| line.split_whitespace().skip(1))
        .map_while(|field| field.parse().ok())
        .collect()
}

/// The machine, for reports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    pub(crate) cpu: String,
    pub(crate) cpus: usize,
    pub(crate) kernel: String,
    pub(crate) memory_mib: u64,
    pub(crate) hypervisor: bool,
}

impl Machine {
    /// What cannot be read is left empty.
    pub fn read() -> Machine {
        let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let field = |name: &str| {
            let line = info.lines().find(|line| line.starts_with(name))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let memory_kib: u64 = memory
            .lines()
            .find_map(|line| line.strip_prefix("MemTotal:"))
            .and_then(|rest| rest.split_whitespace().next()?.parse().ok())
            .unwrap_or(0);
        Machine {
            cpu: field("model name").unwrap_or_else(|| "unknown CPU".into()),
            cpus: cpus(),
            kernel: format!("Linux {}", kernel.trim()),
            memory_mib: memory_kib / 1024,
            hypervisor: field("flags").is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read() {
        let counters = Counters::read();
        assert!(counters.cpu_total > 0 && counters.cpu_idle > 0, "{counters:?}");
        assert_eq!(counters.since(&counters), Counters::default());
        let mut found = BTreeMap::new();
        read_pairs("X: A B\nX: 1 2\nTcp: C\nTcp: -1\n", &mut found);
        assert_eq!(found.get("X.B"), Some(&2));
    }
}
