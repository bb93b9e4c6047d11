//! What a process takes of the machine, as the kernel counts it.

use std::fs;
use std::io::Write;
use std::time::Duration;

use crate::Gateway;

/// A worker may compute this long in one piece. Without optimisation, and on a machine that does more than this test, it
/// takes several times what it takes in a release build; work that is not done in pieces takes far more.
pub const PIECE: Duration = Duration::from_millis(if cfg!(debug_assertions) { 120 } else { 20 });

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

/// The longest that a task of a worker computed in one piece, by the worker's own account: the warnings in the error log,
/// less the time without a processor. Zero without a warning.
pub fn longest_piece(gateway: &Gateway) -> Duration {
    let ms = |text: &str| text.split(' ').next().and_then(|number| number.parse::<f64>().ok());
    let of_line = |line: &str| {
        let (_, rest) = line.split_once("was held up for ")?;
        let (_, without) = rest
            .split_once(" ms of them without a processor")
            .map(|(before, _)| before.rsplit_once(", "))??;
        Some((ms(rest)? - ms(without)?).max(0.0) / 1e3)
    };
    gateway.error_log().lines().filter_map(of_line).map(Duration::from_secs_f64).max().unwrap_or_default()
}

/// Panics if a worker computed for longer than [`PIECE`], so that others waited.
pub fn assert_done_in_pieces(gateway: &Gateway) {
    let longest = longest_piece(gateway);
    assert!(longest <= PIECE, "a worker computed {longest:?} in one piece:\n{}", gateway.error_log());
}
