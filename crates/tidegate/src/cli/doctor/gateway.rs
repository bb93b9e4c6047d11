//! The configuration of the folder: whether a start would work, and what it opens or waits for.

use std::{
    collections::BTreeSet,
    io,
    net::{IpAddr, SocketAddr, TcpListener, UdpSocket},
    path::Path,
};

use rustix::process::{Resource, getrlimit};
use serde_json::Value;
use tidegate_config::{Listener, Loaded, Provider, Settings};
use tidegate_proxy::port_owner;

use super::{
    check::Check,
    disk, objects, plugin_files, reach,
    resources::{self, Named},
    store,
};
use crate::{
    boot::{pid_file, preflight},
    cli::{denied, place::SharedOptions},
};

const CONFIGURATION: &str = "config.yaml";
const CORRECT: &str = "correct what the message names: conf/config.yaml of this program explains each key";

pub(super) fn checks(place: &SharedOptions) -> Vec<Check> {
    let loaded = match place.load() {
        Ok(loaded) => loaded,
        Err(error) => return refused(&error),
    };
    let mut checks = configuration(&loaded);
    let settings = &loaded.settings;
    checks.extend(ports(settings));
    checks.push(open_files(settings));
    checks.extend(disk::checks(settings));
    checks.extend(believed(settings));
    checks.extend(plugin_files::checks(settings));
    checks.extend(resources_of(settings));
    let is_kept = matches!(settings.provider, Provider::Embedded | Provider::Etcd);
    if is_kept && !checks.iter().any(Check::keeps_from_starting) {
        // It has the store open, and secrets where it runs; the trial has a copy, and says the rest.
        let runs = settings.provider == Provider::Embedded
            && pid_file::running(&settings.files.pid).is_ok_and(|process| process.is_some());
        let rejected = if runs { Some(store::rejected(settings)) } else { None };
        let found = place.arguments().and_then(|arguments| objects::of_folder(&arguments, rejected));
        checks.extend(found.unwrap_or_else(|error| refused(&error)));
    }
    checks
}

/// Why the settings could not be loaded.
pub(super) fn refused(error: &anyhow::Error) -> Vec<Check> {
    let faults = format!("{error:#}{}", denied::remedy(error));
    faults.lines().map(|line| Check::of_message(CONFIGURATION, line, CORRECT)).collect()
}

/// What a start would refuse or warn of.
pub(super) fn configuration(loaded: &Loaded) -> Vec<Check> {
    let mut checks: Vec<Check> = preflight::check(loaded)
        .err()
        .map(|error| Check::of_message(CONFIGURATION, &format!("{error:#}"), CORRECT))
        .into_iter()
        .collect();
    let more = preflight::warnings(loaded);
    checks.extend(
        loaded.warnings.iter().chain(&more).map(|text| Check::of_message(CONFIGURATION, text, CORRECT)),
    );
    if checks.is_empty() {
        checks
            .push(Check::good(CONFIGURATION, format!("{} is good", loaded.settings.files.config.display())));
    }
    checks
}

/// Whether each port can be had, or the gateway of this folder has it.
fn ports(settings: &Settings) -> Vec<Check> {
    let mut checks = Vec::new();
    let running = pid_file::running(&settings.files.pid).unwrap_or_else(|error| {
        checks.push(Check::of_message("process", &format!("{error:#}"), CORRECT));
        None
    });
    checks.extend(processes(running, &pid_file::draining(&settings.files.pid)));
    let own: Vec<SocketAddr> = running.map(port_owner::addresses_of).unwrap_or_default();
    let tls = settings.apisix.tls.listen.iter().filter(|_| settings.apisix.tls.enable);
    let streams = settings.stream.tcp.iter().map(|tcp| &tcp.listener);
    let metrics = settings.metrics_listener();
    let others = [&settings.admin.listen, &settings.apisix.control, &settings.apisix.status, &metrics];
    let all =
        settings.apisix.node_listen.iter().chain(tls).chain(streams).chain(others.into_iter().flatten());
    let tcp: BTreeSet<SocketAddr> = all.filter_map(address).collect();
    checks.extend(tcp.into_iter().map(|address| match own.contains(&address) {
        true => {
            let name = format!("port {}", address.port());
            Check::good(&name, format!("{address}: the gateway of this folder has it"))
        }
        false => port("port", address, TcpListener::bind(address).map(drop)),
    }));
    // Whose a UDP port is cannot be seen.
    let udp = settings.stream.udp.iter().filter(|_| running.is_none()).filter_map(address);
    checks.extend(udp.map(|address| port("UDP port", address, UdpSocket::bind(address).map(drop))));
    checks
}

/// Who drains after an upgrade or a reload, beside or without one that serves.
fn processes(running: Option<i32>, draining: &[i32]) -> Option<Check> {
    let pids: Vec<String> =
        draining.iter().filter(|pid| Some(**pid) != running).map(ToString::to_string).collect();
    let list = pids.join(", ");
    match running {
        _ if pids.is_empty() => None,
        Some(pid) => Some(Check::good(
            "process",
            format!("{pid} serves; {list} finishes requests from before an upgrade or a reload"),
        )),
        None => Some(Check::bad(
            "process",
            format!("none serves; {list} only finishes requests from before an upgrade or a reload"),
            "`tidegate start`; `tidegate stop` ends it at once",
        )),
    }
}

fn address(listener: &Listener) -> Option<SocketAddr> {
    let ip = listener.ip.parse::<IpAddr>().ok().filter(|_| !listener.implied)?;
    Some(SocketAddr::new(ip, listener.port))
}

fn port(kind: &str, address: SocketAddr, bound: io::Result<()>) -> Check {
    let name = format!("{kind} {}", address.port());
    match bound {
        Ok(()) => Check::good(&name, format!("{address} is free")),
        Err(error) => {
            let reason = port_owner::explained(address, error);
            let seen = format!("cannot listen on {address}: {reason}");
            Check::of_message(&name, &seen, "choose another port")
        }
    }
}

/// The gateway raises its limit as far as it may.
fn open_files(settings: &Settings) -> Check {
    const NAME: &str = "gateway's files";
    let nginx = &settings.nginx;
    let connections = nginx.worker_connections as u64;
    let asked = Some(nginx.worker_rlimit_nofile);
    let asked = asked.filter(|_| settings.places.is_set("nginx_config.worker_rlimit_nofile"));
    let wanted = connections.max(asked.unwrap_or(0));
    let hard = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    let also = asked.map(|asked| format!(", and worker_rlimit_nofile asks for {asked}")).unwrap_or_default();
    let seen =
        format!("{hard} descriptors may be open, and a worker may have {connections} connections{also}");
    match hard >= wanted {
        true => Check::good(NAME, seen),
        false => Check::bad(
            NAME,
            seen,
            format!(
                "LimitNOFILE={wanted} in the systemd unit, ulimit -Hn {wanted}, or fewer nginx_config.event.worker_connections or worker_rlimit_nofile"
            ),
        ),
    }
}

/// A proxy on this machine is believed by default, as in APISIX.
fn believed(settings: &Settings) -> Option<Check> {
    let nginx = &settings.nginx;
    let local = nginx.real_ip_from.iter().any(|network| network.starts_with("127.") || network == "::1");
    let header = &nginx.real_ip_header;
    // No client writes that: it comes before its first byte, on ports of its own.
    let is_field = header != "proxy_protocol";
    (local && is_field).then(|| {
        Check::unknown(
            "client addresses",
            format!("what a proxy on this machine sends in {header} counts as the client's address"),
            format!(
                "if there is one, let it set {header} itself and not pass on that of clients; else nginx_config.http.real_ip_from: []"
            ),
        )
    })
}

/// What the objects name: hosts, Redis, certificates; and etcd.
fn resources_of(settings: &Settings) -> Vec<Check> {
    let mut checks = Vec::new();
    if settings.provider == Provider::Etcd {
        checks.extend(settings.etcd.hosts.iter().map(|host| reach::etcd(host)));
    }
    checks.extend(certificate_of_admin(settings));
    let file = match settings.provider {
        Provider::Yaml => Some(&settings.files.resources_yaml),
        Provider::Json => Some(&settings.files.resources_json),
        Provider::Embedded | Provider::Etcd | Provider::ApiDriven => None,
    };
    if let Some(file) = file {
        checks.extend(of_file(file, &settings.raw));
    }
    if settings.provider == Provider::Embedded {
        checks.extend(
            store::document(settings).map_or_else(|check| vec![check], |document| of_named(&document)),
        );
    }
    checks
}

fn of_file(file: &Path, config: &Value) -> Vec<Check> {
    let name = file.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let text = match tidegate_config::bounded::read_text(file) {
        Ok(text) => text,
        Err(error) => {
            let seen = format!("cannot read {}: {error}", file.display());
            return vec![Check::bad(&name, seen, "write it, or give --prefix")];
        }
    };
    let document: Value = match tidegate_config::yaml::to_value(&text) {
        Ok(document) => document,
        Err(fault) => return vec![Check::of_message(&name, &format!("{}:{fault}", file.display()), CORRECT)],
    };
    let found = objects::of_file(file, &text, &document, Some(config));
    let mut checks = found.unwrap_or_else(|error| refused(&error));
    checks.extend(of_named(&document));
    checks
}

/// Names of nodes, Redis, and certificates.
fn of_named(document: &Value) -> Vec<Check> {
    let Named { hosts, redis, certificates } = resources::named(document);
    let mut checks = Vec::new();
    checks.extend(hosts.iter().map(|host| reach::name(host)));
    checks.extend(redis.iter().map(|(host, port)| reach::redis(host, *port)));
    checks.extend(
        certificates.iter().map(|(id, pem)| resources::expiry(&format!("ssls/{id}"), pem.as_bytes())),
    );
    checks
}

fn certificate_of_admin(settings: &Settings) -> Option<Check> {
    let file = settings.admin.certificate.as_ref().filter(|_| settings.admin.https)?;
    let pem = std::fs::read(settings.below_prefix(file)).ok()?;
    Some(resources::expiry("Admin API's certificate", &pem))
}
