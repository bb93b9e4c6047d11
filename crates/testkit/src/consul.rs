//! A Consul agent: a real one where `TIDEGATE_CONSUL` names the binary, else a fake that keeps to its HTTP API.
//!
//! Debian has no Consul and building it takes longer than all tests together. The tests speak to both in the same way,
//! by the agent's API. The fake knows what discovery needs of it: registration, the catalog, health with `passing`,
//! keys, blocking queries with indices, tokens. It refuses everything else, so that a request real Consul would not
//! understand fails here too.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use tempfile::TempDir;

use crate::message::Message;
use crate::process::Process;
use crate::{Behaviour, Client, Upstream, eventually, free_port};

/// A registry that answers as Consul does, in this process.
#[derive(Debug)]
pub struct Consul {
    /// Where it listens.
    pub address: SocketAddr,
    token: String,
    agent: Agent,
}

#[derive(Debug)]
enum Agent {
    Real(Process, #[expect(dead_code, reason = "removed when dropped")] TempDir),
    /// Dropping it closes all connections.
    Fake(Option<Upstream>),
}

#[derive(Debug, Default)]
struct Fake {
    token: String,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    index: u64,
    /// By id: name, address, port, and whether the check passes.
    services: BTreeMap<String, (String, String, u16, bool)>,
    keys: BTreeMap<String, String>,
}

impl Consul {
    /// Without any service.
    pub fn start() -> Self {
        Self::start_with("")
    }

    /// A client without this token learns nothing, unless the token is empty.
    pub fn start_with(token: &str) -> Self {
        match std::env::var_os("TIDEGATE_CONSUL") {
            Some(binary) => Self::real(Command::new(binary), token),
            None => Self::fake(token),
        }
    }

    fn real(mut command: Command, token: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let ports: Vec<u16> = (0..4).map(|_| free_port()).collect();
        let [http, serf_lan, serf_wan, server] = ports.as_slice() else { unreachable!("four ports") };
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, *http));
        let secured = format!(
            "acl {{ enabled = true default_policy = \"deny\" tokens {{ initial_management = \"{token}\" }} }}"
        );
        let config = format!(
            "{} ports {{ http = {http} dns = -1 grpc = -1 grpc_tls = -1 serf_lan = {serf_lan} \
             serf_wan = {serf_wan} server = {server} }}",
            if token.is_empty() { "" } else { &secured }
        );
        std::fs::write(folder.path().join("ports.hcl"), config).expect("ports.hcl");
        command.args(["agent", "-dev", "-bind", "127.0.0.1", "-config-file"]);
        command.arg(folder.path().join("ports.hcl"));
        let mut process = Process::start("consul", &mut command);
        process.wait_for_port(address);
        let consul = Consul { address, token: token.to_owned(), agent: Agent::Real(process, folder) };
        eventually("consul has a leader, and one that has its tokens", || {
            consul.call("GET", "/v1/status/leader", "").1.len() >= 5
                && consul.call("GET", "/v1/agent/self", "").0 == 200
        });
        consul
    }

    fn fake(token: &str) -> Self {
        let fake = Arc::new(Fake { token: token.to_owned(), ..Fake::default() });
        fake.lock().index = 10;
        let step = Upstream::answer(move |request| fake.answer(request));
        let upstream = Upstream::with(move |_| Behaviour { read_body: true, steps: vec![step.clone()] });
        Consul { address: upstream.address, token: token.to_owned(), agent: Agent::Fake(Some(upstream)) }
    }

    /// Of the whole server, without a path.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Registers an instance whose check passes.
    pub fn register(&self, name: &str, id: &str, address: &str, port: u16) {
        let check = r#"{"TTL":"600s","Status":"passing"}"#;
        let body =
            format!(r#"{{"Name":"{name}","ID":"{id}","Address":"{address}","Port":{port},"Check":{check}}}"#);
        self.expect("PUT", "/v1/agent/service/register", &body);
    }

    /// The check of an instance fails from now on, or passes again.
    pub fn set_check(&self, id: &str, passes: bool) {
        let verb = if passes { "pass" } else { "fail" };
        self.expect("PUT", &format!("/v1/agent/check/{verb}/service:{id}"), "");
    }

    /// Removes an instance of a service.
    pub fn deregister(&self, id: &str) {
        self.expect("PUT", &format!("/v1/agent/service/deregister/{id}"), "");
    }

    /// Writes to the key-value store.
    pub fn put_key(&self, key: &str, value: &str) {
        self.expect("PUT", &format!("/v1/kv/{key}"), value);
    }

    /// Removes from the key-value store.
    pub fn delete_key(&self, key: &str) {
        self.expect("DELETE", &format!("/v1/kv/{key}"), "");
    }

    /// Ends silently.
    pub fn kill(&mut self) {
        match &mut self.agent {
            Agent::Real(process, _) => {
                process.signal_kill();
                process.wait_for_exit();
            }
            Agent::Fake(upstream) => drop(upstream.take()),
        }
    }

    fn expect(&self, method: &str, path: &str, body: &str) {
        let (status, text) = self.call(method, path, body);
        assert_eq!(status, 200, "{method} {path}: {text}");
    }

    fn call(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let mut client = Client::connect(self.address).expect("consul accepts connections");
        let (length, token) = (body.len(), &self.token);
        let answer = client.request(&format!(
            "{method} {path} HTTP/1.1\r\nHost: consul\r\nX-Consul-Token: {token}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        ));
        let answer = answer.unwrap_or_else(|error| panic!("{method} {path}: {error}"));
        (answer.status(), answer.body_text())
    }
}

impl Fake {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, request: &Message) -> Vec<u8> {
        if request.header("X-Consul-Token").unwrap_or_default() != self.token {
            return b"HTTP/1.1 403 Forbidden\r\nContent-Length: 17\r\n\r\nPermission denied".to_vec();
        }
        let (path, query) = request.target().split_once('?').unwrap_or((request.target(), ""));
        let argument = |name: &str| {
            query
                .split('&')
                .filter_map(|pair| pair.split_once('='))
                .find(|(key, _)| *key == name)
                .map(|it| it.1)
        };
        let mut state = self.lock();
        if request.method() == "GET"
            && let Some(index) = argument("index").and_then(|index| index.parse::<u64>().ok())
        {
            let wait = argument("wait").and_then(|wait| wait.strip_suffix('s')?.parse().ok()).unwrap_or(300);
            let unchanged = |state: &mut State| state.index == index;
            let waited = self.changed.wait_timeout_while(state, Duration::from_secs(wait), unchanged);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let body = request.body_text();
        let (status, text) = state.answer(request.method(), path, argument("passing").is_some(), &body);
        if request.method() != "GET" {
            state.index += 1;
            self.changed.notify_all();
        }
        let (length, index) = (text.len(), state.index);
        format!("HTTP/1.1 {status} S\r\nX-Consul-Index: {index}\r\nContent-Length: {length}\r\n\r\n{text}")
            .into()
    }
}

impl State {
    fn answer(&mut self, method: &str, path: &str, passing: bool, body: &str) -> (u16, String) {
        let field = |name: &str| {
            let rest = body.split_once(&format!("\"{name}\":")).map_or("", |(_, rest)| rest);
            rest.split([',', '}']).next().unwrap_or_default().trim_matches('"').to_owned()
        };
        match (method, path) {
            ("PUT", "/v1/agent/service/register") => {
                let port = field("Port").parse().expect("a port");
                self.services.insert(field("ID"), (field("Name"), field("Address"), port, true));
                (200, String::new())
            }
            ("PUT", path) if path.starts_with("/v1/agent/service/deregister/") => {
                let known = self.services.remove(path.rsplit('/').next().unwrap_or_default());
                (if known.is_some() { 200 } else { 404 }, String::new())
            }
            ("PUT", path) if path.starts_with("/v1/agent/check/") => {
                let (verb, id) =
                    path.trim_start_matches("/v1/agent/check/").split_once("/service:").expect("an id");
                let service = self.services.get_mut(id).expect("a service");
                service.3 = verb == "pass";
                (200, String::new())
            }
            ("GET", "/v1/catalog/services") => {
                let mut names: Vec<&str> = self.services.values().map(|(name, ..)| name.as_str()).collect();
                names.push("consul");
                names.dedup();
                let listed: Vec<String> = names.iter().map(|name| format!("\"{name}\":[]")).collect();
                (200, format!("{{{}}}", listed.join(",")))
            }
            ("GET", "/v1/health/state/any") => (200, r#"[{"Status":"passing"}]"#.to_owned()),
            ("GET", path) if passing && path.starts_with("/v1/health/service/") => {
                let name = path.rsplit('/').next().unwrap_or_default();
                let entries = self.services.values().filter(|(other, _, _, passes)| other == name && *passes);
                let entries = entries.map(|(_, address, port, _)| {
                    format!(
                        r#"{{"Node":{{"Address":"127.0.0.1"}},"Service":{{"Address":"{address}","Port":{port},"Meta":null}}}}"#
                    )
                });
                (200, format!("[{}]", entries.collect::<Vec<_>>().join(",")))
            }
            (method, path) => match (method, path.strip_prefix("/v1/kv/")) {
                ("PUT", Some(key)) => {
                    self.keys.insert(key.to_owned(), body.to_owned());
                    (200, "true".to_owned())
                }
                ("DELETE", Some(key)) => {
                    self.keys.remove(key);
                    (200, "true".to_owned())
                }
                ("GET", Some(prefix)) => {
                    let entries = self.keys.iter().filter(|(key, _)| key.starts_with(prefix));
                    let entries: Vec<String> = entries
                        .map(|(key, value)| format!(r#"{{"Key":"{key}","Value":"{}"}}"#, base64(value)))
                        .collect();
                    (if entries.is_empty() { 404 } else { 200 }, format!("[{}]", entries.join(",")))
                }
                _ => (404, format!("no such path: {method} {path}")),
            },
        }
    }
}

fn base64(text: &str) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in text.as_bytes().chunks(3) {
        let bits = chunk.iter().chain([&0, &0]).take(3).fold(0, |bits, byte| bits << 8 | usize::from(*byte));
        for place in 0..4 {
            let letter = LETTERS[bits >> (18 - 6 * place) & 63];
            out.push(if place <= chunk.len() { char::from(letter) } else { '=' });
        }
    }
    out
}
