//! `tidegate import nginx FILE --check-against URL`: the same requests to nginx and to the conversion.
//!
//! GET and HEAD only, to the address given and to a gateway of our own that ends with the check.

use std::{
    fs,
    io::{BufRead, BufReader, ErrorKind},
    net::{Ipv4Addr, SocketAddr, TcpListener, ToSocketAddrs},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use tidegate_clients::verbatim::Excess;
use tidegate_import::{Imported, Sample};

use super::{Reading, answer::ObservedResponse};
use crate::cli::{
    daemon,
    exchange::{Bounds, exchange},
    printable::printable_lines,
    stdout,
};

/// Ten requests a second to each of the two.
const PAUSE: Duration = Duration::from_millis(100);
/// As much of a body is compared.
const BOUNDS: Bounds = Bounds { wait: Duration::from_secs(10), body_bytes: 4 << 20, excess: Excess::Cut };

/// The address of nginx.
pub(super) struct Target(SocketAddr);

impl Target {
    pub(super) fn parse(url: &str) -> anyhow::Result<Target> {
        let rest = url.strip_prefix("http://").map(|rest| rest.trim_end_matches('/'));
        let authority = rest.filter(|rest| !rest.contains(['/', '?', '#', '@']));
        let authority = authority
            .with_context(|| format!("--check-against {url}: give http://HOST:PORT, without a path"))?;
        let with_port = match authority.rsplit_once(':') {
            Some((_, port)) if port.parse::<u16>().is_ok() => authority.to_owned(),
            _ => format!("{authority}:80"),
        };
        let mut addresses =
            with_port.to_socket_addrs().with_context(|| format!("--check-against {url}: unknown address"))?;
        addresses.next().map(Target).with_context(|| format!("--check-against {url}: unknown address"))
    }

    pub(super) fn port(&self) -> u16 {
        self.0.port()
    }
}

pub(super) fn run(
    target: &Target,
    file: &Path,
    reading: &Reading,
    imported: &Imported,
) -> anyhow::Result<()> {
    if imported.samples.is_empty() {
        bail!("no server of {} listens on port {}", file.display(), target.port());
    }
    let gateway = Gateway::start(target, file, reading)?;
    let (mut same, mut closed, mut different) = (0, 0, 0);
    for sample in &imported.samples {
        for method in ["GET", "HEAD"] {
            let next = Instant::now() + PAUSE;
            let theirs = ask(target.0, method, sample).context("cannot ask nginx")?;
            let ours = ask(gateway.address, method, sample).context("cannot ask the conversion")?;
            let line = sample.at.text(&file.display().to_string());
            let shown = format!("{line}: {method} {} (Host: {})", sample.target, sample.host);
            if ours.is_closed() && !theirs.is_closed() {
                closed += 1;
                print(&format!("{shown}: closed; nginx {}", theirs.status_text()));
            } else {
                match theirs.differences(&ours) {
                    list if list.is_empty() => same += 1,
                    list => {
                        different += 1;
                        print(&format!("{shown}: {}", list.join("; ")));
                    }
                }
            }
            // The rate is a promise to the operator of this nginx.
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
        }
    }
    stdout::line(&format!("{same} answers are the same, {closed} closed here, {different} differ"));
    if different > 0 {
        bail!("{different} answers differ");
    }
    Ok(())
}

fn print(line: &str) {
    stdout::line(&printable_lines(line));
}

/// With HTTP/1.0, as the samples are made for. `ObservedResponse::default`: the connection closes without an answer.
fn ask(address: SocketAddr, method: &str, sample: &Sample) -> anyhow::Result<ObservedResponse> {
    let Sample { host, target, .. } = sample;
    let request =
        format!("{method} {target} HTTP/1.0\r\nHost: {host}\r\nUser-Agent: tidegate-import\r\n\r\n");
    match exchange(address, method, request.as_bytes(), BOUNDS) {
        Ok(answer) => Ok(ObservedResponse::new(answer.head, answer.body, address)),
        Err(error) if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset) => {
            Ok(ObservedResponse::default())
        }
        Err(error) => Err(error).with_context(|| format!("no answer from {address} to {method} {target}")),
    }
}

/// The conversion, served on a separate port.
struct Gateway {
    child: Child,
    address: SocketAddr,
    folder: PathBuf,
}

const CONFIG: &str = "\
apisix:
  node_listen: [{ip: 127.0.0.1, port: @PORT@}]
  ssl: {enable: false}
  enable_admin: false
  enable_control: false
nginx_config: {worker_processes: 1, http: {enable_access_log: false}}
deployment: {role: data_plane, role_data_plane: {config_provider: yaml}}
plugin_attr: {prometheus: {enable_export_server: false}}
";

impl Gateway {
    fn start(target: &Target, file: &Path, reading: &Reading) -> anyhow::Result<Gateway> {
        let folder = std::env::temp_dir().join(format!("tidegate-check-{}", std::process::id()));
        fs::create_dir(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        fs::create_dir(folder.join("conf"))?;
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        fs::write(folder.join("conf/config.yaml"), CONFIG.replace("@PORT@", &port.to_string()))?;
        let mut command = Command::new(daemon::own_program()?);
        command.arg("run").arg("--prefix").arg(&folder);
        command.arg("--from").arg(format!("nginx:{}", std::path::absolute(file)?.display()));
        command.arg("--stands-for").arg(target.port().to_string()).args(reading.arguments());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let child = command.spawn().context("cannot start the conversion")?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut gateway = Gateway { child, address, folder };
        let output = gateway.child.stdout.take().context("no output")?;
        // It says where it listens once it does.
        let is_ready =
            BufReader::new(output).lines().map_while(Result::ok).any(|line| line.contains("proxy "));
        if !is_ready {
            let log = fs::read_to_string(gateway.folder.join("logs/error.log")).unwrap_or_default();
            bail!("the conversion cannot be served: {}", log.lines().last().unwrap_or("it ended at once"));
        }
        Ok(gateway)
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}
