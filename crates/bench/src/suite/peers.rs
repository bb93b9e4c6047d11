//! Servers that a suite can start by itself when they are installed: nginx as the upstream and as a gateway, haproxy.

use std::{fs, net::SocketAddr, path::Path, process::Command};

use super::process::{Started, free_address};
use crate::{Problem, system::find_program};

/// nginx with one page, as its manual advises for throughput.
pub(super) fn upstream(folder: &Path, page_bytes: usize, workers: usize) -> Result<Started, Problem> {
    let address = free_address()?;
    let page = "x".repeat(page_bytes);
    let server = format!(
        "server {{ listen {address} reuseport backlog=4096; default_type text/plain;\n\
         location / {{ return 200 \"{page}\"; }} }}"
    );
    nginx(folder, address, &server, workers)
}

/// nginx as a gateway to the upstream.
pub(crate) fn nginx_gateway(folder: &Path, upstream: SocketAddr, workers: usize) -> Result<Started, Problem> {
    let address = free_address()?;
    let server = format!(
        "upstream backend {{ server {upstream}; keepalive 320; keepalive_requests 1000000000; }}\n\
         server {{ listen {address} reuseport backlog=4096; location / {{ proxy_pass http://backend;\n\
         proxy_http_version 1.1; proxy_set_header Connection \"\"; proxy_set_header Host $http_host;\n\
         proxy_set_header X-Real-IP $remote_addr; proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;\n\
         proxy_set_header X-Forwarded-Proto $scheme; }} }}"
    );
    nginx(folder, address, &server, workers)
}

fn nginx(folder: &Path, address: SocketAddr, server: &str, workers: usize) -> Result<Started, Problem> {
    let program = find_program("nginx").ok_or_else(|| missing("nginx"))?;
    let place = folder.display();
    let text = format!(
        "daemon off; worker_processes {workers}; worker_rlimit_nofile 65536; pid {place}/nginx.pid;\n\
         error_log stderr warn; events {{ worker_connections 20000; }}\n\
         http {{ access_log off; keepalive_requests 1000000000; keepalive_timeout 600s; tcp_nodelay on;\n\
         client_body_temp_path {place}/body; proxy_temp_path {place}/proxy; fastcgi_temp_path {place}/fastcgi;\n\
         uwsgi_temp_path {place}/uwsgi; scgi_temp_path {place}/scgi;\n{server} }}\n"
    );
    let file = folder.join("nginx.conf");
    write(&file, &text)?;
    let mut command = Command::new(program);
    command.arg("-c").arg(&file).arg("-p").arg(folder).args(["-e", "stderr"]);
    Started::start("nginx", command, address, folder)
}

pub(super) fn haproxy(folder: &Path, upstream: SocketAddr, workers: usize) -> Result<Started, Problem> {
    let program = find_program("haproxy").ok_or_else(|| missing("haproxy"))?;
    let address = free_address()?;
    let text = format!(
        "global\n  maxconn 8000\n  nbthread {workers}\ndefaults\n  mode http\n  option http-keep-alive\n\
         \x20 http-reuse always\n  timeout connect 5s\n  timeout client 600s\n  timeout server 60s\n\
         frontend front\n  bind {address} backlog 4096\n  option forwardfor\n  default_backend back\n\
         backend back\n  server one {upstream} maxconn 0\n"
    );
    let file = folder.join("haproxy.cfg");
    write(&file, &text)?;
    let mut command = Command::new(program);
    command.arg("-db").arg("-f").arg(&file);
    Started::start("haproxy", command, address, folder)
}

pub(super) fn write(file: &Path, text: &str) -> Result<(), Problem> {
    fs::write(file, text).map_err(|error| Problem::failed(format!("{}: {error}", file.display())))
}

pub(super) fn missing(program: &str) -> Problem {
    Problem::failed(format!("{program} is not installed"))
}

/// hyperapi from crates.io (`cargo install hyperapi`), with one service and no authentication.
pub(super) fn hyperapi(folder: &Path, upstream: SocketAddr) -> Result<Started, Problem> {
    let program = find_program("hyperapi").ok_or_else(|| missing("hyperapi"))?;
    let address = free_address()?;
    let text = format!(
        "services:\n  - service_id: bench\n    path: /bench\n    protocol: http\n    auth: {{type: None}}\n    timeout: 10\n\
         \x20   load_balance: random\n    upstreams:\n      - {{id: 1, target: \"http://{upstream}/\", timeout: 10, max_conn: 10000,\n\
         \x20        version: \"1.0\", weight: 100, error_threshold: 100000, error_reset: 1, retry_delay: 1}}\n\
         \x20   filters: []\n    sla: []\nclients: []\n"
    );
    let file = folder.join("hyperapi.yaml");
    write(&file, &text)?;
    let mut command = Command::new(program);
    command.arg("-c").arg(&file).arg("-L").arg(address.to_string());
    Started::start("hyperapi", command, address, folder)
}
