//! Real servers from Debian's packages, each in its own temporary folder on ports the system chose.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::free_port;
use crate::process::Process;

/// A running server. Dropping it kills it and removes its folder.
#[derive(Debug)]
pub struct Server {
    /// Its process.
    pub process: Process,
    /// Where it listens.
    pub address: SocketAddr,
    folder: TempDir,
}

impl Server {
    /// Its configuration and data.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// nginx with the given text inside `http { server { listen …; } }`, such as `location / { return 200; }`.
pub fn nginx(server_text: &str) -> Server {
    let (folder, address) = place();
    let path = folder.path();
    let config = format!(
        "daemon off; worker_processes 1; pid {0}/nginx.pid; error_log stderr warn;\n\
         events {{ worker_connections 4096; }}\n\
         http {{ access_log off; client_body_temp_path {0}/body; proxy_temp_path {0}/proxy;\n\
         fastcgi_temp_path {0}/fastcgi; uwsgi_temp_path {0}/uwsgi; scgi_temp_path {0}/scgi;\n\
         server {{ listen {address}; {server_text} }} }}\n",
        path.display()
    );
    let file = path.join("nginx.conf");
    fs::write(&file, config).expect("nginx.conf");
    let mut command = Command::new(find("nginx"));
    command.arg("-c").arg(file).arg("-p").arg(path).args(["-e", "stderr"]);
    start("nginx", command, folder, address)
}

/// haproxy with this configuration, in which `@ADDRESS@` becomes where it listens.
pub fn haproxy(config: &str) -> Server {
    let (folder, address) = place();
    let file = folder.path().join("haproxy.cfg");
    fs::write(&file, config.replace("@ADDRESS@", &address.to_string())).expect("haproxy.cfg");
    let mut command = Command::new(find("haproxy"));
    command.arg("-db").arg("-f").arg(file);
    start("haproxy", command, folder, address)
}

/// redis-server without persistence; `extra` are further command line words, such as `--requirepass`.
pub fn redis(extra: &[&str]) -> Server {
    let (folder, address) = place();
    let mut command = Command::new(find("redis-server"));
    command.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--port"]);
    command.arg(address.port().to_string()).arg("--dir").arg(folder.path()).args(extra);
    start("redis-server", command, folder, address)
}

/// A broker of MQTT that lets everybody in.
pub fn mosquitto() -> Server {
    let (folder, address) = place();
    let file = folder.path().join("mosquitto.conf");
    let config = format!(
        "listener {} 127.0.0.1\nallow_anonymous true\nmax_connections -1\nmax_queued_messages 0\nlog_type error\n",
        address.port()
    );
    fs::write(&file, config).expect("mosquitto.conf");
    let mut command = Command::new(find("mosquitto"));
    command.arg("-c").arg(file);
    start("mosquitto", command, folder, address)
}

/// A single etcd node.
pub fn etcd() -> Server {
    let (folder, address) = place();
    let (client, peer) = (format!("http://{address}"), format!("http://127.0.0.1:{}", free_port()));
    let mut command = Command::new(find("etcd"));
    command.arg("--data-dir").arg(folder.path().join("data"));
    command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
    command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
    command.args(["--initial-cluster", &format!("default={peer}"), "--unsafe-no-fsync"]);
    start("etcd", command, folder, address)
}

/// A name server for these records, such as `--host-record=NAME,ADDRESS`, at an address of one's own or a new one.
pub fn dnsmasq(address: Option<SocketAddr>, records: &[&str]) -> Server {
    let (folder, free) = place();
    let address = address.unwrap_or(free);
    let mut command = Command::new(find("dnsmasq"));
    command.args(["--keep-in-foreground", "--no-resolv", "--no-hosts", "--conf-file=/dev/null", "--user="]);
    command.args(["--bind-interfaces", "--pid-file=", "--log-facility=-", "--local=/service/"]);
    command.arg(format!("--listen-address={}", address.ip())).arg(format!("--port={}", address.port()));
    command.args(records);
    start("dnsmasq", command, folder, address)
}

/// OpenLDAP with these entries (LDIF) below `dc=example,dc=org`; `cn=admin,dc=example,dc=org` with password `adminpassword` may do
/// all, and these rules (`access to …`) hold for others. `tls`: certificate and key in PEM, for LDAPS at the second address and
/// StartTLS.
pub fn slapd(entries: &str, access: &str, (certificate, key): (&str, &str)) -> (Server, SocketAddr) {
    let (folder, address) = place();
    let secure = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    let path = folder.path();
    let write = |name: &str, text: &str| fs::write(path.join(name), text).expect("a file of slapd");
    let schemas = ["core", "cosine", "inetorgperson"];
    let includes: String =
        schemas.iter().map(|name| format!("include /etc/ldap/schema/{name}.schema\n")).collect();
    write("cert.pem", certificate);
    write("key.pem", key);
    write("entries.ldif", entries);
    let config = format!(
        "{includes}modulepath /usr/lib/ldap\nmoduleload back_mdb\npidfile {0}/slapd.pid\n\
         TLSCertificateFile {0}/cert.pem\nTLSCertificateKeyFile {0}/key.pem\n\
         database mdb\nmaxsize 16777216\nsuffix \"dc=example,dc=org\"\n\
         rootdn \"cn=admin,dc=example,dc=org\"\nrootpw adminpassword\ndirectory {0}\n{access}\n",
        path.display()
    );
    write("slapd.conf", &config);
    let file = path.join("slapd.conf");
    let added =
        Command::new(find("slapadd")).arg("-f").arg(&file).arg("-l").arg(path.join("entries.ldif")).output();
    let added = added.expect("slapadd, of Debian's package slapd");
    assert!(added.status.success(), "{}", String::from_utf8_lossy(&added.stderr));
    let mut command = Command::new(find("slapd"));
    command.arg("-f").arg(file).arg("-h").arg(format!("ldap://{address} ldaps://{secure}")).args(["-d", "0"]);
    (start("slapd", command, folder, address), secure)
}

/// Whether a program is installed; tests that need an optional one ask first and say so.
pub fn installed(program: &str) -> bool {
    find(program).as_os_str() != program
}

fn start(name: &str, mut command: Command, folder: TempDir, address: SocketAddr) -> Server {
    let mut process = Process::start(name, &mut command);
    process.wait_for_port(address);
    Server { process, address, folder }
}

fn place() -> (TempDir, SocketAddr) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    (folder, SocketAddr::from((Ipv4Addr::LOCALHOST, free_port())))
}

/// The program's path. Debian keeps servers in sbin, which users' PATH often lacks.
pub fn find(program: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    folders.map(|folder| folder.join(program)).find(|file| file.is_file()).unwrap_or_else(|| program.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Client;

    #[test]
    fn servers_answer() {
        let server = nginx("location / { return 200 hello; }");
        let mut client = Client::connect(server.address).expect("connects");
        assert_eq!(client.get("h", "/").expect("answers").body_text(), "hello");
        let server = redis(&[]);
        let mut client = Client::connect(server.address).expect("connects");
        client.send(b"PING\r\n").expect("sends");
        assert_eq!(client.exactly(7).expect("answers"), b"+PONG\r\n");
        let mut server = etcd();
        let mut client = Client::connect(server.address).expect("connects");
        assert_eq!(client.get("h", "/health").expect("answers").status(), 200);
        assert!(server.process.stop().code().is_none_or(|code| code != 101));
    }
}
