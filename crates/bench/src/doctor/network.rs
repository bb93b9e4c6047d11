//! Limits that connections run into.

use std::fs;

use rustix::process::{Resource, getrlimit};

use super::check::{Check, number};

/// A proxied connection takes two descriptors on the gateway; this is room for some ten thousand.
const ENOUGH_FILES: u64 = 65_536;
const ENOUGH_QUEUE: u64 = 4_096;
const ENOUGH_PORTS: u64 = 28_000;
const ENOUGH_TRACKED: u64 = 262_144;

pub(super) fn checks() -> Vec<Check> {
    vec![files_of_process(), files_of_system(), conntrack(), accept_queue(), syn_queue(), ports()]
}

fn files_of_process() -> Check {
    let limit = getrlimit(Resource::Nofile);
    let soft = limit.current.unwrap_or(u64::MAX);
    let hard = limit.maximum.map_or("no limit".into(), |hard| hard.to_string());
    Check::condition(
        "open files",
        soft >= ENOUGH_FILES,
        format!("{soft} for this process (hard limit {hard})"),
        "ulimit -n 1048576; for a service: LimitNOFILE=1048576 in its systemd unit",
    )
}

fn files_of_system() -> Check {
    let text = fs::read_to_string("/proc/sys/fs/file-nr").unwrap_or_default();
    let fields: Vec<u64> = text.split_whitespace().filter_map(|field| field.parse().ok()).collect();
    let [used, _, most] = fields.as_slice() else {
        return Check::unknown("open files, system", "/proc/sys/fs/file-nr cannot be read");
    };
    Check::condition(
        "open files, system",
        *most >= 4 * ENOUGH_FILES && used * 10 < most * 8,
        format!("{used} of {most}"),
        "sysctl -w fs.file-max=2097152 fs.nr_open=2097152",
    )
}

fn conntrack() -> Check {
    let folder = "/proc/sys/net/netfilter/nf_conntrack_";
    match (number(&format!("{folder}count")), number(&format!("{folder}max"))) {
        (Some(used), Some(most)) => Check::condition(
            "conntrack",
            most >= ENOUGH_TRACKED && used * 10 < most * 8,
            format!("{used} of {most} connections are tracked; a full table drops packets"),
            "sysctl -w net.netfilter.nf_conntrack_max=1048576, or exempt the ports with a NOTRACK rule",
        ),
        _ => Check::good("conntrack", "connections are not tracked"),
    }
}

fn accept_queue() -> Check {
    let Some(length) = number("/proc/sys/net/core/somaxconn") else {
        return Check::unknown("accept queue", "net.core.somaxconn cannot be read");
    };
    Check::condition(
        "accept queue",
        length >= ENOUGH_QUEUE,
        format!("net.core.somaxconn is {length}"),
        format!("sysctl -w net.core.somaxconn={ENOUGH_QUEUE}, and the same backlog in the server"),
    )
}

fn syn_queue() -> Check {
    let Some(length) = number("/proc/sys/net/ipv4/tcp_max_syn_backlog") else {
        return Check::unknown("SYN queue", "net.ipv4.tcp_max_syn_backlog cannot be read");
    };
    Check::condition(
        "SYN queue",
        length >= 1024,
        format!("net.ipv4.tcp_max_syn_backlog is {length}"),
        format!("sysctl -w net.ipv4.tcp_max_syn_backlog={ENOUGH_QUEUE}"),
    )
}

fn ports() -> Check {
    let text = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let fields: Vec<u64> = text.split_whitespace().filter_map(|field| field.parse().ok()).collect();
    let [first, last] = fields.as_slice() else {
        return Check::unknown("local ports", "net.ipv4.ip_local_port_range cannot be read");
    };
    let ports = last.saturating_sub(*first) + 1;
    Check::condition(
        "local ports",
        ports >= ENOUGH_PORTS,
        format!("{ports} for connections to one address and port; a closed one is taken for 60 s"),
        "sysctl -w net.ipv4.ip_local_port_range='1024 65535' net.ipv4.tcp_tw_reuse=1",
    )
}
