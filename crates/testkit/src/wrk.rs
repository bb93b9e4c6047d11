//! wrk, the load generator, as a witness: it counts what it could not get an answer to.

use std::process::Command;

use rustix::process::Signal;

use crate::process::Process;

/// Load that runs until it is stopped.
#[derive(Debug)]
pub struct Wrk {
    process: Process,
}

impl Wrk {
    /// `headers`: more lines for each request, such as `Connection: close`.
    pub fn start(url: &str, connections: usize, headers: &[&str]) -> Self {
        let mut command = Command::new("wrk");
        // Long enough that it is always stopped; quick to notice an answer that never comes.
        command.args(["-t1", "-d3600s", "--timeout", "10s", "-c", &connections.to_string()]);
        for header in headers {
            command.args(["-H", header]);
        }
        let found = Command::new("wrk").arg("-v").output();
        assert!(found.is_ok(), "wrk is not installed; run scripts/install-deps.sh");
        // It prints nothing until its end.
        Wrk { process: Process::start("wrk", command.arg(url)) }
    }

    /// Ends it; how many requests were answered. Panics when one was not, or with another status than 2xx and 3xx.
    pub fn stop_and_check(mut self) -> u64 {
        self.process.signal(Signal::INT);
        self.process.wait_for_exit();
        self.process.wait_for_output("Transfer/sec");
        let report = self.process.output();
        for bad in ["Socket errors", "Non-2xx"] {
            assert!(!report.contains(bad), "wrk lost requests:\n{report}");
        }
        let line = report.lines().find(|line| line.contains(" requests in "));
        let count = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        count.unwrap_or_else(|| panic!("wrk did not say how many requests it made:\n{report}"))
    }
}
