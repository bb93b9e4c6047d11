//! Faults planted one at a time, each named with its remedy. Those of the machine are planted in namespaces: limits of the
//! kernel in a network of one's own, files of /proc and /sys by mounts over them, the clock by a library before libc.

use std::fs;
use std::path::Path;
use std::process::Command;

use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use serde_json::{Value, json};
use tempfile::TempDir;
use tidegate_testkit::gateway::binary;
use tidegate_testkit::{Etcd, free_port};

use super::{FILE, text};
use crate::pages::network;

/// A fault, and what is said of it.
struct Fault {
    /// Commands before the doctor, in namespaces and in the folder.
    plant: &'static str,
    config: &'static str,
    /// conf/apisix.yaml.
    resources: &'static str,
    arguments: &'static str,
    /// What depends on what is wanted is `unknown`.
    state: &'static str,
    seen: &'static str,
    remedy: &'static str,
}

const MACHINE: Fault = Fault {
    plant: "",
    config: FILE,
    resources: "routes: []",
    arguments: "--prefix .",
    state: "bad",
    seen: "",
    remedy: "",
};
/// `doctor apisix.yaml` with one fault in it.
const MOVE: Fault = Fault { arguments: "conf/apisix.yaml", config: "plugins: [key-auth]\n", ..MACHINE };

/// Answers each connection or datagram late.
const SLOW_REDIS: &str = "python3 -c 'import socket, time
server = socket.create_server((\"127.0.0.1\", @CLOSED@))
print(flush=True)
while True:
    one, _ = server.accept()
    one.recv(99); time.sleep(0.2); one.sendall(b\"+PONG\\r\\n\")' > ready & until [ -s ready ]; do :; done";
const SLOW_NAMES: &str = "echo nameserver 127.0.0.1 > resolv.conf; mount --bind resolv.conf /etc/resolv.conf
python3 -c 'import socket, threading, time
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); server.bind((\"127.0.0.1\", 53))
print(flush=True)
def answer(query, peer):
    time.sleep(0.7)
    is_a = query[-3] == 1
    record = b\"\\xc0\\x0c\\0\\1\\0\\1\\0\\0\\0\\1\\0\\4\\x7f\\0\\0\\1\" if is_a else b\"\"
    server.sendto(query[:2] + b\"\\x81\\x80\\0\\1\\0\" + (b\"\\1\" if is_a else b\"\\0\") + bytes(4) + query[12:] + record, peer)
while True:
    threading.Thread(target=answer, args=server.recvfrom(512)).start()' > ready & until [ -s ready ]; do :; done";
/// A library before libc: 2 January 1970.
const OLD_CLOCK: &str = "cat > clock.c <<'END'
#define _GNU_SOURCE
#include <time.h>
#include <unistd.h>
#include <sys/syscall.h>
int clock_gettime(clockid_t id, struct timespec *time) {
    int result = syscall(SYS_clock_gettime, id, time);
    if (id == CLOCK_REALTIME) time->tv_sec = 86400;
    return result;
}
END
cc -shared -fPIC -o clock.so clock.c; export LD_PRELOAD=$PWD/clock.so";

const FAULTS: &[Fault] = &[
    // Limits and queues.
    Fault { plant: "ulimit -n 256", seen: "256 descriptors", remedy: "LimitNOFILE=", ..MACHINE },
    Fault {
        plant: "echo 900000 0 1000000 > nr; mount --bind nr /proc/sys/fs/file-nr",
        seen: "900000 of 1000000",
        remedy: "fs.file-max",
        ..MACHINE
    },
    Fault {
        plant: "mount -t tmpfs none /proc/sys/net; mkdir /proc/sys/net/netfilter; echo 900 > /proc/sys/net/netfilter/nf_conntrack_count; \
                echo 1000 > /proc/sys/net/netfilter/nf_conntrack_max",
        seen: "900 of 1000 connections",
        remedy: "nf_conntrack_max",
        ..MACHINE
    },
    Fault {
        plant: "echo 128 > /proc/sys/net/core/somaxconn",
        seen: "is 128",
        remedy: "net.core.somaxconn=",
        ..MACHINE
    },
    Fault {
        plant: "echo 16 > /proc/sys/net/ipv4/tcp_max_syn_backlog",
        seen: "is 16",
        remedy: "tcp_max_syn_backlog=",
        ..MACHINE
    },
    Fault {
        plant: "echo 40000 41000 > /proc/sys/net/ipv4/ip_local_port_range",
        seen: "1001 for connections",
        remedy: "ip_local_port_range=",
        ..MACHINE
    },
    // The processor and the clock.
    Fault {
        plant: "mount -t tmpfs none /sys/fs/cgroup; echo 50000 100000 > /sys/fs/cgroup/cpu.max",
        seen: "limited to 0.5 CPUs",
        remedy: "limits.cpu",
        ..MACHINE
    },
    Fault {
        plant: "mkfifo stat; mount --bind stat /proc/stat; \
                (n=0; while :; do echo cpu 1 0 1 $n 0 0 0 $n > stat; n=$((n + 1000)); done) &",
        seen: "the hypervisor took ",
        remedy: "busy neighbours",
        ..MACHINE
    },
    Fault {
        plant: "mount -t tmpfs none /sys/devices/system/cpu; mkdir -p /sys/devices/system/cpu/cpu0/cpufreq; \
                echo powersave > /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
        state: "unknown",
        seen: "the governor is powersave",
        remedy: "cpupower frequency-set",
        ..MACHINE
    },
    Fault {
        plant: "mount -t tmpfs none /sys/devices/system/cpu; mkdir /sys/devices/system/cpu/smt; \
                echo 1 > /sys/devices/system/cpu/smt/active",
        state: "unknown",
        seen: "several threads",
        remedy: "worker_processes",
        ..MACHINE
    },
    Fault {
        plant: "mount -t tmpfs none /sys/class; mkdir -p /sys/class/dmi/id; echo t3.large > /sys/class/dmi/id/product_name",
        state: "unknown",
        seen: "lends its CPU",
        remedy: "an instance type",
        ..MACHINE
    },
    Fault { plant: OLD_CLOCK, seen: "86400 s after 1970", remedy: "set-ntp", ..MACHINE },
    // Ports.
    Fault {
        plant: "tidegate echo -p @HTTP@ > /dev/null 2>&1 & until (: > /dev/tcp/127.0.0.1/@HTTP@) 2> /dev/null; do :; done",
        seen: "(tidegate) listens on 127.0.0.1:@HTTP@",
        remedy: "choose another port",
        ..MACHINE
    },
    Fault {
        plant: "tidegate echo -p 9091 > /dev/null 2>&1 & until (: > /dev/tcp/127.0.0.1/9091) 2> /dev/null; do :; done",
        seen: "(tidegate) listens on 127.0.0.1:9091",
        remedy: "choose another port",
        ..MACHINE
    },
    Fault {
        plant: "tidegate() { setpriv --bounding-set=-net_bind_service tidegate \"$@\"; }",
        config: "apisix: {node_listen: [{ip: 127.0.0.1, port: 80}], ssl: {enable: false}}\n",
        seen: "port 80 needs the capability CAP_NET_BIND_SERVICE",
        remedy: "setcap cap_net_bind_service",
        ..MACHINE
    },
    // config.yaml.
    Fault { plant: "rm -r conf", seen: "has no folder conf/", remedy: "tidegate init", ..MACHINE },
    Fault { config: "apisix: {node_listen: [x]}\n", seen: "config.yaml:1:", remedy: "correct", ..MACHINE },
    Fault { config: "apisix: {nodelisten: [80]}\n", seen: "nodelisten", remedy: "node_listen", ..MACHINE },
    Fault {
        config: "deployment: {admin: {admin_key: [{name: a, key: edd1c9f034335f136f87ad84b625c8f1, role: admin}]}}\n",
        seen: "published",
        remedy: "",
        ..MACHINE
    },
    Fault {
        config: "plugins: [cors]\n",
        seen: "a key that is published",
        remedy: "put a key of your own",
        ..MACHINE
    },
    Fault {
        config: "deployment: {admin: {admin_key_required: false}}\n",
        seen: "requires no key",
        remedy: "remove admin_key_required",
        ..MACHINE
    },
    Fault {
        config: "apisix: {ssl: {ssl_trusted_certificate: /nonexistent}}\n",
        seen: "/nonexistent",
        remedy: "correct",
        ..MACHINE
    },
    Fault {
        config: "nginx_config: {http: {real_ip_from: [127.0.0.1]}}\n",
        state: "unknown",
        seen: "what a proxy on this machine sends in X-Real-IP",
        remedy: "set X-Real-IP itself",
        ..MACHINE
    },
    // What is not here, of APISIX's config.yaml.
    Fault { config: "plugins: [mcp-bridge]\n", seen: "rejected: mcp-bridge", remedy: "", ..MACHINE },
    Fault {
        config: "wasm: {plugins: [{name: w, priority: 1, file: /w}]}\n",
        seen: "plugin w",
        remedy: "",
        ..MACHINE
    },
    Fault {
        config: "nginx_config: {http_configuration_snippet: 'lua_shared_dict x 1m;'}\n",
        seen: "there is no nginx to read it",
        remedy: "look for a key or a plugin",
        ..MACHINE
    },
    // What is asked over the network.
    Fault {
        config: "deployment: {role: data_plane, role_data_plane: {config_provider: etcd}, etcd: {host: ['http://127.0.0.1:@CLOSED@']}}\n",
        seen: "does not answer",
        remedy: "deployment.etcd.host",
        ..MACHINE
    },
    Fault {
        plant: "tidegate echo -p @CLOSED@ --delay 200ms > /dev/null 2>&1 & until (: > /dev/tcp/127.0.0.1/@CLOSED@) 2> /dev/null; do :; done",
        config: "deployment: {role: data_plane, role_data_plane: {config_provider: etcd}, etcd: {host: ['http://127.0.0.1:@CLOSED@']}}\n",
        seen: "answers after ",
        remedy: "each write waits for it",
        ..MACHINE
    },
    Fault {
        resources: "@LIMIT@",
        seen: "127.0.0.1:@CLOSED@ does not answer",
        remedy: "redis_host",
        ..MACHINE
    },
    Fault {
        plant: SLOW_REDIS,
        resources: "@LIMIT@",
        seen: "answers after ",
        remedy: "sync_interval",
        ..MACHINE
    },
    Fault {
        plant: "tidegate echo -p @CLOSED@ > /dev/null 2>&1 & until (: > /dev/tcp/127.0.0.1/@CLOSED@) 2> /dev/null; do :; done",
        resources: "@LIMIT@",
        seen: "is not Redis",
        remedy: "redis_host",
        ..MACHINE
    },
    Fault {
        resources: "routes: [{id: 1, uri: /a, upstream: {nodes: {'nowhere.invalid:80': 1}}}]",
        seen: "nowhere.invalid does not resolve",
        remedy: "/etc/resolv.conf",
        ..MACHINE
    },
    Fault {
        plant: SLOW_NAMES,
        resources: "routes: [{id: 1, uri: /a, upstream: {nodes: {'slow.example:80': 1}}}]",
        seen: "slow.example has ",
        remedy: "which server of /etc/resolv.conf",
        ..MACHINE
    },
    // Certificates.
    Fault { resources: "ssls: [@ENDED@]", seen: "the certificate ended ", remedy: "replace it", ..MACHINE },
    Fault { resources: "ssls: [@EARLY@]", seen: "is not good yet", remedy: "check the clock", ..MACHINE },
    Fault { resources: "ssls: [@SOON@]", seen: "the certificate ends in ", remedy: "replace it", ..MACHINE },
    // Objects, before a move or of the own file.
    Fault {
        resources: "routes: [{id: 1, uri: /a, plugins: {key_auth: {}}}]",
        seen: "conf/apisix.yaml:1:",
        remedy: "did you mean key-auth?",
        ..MACHINE
    },
    Fault {
        resources: "routes: [{id: 1, uri: /a, plugins: {limit-count: {count: many}}}]",
        seen: "routes/1 cannot be used",
        remedy: "it needs count and time_window, or rules",
        ..MACHINE
    },
    Fault {
        resources: "routes: [{id: 1, uri: /a, service_id: s}]",
        seen: "service s does not exist",
        remedy: "503",
        ..MOVE
    },
    Fault {
        resources: "rutes: [{id: 1, uri: /a}]",
        seen: "unknown key [rutes]",
        remedy: "did you mean routes?",
        ..MOVE
    },
    Fault {
        resources: "routes: [{id: 1, uri: /a, plugins: {mcp-bridge: {}}}]",
        seen: "unknown plugin [mcp-bridge]",
        remedy: "leave these routes with APISIX",
        ..MOVE
    },
    Fault {
        resources: "routes: [{id: 1, uri: /a, upstream: {scheme: udp, nodes: {'127.0.0.1:1': 1}}}]",
        seen: "upstream.scheme of routes/1 has no effect",
        remedy: "are for stream routes",
        ..MOVE
    },
    Fault {
        resources: "stream_routes: [{id: 1, protocol: {name: pingpong}, upstream: {nodes: {'127.0.0.1:1': 1}}}]",
        seen: "unknown protocol",
        remedy: "xRPC",
        ..MOVE
    },
    Fault {
        config: "plugins: [serverless-pre-function]\n",
        resources: "routes: [{id: 1, uri: /a, plugins: {serverless-pre-function: {functions: ['local a = require(\"resty.ab\") return function() end']}}}]",
        seen: "module 'resty.ab' not found",
        remedy: "docs/guide/lua.md",
        ..MOVE
    },
    Fault {
        config: "plugins: [openid-connect]\n",
        resources: "routes: [{id: 1, uri: /a, plugins: {openid-connect: {client_id: a, bearer_only: true, client_secret: $env://NONE, discovery: 'http://a/'}}}]",
        state: "unknown",
        seen: "$env://NONE",
        remedy: "where the gateway will run",
        ..MOVE
    },
    Fault {
        arguments: "--etcd http://127.0.0.1:@CLOSED@",
        seen: "does not answer",
        remedy: "deployment.etcd.host",
        ..MOVE
    },
];

#[test]
fn planted_faults_are_named_with_a_remedy() {
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..3)
            .map(|lane| {
                let faults = FAULTS.iter().skip(lane).step_by(3);
                scope.spawn(move || faults.filter_map(|fault| find(fault).err()).collect::<Vec<_>>())
            })
            .collect();
        lanes.into_iter().flat_map(|lane| lane.join().expect("a lane ends")).collect()
    });
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), FAULTS.len(), wrong.join("\n\n"));
}

/// Looks for one fault.
fn find(fault: &Fault) -> Result<(), String> {
    let ports: Vec<(&str, String)> =
        ["@HTTP@", "@ADMIN@", "@CONTROL@", "@CLOSED@"].map(|name| (name, free_port().to_string())).into();
    let fill = |text: &str| ports.iter().fold(text.to_owned(), |text, (name, port)| text.replace(name, port));
    let folder = folder(&fill(fault.config), &fill(&objects(fault.resources)));
    if !fault.plant.is_empty() && !network::own_everything() {
        eprintln!("skipped: this machine allows no namespaces: {}", fault.plant);
        return Ok(());
    }
    let script = format!(
        "cd '{}'\nPATH='{}':$PATH\nulimit -c 0\n{}\nset +e\ntidegate doctor --json {} > found 2> said\n",
        folder.path().display(),
        binary().parent().unwrap_or(Path::new("/")).display(),
        fill(fault.plant),
        fill(fault.arguments)
    );
    let mut command = match network::own_everything() {
        true => network::alone(&script, 60),
        false => {
            let mut command = Command::new("bash");
            command.args(["-c", &script]);
            command
        }
    };
    let output = command.output().map_err(|error| error.to_string())?;
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap_or_default();
    let found: Value = serde_json::from_str(&read("found")).map_err(|error| {
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        format!("{}{}: {error}: {}{printed}", fault.plant, fault.resources, read("said"))
    })?;
    let checks = found["checks"].as_array().cloned().unwrap_or_default();
    let is_it = |check: &Value| {
        let remedy = text(&check["remedy"]);
        let has = text(&check["seen"]).contains(&fill(fault.seen)) && remedy.contains(fault.remedy);
        check["state"] == fault.state && has && !remedy.is_empty()
    };
    let wanted = format!("{} -> {}", fill(fault.seen), fault.remedy);
    checks.iter().any(is_it).then_some(()).ok_or_else(|| format!("{wanted}\nis not in {found:#}"))
}

/// With conf/config.yaml and conf/apisix.yaml.
fn folder(config: &str, resources: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("conf")).expect("a folder");
    let write =
        |name: &str, text: &str| fs::write(folder.path().join("conf").join(name), text).expect("written");
    // What is not said is as in a healthy configuration, where the row says anything else.
    let beside = match config.starts_with("apisix:") || config.contains("[cors]") {
        true => String::new(),
        false => "apisix: {data_encryption: {keyring: [abcdefghijklmnop]}}\n".to_owned(),
    };
    write("config.yaml", &format!("{beside}{config}"));
    write("apisix.yaml", &format!("{resources}\n#END\n"));
    folder
}

/// Year, month and day of a date that ends soon.
fn soon() -> (i32, u8, u8) {
    let output = Command::new("date").args(["-u", "-d", "now + 10 days", "+%Y %m %d"]).output();
    let text = String::from_utf8_lossy(&output.expect("date runs").stdout).into_owned();
    let mut fields = text.split_whitespace().filter_map(|field| field.parse::<i32>().ok());
    let mut next = || fields.next().expect("a date");
    (next(), next() as u8, next() as u8)
}

fn certificate(name: &str, from: i32, to: (i32, u8, u8)) -> (String, String) {
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
    params.not_before = date_time_ymd(from, 1, 1);
    params.not_after = date_time_ymd(to.0, to.1, to.2);
    (params.self_signed(&key).expect("a certificate").pem(), key.serialize_pem())
}

/// A certificate and its key.
pub(super) fn ending_soon(name: &str) -> (String, String) {
    certificate(name, 2024, soon())
}

/// With certificates and limits in place of their names.
fn objects(resources: &str) -> String {
    let ssl = |from: i32, to: (i32, u8, u8)| {
        let (chain, key) = certificate("a.test", from, to);
        json!({"id": "1", "snis": ["a.test"], "cert": chain, "key": key}).to_string()
    };
    let limit = "routes: [{id: 1, uri: /a, plugins: {limit-count: {count: 1, time_window: 1, key: remote_addr, policy: redis, \
                 redis_host: 127.0.0.1, redis_port: @CLOSED@}}, upstream: {nodes: {'127.0.0.1:1': 1}}}]";
    match resources {
        "@LIMIT@" => limit.to_owned(),
        "ssls: [@ENDED@]" => format!("ssls: [{}]", ssl(2020, (2021, 1, 1))),
        "ssls: [@EARLY@]" => format!("ssls: [{}]", ssl(2090, (2099, 1, 1))),
        "ssls: [@SOON@]" => format!("ssls: [{}]", ssl(2020, soon())),
        other => other.to_owned(),
    }
}

/// Of an object that is cut nothing is known, so that two things are said of it.
#[test]
fn objects_that_are_cut_are_counted_once_and_said_to_be_open() {
    let etcd = Etcd::start();
    for (id, text) in
        [("1", r#"{"id": "1", "uri": "/a", "plugins": {"key_auth": {}}}"#), ("2", r#"{"uri": "/b/*", "plug"#)]
    {
        let mut put = Command::new("etcdctl");
        put.args(["--endpoints", &etcd.url(), "put", &format!("/apisix/routes/{id}"), text])
            .env("ETCDCTL_API", "3");
        assert!(put.output().expect("etcdctl runs").status.success());
    }
    let (_, checks) = super::doctor(&["--etcd", &etcd.url()]);
    let shown = serde_json::to_string_pretty(&checks).expect("JSON");
    assert!(shown.contains("2 cannot be used as they are"), "{shown}");
    let bad = super::bad(&checks);
    let open = bad.iter().find(|line| line.contains("NOT refused")).unwrap_or_else(|| panic!("{bad:?}"));
    assert!(!open.contains("503") && open.contains("what broader routes answer"), "{open}");
}

/// An object in etcd that cannot be used: what `--etcd` says of it.
#[test]
fn objects_in_etcd_are_named() {
    let etcd = Etcd::start();
    let put = Command::new("etcdctl")
        .args(["--endpoints", &etcd.url(), "put", "/apisix/routes/1"])
        .arg(r#"{"id": "1", "uri": "/a", "plugins": {"key_auth": {}}}"#)
        .env("ETCDCTL_API", "3")
        .output();
    assert!(put.expect("etcdctl runs").status.success());
    let (code, checks) = super::doctor(&["--etcd", &etcd.url()]);
    let bad = super::bad(&checks);
    // etcd may be slow beside other tests.
    let object = bad.iter().find(|line| line.starts_with("object: ")).expect("the object");
    assert!(code == Some(3) && object.contains("routes/1 cannot be used"), "{bad:?}");
    assert!(object.contains("did you mean key-auth?"), "{bad:?}");
}
