//! What a process takes of the machine, as the kernel counts it.

use std::fs;
use std::io::Write;
use std::time::Duration;

use crate::Gateway;

/// A line of /proc/PID/status, in bytes.
pub fn status_bytes(gateway: &Gateway, name: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{}/status", gateway.process.id())).expect("its status");
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.expect("a number") << 10
}

/// How much more memory the gateway had at any moment of this than before.
pub fn growth<R>(gateway: &Gateway, act: impl FnOnce() -> R) -> (R, u64) {
    let file = fs::File::options().write(true).open(format!("/proc/{}/clear_refs", gateway.process.id()));
    file.and_then(|mut file| file.write_all(b"5")).expect("the peak is set back");
    let before = status_bytes(gateway, "VmRSS");
    let result = act();
    (result, status_bytes(gateway, "VmHWM").saturating_sub(before))
}

/// The processor time that all threads of the gateway have taken so far.
pub fn processor_time(gateway: &Gateway) -> Duration {
    let folder = format!("/proc/{}/task", gateway.process.id());
    let threads = fs::read_dir(folder).expect("its threads").filter_map(Result::ok);
    let nanoseconds = threads.filter_map(|thread| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanoseconds.sum())
}
