//! nginx.conf: servers that proxy, rewrite, redirect, answer or serve files, and their certificates.
//!
//! nginx takes an exact location, else the longest prefix unless a regular expression matches and the prefix is not
//! `^~`. Our router goes by the longest path: regular expressions are entered under every prefix they beat.

mod answers;
mod files;
mod guards;
mod limits;
mod parse;
mod places;
mod proxy;
mod rewrite;
mod serve;
mod tls;

use std::collections::BTreeMap;

use crate::{Imported, Report};
use guards::{guard, not_converted};
use limits::Zones;
use parse::Directive;
use places::{Place, place};
use tls::Ports;

/// Directives that set up the process or what is ours anyway: nothing is lost with them.
const QUIET: [&str; 19] = [
    "worker_processes",
    "worker_connections",
    "user",
    "pid",
    "events",
    "include",
    "sendfile",
    "tcp_nopush",
    "tcp_nodelay",
    "keepalive_timeout",
    "error_log",
    "types_hash_max_size",
    "server_tokens",
    "multi_accept",
    "use",
    "daemon",
    "listen",
    "proxy_http_version",
    "proxy_buffering",
];

/// Reads a file that the configuration names, for certificates; the error says why it cannot.
pub type Files<'a> = &'a dyn Fn(&str) -> Result<String, String>;

struct Context<'a> {
    groups: BTreeMap<String, &'a Directive>,
    zones: Zones,
    /// Whether any server listens for TLS.
    has_tls: bool,
    files: Files<'a>,
}

pub fn convert(text: &str, files: Files, imported: &mut Imported) -> Result<(), String> {
    let all = parse::parse(text)?;
    let http = all.iter().find(|directive| directive.name == "http");
    let body = http.map_or(all.as_slice(), |http| http.block.as_slice());
    for directive in all.iter().filter(|directive| http.is_some() && directive.name != "http") {
        left_out(directive, &mut imported.report);
    }
    let mut context = Context { groups: BTreeMap::new(), zones: Zones::default(), has_tls: false, files };
    for directive in body {
        match directive.name.as_str() {
            "server" => context.has_tls |= Ports::of(directive) != Ports::Plain,
            "upstream" => _ = context.groups.insert(directive.argument(0).to_owned(), directive),
            name if is_inherited(name) => {}
            _ if context.zones.read(directive, &mut imported.report) => {}
            _ => left_out(directive, &mut imported.report),
        }
    }
    let servers: Vec<&Directive> = body.iter().filter(|directive| directive.name == "server").collect();
    if servers.is_empty() {
        return Err("1:1: no `server` block; give the whole nginx.conf or a file with servers".to_owned());
    }
    for (index, server) in servers.iter().enumerate() {
        serve::serve(server, body, is_default(&servers, index), &context, imported);
    }
    Ok(())
}

/// Whether requests for names that no server has come here: the one that says so, else the first of its kind of ports.
fn is_default(servers: &[&Directive], index: usize) -> bool {
    let Some(ports) = servers.get(index).map(|server| Ports::of(server)) else { return false };
    let rivals = || servers.iter().enumerate().filter(|(_, other)| Ports::of(other).meets(ports));
    let says = |server: &Directive| {
        server.all("listen").any(|listen| listen.arguments.iter().any(|word| word == "default_server"))
    };
    let chosen = rivals().find(|(_, server)| says(server)).or_else(|| rivals().next());
    chosen.is_some_and(|(first, _)| first == index)
}

/// Counts for inner blocks that do not have it themselves.
const INHERITED: [&str; 21] = [
    "proxy_set_header",
    "add_header",
    "gzip",
    "gzip_types",
    "gzip_comp_level",
    "gzip_min_length",
    "gzip_vary",
    "gzip_http_version",
    "gzip_proxied",
    "limit_conn",
    "limit_conn_status",
    "ssl_certificate",
    "ssl_certificate_key",
    "ssl_protocols",
    "client_max_body_size",
    "proxy_request_buffering",
    "proxy_connect_timeout",
    "proxy_send_timeout",
    "proxy_read_timeout",
    "limit_req",
    "limit_req_status",
];

fn is_inherited(name: &str) -> bool {
    INHERITED.contains(&name) || files::INHERITED.contains(&name)
}

fn left_out(directive: &Directive, report: &mut Report) {
    if !QUIET.contains(&directive.name.as_str()) {
        report.unsupported(directive.line, &directive.name, "this directive is left out");
    }
}
