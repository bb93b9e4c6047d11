//! Commands of `tidegate upgrade`, `tidegate reload` and `tidegate config backup`: a socket beside the pid file, since a signal cannot answer.
//!
//! One line of JSON each way. A client that may connect could as well send signals: it runs as the same user,
//! or as root.

use std::{
    fmt, fs,
    io::{self, BufRead, BufReader, Read, Write},
    net::IpAddr,
    os::unix::{
        fs::PermissionsExt,
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use anyhow::Context;
use rustix::{
    net::{RecvFlags, recv, sockopt::socket_peercred},
    process::geteuid,
};
use serde::{Deserialize, Serialize};
use tidegate_store::BoxFuture;
use tidegate_telemetry::error_log::{self, Level};

/// A new process may take so long, where the change needs one.
const RELOAD_LIMIT: Duration = Duration::from_secs(60);
const LONGEST_COMMAND_BYTES: u64 = 16 * 1024;
/// The command is sent with connecting.
const READ_LIMIT: Duration = Duration::from_secs(5);

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case")]
pub(crate) enum Command {
    Upgrade {
        program: PathBuf,
        timeout_seconds: u64,
        /// As of `Reload`.
        #[serde(default)]
        force: bool,
        /// As of `Reload`.
        #[serde(default)]
        config: Option<PathBuf>,
    },
    Reload {
        timeout_seconds: u64,
        /// Also where objects that are in use could not be decrypted.
        #[serde(default)]
        force: bool,
        /// The config.yaml that the command names: the gateway reads its own.
        #[serde(default)]
        config: Option<PathBuf>,
    },
    /// The answer is the path of a file that holds everything acknowledged until now.
    Backup,
    /// As `Backup`, where no file can be written: [`CommandReply::Follows`].
    WholeBackup,
    /// Which objects that are in use a gateway with this keyring could not decrypt: a list of [`Lost`].
    Undecryptable { keyring: Keys },
    /// Which objects it cannot use: a list of [`Unusable`].
    Rejected,
    /// Which keys of its file of resources are in no use: a list of texts.
    Ignored,
    /// Sessions of TCP and UDP: the answer is a table of them, or how many end.
    Connections { id: Option<u64>, route: Option<String>, client: Option<IpAddr>, end: Option<End> },
}

/// An object in use that a gateway with another keyring could not decrypt.
#[derive(Serialize, Deserialize)]
pub(crate) struct Lost {
    /// `consumers/anna`.
    pub object: String,
    pub reason: String,
}

/// An object that the gateway cannot use.
#[derive(Serialize, Deserialize)]
pub(crate) struct Unusable {
    /// `consumers/anna`.
    pub object: String,
    pub reason: String,
}

impl Unusable {
    pub(crate) fn in_words(&self) -> String {
        format!("{} cannot be used: {}", self.object, self.reason)
    }
}

/// Keys, which no log shows.
#[derive(Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Keys(pub Vec<String>);

impl fmt::Debug for Keys {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} keys", self.0.len())
    }
}

/// How sessions end.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum End {
    Now,
    /// As soon as each has been silent for a second.
    Silent,
}

/// The answer: what was done, or why not.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CommandReply {
    Done(String),
    Failed(String),
    /// So many bytes follow the line.
    Follows(u64),
}

/// The client that waits for an answer, if there is one.
#[derive(Default)]
pub(crate) struct Reply(Option<UnixStream>);

impl Reply {
    pub(crate) fn send(self, answer: &CommandReply) {
        if let (Some(mut stream), Ok(mut line)) = (self.0, serde_json::to_vec(answer)) {
            line.push(b'\n');
            // The client may have gone.
            let _ = stream.write_all(&line);
        }
    }

    /// An answer that is not text.
    pub(crate) fn send_bytes(mut self, bytes: &[u8]) {
        let stream = self.0.take();
        Reply(stream.as_ref().and_then(|stream| stream.try_clone().ok()))
            .send(&CommandReply::Follows(bytes.len() as u64));
        if let Some(mut stream) = stream {
            let _ = stream.write_all(bytes);
        }
    }
}

/// Lets the gateway of this pid file write its copy of the configuration, with everything acknowledged until now: where it is.
pub(crate) fn fresh_copy(pid_file: &Path, pid: i32, limit: Duration) -> anyhow::Result<PathBuf> {
    let socket = path(pid_file);
    let answer = send(&socket, &Command::Backup, limit)
        .with_context(|| format!("cannot ask process {pid} at {}", socket.display()))?;
    match answer {
        CommandReply::Done(path) => Ok(path.into()),
        CommandReply::Failed(reason) => Err(anyhow::Error::msg(reason)),
        CommandReply::Follows(_) => Err(unexpected()),
    }
}

/// The same copy from memory, where the gateway has no room for a file.
pub(crate) fn whole_copy(pid_file: &Path, pid: i32, limit: Duration) -> anyhow::Result<Vec<u8>> {
    let socket = path(pid_file);
    let asked = ask(&socket, &Command::WholeBackup, limit);
    let (answer, rest) =
        asked.with_context(|| format!("cannot ask process {pid} at {}", socket.display()))?;
    let length = match answer {
        CommandReply::Follows(length) => length,
        CommandReply::Failed(reason) => return Err(anyhow::Error::msg(reason)),
        CommandReply::Done(_) => return Err(unexpected()),
    };
    let mut bytes = Vec::new();
    rest.take(length).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The objects that are in use and that none of these keys decrypts.
pub(crate) fn undecryptable(
    pid_file: &Path,
    keyring: &[String],
    limit: Duration,
) -> anyhow::Result<Vec<Lost>> {
    let command = Command::Undecryptable { keyring: Keys(keyring.to_vec()) };
    match send(&path(pid_file), &command, limit)? {
        CommandReply::Done(list) => Ok(serde_json::from_str(&list)?),
        CommandReply::Failed(reason) => Err(anyhow::Error::msg(reason)),
        CommandReply::Follows(_) => Err(unexpected()),
    }
}

/// The objects that the gateway of this pid file cannot use.
pub(crate) fn unusable(pid_file: &Path, limit: Duration) -> anyhow::Result<Vec<Unusable>> {
    match send(&path(pid_file), &Command::Rejected, limit)? {
        CommandReply::Done(list) => Ok(serde_json::from_str(&list)?),
        CommandReply::Failed(reason) => Err(anyhow::Error::msg(reason)),
        CommandReply::Follows(_) => Err(unexpected()),
    }
}

/// The keys that are in no use in the file of resources of the gateway of this pid file.
pub(crate) fn ignored(pid_file: &Path, limit: Duration) -> anyhow::Result<Vec<String>> {
    match send(&path(pid_file), &Command::Ignored, limit)? {
        CommandReply::Done(list) => Ok(serde_json::from_str(&list)?),
        CommandReply::Failed(reason) => Err(anyhow::Error::msg(reason)),
        CommandReply::Follows(_) => Err(unexpected()),
    }
}

pub(crate) fn unexpected() -> anyhow::Error {
    anyhow::Error::msg("the gateway answers in another way than this program asks; use the program that runs")
}

/// The socket's path for a pid file.
pub(crate) fn path(pid_file: &Path) -> PathBuf {
    pid_file.with_extension("sock")
}

/// Listens until the process ends. A socket that another process left behind, or is about to leave, is replaced.
pub(crate) fn listen(path: &Path, tell: impl Fn(Command, Reply) + Send + 'static) -> anyhow::Result<()> {
    let fresh = path.with_extension(format!("sock.{}", std::process::id()));
    let listener = bind(&fresh, path).with_context(|| format!("cannot listen on {}", path.display()))?;
    thread::Builder::new().name("commands".to_owned()).spawn(move || {
        loop {
            let Ok((stream, _)) = listener.accept() else {
                // Out of descriptors, most likely.
                thread::sleep(READ_LIMIT);
                continue;
            };
            match read(&stream) {
                // This process was stopped or slow, and its client has reported a failure.
                Ok(command) if has_left(&stream) => error_log::log(
                    Level::Warn,
                    format_args!(
                        "a client asked for {command:?} and left before it was read; nothing is done"
                    ),
                ),
                Ok(command) => tell(command, Reply(Some(stream))),
                Err(error) => Reply(Some(stream)).send(&CommandReply::Failed(error.to_string())),
            }
        }
    })?;
    Ok(())
}

/// Whether the client has closed its connection. It sends nothing behind its command.
fn has_left(stream: &UnixStream) -> bool {
    let mut byte = [0];
    recv(stream, &mut byte, RecvFlags::PEEK | RecvFlags::DONTWAIT).is_ok_and(|(read, _)| read == 0)
}

fn bind(fresh: &Path, path: &Path) -> io::Result<UnixListener> {
    let _ = fs::remove_file(fresh);
    let listener = UnixListener::bind(fresh)?;
    fs::set_permissions(fresh, fs::Permissions::from_mode(0o600))?;
    fs::rename(fresh, path)?;
    Ok(listener)
}

fn read(stream: &UnixStream) -> io::Result<Command> {
    let (peer, own) = (socket_peercred(stream)?.uid, geteuid());
    if peer != own && !peer.is_root() {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "only the gateway's user may do this"));
    }
    stream.set_read_timeout(Some(READ_LIMIT))?;
    stream.set_write_timeout(Some(READ_LIMIT))?;
    let mut line = String::new();
    BufReader::new(stream.take(LONGEST_COMMAND_BYTES)).read_line(&mut line)?;
    Ok(serde_json::from_str(&line)?)
}

/// Reads config.yaml again, as `tidegate reload` does: the list of plugins is there. `socket`: of this process.
pub(crate) fn reload(socket: &Path) -> BoxFuture<'static, Result<(), String>> {
    let socket = socket.to_owned();
    let asked = tokio::task::spawn_blocking(move || {
        let command = Command::Reload { timeout_seconds: RELOAD_LIMIT.as_secs(), force: false, config: None };
        send(&socket, &command, RELOAD_LIMIT)
    });
    Box::pin(async move {
        match asked.await {
            Ok(Ok(CommandReply::Done(_))) => Ok(()),
            Ok(Ok(CommandReply::Failed(reason))) => Err(reason),
            Ok(Ok(CommandReply::Follows(_))) => Err(unexpected().to_string()),
            Ok(Err(error)) => Err(format!("cannot reload config.yaml: {error}")),
            Err(_) => Err("cannot reload config.yaml; see the error log".to_owned()),
        }
    })
}

/// Sends a command to the running gateway and waits for its answer.
pub(crate) fn send(path: &Path, command: &Command, patience: Duration) -> io::Result<CommandReply> {
    ask(path, command, patience).map(|(answer, _)| answer)
}

/// As [`send`], with what follows the answer.
fn ask(
    path: &Path,
    command: &Command,
    patience: Duration,
) -> io::Result<(CommandReply, BufReader<UnixStream>)> {
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(patience))?;
    let mut line = serde_json::to_vec(command)?;
    line.push(b'\n');
    stream.write_all(&line)?;
    let (mut answer, mut stream) = (String::new(), BufReader::new(stream));
    stream.read_line(&mut answer)?;
    if answer.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok((serde_json::from_str(&answer)?, stream))
}
