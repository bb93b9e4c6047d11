//! Checks of a target under load: what works, on which core, and which side is at its limit.

use std::{fs, net::SocketAddr, sync::Arc, time::Duration};

use super::check::Check;
use crate::{
    Plan, Problem, engine,
    system::{Listener, find_listener},
};

const LOAD: Duration = Duration::from_secs(1);
/// A process that uses this share of one core for each of its busy threads has nothing left.
const AT_LIMIT: f64 = 0.92;

/// A process that takes part: the gateway, or what is behind it.
#[derive(Clone, Debug)]
pub struct Involved {
    /// Of the process, for the report.
    pub role: &'static str,
    /// Where it listens.
    pub address: SocketAddr,
}

/// Puts a second of load on the target and looks at all involved.
pub fn target_checks(mut plan: Plan, involved: &[Involved]) -> Result<Vec<Check>, Problem> {
    plan.duration = Some(LOAD);
    plan.count = None;
    let found: Vec<(&Involved, Option<Listener>)> =
        involved.iter().map(|one| (one, find_listener(one.address))).collect();
    let before: Vec<Vec<u64>> = found.iter().map(|(_, listener)| threads(listener.as_ref())).collect();
    let outcome = engine::start(plan, Arc::default())?.finish()?;
    let mut checks = Vec::new();
    for ((one, listener), before) in found.iter().zip(&before) {
        let Some(listener) = listener else {
            checks
                .push(Check::unknown(one.role, format!("{} is not a process of this machine", one.address)));
            continue;
        };
        let after = threads(Some(listener));
        // A thread that began meanwhile is compared with nothing.
        let used = after.iter().zip(before).map(|(after, before)| after.saturating_sub(*before));
        let busiest = used.max().unwrap_or(0) as f64 / 1e9 / outcome.seconds.max(1e-9);
        checks.push(Check::condition(
            one.role,
            busiest < AT_LIMIT || one.role == "gateway",
            format!("{}: its busiest thread uses {:.0} % of a core", listener.name, busiest * 100.0),
            "it is at its limit, so the figures are its own: give it more workers and cores, or a lighter answer",
        ));
        checks.push(shares_core(one.role, listener));
    }
    let client = outcome.client.busiest_thread;
    checks.push(Check::condition(
        "client",
        client < AT_LIMIT,
        format!("its busiest thread works {:.0} % of the time", client * 100.0),
        "the load generator is the limit: more threads (-t), or another machine",
    ));
    Ok(checks)
}

fn threads(listener: Option<&Listener>) -> Vec<u64> {
    listener.map_or_else(Vec::new, Listener::thread_cpu_ns)
}

/// Whether the server may run nowhere but where the client runs.
fn shares_core(role: &'static str, listener: &Listener) -> Check {
    let allowed = |pid: &str| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        line.map(|list| list.trim().to_owned()).unwrap_or_default()
    };
    let own = allowed("self");
    let theirs = listener.pids.last().map(|pid| allowed(&pid.to_string())).unwrap_or_default();
    let name = if role == "gateway" { "gateway's cores" } else { "upstream's cores" };
    let disjoint = !theirs.is_empty() && parse(&own).iter().all(|cpu| !parse(&theirs).contains(cpu));
    Check::condition(
        name,
        disjoint,
        format!("client on CPU {own}, {} on CPU {theirs}", listener.name),
        "give each its own cores: taskset -c 0 SERVER; taskset -c 1 tidegate bench ... (or use two machines)",
    )
}

/// `0-2,5` as numbers.
fn parse(list: &str) -> Vec<u32> {
    let mut cpus = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<u32>(), last.parse::<u32>()) {
            cpus.extend(first..=last.min(first.saturating_add(4096)));
        }
    }
    cpus
}

#[cfg(test)]
mod tests {
    #[test]
    fn lists_of_cpus() {
        assert_eq!(super::parse("0-2,5"), [0, 1, 2, 5]);
        assert_eq!(super::parse(""), [0; 0]);
    }
}
