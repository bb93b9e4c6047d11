//! Where the servers of an imported nginx.conf are reachable: their addresses, ports and names.

use std::{fmt::Write as _, fs, net::SocketAddr, path::Path, process::Command};

use tidegate_testkit::{
    Gateway, Upstream,
    client::Client,
    free_port,
    gateway::{ADMIN_KEY, EMBEDDED, YAML_PROVIDER, binary},
    process::Process,
};

/// 444: no answer.
fn ask(address: SocketAddr, host: &str) -> (u16, String) {
    let mut client = Client::connect(address).expect("connects");
    client
        .request(&format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"))
        .map_or((444, String::new()), |answer| (answer.status(), answer.body_text()))
}

fn local(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

/// A public server, one for this machine alone, and one on another port.
fn three(public: u16, private: u16, other: u16) -> String {
    format!(
        "http {{ server {{ listen {public}; return 200 public; }}
                 server {{ listen 127.0.0.1:{private}; return 200 private; }}
                 server {{ listen {other}; server_name other; return 200 other; }} }}"
    )
}

/// Without the listeners of other APIs, whose ports others use.
const CONFIG: &str = "\
apisix: {enable_control: false, ssl: {enable: false}}
plugin_attr: {prometheus: {enable_export_server: false}}
";

fn start(folder: &Path, text: &str, arguments: &[&str]) -> Process {
    fs::create_dir_all(folder.join("conf")).expect("a folder");
    fs::write(folder.join("conf/config.yaml"), CONFIG).expect("written");
    let file = folder.join("nginx.conf");
    fs::write(&file, text).expect("written");
    let mut command = Command::new(binary());
    command.arg("run").arg("--prefix").arg(folder).arg("--from").arg(format!("nginx:{}", file.display()));
    Process::start("tidegate", command.args(arguments))
}

#[test]
fn listeners_are_opened_as_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let ports = [free_port(), free_port(), free_port()];
    let mut process = start(folder.path(), &three(ports[0], ports[1], ports[2]), &[]);
    for port in ports {
        process.wait_for_port(local(port));
    }
    for (port, wanted) in ports.into_iter().zip(["public", "private", "other"]) {
        assert_eq!(ask(local(port), "h"), (200, wanted.to_owned()));
    }
    assert!(Client::connect(SocketAddr::from(([127, 0, 0, 2], ports[1]))).is_err(), "one address only");
    assert_eq!(ask(SocketAddr::from(([127, 0, 0, 2], ports[0])), "h").1, "public");
}

#[test]
fn one_listener_stands_for_the_public_one_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let own = free_port();
    let mut process =
        start(folder.path(), &three(80, 8081, 8082), &["--listen", &format!("127.0.0.1:{own}")]);
    process.wait_for_port(local(own));
    process.wait_for_output("closed: server default: no route leads to it: it listens on 127.0.0.1:8081");
    process.wait_for_output("closed: server other: no route leads to it: it listens on *:8082");
    assert_eq!(ask(local(own), "h").1, "public");
    assert_eq!(ask(local(own), "other").1, "public");
}

#[test]
fn converted_files_keep_private_servers_private() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("nginx.conf");
    fs::write(&file, three(80, 8081, 8082)).expect("written");
    let output = Command::new(binary()).args(["import", "nginx"]).arg(&file).output().expect("runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("the servers at *:8082, 127.0.0.1:8081 where the gateway listens there"), "{said}");
    let gateway = Gateway::start(YAML_PROVIDER, Some(&String::from_utf8_lossy(&output.stdout)));
    assert_eq!(ask(gateway.http, "h").1, "public");
    assert_eq!(ask(gateway.http, "other").1, "public", "another port's");
    // Alone it is private, too.
    fs::write(&file, "server { listen 127.0.0.1:8081; return 200 private; }").expect("written");
    let output = Command::new(binary()).args(["import", "nginx"]).arg(&file).output().expect("runs");
    let gateway = Gateway::start(YAML_PROVIDER, Some(&String::from_utf8_lossy(&output.stdout)));
    assert_eq!(ask(gateway.http, "h").0, 404);
}

#[test]
fn what_is_applied_answers_at_the_ports_of_the_file() {
    let mut gateway = Gateway::start(EMBEDDED, None);
    gateway.process.wait_for_port(gateway.admin);
    let file = gateway.prefix().join("nginx.conf");
    fs::write(&file, three(gateway.http.port(), 8081, 8082)).expect("written");
    let mut command = Command::new(binary());
    command.args([
        "import",
        "nginx",
        "--apply",
        "--admin-key",
        ADMIN_KEY,
        "--admin",
        &gateway.admin.to_string(),
    ]);
    let output = command.arg(&file).output().expect("runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.trim_end().ends_with(", {ip: \"127.0.0.1\", port: 8081}]"), "{said}");
    assert!(said.contains("*:8082") && said.contains("where the gateway listens there"), "{said}");
    let routes = gateway.admin("GET", "/apisix/admin/routes", "").1;
    assert!(routes.contains("default-server-") && routes.contains("server_port"), "{routes}");
    assert_eq!(ask(gateway.http, "h").1, "public");
    assert_eq!(ask(gateway.http, "other").1, "public");
}

const NAMES: &str = "
  server { listen @PORT@ default_server; return 200 default; }
  server { listen @PORT@; server_name ~^www\\d+\\.example$; return 403; }
  server { listen @PORT@; server_name shut.*; return 444; }
  server { listen @PORT@; server_name *.wild.example; return 401; }
  server { listen @PORT@; server_name one.wild.example; return 200 one; }
  server { listen @PORT@; server_name .dot.example; return 404; }
  server { listen @PORT@; server_name ~^(?<who>.+)\\.dot\\.example$; return 200 never; }
  server { listen @PORT@; server_name Upper.Example; return 410; }
  server { listen @PORT@; server_name a.b.*; return 200 longer; }
  server { listen @PORT@; server_name a.*; return 403; }
  server { listen @PORT@; server_name upper.example; return 200 second; }
";

const HOSTS: [&str; 22] = [
    "www1.example",
    "www.example",
    "WWW22.Example",
    "xwww1.example",
    "shut.example",
    "shut.de.example",
    "shut",
    "a.wild.example",
    "a.b.wild.example",
    "wild.example",
    "one.wild.example",
    "one.wild.example.",
    "one.wild.example:8080",
    "dot.example",
    "x.dot.example",
    "upper.example",
    "UPPER.EXAMPLE",
    "a.b.c",
    "a.c",
    "a",
    "127.0.0.1",
    "elsewhere",
];

#[test]
fn names_lead_where_nginx_leads() {
    let folder = tempfile::tempdir().expect("a folder");
    let port = free_port();
    let servers = NAMES.replace("@PORT@", &port.to_string());
    let path = folder.path().display();
    let mut text = String::new();
    let _ = write!(
        text,
        "pid {path}/pid; events {{ }} http {{ access_log off; client_body_temp_path {path}/1; \
         proxy_temp_path {path}/2; fastcgi_temp_path {path}/3; uwsgi_temp_path {path}/4; \
         scgi_temp_path {path}/5;\n{servers} }}\n"
    );
    let file = folder.path().join("nginx.conf");
    fs::write(&file, &text).expect("written");
    let mut command = Command::new(tidegate_testkit::servers::find("nginx"));
    command.arg("-c").arg(&file).arg("-p").arg(folder.path()).args(["-e", "stderr", "-g", "daemon off;"]);
    let mut nginx = Process::start("nginx", &mut command);
    nginx.wait_for_port(local(port));
    let gateway = Gateway::start_from_file(YAML_PROVIDER, "nginx", &file);
    let output = Command::new(binary()).args(["import", "nginx"]).arg(&file).output().expect("runs");
    // The other router goes by paths alone.
    let by_path =
        format!("{YAML_PROVIDER}\n").replace("apisix:\n", "apisix:\n  router: {http: radixtree_uri}\n");
    let converted = Gateway::start(&by_path, Some(&String::from_utf8_lossy(&output.stdout)));
    let mut wrong = Vec::new();
    for host in HOSTS {
        let theirs = ask(local(port), host);
        for (how, ours) in [("served", ask(gateway.http, host)), ("converted", ask(converted.http, host))] {
            let same = ours.0 == theirs.0 && (ours.0 != 200 || ours.1 == theirs.1);
            if !same {
                wrong.push(format!("{host} {how}: nginx {theirs:?}, ours {ours:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}\n{}", wrong.join("\n"), gateway.process.output());
}

/// A server of one address does not answer for those of all others behind one listener.
#[test]
fn servers_of_one_address_are_not_those_of_all() {
    let folder = tempfile::tempdir().expect("a folder");
    let (own, port) = (free_port(), free_port());
    let text = format!(
        "http {{ server {{ listen 10.1.1.1:{own}; server_name a; return 200 inside; }}
                 server {{ listen {own}; server_name a; return 403; }} }}"
    );
    let mut process = start(folder.path(), &text, &["--listen", &format!("127.0.0.1:{port}")]);
    process.wait_for_port(local(port));
    assert_eq!(ask(local(port), "a").0, 403);
    assert_eq!(ask(local(port), "b").0, 403);
}

/// Requests without Host are for the server with the empty name, and not for the default one.
#[test]
fn requests_without_host_have_a_server() {
    let folder = tempfile::tempdir().expect("a folder");
    let port = free_port();
    let text = format!(
        "http {{ server {{ listen {port} default_server; server_name x; return 200 open; }}
                 server {{ listen {port}; server_name \"\"; return 403; }}
                 server {{ listen {port}; server_name _; return 402; }}
                 server {{ listen {port}; server_name ~^(?<all>.*b)?$; return 405; }}
                 server {{ listen {port}; server_name c.; return 406; }} }}"
    );
    let mut process = start(folder.path(), &text, &[]);
    process.wait_for_port(local(port));
    assert_eq!(ask(local(port), "a"), (200, "open".to_owned()));
    assert_eq!((ask(local(port), "_").0, ask(local(port), "b").0, ask(local(port), "c").0), (402, 405, 200));
    process.wait_for_output("closed: server c.: no route leads to it");
    let mut client = Client::connect(local(port)).expect("connects");
    let answer = client.request("GET / HTTP/1.0\r\n\r\n").expect("an answer");
    assert_eq!(answer.status(), 403, "{}", answer.body_text());
}

/// What one `listen` says of an address holds for all servers there.
#[test]
fn options_hold_for_the_address() {
    let folder = tempfile::tempdir().expect("a folder");
    let [port, behind, free] = [free_port(), free_port(), free_port()];
    let text = format!(
        "http {{ server {{ listen [::]:{port}; server_name a; return 403; }}
                 server {{ listen [::]:{port} ipv6only=off; server_name b; return 200 b; }}
                 server {{ listen 127.0.0.1:{behind} proxy_protocol; listen 127.0.0.1:{free}; server_name c; return 403; }}
                 server {{ listen 127.0.0.1:{behind}; listen 127.0.0.1:{free} default_server; server_name d; return 200 d; }}
                 server {{ listen [::]:{port}; server_name e; location / {{ allow ::1; deny ::/0; return 200 e; }}
                           location /f {{ root /nowhere; allow ::1; deny ::/0; }} }} }}"
    );
    let mut process = start(folder.path(), &text, &[]);
    process.wait_for_port(local(free));
    process.wait_for_port(local(port));
    assert_eq!((ask(local(port), "a").0, ask(local(port), "b").0, ask(local(port), "x").0), (403, 200, 403));
    assert_eq!((ask(local(free), "c").0, ask(local(free), "d").0), (403, 200));
    assert!(Client::connect(local(behind)).is_err(), "clients have to say who they are there");
    process.wait_for_output("closed: server d: in part: `proxy_protocol`");
    let mut client = Client::connect(local(port)).expect("connects");
    let answer = client.request("GET /f HTTP/1.1\r\nHost: e\r\n\r\n").expect("an answer");
    assert_eq!(answer.status(), 501, "an address of IPv4 is one of IPv6 there");
}

/// Who the client is decides for itself only where the file or config.yaml says so.
#[test]
fn addresses_are_believed_as_written() {
    let upstream = Upstream::start();
    let text = format!(
        "server {{ listen 80; location / {{ allow 9.9.9.9; deny all; proxy_pass http://{}; }} }}",
        upstream.address
    );
    let ask = |config: &str| {
        let gateway = Gateway::start_from_with(config, "nginx", &text);
        let request = "GET / HTTP/1.1\r\nHost: h\r\nX-Real-IP: 9.9.9.9\r\n\r\n";
        let status = gateway.client().request(request).expect("an answer").status();
        (status, gateway.process.output().contains("real_ip_from holds besides the `set_real_ip_from`"))
    };
    let with = |keys: &str| YAML_PROVIDER.replace("http: {", &format!("http: {{{keys}, "));
    assert_eq!(ask(YAML_PROVIDER), (403, false), "not the default of APISIX");
    assert_eq!(ask(&with("real_ip_from: []")), (403, false));
    assert_eq!(ask(&with("real_ip_from: [10.0.0.1]")), (403, true));
    assert_eq!(ask(&with("real_ip_from: [127.0.0.1]")), (200, true), "the operator wrote it");
}

/// A server on every address of both families by one line, and one on an address of its own beside it.
#[test]
fn one_line_may_open_both_families() {
    let folder = tempfile::tempdir().expect("a folder");
    let port = free_port();
    let text = format!(
        "http {{ server {{ listen [::]:{port} ipv6only=off; return 200 both; }}
                 server {{ listen 127.0.0.2:{port}; return 200 own; }} }}"
    );
    let mut process = start(folder.path(), &text, &[]);
    process.wait_for_port(local(port));
    assert_eq!(ask(local(port), "h"), (200, "both".to_owned()));
    assert_eq!(ask(SocketAddr::from(([127, 0, 0, 2], port)), "h"), (200, "own".to_owned()));
    if std::net::TcpListener::bind("[::1]:0").is_ok() {
        assert_eq!(ask(SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], port)), "h"), (200, "both".to_owned()));
    }
}

/// Where one server asks for TLS at a socket, all of its servers have it.
#[test]
fn a_socket_has_one_kind() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("nginx.conf");
    let text = "server { listen 8443 ssl; server_name a; ssl_reject_handshake on; return 403; }
                server { listen 8443; server_name b; return 200 b; }
                server { listen 80; return 200 plain; }";
    fs::write(&file, text).expect("written");
    let output = Command::new(binary()).args(["import", "nginx"]).arg(&file).output().expect("runs");
    let gateway = Gateway::start(YAML_PROVIDER, Some(&String::from_utf8_lossy(&output.stdout)));
    for host in ["a", "b", "c"] {
        assert_eq!(ask(gateway.http, host), (200, "plain".to_owned()), "{host}");
    }
    assert!(!String::from_utf8_lossy(&output.stdout).contains("ssls:"), "handshakes fail as in nginx");
}
