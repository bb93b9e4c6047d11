//! A real etcd that can be killed, started again and driven with etcdctl, as operators do it.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::process::Process;
use crate::{PATIENCE, free_port, servers};

/// One member on ports that stay the same over restarts. Dropping it kills it and removes its data.
#[derive(Debug)]
pub struct Etcd {
    /// Its process.
    pub process: Process,
    /// Where clients connect to.
    pub address: SocketAddr,
    identity: Identity,
    extra: Vec<String>,
    scheme: &'static str,
    control: Vec<String>,
    folder: TempDir,
}

/// Which member of which cluster it is.
#[derive(Clone, Debug)]
struct Identity {
    name: String,
    peer: SocketAddr,
    /// `NAME=URL` of all members.
    cluster: String,
}

impl Etcd {
    /// An empty server in a temporary folder, without authentication.
    pub fn start() -> Self {
        Self::start_with("http", &[], &[])
    }

    /// `extra` are more words for etcd, `control` more words for etcdctl.
    pub fn start_with(scheme: &'static str, extra: &[&str], control: &[&str]) -> Self {
        let mut members = Self::members(1);
        let identity = members.remove(0);
        let mut etcd = Self::launch(identity, scheme, extra, control);
        etcd.wait();
        etcd
    }

    /// A cluster of so many members.
    pub fn start_cluster(count: usize) -> Vec<Self> {
        let members = Self::members(count);
        let mut cluster: Vec<Self> =
            members.into_iter().map(|member| Self::launch(member, "http", &[], &[])).collect();
        cluster.iter_mut().for_each(Self::wait);
        cluster
    }

    fn members(count: usize) -> Vec<Identity> {
        let named = |index: usize| (format!("member{index}"), local());
        let members: Vec<(String, SocketAddr)> = (0..count).map(named).collect();
        let listed: Vec<String> =
            members.iter().map(|(name, peer)| format!("{name}=http://{peer}")).collect();
        let cluster = listed.join(",");
        members.into_iter().map(|(name, peer)| Identity { name, peer, cluster: cluster.clone() }).collect()
    }

    fn launch(identity: Identity, scheme: &'static str, extra: &[&str], control: &[&str]) -> Self {
        let own = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let (address, folder) = (local(), tempfile::tempdir().expect("a temporary folder"));
        let (extra, control) = (own(extra), own(control));
        let process = launch(folder.path(), scheme, address, &identity, &extra);
        Etcd { process, address, identity, extra, scheme, control, folder }
    }

    fn wait(&mut self) {
        self.process.wait_for_port(self.address);
        self.wait_until_healthy();
    }

    /// Of the whole server, without a path.
    pub fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }

    /// Its data.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Ends it without a word.
    pub fn kill(&mut self) {
        self.process.signal_kill();
        self.process.wait_for_exit();
    }

    /// Starts it again with its data, and waits until it answers.
    pub fn restart(&mut self) {
        self.process = launch(self.folder.path(), self.scheme, self.address, &self.identity, &self.extra);
        self.wait();
    }

    /// Its data as a crash would leave them now.
    pub fn copy_data(&self) -> TempDir {
        let copy = tempfile::tempdir().expect("a temporary folder");
        self.process.signal(Signal::STOP);
        copy_folder(&self.folder.path().join("data"), copy.path());
        self.process.signal(Signal::CONT);
        copy
    }

    /// Replaces its data by a copy; it has to be down.
    pub fn restore_data(&self, copy: &Path) {
        self.lose_data();
        std::fs::create_dir(self.folder.path().join("data")).expect("a folder");
        copy_folder(copy, &self.folder.path().join("data"));
    }

    /// Throws its data away; it has to be down.
    pub fn lose_data(&self) {
        std::fs::remove_dir_all(self.folder.path().join("data")).expect("data removed");
    }

    /// Runs etcdctl; panics with its words when it fails.
    pub fn control(&self, words: &[&str]) -> String {
        let output = self.etcdctl(words).output().expect("etcdctl runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "etcdctl {words:?}: {said}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Writes a key.
    pub fn put(&self, key: &str, value: &str) {
        self.control(&["put", "--", key, value]);
    }

    /// The value of a key; empty when there is none.
    pub fn get(&self, key: &str) -> String {
        self.control(&["get", "--print-value-only", "--", key]).trim_end().to_owned()
    }

    /// Forgets all revisions but the newest.
    pub fn compact(&self) {
        let status = self.control(&["get", "none", "--write-out", "json"]);
        let revision = status.split("\"revision\":").nth(1).expect("a revision");
        let revision: String = revision.chars().take_while(char::is_ascii_digit).collect();
        self.control(&["compaction", &revision]);
    }

    fn wait_until_healthy(&self) {
        let deadline = Instant::now() + PATIENCE;
        let healthy = || {
            let mut command = self.etcdctl(&["endpoint", "health"]);
            command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
        };
        // etcdctl waits by itself for an answer.
        while !healthy() {
            assert!(Instant::now() < deadline, "etcd is not healthy:\n{}", self.process.output());
        }
    }

    fn etcdctl(&self, words: &[&str]) -> Command {
        let mut command = Command::new(program("etcdctl"));
        command.env("ETCDCTL_API", "3").arg("--endpoints").arg(self.url()).args(&self.control).args(words);
        command
    }
}

fn local() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()))
}

fn launch(
    folder: &Path,
    scheme: &str,
    address: SocketAddr,
    identity: &Identity,
    extra: &[String],
) -> Process {
    let (client, peer) = (format!("{scheme}://{address}"), format!("http://{}", identity.peer));
    let mut command = Command::new(program("etcd"));
    command.arg("--name").arg(&identity.name).arg("--data-dir").arg(folder.join("data"));
    command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
    command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
    command.args(["--initial-cluster", &identity.cluster, "--unsafe-no-fsync"]);
    // On one machine an election need not wait for a second.
    command.args(["--heartbeat-interval", "20", "--election-timeout", "200"]).args(extra);
    Process::start("etcd", &mut command)
}

fn program(name: &str) -> PathBuf {
    assert!(servers::installed(name), "{name} is missing: run scripts/install-deps.sh");
    servers::find(name)
}

fn copy_folder(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").arg(from.join(".")).arg(to).status().expect("cp runs");
    assert!(copied.success(), "cp of {}", from.display());
}
