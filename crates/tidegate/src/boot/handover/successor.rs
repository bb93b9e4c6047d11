//! The old process's side: starts the new one, and gives it what it requests.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Seek, Write},
    net::{SocketAddr, TcpListener},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::{fs::MetadataExt, process::CommandExt},
    },
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::Instant,
};

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::{
    Message, PROTOCOL, VARIABLE,
    channel::{Channel, MOST_DESCRIPTORS},
};

/// What to start.
pub(crate) struct Program {
    pub file: PathBuf,
    /// The program that runs now, even if its file has been replaced.
    pub is_this: bool,
    pub arguments: Vec<OsString>,
}

/// What a successor does, for the thread that decides.
#[derive(Debug)]
pub(crate) enum SuccessorMessage {
    WantsStore,
    Prepared { version: String, left: Vec<SocketAddr>, objects: Option<usize> },
    Serving,
    Failed(String),
    Ended(String),
}

pub(crate) struct Successor {
    pub pid: u32,
    channel: Channel,
    pub deadline: Instant,
    pub version: String,
    pub left: Vec<SocketAddr>,
    /// Why it must not serve without an object, if so.
    pub without_objects: Option<String>,
    /// Why it will end.
    pub reason: Option<String>,
}

impl Successor {
    /// Starts the program with everything that is handed over at once. `tell` receives its messages, and its end.
    pub(crate) fn start(
        program: &Program,
        pid_file: &File,
        sockets: &[TcpListener],
        deadline: Instant,
        tell: impl Fn(u32, SuccessorMessage) + Send + 'static,
    ) -> anyhow::Result<Successor> {
        let (channel, theirs) = Channel::pair().context("cannot open a channel to the new process")?;
        let mut command = Command::new(executable(program));
        command.arg0(&program.file).args(&program.arguments).env(VARIABLE, "stdin");
        let child = command.stdin(Stdio::from(theirs)).spawn();
        // Its end of the channel is in there, and has to close with it.
        drop(command);
        let mut child = child.with_context(|| format!("cannot start {}", program.file.display()))?;
        let pid = child.id();
        let ours = channel.try_clone().and_then(|ours| send_sockets(&ours, pid_file, sockets).map(|()| ours));
        let ours = match ours {
            Ok(ours) => ours,
            // It has ended already, which gets reported.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => channel.try_clone()?,
            Err(error) => {
                let _ = child.kill();
                let ended = ended(child.wait());
                return Err(error).context(format!("cannot hand over the sockets; the new process {ended}"));
            }
        };
        thread::Builder::new().name("successor".to_owned()).spawn(move || listen(&ours, child, &tell))?;
        let version = String::new();
        let left = Vec::new();
        Ok(Successor { pid, channel, deadline, version, left, without_objects: None, reason: None })
    }

    pub(crate) fn store_released(&self, document: Option<&Value>) -> io::Result<()> {
        let Some(document) = document else { return self.channel.send(&Message::StoreReleased, &[]) };
        let flags = rustix::fs::MemfdFlags::CLOEXEC;
        let mut file = File::from(rustix::fs::memfd_create("document", flags)?);
        file.write_all(document.to_string().as_bytes())?;
        file.rewind()?;
        self.channel.send(&Message::StoreReleased, &[file.as_fd()])
    }

    pub(crate) fn serve(&self) -> io::Result<()> {
        self.channel.send(&Message::Serve, &[])
    }

    pub(crate) fn announce_predecessor_ended(&self) {
        // If it is gone, its end is reported like any other.
        let _ = self.channel.send(&Message::Alone, &[]);
    }

    /// Its end is reported like any other.
    pub(crate) fn kill(&self) {
        if let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// The file to execute. What the path names now may be another program, or gone: this one is still at hand.
fn executable(program: &Program) -> &Path {
    let running = Path::new("/proc/self/exe");
    let of = |path: &Path| std::fs::metadata(path).map(|found| (found.dev(), found.ino()));
    match (of(&program.file), of(running)) {
        (named, Ok(own)) if program.is_this && named.as_ref().ok() != Some(&own) => running,
        _ => &program.file,
    }
}

fn send_sockets(channel: &Channel, pid_file: &File, sockets: &[TcpListener]) -> io::Result<()> {
    let mut descriptors: Vec<BorrowedFd<'_>> = vec![pid_file.as_fd()];
    descriptors.extend(sockets.iter().map(AsFd::as_fd));
    let mut parts = descriptors.chunks(MOST_DESCRIPTORS).peekable();
    while let Some(part) = parts.next() {
        channel.send(&Message::Sockets { protocol: PROTOCOL, more: parts.peek().is_some() }, part)?;
    }
    Ok(())
}

/// Passes on what the new process says, and reaps it: a process that ended must not look alive to a process that waits
/// for it.
fn listen(channel: &Channel, mut child: Child, tell: &impl Fn(u32, SuccessorMessage)) {
    let pid = child.id();
    loop {
        let word = match channel.receive() {
            Ok(Some((Message::Store, _))) => SuccessorMessage::WantsStore,
            Ok(Some((Message::Prepared { version, left, objects }, _))) => {
                SuccessorMessage::Prepared { version, left, objects }
            }
            Ok(Some((Message::Serving, _))) => SuccessorMessage::Serving,
            Ok(Some((Message::Failed { reason }, _))) => SuccessorMessage::Failed(reason),
            Ok(Some((other, _))) => SuccessorMessage::Failed(format!("it sent {other:?}")),
            Ok(None) => break,
            Err(error) => {
                tell(pid, SuccessorMessage::Failed(format!("its message cannot be parsed: {error}")));
                let _ = child.kill();
                break;
            }
        };
        tell(pid, word);
    }
    tell(pid, SuccessorMessage::Ended(ended(child.wait())));
}

fn ended(status: io::Result<ExitStatus>) -> String {
    status.map_or_else(|error| format!("ended ({error})"), |status| format!("ended ({status})"))
}
