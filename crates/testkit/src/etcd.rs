//! A real etcd that can be killed, started again and driven with etcdctl, as operators do it.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use tempfile::TempDir;

use crate::process::Process;
use crate::{PATIENCE, free_port, servers};

/// One member on ports that stay the same over restarts. Dropping it kills it and removes its data.
#[derive(Debug)]
pub struct Etcd {
    pub process: Process,
    pub address: SocketAddr,
    peer: SocketAddr,
    extra: Vec<String>,
    scheme: &'static str,
    control: Vec<String>,
    folder: TempDir,
}

impl Etcd {
    pub fn start() -> Self {
        Self::start_with("http", &[], &[])
    }

    /// `extra` are more words for etcd, `control` more words for etcdctl.
    pub fn start_with(scheme: &'static str, extra: &[&str], control: &[&str]) -> Self {
        let address = || SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let (address, peer) = (address(), address());
        let folder = tempfile::tempdir().expect("a temporary folder");
        let own = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let (extra, control) = (own(extra), own(control));
        let process = launch(folder.path(), scheme, address, peer, &extra);
        let mut etcd = Etcd { process, address, peer, extra, scheme, control, folder };
        etcd.process.wait_for_port(address);
        etcd.wait_until_healthy();
        etcd
    }

    pub fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }

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
        self.process = launch(self.folder.path(), self.scheme, self.address, self.peer, &self.extra);
        self.process.wait_for_port(self.address);
        self.wait_until_healthy();
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

fn launch(folder: &Path, scheme: &str, address: SocketAddr, peer: SocketAddr, extra: &[String]) -> Process {
    let (client, peer) = (format!("{scheme}://{address}"), format!("http://{peer}"));
    let mut command = Command::new(program("etcd"));
    command.arg("--data-dir").arg(folder.join("data"));
    command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
    command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
    command.args(["--initial-cluster", &format!("default={peer}"), "--unsafe-no-fsync"]);
    // A lone member need not wait a second to elect itself.
    command.args(["--heartbeat-interval", "20", "--election-timeout", "200"]).args(extra);
    Process::start("etcd", &mut command)
}

fn program(name: &str) -> PathBuf {
    assert!(servers::installed(name), "{name} is missing: run scripts/install-deps.sh");
    servers::find(name)
}
