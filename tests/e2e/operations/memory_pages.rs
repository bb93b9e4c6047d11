//! The gateway holds no transparent huge pages: one that is touched once counts whole (ADR 43).

use std::fs;

use tidegate_testkit::Gateway;
use tidegate_testkit::gateway::EMBEDDED;

#[test]
fn memory_is_in_small_pages() {
    let gateway = Gateway::start(EMBEDDED, None);
    let process = format!("/proc/{}", gateway.pid().expect("the gateway runs"));
    let status = fs::read_to_string(format!("{process}/status")).expect("status of the process");
    // Absent before Linux 5.0.
    if let Some(line) = status.lines().find(|line| line.starts_with("THP_enabled:")) {
        assert_eq!(line, "THP_enabled:\t0");
    }
    let maps = fs::read_to_string(format!("{process}/smaps_rollup")).expect("memory of the process");
    let huge = maps.lines().find(|line| line.starts_with("AnonHugePages:")).expect("a count of huge pages");
    // The allocator's first page, taken before `main`, may be huge where the kernel hands them out unasked.
    let kib: u64 = huge.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("a size in KiB");
    assert!(kib <= 2048, "{huge}");
}
