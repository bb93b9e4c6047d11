//! Whether this machine gives steady CPU time.

use std::{
    fs,
    time::{Duration, Instant},
};

use super::check::Check;
use crate::system::{Counters, cpus};

const STEAL_WATCH: Duration = Duration::from_millis(700);
const HICCUP_WATCH: Duration = Duration::from_millis(300);
/// A loop that only reads the clock is interrupted for this long on a quiet machine, at most.
const HICCUP: Duration = Duration::from_millis(2);
const STEAL_PERCENT: f64 = 1.0;
/// Instance types whose CPU is lent: they run fast until their credit is used up.
const BURSTABLE: [&str; 9] =
    ["t2.", "t3.", "t3a.", "t4g.", "e2-", "f1-micro", "g1-small", "Standard_B", "ecs.t"];

pub(super) fn checks() -> Vec<Check> {
    let mut checks = vec![count(), quota(), steal(), hiccups(), governor()];
    checks.extend(burstable());
    checks
}

fn count() -> Check {
    let cpus = cpus();
    Check::condition(
        "CPUs",
        cpus >= 2,
        format!("{cpus} may be used"),
        "client and server share the only CPU: run the client on another machine",
    )
}

/// A limit of the control group stops all threads for the rest of each 100 ms once the share is used up.
fn quota() -> Check {
    let text = fs::read_to_string("/sys/fs/cgroup/cpu.max").unwrap_or_default();
    let mut fields = text.split_whitespace();
    let (quota, period) = (fields.next().unwrap_or("max"), fields.next().unwrap_or("100000"));
    match (quota.parse::<f64>(), period.parse::<f64>()) {
        (Ok(quota), Ok(period)) if period > 0.0 => Check::condition(
            "CPU quota",
            false,
            format!(
                "the control group is limited to {:.1} CPUs, with a pause when they are used up",
                quota / period
            ),
            "remove the limit while measuring (docker: no --cpus; Kubernetes: no resources.limits.cpu)",
        ),
        _ => Check::good("CPU quota", "the control group has no limit"),
    }
}

fn steal() -> Check {
    let before = Counters::read();
    std::thread::sleep(STEAL_WATCH);
    let percent = Counters::read().since(&before).steal_percent();
    Check::condition(
        "CPU steal",
        percent < STEAL_PERCENT,
        format!("the hypervisor took {percent:.1} % in {} ms", STEAL_WATCH.as_millis()),
        "the host is shared with busy neighbours: measure on a dedicated machine, or repeat and take medians",
    )
}

fn hiccups() -> Check {
    let begun = Instant::now();
    let (mut last, mut longest, mut count) = (begun, Duration::ZERO, 0u32);
    while last.duration_since(begun) < HICCUP_WATCH {
        let now = Instant::now();
        let gap = now.duration_since(last);
        longest = longest.max(gap);
        count += u32::from(gap >= HICCUP);
        last = now;
    }
    Check::condition(
        "hiccups",
        count == 0,
        format!("a busy loop stood still for at most {:.2} ms", longest.as_secs_f64() * 1000.0),
        "other processes take the CPU (see `top`), or the machine is a noisy virtual one: stop them, pin with taskset",
    )
}

fn governor() -> Check {
    match fs::read_to_string("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") {
        Ok(governor) => Check::condition(
            "CPU frequency",
            governor.trim() == "performance",
            format!("the governor is {}", governor.trim()),
            "cpupower frequency-set -g performance",
        ),
        Err(_) => Check::unknown("CPU frequency", "not set by this system (usual in virtual machines)"),
    }
}

fn burstable() -> Option<Check> {
    let product = fs::read_to_string("/sys/class/dmi/id/product_name").unwrap_or_default();
    let kind = BURSTABLE.iter().find(|kind| product.contains(*kind))?;
    Some(Check::condition(
        "burstable machine",
        false,
        format!("{} ({kind}) lends its CPU: it slows down when the credit is used up", product.trim()),
        "measure on an instance type with fixed CPU",
    ))
}
