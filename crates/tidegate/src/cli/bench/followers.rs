//! `tidegate bench followers`: what many gateways cost etcd, and how soon a change reaches all of them.
//!
//! Each follower is the store of a gateway that has etcd for its configuration, with its connection, watch, state in memory and
//! snapshot on disk; what is missing of a gateway is the compiler and everything behind it.

mod propagation;
mod server;

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use clap::Args;
use tidegate_bench::{Problem, interrupt};
use tidegate_store::{
    Etcd,
    etcd::{Options, TlsOptions},
};
use tokio::runtime::Runtime;

use self::{propagation::Propagation, server::Server};
use super::{files, progress};

/// How long connections and watches settle before they are measured.
const SETTLE: Duration = Duration::from_secs(2);

#[derive(Args)]
#[command(args_override_self = true)]
pub(crate) struct Arguments {
    /// URL of a member, or of a proxy of etcd; several: followers take turns
    #[arg(long, value_name = "URL", required = true)]
    etcd: Vec<String>,
    /// URL whose /metrics say what etcd needs, in place of those of --etcd; several: each is shown
    #[arg(long, value_name = "URL")]
    server: Vec<String>,
    /// Gateways to stand for
    #[arg(long, value_name = "N", default_value_t = 1000)]
    count: usize,
    /// What all keys begin with; something is written below it
    #[arg(long, value_name = "PREFIX", default_value = "/tidegate-bench")]
    keys: String,
    /// Changes per second in the second part
    #[arg(long, value_name = "N", default_value_t = 5.0)]
    changes: f64,
    /// Length of each part, quiet and with changes
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0)]
    seconds: f64,
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode, Problem> {
    let problem = match arguments {
        Arguments { count: 0, .. } => Some("--count must be at least 1"),
        Arguments { seconds, .. } if !(1.0..=86_400.0).contains(seconds) => {
            Some("--seconds must be from 1 to 86400")
        }
        Arguments { changes, .. } if !(0.1..=1000.0).contains(changes) => {
            Some("--changes must be from 0.1 to 1000")
        }
        Arguments { keys, .. } if !keys.starts_with('/') || keys.ends_with('/') => {
            Some("--keys must begin with a slash and not end with one")
        }
        _ => None,
    };
    if let Some(problem) = problem {
        return Err(Problem::usage(problem));
    }
    let stop = interrupt::flag()?;
    let runtime = runtime()?;
    let servers = if arguments.server.is_empty() { &arguments.etcd } else { &arguments.server };
    let servers: Vec<Server> = servers.iter().map(|url| Server::new(url)).collect::<Result<_, _>>()?;
    let folder = Folder::new()?;
    let mut fleet = Vec::with_capacity(arguments.count);
    let before_kib = resident_kib();
    for (number, url) in (0..arguments.count).zip(arguments.etcd.iter().cycle()) {
        if stop.load(Relaxed) {
            return Err(Problem::failed("interrupted while followers were started"));
        }
        progress::show(&format!("{number} of {} followers", arguments.count), false);
        fleet.push(Arc::new(follower(&runtime, arguments, url, &folder.0, number)?));
    }
    progress::show("", false);
    std::thread::sleep(SETTLE);
    let mut report = String::new();
    let memory_kib = resident_kib().saturating_sub(before_kib) as f64 / arguments.count as f64;
    let _ = writeln!(report, "{} followers, {memory_kib:.0} KiB each", arguments.count);
    let length = Duration::from_secs_f64(arguments.seconds);
    let quiet = Part::measure(&servers, || std::thread::sleep(length))?;
    quiet.write("quiet", arguments.count, &servers, &mut report);
    let propagation = Propagation::watch(&runtime, &fleet);
    let mut written = Ok(());
    let changing = Part::measure(&servers, || {
        written = propagation.write(&runtime, fleet.first(), arguments.changes, length, &stop);
    })?;
    written?;
    let title = format!("{} changes/s", arguments.changes);
    changing.write(&title, arguments.count, &servers, &mut report);
    let all = propagation.finish(&runtime, &mut report);
    files::print(&report)?;
    fleet.iter().for_each(|follower| follower.close());
    Ok(if all { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn runtime() -> Result<Runtime, Problem> {
    let built = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    built.map_err(|error| Problem::failed(format!("cannot start the threads of the followers: {error}")))
}

fn follower(
    runtime: &Runtime,
    arguments: &Arguments,
    url: &str,
    folder: &Path,
    number: usize,
) -> Result<Etcd, Problem> {
    let options = Options {
        hosts: vec![url.to_owned()],
        prefix: arguments.keys.clone(),
        timeout: Duration::from_secs(10),
        resync_delay: Duration::from_secs(1),
        startup_retry: 2,
        user: None,
        tls: TlsOptions::default(),
        snapshot: folder.join(format!("{number}.snapshot")),
        placeholders: false,
        check: Box::new(|_, _, _| Ok(())),
        encrypt: None,
        decrypt: Box::new(|_, _, _| Vec::new()),
    };
    Etcd::open(options, runtime.handle())
        .map_err(|error| Problem::unreachable(format!("follower {number}: {error}")))
}

/// Where the snapshots are; removed at the end. In memory where the system has such a place: a thousand gateways have a thousand disks.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Folder, Problem> {
        let memory = Path::new("/dev/shm");
        let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let folder = parent.join(format!("tidegate-followers-{}", std::process::id()));
        let made = std::fs::create_dir_all(&folder);
        made.map_err(|error| Problem::failed(format!("cannot make {}: {error}", folder.display())))?;
        Ok(Folder(folder))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What a part of the run took.
struct Part {
    seconds: f64,
    own_cpu: f64,
    /// CPU seconds of each server, and its resident memory at the end in MiB.
    servers: Vec<(f64, f64)>,
}

impl Part {
    fn measure(servers: &[Server], work: impl FnOnce()) -> Result<Part, Problem> {
        let read = || servers.iter().map(Server::usage).collect::<Result<Vec<_>, _>>();
        let (before, own, start) = (read()?, own_cpu_seconds(), Instant::now());
        work();
        let seconds = start.elapsed().as_secs_f64();
        let own_cpu = own_cpu_seconds() - own;
        let used = before.iter().zip(read()?).map(|(before, after)| (after.0 - before.0, after.1));
        Ok(Part { seconds, own_cpu, servers: used.collect() })
    }

    fn write(&self, title: &str, count: usize, servers: &[Server], out: &mut String) {
        let percent = |cpu: f64| cpu / self.seconds * 100.0;
        for (server, (cpu, memory)) in servers.iter().zip(&self.servers) {
            let _ = writeln!(
                out,
                "{title:<14} {:<28} {:6.2} % of a core, {memory:.0} MiB",
                server.url,
                percent(*cpu)
            );
        }
        let each = self.own_cpu / self.seconds / count as f64 * 1e6;
        let _ = writeln!(
            out,
            "{title:<14} {:<28} {:6.2} % of a core, {each:.1} us/s each",
            "followers",
            percent(self.own_cpu)
        );
    }
}

fn own_cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or_default()
}
