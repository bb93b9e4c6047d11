//! The machine: limits, queues, the share of the processor, the clock.

use std::{
    fs,
    time::{SystemTime, UNIX_EPOCH},
};

use tidegate_bench::doctor;

use super::check::{Check, State};

/// What spoils measurements and nothing else.
const FOR_MEASURING: [&str; 5] = ["open files", "CPUs", "hiccups", "CPU frequency", "burstable machine"];
/// 2025: this program is younger.
const OLDEST_TIME: u64 = 1_735_689_600;

pub(super) fn checks() -> Vec<Check> {
    let mut checks: Vec<Check> = doctor::system_checks().into_iter().map(taken_over).collect();
    checks.push(threads_per_core());
    checks.push(clock());
    checks
}

fn taken_over(check: doctor::Check) -> Check {
    let state = match check.state {
        doctor::State::Good => State::Good,
        // The gateway raises its own limit of open files: `gateway` looks at that.
        doctor::State::Bad if FOR_MEASURING.contains(&check.name) => State::Unknown,
        doctor::State::Bad => State::Bad,
        doctor::State::Unknown => State::Unknown,
    };
    let remedy = match (check.state, state) {
        (doctor::State::Bad, State::Unknown) => format!("where you measure: {}", check.remedy),
        (doctor::State::Bad, _) => for_gateways(check.name).map_or(check.remedy, str::to_owned),
        _ => check.remedy,
    };
    Check { name: check.name.to_owned(), state, seen: check.seen, remedy }
}

/// What `bench` would have done while it measures holds for a gateway at all times.
fn for_gateways(check: &str) -> Option<&'static str> {
    let remedies = [
        (
            "CPU quota",
            "raise or remove the limit (docker: --cpus; Kubernetes: resources.limits.cpu; systemd: CPUQuota): requests \
             wait when it is used up",
        ),
        (
            "CPU steal",
            "the host is shared with busy neighbours: move to another one, or to an instance type with CPUs of its own",
        ),
    ];
    remedies.iter().find(|(name, _)| *name == check).map(|(_, remedy)| *remedy)
}

fn threads_per_core() -> Check {
    const NAME: &str = "threads per core";
    match fs::read_to_string("/sys/devices/system/cpu/smt/active").as_deref().map(str::trim) {
        Ok("1") => Check::unknown(
            NAME,
            "cores have several threads, and worker_processes: auto has a worker for each",
            "where the tail of the latency counts: nginx_config.worker_processes: half of the processors",
        ),
        Ok(_) => Check::good(NAME, "one, or the others are off"),
        Err(_) => Check::unknown(NAME, "this system does not show them", ""),
    }
}

/// Certificates, tokens and limits with a window depend on it.
fn clock() -> Check {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    match now >= OLDEST_TIME {
        true => Check::good("clock", "its year is possible"),
        false => Check::bad(
            "clock",
            format!("it shows {now} s after 1970, before this program was written"),
            "set it, and keep it right: timedatectl set-ntp true",
        ),
    }
}
