//! `--flamegraph PID`: Linux `perf` samples a process while it is under load; the stacks become an SVG.

mod svg;

use std::{
    fs::{self, File},
    process::{Child, Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use self::svg::Stacks;
use crate::{Problem, system::find_program};

/// Samples a second; odd, so that it keeps no step with timers.
const RATE: &str = "499";

/// A recording under way.
#[derive(Debug)]
pub struct Recording {
    perf: Child,
    program: std::path::PathBuf,
    folder: TempDir,
    pid: u32,
}

impl Recording {
    /// Samples a process until the recording is stopped. Needs Linux perf.
    pub fn start(pid: u32) -> Result<Recording, Problem> {
        if !fs::exists(format!("/proc/{pid}")).unwrap_or(false) {
            return Err(Problem::usage(format!("--flamegraph {pid}: there is no such process")));
        }
        let program = find_program("perf").ok_or_else(|| {
            Problem::failed("--flamegraph needs Linux perf: apt-get install linux-perf (or linux-tools)")
        })?;
        let failed = |error: std::io::Error| Problem::failed(format!("cannot start perf: {error}"));
        let folder = tempfile::tempdir().map_err(failed)?;
        let said = File::create(folder.path().join("said")).map_err(failed)?;
        let mut command = Command::new(&program);
        command.args(["record", "-q", "-g", "-F", RATE, "-p", &pid.to_string(), "-o"]);
        command.arg(folder.path().join("perf.data"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said);
        Ok(Recording { perf: command.spawn().map_err(failed)?, program, folder, pid })
    }

    /// Ends the recording: the SVG.
    pub fn finish(mut self) -> Result<String, Problem> {
        if let Some(pid) = i32::try_from(self.perf.id()).ok().and_then(Pid::from_raw) {
            // It may have ended by itself, for want of permission.
            let _ = kill_process(pid, Signal::INT);
        }
        let failed = |why: String| {
            let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
            Problem::failed(format!(
                "perf could not sample process {}: {}; kernel.perf_event_paranoid is {}: run as root, or sysctl -w kernel.perf_event_paranoid=1",
                self.pid,
                why.trim(),
                paranoid.trim()
            ))
        };
        self.perf.wait().map_err(|error| failed(error.to_string()))?;
        let output = Command::new(&self.program)
            .args(["script", "-i"])
            .arg(self.folder.path().join("perf.data"))
            .stdin(Stdio::null())
            .output()
            .map_err(|error| failed(error.to_string()))?;
        let stacks = fold(&String::from_utf8_lossy(&output.stdout));
        if stacks.is_empty() {
            let said = fs::read_to_string(self.folder.path().join("said")).unwrap_or_default();
            let why = if said.trim().is_empty() { "no samples; was it idle?".into() } else { said };
            return Err(failed(why));
        }
        Ok(svg::render(&stacks, &format!("process {}", self.pid)))
    }
}

/// Reads what `perf script` prints: a line with the thread, then a line per frame from the innermost on, then nothing.
fn fold(script: &str) -> Stacks {
    let mut stacks = Stacks::new();
    let mut thread = None;
    let mut frames: Vec<String> = Vec::new();
    for line in script.lines().chain([""]) {
        if line.trim().is_empty() {
            if let Some(thread) = thread.take() {
                frames.push(thread);
                frames.reverse();
                *stacks.entry(std::mem::take(&mut frames)).or_default() += 1;
            }
        } else if line.starts_with([' ', '\t']) && thread.is_some() {
            frames.push(symbol(line));
        } else {
            thread = line.split_whitespace().next().map(str::to_owned);
        }
    }
    stacks
}

/// `  7f12 symbol+0x1a (/path/of/object)`.
fn symbol(line: &str) -> String {
    let line = line.trim();
    let after_address = line.split_once(' ').map_or("", |(_, rest)| rest);
    let name = after_address.rsplit_once(" (").map_or(after_address, |(name, _)| name);
    name.rsplit_once("+0x").map_or(name, |(name, _)| name).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_are_folded_and_drawn() {
        let script = "nginx 12 1.0: 1 cpu-clock:\n\tffff a+0x1 ([kernel])\n\t 55aa b<&x>+0x22 (/usr/sbin/nginx)\n\n\
                      nginx 12 1.1: 1 cpu-clock:\n\tffff a+0x9 ([kernel])\n\t55aa b<&x>+0x1 (/usr/sbin/nginx)\n\n\
                      nginx 12 1.2: 1 cpu-clock:\n\t55aa [unknown] (/usr/sbin/nginx)\n";
        let stacks = fold(script);
        assert_eq!(stacks.get(["nginx", "b<&x>", "a"].map(String::from).as_slice()), Some(&2));
        assert_eq!(stacks.values().sum::<u64>(), 3);
        let svg = svg::render(&stacks, "process 12");
        assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"), "{svg}");
        assert!(svg.contains("b&lt;&amp;x&gt; (2 samples, 66.7 %)"), "{svg}");
    }
}
