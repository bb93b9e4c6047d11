//! The gateway under test, started as users start it: a prefix folder, a config.yaml, the built binary.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::client::Client;
use crate::process::Process;
use crate::{PATIENCE, free_port};

/// config.yaml for routes from conf/apisix.yaml. Its ports stand as `@HTTP@` and so on.
pub const YAML_PROVIDER: &str = "\
apisix:
  node_listen: [{ip: 127.0.0.1, port: @HTTP@}]
  ssl: {enable: false}
  enable_admin: false
  control: {ip: 127.0.0.1, port: @CONTROL@}
nginx_config:
  worker_processes: 1
  http: {enable_access_log: false}
deployment:
  role: data_plane
  role_data_plane: {config_provider: yaml}
plugin_attr:
  prometheus: {export_addr: {ip: 127.0.0.1, port: @METRICS@}}
";

/// config.yaml for the embedded store and the Admin API with [`ADMIN_KEY`].
pub const EMBEDDED: &str = "\
apisix:
  node_listen: [{ip: 127.0.0.1, port: @HTTP@}]
  ssl: {enable: false}
  control: {ip: 127.0.0.1, port: @CONTROL@}
nginx_config:
  worker_processes: 1
deployment:
  role: traditional
  role_traditional: {config_provider: embedded}
  admin:
    admin_listen: {ip: 127.0.0.1, port: @ADMIN@}
    admin_key: [{name: admin, key: test-admin-key, role: admin}]
plugin_attr:
  prometheus: {export_addr: {ip: 127.0.0.1, port: @METRICS@}}
";

/// The key in [`EMBEDDED`].
pub const ADMIN_KEY: &str = "test-admin-key";

/// A running gateway in its own prefix. Dropping it kills it and removes the prefix.
#[derive(Debug)]
pub struct Gateway {
    /// Its process.
    pub process: Process,
    /// Where it serves HTTP.
    pub http: SocketAddr,
    /// Where it serves the Admin API.
    pub admin: SocketAddr,
    /// Where it serves the Control API.
    pub control: SocketAddr,
    /// Where it serves metrics.
    pub metrics: SocketAddr,
    prefix: TempDir,
}

impl Gateway {
    /// Writes the configuration, starts the binary and waits until the proxy port answers. In both texts
    /// `@HTTP@`, `@ADMIN@`, `@CONTROL@` and `@METRICS@` become ports.
    pub fn start(config_yaml: &str, apisix_yaml: Option<&str>) -> Self {
        let mut gateway = Self::start_unready(config_yaml, apisix_yaml);
        gateway.wait_until_ready();
        gateway
    }

    /// As [`Gateway::start`], for configurations that must be refused: does not wait.
    pub fn start_unready(config_yaml: &str, apisix_yaml: Option<&str>) -> Self {
        Self::start_by(config_yaml, apisix_yaml, run_command)
    }

    /// As [`Gateway::start_unready`] with a command of one's own for the prefix.
    pub fn start_by(
        config_yaml: &str,
        apisix_yaml: Option<&str>,
        command: impl FnOnce(&Path) -> Command,
    ) -> Self {
        let prefix = tempfile::tempdir().expect("a temporary folder");
        let address = || SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let (http, admin, control, metrics) = (address(), address(), address(), address());
        let fill = |text: &str| {
            text.replace("@HTTP@", &http.port().to_string())
                .replace("@ADMIN@", &admin.port().to_string())
                .replace("@CONTROL@", &control.port().to_string())
                .replace("@METRICS@", &metrics.port().to_string())
        };
        let conf = prefix.path().join("conf");
        for folder in ["conf", "logs", "data"] {
            fs::create_dir_all(prefix.path().join(folder)).expect("folders in the prefix");
        }
        fs::write(conf.join("config.yaml"), fill(config_yaml)).expect("config.yaml");
        if let Some(routes) = apisix_yaml {
            fs::write(conf.join("apisix.yaml"), with_end(&fill(routes))).expect("apisix.yaml");
        }
        let process = Process::start("tidegate", &mut command(prefix.path()));
        Gateway { process, http, admin, control, metrics, prefix }
    }

    /// As [`Gateway::start`] with `tidegate run --from KIND:FILE` for this text; the folder's config.yaml sets ports.
    pub fn start_from(kind: &str, text: &str) -> Self {
        Gateway::start_from_with(YAML_PROVIDER, kind, text)
    }

    /// As [`Gateway::start_from`], with this config.yaml.
    pub fn start_from_with(config: &str, kind: &str, text: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let source = folder.path().join("source.yaml");
        fs::write(&source, text).expect("source.yaml");
        Gateway::start_from_file(config, kind, &source)
    }

    /// As [`Gateway::start_from_with`], from a file that stays where it is.
    pub fn start_from_file(config: &str, kind: &str, source: &Path) -> Self {
        let prefix = tempfile::tempdir().expect("a temporary folder");
        let address = || SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let (http, admin, control, metrics) = (address(), address(), address(), address());
        fs::create_dir_all(prefix.path().join("conf")).expect("a folder in the prefix");
        let ports = config
            .replace("@HTTP@", &http.port().to_string())
            .replace("@CONTROL@", &control.port().to_string())
            .replace("@METRICS@", &metrics.port().to_string());
        fs::write(prefix.path().join("conf/config.yaml"), ports).expect("config.yaml");
        let mut command = run_command(prefix.path());
        command.arg("--from").arg(format!("{kind}:{}", source.display()));
        let process = Process::start("tidegate", &mut command);
        let mut gateway = Gateway { process, http, admin, control, metrics, prefix };
        gateway.wait_until_ready();
        gateway
    }

    /// Starts the binary again in the same prefix, on the same ports, after it ended.
    pub fn restart(&mut self) {
        self.restart_unready();
        self.wait_until_ready();
    }

    /// It says where it listens once it does so on all addresses: one of them alone is too early for those who use another.
    fn wait_until_ready(&mut self) {
        self.process.wait_for_port(self.http);
        self.process.wait_for_output("  proxy ");
    }

    /// As [`Gateway::restart`], for starts that must fail: does not wait.
    pub fn restart_unready(&mut self) {
        self.process = Process::start("tidegate", &mut run_command(self.prefix.path()));
    }

    /// Its folder, with conf/, data/ and logs/.
    pub fn prefix(&self) -> &Path {
        self.prefix.path()
    }

    /// A connection to the proxy port.
    pub fn client(&self) -> Client {
        Client::connect(self.http).expect("the proxy port accepts connections")
    }

    /// One Admin API call with the test key; returns status and body.
    pub fn admin(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let mut client = Client::connect(self.admin).expect("the admin port accepts connections");
        let length = body.len();
        let answer = client.request(&format!(
            "{method} {path} HTTP/1.1\r\nHost: admin\r\nX-API-KEY: {ADMIN_KEY}\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        ));
        let answer = answer.unwrap_or_else(|error| panic!("{method} {path}: {error}"));
        (answer.status(), answer.body_text())
    }

    /// Replaces the routes of a gateway that reads apisix.yaml, as an editor would: new file, then rename.
    pub fn write_routes(&self, apisix_yaml: &str) {
        let conf = self.prefix().join("conf");
        let fresh = conf.join("apisix.yaml.new");
        fs::write(&fresh, with_end(apisix_yaml)).expect("routes written");
        fs::rename(&fresh, conf.join("apisix.yaml")).expect("routes renamed");
    }

    /// What the pid file says.
    pub fn pid(&self) -> Option<i32> {
        let text = fs::read_to_string(self.prefix().join("logs/tidegate.pid")).ok()?;
        text.trim().parse().ok().filter(|pid| *pid > 0)
    }

    /// Runs `tidegate VERB` for this gateway; whether it succeeded, and what it printed.
    pub fn verb(&self, verb: &str) -> (bool, String) {
        self.verb_with(&[verb])
    }

    /// As [`Gateway::verb`], with more words.
    pub fn verb_with(&self, words: &[&str]) -> (bool, String) {
        let mut command = Command::new(binary());
        let output = command.args(words).arg("--prefix").arg(self.prefix()).output().expect("tidegate runs");
        let printed = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&printed).into_owned())
    }

    /// Waits until the error log has this; a separate thread writes it.
    pub fn wait_for_log(&self, wanted: &str) {
        let deadline = Instant::now() + PATIENCE;
        while !self.error_log().contains(wanted) {
            assert!(Instant::now() < deadline, "never logged {wanted:?}:\n{}", self.error_log());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// The error log so far.
    pub fn error_log(&self) -> String {
        fs::read_to_string(self.prefix().join("logs/error.log")).unwrap_or_default()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // After an upgrade another process serves, which is not a child of this one.
        if let Some(pid) = self.pid().filter(|pid| u32::try_from(*pid).ok() != Some(self.process.id())) {
            let _ = Pid::from_raw(pid).map(|pid| kill_process(pid, Signal::KILL));
        }
        let log = self.error_log();
        if std::thread::panicking() {
            eprintln!("--- error log of tidegate ---\n{log}");
        } else if let Some(line) = log.lines().find(|line| line.contains(DISAGREEMENT)) {
            panic!("{line}");
        }
    }
}

/// What a debug build logs when `tidegate explain` disagrees with how a request was served.
const DISAGREEMENT: &str = "explain and the request disagree";

/// `tidegate run` for a prefix. A debug build also explains each of its requests, and compares.
pub fn run_command(prefix: &Path) -> Command {
    let mut command = Command::new(binary());
    command.env("TIDEGATE_TEST_EXPLAIN", "1");
    command.arg("run").arg("--prefix").arg(prefix).arg("-c").arg(prefix.join("conf/config.yaml"));
    command
}

/// The binary under test: `TIDEGATE_BIN`, or built by cargo into the target folder this test runs from.
pub fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| match std::env::var_os("TIDEGATE_BIN") {
        Some(path) => path.into(),
        None => build(),
    })
}

fn build() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    // target/<profile>/deps/<test>
    let profile = test.ancestors().nth(2).expect("tests run from a target folder");
    let target = profile.parent().expect("profiles are in a target folder");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // With the features that this test was built with: a package alone has others, and its libraries would be built again.
    cargo
        .args(["build", "--quiet", "--workspace", "--bin", "tidegate", "--test", "e2e", "--target-dir"])
        .arg(target);
    cargo.current_dir(workspace_root());
    if profile.ends_with("release") {
        cargo.arg("--release");
    }
    let status = cargo.status().expect("cargo runs");
    assert!(status.success(), "the gateway does not build");
    profile.join("tidegate")
}

/// The checkout's root.
pub fn workspace_root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the crate is in crates/")
}

fn with_end(routes: &str) -> String {
    format!("{}\n#END\n", routes.trim_end().trim_end_matches("#END"))
}
