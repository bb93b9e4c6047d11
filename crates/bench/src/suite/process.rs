//! Server processes that a suite starts: each in its own folder, ended with the suite.

use std::{
    fs::File,
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use rustix::{
    process::{Pid, Signal, kill_process},
    thread::{CpuSet, sched_setaffinity},
};

use crate::{Problem, system::find_program};

const START: Duration = Duration::from_secs(20);
const STOP: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub(super) struct Started {
    name: String,
    child: Child,
    log: PathBuf,
    pub address: SocketAddr,
}

impl Started {
    /// Starts a command and waits until it listens. Its output goes to a file of the folder.
    pub(super) fn start(
        name: &str,
        command: Command,
        address: SocketAddr,
        folder: &Path,
    ) -> Result<Started, Problem> {
        let log = folder.join("output.log");
        let failed = |why: &dyn std::fmt::Display| Problem::failed(format!("cannot start {name}: {why}"));
        let output = File::create(&log).map_err(|error| failed(&error))?;
        let errors = output.try_clone().map_err(|error| failed(&error))?;
        let mut command = in_own_session(&command);
        command.stdin(Stdio::null()).stdout(output).stderr(errors).current_dir(folder);
        let child = command.spawn().map_err(|error| failed(&error))?;
        let mut started = Started { name: name.to_owned(), child, log, address };
        started.wait_for(address)?;
        Ok(started)
    }

    /// Waits until the process listens there as well: not all ports of a gateway open at once.
    pub(super) fn wait_for(&mut self, address: SocketAddr) -> Result<(), Problem> {
        let deadline = Instant::now() + START;
        while TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_err() {
            let ended = self.child.try_wait().ok().flatten();
            if ended.is_some() || Instant::now() > deadline {
                let said = std::fs::read_to_string(&self.log).unwrap_or_default();
                let last: Vec<&str> = said.lines().rev().take(5).collect();
                let last = last.into_iter().rev().collect::<Vec<_>>().join(" / ");
                let what = ended.map_or("it does not listen".into(), |status| format!("it ended ({status})"));
                return Err(Problem::failed(format!("cannot start {}: {what}: {last}", self.name)));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

/// Kernels that group tasks by session share the CPU between sessions: servers in one would share what a single one gets.
fn in_own_session(command: &Command) -> Command {
    let Some(setsid) = find_program("setsid") else {
        let mut same = Command::new(command.get_program());
        same.args(command.get_args());
        return same;
    };
    let mut own = Command::new(setsid);
    own.arg(command.get_program()).args(command.get_args());
    own
}

impl Drop for Started {
    fn drop(&mut self) {
        // In an orderly way first: nginx's master ends its workers only then.
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let deadline = Instant::now() + STOP;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port that is free now.
pub(crate) fn free_address() -> Result<SocketAddr, Problem> {
    let found = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    found.map_err(|error| Problem::failed(format!("no free port: {error}")))
}

/// Where things run on a machine with several cores: the measured gateway on the first, all others on the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cores {
    Gateway,
    Others,
    Anywhere,
}

/// Moves this thread, and with it what it starts from now on.
pub(super) fn stay_on(place: Cores) {
    let cpus = all_cpus();
    let mut set = CpuSet::new();
    for cpu in 0..cpus {
        let wanted = match place {
            Cores::Gateway => cpu == 0,
            Cores::Others => cpu > 0 || cpus == 1,
            Cores::Anywhere => true,
        };
        if wanted {
            set.set(cpu);
        }
    }
    // Where it is not allowed, nothing is pinned and figures are noisier.
    let _ = sched_setaffinity(None, &set);
}

fn all_cpus() -> usize {
    static CPUS: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    // Asked once, before anything is pinned.
    *CPUS.get_or_init(|| crate::system::cpus().min(CpuSet::MAX_CPU))
}
