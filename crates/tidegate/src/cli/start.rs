//! `tidegate start`: serve in the background.

use std::{
    fs::{self, File},
    io::{self, IsTerminal, Read},
    os::unix::{net::UnixDatagram, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use clap::Args;
use tidegate_config::{Provider, Settings};
use tidegate_store::Embedded;

use super::{daemon, place::SharedOptions, stdout};
use crate::boot::{notices, notify, pid_file, preflight, welcome::shown};

#[derive(Args)]
pub(super) struct Arguments {
    /// Seconds to wait until connections are accepted
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    timeout: u64,
    /// If the store is damaged, serve its last good copy read-only, even if it lacks newer changes
    #[arg(long)]
    serve_last_good: bool,
}

/// How often the child is looked at while waiting for its message.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

pub(super) fn run(place: &SharedOptions, arguments: &Arguments) -> anyhow::Result<()> {
    // Problems with the configuration are reported here, not in a log file.
    let loaded = place.load()?;
    preflight::check_start(&loaded)?;
    let settings = loaded.settings;
    if let Some(pid) = pid_file::running(&settings.files.pid)? {
        bail!(
            "already running as process {pid}; use reload, or stop it first. After `tidegate quit` it runs until its last response: \
             `tidegate stop` ends it at once"
        );
    }
    fs::create_dir_all(&settings.files.logs)
        .with_context(|| format!("cannot create {}", settings.files.logs.display()))?;
    let output = settings.files.logs.join("tidegate.out");
    let key = new_key(&settings);
    let store = new_store(&settings);
    let socket_path = settings.files.logs.join(format!("ready.{}.sock", std::process::id()));
    let socket = ReadySocket::bind(&socket_path)?;
    let mut child = spawn(place, arguments, &output, &socket_path)?;
    let ready = socket.wait(&mut child, Duration::from_secs(arguments.timeout), &output);
    repeat_warnings(&output);
    ready?;
    stdout::line(&format!("tidegate: running as process {}", child.id()));
    if let Some(path) = store {
        stdout::line(&format!("tidegate: a new, empty store is in {}", shown(path)));
    }
    if let Some(path) = key {
        show_key(&path);
    }
    Ok(())
}

/// The file of an admin key that the process is about to generate.
fn new_key(settings: &Settings) -> Option<PathBuf> {
    let key = settings.admin.access.admin_key().filter(|key| key.is_generated())?;
    let path = settings.files.admin_key(key.role);
    (settings.admin.listen.is_some() && !path.exists()).then_some(path)
}

/// The store that the process is about to make. A gateway that had one has lost its folder.
fn new_store(settings: &Settings) -> Option<&Path> {
    let path = &settings.files.database;
    let is_new = settings.provider == Provider::Embedded && matches!(Embedded::would_be_new(path), Ok(true));
    is_new.then_some(path.as_path())
}

/// Once, and to a person only.
fn show_key(path: &Path) {
    let place = shown(path);
    match fs::read_to_string(path) {
        Ok(key) if io::stdout().is_terminal() => {
            stdout::line(&format!(
                "tidegate: admin key {}  (generated, kept in {place}; not shown again)",
                key.trim()
            ));
        }
        Ok(_) => stdout::line(&format!("tidegate: a new admin key is in {place}")),
        // The process has said why.
        Err(_) => {}
    }
}

/// What the process in the background warned of belongs on this terminal, too.
fn repeat_warnings(output: &Path) {
    let said = fs::read_to_string(output).unwrap_or_default();
    for line in said.lines().filter(|line| line.starts_with(notices::MARK)) {
        crate::say::complain!("{line}");
    }
}

/// Starts itself with `run`, in a separate process group so that the terminal's signals do not reach it.
fn spawn(
    place: &SharedOptions,
    arguments: &Arguments,
    output: &Path,
    socket: &Path,
) -> anyhow::Result<Child> {
    let source = place.source()?;
    let log = File::create(output).with_context(|| format!("cannot write {}", output.display()))?;
    let mut command = Command::new(daemon::own_program()?);
    command.arg("run").arg("--prefix").arg(&source.prefix);
    if let Some(file) = &source.file {
        command.arg("--config").arg(file);
    }
    if let Some(listen) = &source.listen {
        command.arg("--listen").arg(listen);
    }
    if arguments.serve_last_good {
        command.arg("--serve-last-good");
    }
    command
        .env(notify::VARIABLE, socket)
        .current_dir(&source.prefix)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .process_group(0);
    command.spawn().context("cannot start the process in the background")
}

/// The socket the child reports to, as systemd does it. Its file goes when this does.
pub(super) struct ReadySocket<'a> {
    socket: UnixDatagram,
    path: &'a Path,
}

impl<'a> ReadySocket<'a> {
    pub(super) fn bind(path: &'a Path) -> anyhow::Result<Self> {
        let socket =
            UnixDatagram::bind(path).with_context(|| format!("cannot create socket {}", path.display()))?;
        socket.set_read_timeout(Some(LOOK_INTERVAL))?;
        Ok(Self { socket, path })
    }

    pub(super) fn wait(&self, child: &mut Child, timeout: Duration, output: &Path) -> anyhow::Result<()> {
        let deadline = Instant::now() + timeout;
        // What a process without a folder of its own has said goes with its temporary one.
        let mut said = File::open(output).with_context(|| format!("cannot read {}", output.display()))?;
        let mut buffer = [0; 256];
        loop {
            let heard = self.socket.recv(&mut buffer).ok().and_then(|length| buffer.get(..length));
            if heard.is_some_and(|heard| heard.starts_with(b"READY=1")) {
                return Ok(());
            }
            if let Some(status) = child.try_wait()? {
                bail!("{}", ended(status, &mut said, output));
            }
            if Instant::now() >= deadline {
                let seconds = timeout.as_secs();
                bail!(
                    "not ready after {seconds} s; process {} keeps running, see {}",
                    child.id(),
                    output.display()
                );
            }
        }
    }
}

impl Drop for ReadySocket<'_> {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.path);
    }
}

fn ended(status: ExitStatus, said: &mut File, output: &Path) -> String {
    let mut text = Vec::new();
    let _ = said.read_to_end(&mut text);
    let text = String::from_utf8_lossy(&text);
    if text.trim().is_empty() {
        return format!(
            "the gateway exited during startup ({status}) and could not write the reason to {}, so its disk is probably full; make \
             room, or run `tidegate run` to see the reason",
            output.display()
        );
    }
    format!("the gateway exited during startup ({status}):\n{}", text.trim_end())
}
