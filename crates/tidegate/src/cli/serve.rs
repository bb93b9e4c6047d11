//! `tidegate serve -r ROOT`: a web server for one directory, without a configuration.
//!
//! The gateway itself, with a configuration of one route that is written to a temporary folder and removed with it.

use std::{
    env,
    fs::File,
    io::{self, IsTerminal},
    mem::ManuallyDrop,
    os::{fd::AsFd, unix::process::CommandExt},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context, bail};
use serde_json::json;

use super::{
    place::SharedOptions,
    start::ReadySocket,
    temporary::{Home, LOG_FORMAT},
};
use crate::boot::{notify, signals::Hangup};

/// The default number of workers, where the machine has as many processors.
const WORKERS: usize = 4;
/// A background process that has not said that it is ready by then has a problem.
const START_TIME: Duration = Duration::from_secs(30);

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Directory to serve
    #[arg(short, long, value_name = "DIR")]
    root: PathBuf,
    /// Port to listen on, on all addresses; use --listen ADDR:PORT for one address
    #[arg(short, long, default_value_t = 8888)]
    port: u16,
    /// Timeout in seconds for idle connections, and for clients to send or receive data
    #[arg(short, long, value_name = "SECONDS", default_value_t = 60,
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
    /// Worker threads, at most one per processor [default: 4, or one per processor if there are fewer]
    #[arg(short, long)]
    workers: Option<usize>,
    /// Debug mode: one worker regardless of -w, and a detailed log on standard error
    #[arg(short, long)]
    debug: bool,
    /// Start in the background; return once connections are accepted
    #[arg(long, conflicts_with = "debug")]
    daemon: bool,
    /// Folder for the configuration, made by the process that started this one
    #[arg(long, hide = true)]
    home: Option<PathBuf>,
}

pub(super) fn run(place: &SharedOptions, arguments: &Arguments) -> anyhow::Result<()> {
    let root = arguments.root.canonicalize();
    let root = root.with_context(|| {
        format!("cannot serve {}; give a directory that can be read", arguments.root.display())
    })?;
    if !root.is_dir() {
        bail!("cannot serve {}: not a directory", root.display());
    }
    let workers = if arguments.debug { 1 } else { workers(arguments.workers)? };
    if arguments.daemon {
        return in_background(place, arguments, &root, workers);
    }
    let home = match &arguments.home {
        Some(home) => Home::created(home.clone()),
        None => Home::create()?,
    };
    let level = if arguments.debug { "debug" } else { "warn" };
    write_configuration(&home, &root, workers, arguments.timeout, level)?;
    let listen = place.listen.clone().unwrap_or_else(|| arguments.port.to_string());
    let says = format!("tidegate: serving {} on {listen}", root.display());
    // In the background it does not end with a terminal.
    let hangup = if arguments.home.is_some() { Hangup::Reload } else { Hangup::Stop };
    home.run(Some(listen), says, hangup)
}

fn workers(wanted: Option<usize>) -> anyhow::Result<usize> {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    match wanted {
        None => Ok(WORKERS.min(processors)),
        Some(0) => bail!("-w 0: at least one worker is needed"),
        Some(wanted) if wanted > processors => {
            bail!("-w {wanted}: this machine has {processors} processors; give at most as many workers")
        }
        Some(wanted) => Ok(wanted),
    }
}

fn write_configuration(
    home: &Home,
    root: &Path,
    workers: usize,
    timeout: u64,
    level: &str,
) -> anyhow::Result<()> {
    let root =
        root.to_str().context("the path of the directory is not UTF-8; rename it, or serve a link to it")?;
    let route = json!({"id": "files", "uri": "/*", "plugins": {"static-files": {"root": root}}});
    let config = format!(
        "apisix: {{ssl: {{enable: false}}, enable_admin: false, enable_control: false}}
nginx_config:
  worker_processes: {workers}
  error_log: /dev/stderr
  error_log_level: {level}
  http:
    access_log: /dev/stdout
    access_log_format: \"{LOG_FORMAT}\"
    keepalive_timeout: {timeout}s
    client_header_timeout: {timeout}s
    client_body_timeout: {timeout}s
    send_timeout: {timeout}s
deployment: {{role: data_plane, role_data_plane: {{config_provider: yaml}}}}
plugins: [static-files]
"
    );
    // JSON is YAML.
    home.write(&config, &format!("routes: [{route}]\n#END\n"))
}

/// Starts itself in a separate process group. The access log goes where standard output goes, unless that is a
/// terminal.
fn in_background(
    place: &SharedOptions,
    arguments: &Arguments,
    root: &Path,
    workers: usize,
) -> anyhow::Result<()> {
    let home = Home::create()?;
    let (socket_path, output) = (home.path().join("ready.sock"), home.path().join("serve.out"));
    let socket = ReadySocket::bind(&socket_path)?;
    let errors = File::create(&output).with_context(|| format!("cannot write {}", output.display()))?;
    let log = match io::stdout() {
        terminal if terminal.is_terminal() => Stdio::null(),
        other => other.as_fd().try_clone_to_owned()?.into(),
    };
    let mut command = Command::new(env::current_exe().context("cannot find this program's own file")?);
    command.arg("serve").arg("--root").arg(root).arg("--home").arg(home.path());
    command.args(["--port", &arguments.port.to_string(), "--timeout", &arguments.timeout.to_string()]);
    command.args(["--workers", &workers.to_string()]);
    if let Some(listen) = &place.listen {
        command.args(["--listen", listen]);
    }
    command.env(notify::VARIABLE, &socket_path).current_dir("/").process_group(0);
    command.stdin(Stdio::null()).stdout(log).stderr(errors);
    let mut child = command.spawn().context("cannot start the process in the background")?;
    socket.wait(&mut child, START_TIME, &output)?;
    drop(socket);
    crate::say::complain!("tidegate: serving {} as process {}", root.display(), child.id());
    // It is the other process's from here on.
    let _ = ManuallyDrop::new(home);
    Ok(())
}
