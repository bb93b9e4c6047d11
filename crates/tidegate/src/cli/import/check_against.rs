//! `tidegate import nginx FILE --check-against URL`: the same requests to nginx and to the conversion.
//!
//! GET and HEAD only, to the address given and to a gateway of our own that ends with the check.

use std::{
    fs,
    io::{BufRead, BufReader, ErrorKind},
    net::{Ipv4Addr, SocketAddr, TcpListener, ToSocketAddrs},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, anyhow, bail};
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tidegate_clients::verbatim::Excess;
use tidegate_import::{Imported, Placement, Sample, Source};
use tidegate_tls::{Anchors, Trust, client_config};

use super::{
    Reading,
    answer::{Asked, ObservedResponse},
    prepare::convert,
};
use crate::cli::{
    daemon,
    exchange::{Bounds, Tls, exchange_over},
    printable::printable_lines,
    stdout,
};

/// Ten requests a second to each of the two.
const PAUSE: Duration = Duration::from_millis(100);
/// As much of a body is compared.
const BOUNDS: Bounds = Bounds { wait: Duration::from_secs(10), body_bytes: 4 << 20, excess: Excess::Cut };

/// Where nginx listens.
pub(super) struct Target {
    address: SocketAddr,
    tls: bool,
}

impl Target {
    fn parse(url: &str) -> anyhow::Result<Target> {
        let (tls, rest) = match (url.strip_prefix("http://"), url.strip_prefix("https://")) {
            (Some(rest), _) => (false, Some(rest)),
            (_, rest) => (true, rest),
        };
        let authority = rest.map(|rest| rest.trim_end_matches('/'));
        let authority = authority.filter(|rest| !rest.contains(['/', '?', '#', '@'])).with_context(|| {
            format!("--check-against {url}: give http://HOST:PORT or https://HOST:PORT, without a path")
        })?;
        let with_port = match authority.rsplit_once(':') {
            Some((_, port)) if port.parse::<u16>().is_ok() => authority.to_owned(),
            _ => format!("{authority}:{}", if tls { 443 } else { 80 }),
        };
        let unknown = || format!("--check-against {url}: unknown address");
        let mut addresses = with_port.to_socket_addrs().with_context(unknown)?;
        Ok(Target { address: addresses.next().with_context(unknown)?, tls })
    }

    /// A port speaks one of the two, as the file says.
    fn check(&self, file: &Path, imported: &Imported) -> anyhow::Result<()> {
        let (port, shown) = (self.address.port(), file.display());
        let listeners = imported.listeners.as_ref();
        let has = |tls: bool| {
            let of_kind = listeners.map(|all| if tls { &all.tls } else { &all.plain });
            of_kind.is_some_and(|sockets| sockets.iter().any(|(_, known)| *known == port))
        };
        match (has(self.tls), has(!self.tls)) {
            (false, true) if self.tls => bail!("port {port} of {shown} is not for HTTPS: give http://"),
            (false, true) => bail!("port {port} of {shown} is for HTTPS: give https://"),
            _ if imported.samples.is_empty() => bail!("no server of {shown} listens on port {port}"),
            _ => Ok(()),
        }
    }
}

pub(super) fn targets(urls: &[String]) -> anyhow::Result<Vec<Target>> {
    urls.iter().map(|url| Target::parse(url)).collect()
}

/// Which certificates of nginx are accepted.
pub(super) struct Accepted<'a> {
    pub(super) ca_file: Option<&'a Path>,
    pub(super) insecure: bool,
}

impl Accepted<'_> {
    fn trust(&self) -> anyhow::Result<Trust> {
        let anchors = match self.ca_file {
            _ if self.insecure => return Ok(Trust::Anybody),
            None => Anchors::from_setting("system", Path::new("")).map_err(anyhow::Error::msg)?,
            Some(file) => {
                let text = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
                let anchors = Anchors::from_pem(&text);
                anchors.map_err(|why| anyhow!("--cacert {}: {why}", file.display()))?
            }
        };
        Ok(Trust::Anchors(anchors))
    }
}

fn client(trust: Trust) -> anyhow::Result<Arc<ClientConfig>> {
    client_config(trust, None).map(Arc::new).map_err(anyhow::Error::msg)
}

#[derive(Default)]
struct Tally {
    same: usize,
    closed: usize,
    different: usize,
}

pub(super) fn run(
    targets: &[Target],
    accepted: &Accepted,
    source: Source,
    file: &Path,
    reading: &Reading,
) -> anyhow::Result<()> {
    let mut tally = Tally::default();
    for target in targets {
        let imported =
            convert(source, file, reading, Placement::Replaced(Some(target.address.port())), None)?;
        target.check(file, &imported)?;
        let (theirs, ours) = match target.tls {
            true => (Some(client(accepted.trust()?)?), Some(client(Trust::Anybody)?)),
            false => (None, None),
        };
        let gateway = Gateway::start(target, file, reading)?;
        let nginx = Side { address: target.address, tls: theirs, nginx: target.address.port() };
        let here = Side { address: gateway.address, tls: ours, nginx: target.address.port() };
        compare(&nginx, &here, file, &imported, &mut tally)?;
    }
    let Tally { same, closed, different } = tally;
    stdout::line(&format!("{same} answers are the same, {closed} closed here, {different} differ"));
    if different > 0 {
        bail!("{different} answers differ");
    }
    Ok(())
}

fn compare(
    nginx: &Side,
    here: &Side,
    file: &Path,
    imported: &Imported,
    tally: &mut Tally,
) -> anyhow::Result<()> {
    for sample in &imported.samples {
        for method in ["GET", "HEAD"] {
            let next = Instant::now() + PAUSE;
            let theirs = nginx.ask(method, sample).context("cannot ask nginx")?;
            let ours = here.ask(method, sample).context("cannot ask the conversion")?;
            let line = sample.at.text(&file.display().to_string());
            let shown = format!("{line}: {method} {} (Host: {})", sample.target, sample.host);
            if ours.is_closed() && !theirs.is_closed() {
                tally.closed += 1;
                print(&format!("{shown}: closed; nginx {}", theirs.status_text()));
            } else {
                match theirs.differences(&ours) {
                    list if list.is_empty() => tally.same += 1,
                    list => {
                        tally.different += 1;
                        print(&format!("{shown}: {}", list.join("; ")));
                    }
                }
            }
            // The rate is a promise to the operator of this nginx.
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
        }
    }
    Ok(())
}

fn print(line: &str) {
    stdout::line(&printable_lines(line));
}

/// nginx, or the conversion.
struct Side {
    address: SocketAddr,
    tls: Option<Arc<ClientConfig>>,
    /// The port that nginx has.
    nginx: u16,
}

impl Side {
    /// With HTTP/1.0, as the samples are made for. `ObservedResponse::default`: the connection closes without an answer.
    fn ask(&self, method: &str, sample: &Sample) -> anyhow::Result<ObservedResponse> {
        let Sample { host, target, .. } = sample;
        let address = self.address;
        let request =
            format!("{method} {target} HTTP/1.0\r\nHost: {host}\r\nUser-Agent: tidegate-import\r\n\r\n");
        let name = || ServerName::try_from(host.clone()).with_context(|| format!("{host} is not a name"));
        let tls = match &self.tls {
            Some(config) => Some(Tls { config: Arc::clone(config), name: name()? }),
            None => None,
        };
        match exchange_over(tls, address, method, request.as_bytes(), BOUNDS) {
            Ok(answer) => {
                let asked = Asked { host, ports: [self.nginx, address.port()] };
                Ok(ObservedResponse::new(answer.head, answer.body, &asked))
            }
            Err(error) if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset) => {
                Ok(ObservedResponse::default())
            }
            Err(error) => {
                let is_of_certificate = error.to_string().starts_with("invalid peer certificate");
                let remedy = if is_of_certificate { "; give --cacert FILE, or --insecure" } else { "" };
                Err(error).with_context(|| {
                    format!("no answer from {address} to {method} {target} (Host: {host}){remedy}")
                })
            }
        }
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
  node_listen: [{ip: 127.0.0.1, port: @PLAIN@}]
  ssl: {enable: @TLS@, listen: [{ip: 127.0.0.1, port: @SECURE@}]}
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
        let [plain, secure] = free_ports()?;
        let config = CONFIG.replace("@PLAIN@", &plain.to_string()).replace("@SECURE@", &secure.to_string());
        fs::write(folder.join("conf/config.yaml"), config.replace("@TLS@", &target.tls.to_string()))?;
        let mut command = Command::new(daemon::own_program()?);
        command.arg("run").arg("--prefix").arg(&folder);
        command.arg("--from").arg(format!("nginx:{}", std::path::absolute(file)?.display()));
        command.arg("--stands-for").arg(target.address.port().to_string()).args(reading.arguments());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let child = command.spawn().context("cannot start the conversion")?;
        let port = if target.tls { secure } else { plain };
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

/// Two that no socket has.
fn free_ports() -> std::io::Result<[u16; 2]> {
    let one = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let other = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok([one.local_addr()?.port(), other.local_addr()?.port()])
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}
