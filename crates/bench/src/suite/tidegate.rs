//! The gateway itself as a target: this very binary, set up over its Admin API as users do it.

use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    path::Path,
    process::Command,
    time::Duration,
};

use serde_json::{Value, json};

use super::{
    Gateway,
    peers::write,
    process::{Started, free_address},
};
use crate::Problem;

const KEY: &str = "bench-admin-key";

#[derive(Debug)]
pub(super) struct Tidegate {
    pub process: Started,
    pub admin: SocketAddr,
    pub metrics: SocketAddr,
    upstream: SocketAddr,
}

impl Tidegate {
    pub(super) fn start(
        binary: &Path,
        folder: &Path,
        upstream: SocketAddr,
        workers: usize,
        gateway: &Gateway,
    ) -> Result<Tidegate, Problem> {
        let (http, admin, control, metrics) =
            (free_address()?, free_address()?, free_address()?, free_address()?);
        for name in ["conf", "logs", "data"] {
            fs::create_dir_all(folder.join(name))
                .map_err(|error| Problem::failed(format!("{}: {error}", folder.display())))?;
        }
        let port = |address: SocketAddr| json!({"ip": "127.0.0.1", "port": address.port()});
        let config = json!({
            "apisix": {"node_listen": [port(http)], "ssl": {"enable": false}, "control": port(control)},
            "nginx_config": {
                "worker_processes": workers,
                "worker_rlimit_nofile": 65536,
                "event": {"worker_connections": 20000},
                "http": {
                    "enable_access_log": gateway.access_log,
                    "keepalive_timeout": "600s",
                    "upstream": {"keepalive": 320, "keepalive_requests": 1_000_000_000, "keepalive_timeout": "600s"},
                },
            },
            "plugin_attr": {"prometheus": {"refresh_interval": 1, "export_addr": port(metrics)}},
            "deployment": {
                "role": "traditional",
                "role_traditional": {"config_provider": "embedded"},
                "admin": {"admin_listen": port(admin), "admin_key": [{"name": "admin", "key": KEY, "role": "admin"}]},
            },
        });
        let file = folder.join("conf/config.yaml");
        // JSON is YAML.
        write(&file, &config.to_string())?;
        let mut command = Command::new(binary);
        command.arg("run").arg("--prefix").arg(folder).arg("-c").arg(&file);
        let mut process = Started::start("tidegate", command, http, folder)?;
        process.wait_for(admin)?;
        process.wait_for(metrics)?;
        let started = Tidegate { process, admin, metrics, upstream };
        started.set_up(gateway)?;
        Ok(started)
    }

    fn set_up(&self, gateway: &Gateway) -> Result<(), Problem> {
        for number in 0..gateway.consumers {
            let body = json!({
                "username": format!("consumer_{number}"),
                "plugins": {"key-auth": {"key": format!("key-{number}")}},
            });
            self.put("consumers", &body)?;
        }
        self.put("routes/all", &self.route("/*", &gateway.plugins))?;
        for number in 0..gateway.routes {
            let route = self.route(&format!("/route/{number}"), &gateway.plugins);
            self.put(&format!("routes/{number}"), &route)?;
        }
        Ok(())
    }

    fn route(&self, uri: &str, plugins: &serde_json::Map<String, Value>) -> Value {
        json!({
            "uri": uri,
            "plugins": plugins,
            "upstream": {"type": "roundrobin", "nodes": {self.upstream.to_string(): 1}},
        })
    }

    /// A route that no request of a run asks for, changed each time.
    pub(super) fn change(admin: SocketAddr, upstream: SocketAddr, number: u64) -> Result<(), Problem> {
        let body = json!({
            "uri": format!("/churn/{}", number % 100),
            "desc": format!("change {number}"),
            "plugins": {"prometheus": {}},
            "upstream": {"type": "roundrobin", "nodes": {upstream.to_string(): 1}},
        });
        put(admin, &format!("routes/churn-{}", number % 100), &body)
    }

    fn put(&self, path: &str, body: &Value) -> Result<(), Problem> {
        put(self.admin, path, body)
    }

    pub(super) fn upstream(&self) -> SocketAddr {
        self.upstream
    }
}

fn put(admin: SocketAddr, path: &str, body: &Value) -> Result<(), Problem> {
    let body = body.to_string();
    let answer = ask(
        admin,
        &format!(
            "PUT /apisix/admin/{path} HTTP/1.1\r\nHost: {admin}\r\nX-API-KEY: {KEY}\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ),
    )?;
    if answer.starts_with("HTTP/1.1 200") || answer.starts_with("HTTP/1.1 201") {
        return Ok(());
    }
    let first: String = answer.chars().take(300).collect();
    Err(Problem::failed(format!("PUT {path}: {first}")))
}

/// Fetches the metrics page.
pub(super) fn scrape(metrics: SocketAddr) -> Result<(), Problem> {
    let request =
        format!("GET /apisix/prometheus/metrics HTTP/1.1\r\nHost: {metrics}\r\nConnection: close\r\n\r\n");
    ask(metrics, &request).map(drop)
}

fn ask(address: SocketAddr, request: &str) -> Result<String, Problem> {
    let failed = |error: std::io::Error| Problem::failed(format!("{address}: {error}"));
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(5)).map_err(failed)?;
    stream.set_read_timeout(Some(Duration::from_secs(10))).map_err(failed)?;
    stream.write_all(request.as_bytes()).map_err(failed)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).map_err(failed)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
