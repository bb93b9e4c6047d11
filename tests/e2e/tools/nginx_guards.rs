//! Guards in nginx's configurations, `tests/nginx-guards`: whom nginx turns away is not served after an import either.
//!
//! Each form stands in a server of its own name, in one nginx and in one gateway that serves the same file. Lines after
//! `?` are requests: method, target and one field. What the gateway closes answers 501.

use std::{fmt::Write as _, fs, path::Path};

use tidegate_testkit::{
    Gateway, Upstream,
    client::Client,
    free_port,
    gateway::{YAML_PROVIDER, workspace_root},
    servers,
};

use crate::{plugins::static_files::Site, tools::nginx_check::run_nginx};

pub(super) struct Form {
    pub name: String,
    /// What stands beside the server.
    around: String,
    server: String,
    requests: Vec<String>,
}

pub(super) fn forms(file: &str) -> Vec<Form> {
    let path = workspace_root().join("tests/nginx-guards").join(file);
    let text = fs::read_to_string(&path).expect("the file is there");
    let mut forms: Vec<Form> = Vec::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("=== ") {
            let (around, server) = (String::new(), String::new());
            forms.push(Form { name: name.to_owned(), around, server, requests: Vec::new() });
            continue;
        }
        let form = forms.last_mut().expect("a form begins");
        if let Some(request) = line.strip_prefix("? ") {
            form.requests.push(request.to_owned());
        } else if let Some(around) = line.strip_prefix("map: ") {
            let _ = writeln!(form.around, "{around}");
        } else {
            let _ = writeln!(form.server, "{line}");
        }
    }
    forms
}

/// Answers what its paths say; below /role what the field says, or whom `Host` names.
pub(crate) const CHECK: &str = "location /allowed { return 204; } location /denied { return 403; } \
    location /unauthorized { return 401; } \
    location /role { if ($http_x_role = admin) { return 204; } if ($host = admin.test) { return 204; } return 403; }";

/// Files that forms include, and users.
pub(super) fn write_files(folder: &Path) {
    let write = |name: &str, text: &str| fs::write(folder.join(name), text).expect("written");
    for name in ["glob", "links", "hidden"] {
        fs::create_dir_all(folder.join(name)).expect("a folder");
    }
    write("links/file.txt", "file");
    std::os::unix::fs::symlink("file.txt", folder.join("links/link.txt")).expect("a link");
    write("guard.inc", "deny all;\n");
    write("outer.inc", "include guard.inc;\n");
    write("glob/one.inc", "deny all;\n");
    write("hidden/.hid.conf", "deny all;\n");
    write("hidden/b.conf", "deny all;\n");
    write("locations.inc", "location /private/ { deny all; }\n");
    write("closed", "");
    // a, with the password b.
    write("users", "a:{PLAIN}b\n");
}

/// nginx's workers run as another user.
pub(super) fn make_readable<'p>(folders: impl Iterator<Item = &'p Path>) {
    for folder in folders {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(folder, mode).expect("readable");
    }
}

pub(super) fn configuration(forms: &[Form], folder: &Path, listen: &str, fixed: &[(&str, &str)]) -> String {
    let mut http = String::from("server { listen @LISTEN@ default_server; server_name _; return 404; }\n");
    for form in forms {
        let _ = writeln!(http, "{}", form.around);
        let _ = writeln!(http, "server {{ listen @LISTEN@; server_name {};\n{} }}", form.name, form.server);
    }
    let path = folder.display();
    let mut text = format!(
        "worker_processes 1; pid {path}/nginx.pid;\nevents {{ worker_connections 1024; }}\n\
         http {{ access_log off; client_body_temp_path {path}/t1; proxy_temp_path {path}/t2;\n\
         fastcgi_temp_path {path}/t3; uwsgi_temp_path {path}/t4; scgi_temp_path {path}/t5;\n\
         variables_hash_max_size 4096;\n{http} }}\n"
    );
    for (name, value) in [("@LISTEN@", listen)].iter().chain(fixed) {
        text = text.replace(name, value);
    }
    text
}

/// 444: the connection closes without an answer.
fn ask(address: std::net::SocketAddr, form: &str, request: &str) -> u16 {
    let mut words = request.splitn(3, ' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut head = format!("{method} {target} HTTP/1.1\r\nHost: {form}\r\nConnection: close\r\n");
    let mut body = String::new();
    if let Some(field) = words.next() {
        let _ = write!(head, "{field}\r\n");
        if let Some(length) = field.strip_prefix("Content-Length: ") {
            body = "x".repeat(length.parse().expect("a length"));
        }
    } else if method == "POST" {
        head += "Content-Length: 0\r\n";
    }
    let mut client = Client::connect(address).expect("connects");
    // A long body may be refused before its end.
    let _ = client.send(format!("{head}\r\n{body}").as_bytes());
    client.response_to(method).map_or(444, |answer| answer.status())
}

#[test]
fn whom_nginx_turns_away_is_not_served() {
    let (upstream, site) = (Upstream::start(), Site::new());
    let check = servers::nginx(CHECK);
    let folder = tempfile::tempdir().expect("a folder");
    write_files(folder.path());
    let root = site.root().canonicalize().expect("there");
    make_readable(root.ancestors().take(2).chain([folder.path()]));
    let all: Vec<Form> =
        ["access.txt", "conditions.txt", "places.txt", "redirected.txt", "rewritten.txt", "addresses.txt"]
            .iter()
            .flat_map(|file| forms(file))
            .collect();
    let port = free_port();
    let (up, asked) = (upstream.address.to_string(), check.address.to_string());
    let (path, root) = (folder.path().display().to_string(), root.display().to_string());
    let fixed = [("@UPSTREAM@", up.as_str()), ("@CHECK@", &asked), ("@DIR@", &path), ("@ROOT@", &root)];
    let text = configuration(&all, folder.path(), &port.to_string(), &fixed);
    let file = folder.path().join("nginx.conf");
    fs::write(&file, &text).expect("written");
    let theirs = ([127, 0, 0, 1], port).into();
    let _nginx = run_nginx(&file, folder.path(), port);
    let gateway = Gateway::start_from_file(YAML_PROVIDER, "nginx", &file);
    let (mut open, mut other, mut closed, mut total) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for form in &all {
        for request in &form.requests {
            let (real, ours) = (ask(theirs, &form.name, request), ask(gateway.http, &form.name, request));
            total += 1;
            let line = format!("{}: {request}: nginx {real}, ours {ours}", form.name);
            match ours {
                _ if real == ours => {}
                ..400 if matches!(real, 401 | 403 | 404 | 405 | 413 | 444) => open.push(line),
                501 => closed.push(line),
                // `error_page` with another status, which the report names.
                400.. if real >= 400 => closed.push(line),
                _ => other.push(line),
            }
        }
    }
    println!("{total} requests, {} closed:\n{}", closed.len(), closed.join("\n"));
    assert!(open.is_empty(), "served, though nginx turns away:\n{}", open.join("\n"));
    assert!(other.is_empty(), "neither nginx's answer nor closed:\n{}", other.join("\n"));
    assert!(closed.len() * 3 <= total, "{} of {total} are closed:\n{}", closed.len(), closed.join("\n"));
}

/// HTTP/1.0 without Host: `$host` is the server's first name.
#[test]
fn a_request_without_host_has_the_name_of_its_server() {
    let upstream = Upstream::start();
    let folder = tempfile::tempdir().expect("a folder");
    make_readable([folder.path()].into_iter());
    let port = free_port();
    let path = folder.path().display();
    let text = format!(
        "worker_processes 1; pid {path}/nginx.pid; events {{ worker_connections 64; }}\n         http {{ access_log off; map $host $named {{ default 0; adm.com 1; }}\n         server {{ listen {port}; server_name adm.com a.com;\n         location /if {{ if ($host = adm.com) {{ return 403; }} proxy_pass http://{up}; }}\n         location /map {{ if ($named) {{ return 403; }} proxy_pass http://{up}; }}\n         location /not {{ if ($host !~ ^a\\.) {{ return 403; }} proxy_pass http://{up}; }}\n         location / {{ proxy_pass http://{up}; }} }} }}\n",
        up = upstream.address
    );
    let file = folder.path().join("nginx.conf");
    fs::write(&file, &text).expect("written");
    let _nginx = run_nginx(&file, folder.path(), port);
    let gateway = Gateway::start_from_file(YAML_PROVIDER, "nginx", &file);
    for path in ["/if", "/map", "/not", "/else"] {
        let [theirs, ours] = [([127, 0, 0, 1], port).into(), gateway.http].map(|address| {
            let mut client = Client::connect(address).expect("connects");
            client.send(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).expect("sent");
            client.response().expect("an answer").status()
        });
        assert_eq!(theirs, ours, "{path}");
    }
}

/// nginx writes `::ffff:127.0.0.1` there.
#[test]
fn addresses_of_ipv4_at_a_listener_of_ipv6_are_not_compared() {
    let upstream = Upstream::start();
    let text = |listen: &str| {
        format!(
            "map $remote_addr $near {{ default 0; 127.0.0.1 1; }}\n\
             server {{ listen {listen};\n\
             location /if {{ if ($remote_addr !~ ^127) {{ return 403; }} proxy_pass http://{up}; }}\n\
             location /map {{ if ($near = 0) {{ return 403; }} proxy_pass http://{up}; }}\n\
             location /allow {{ allow 127.0.0.1; deny all; proxy_pass http://{up}; }} }}",
            up = upstream.address
        )
    };
    for (listen, compared) in [("80", 200), ("[::]:80 ipv6only=off", 501)] {
        let gateway = Gateway::start_from("nginx", &text(listen));
        for (path, expected) in [("/if", compared), ("/map", compared), ("/allow", 200)] {
            let status = gateway.client().get("h", path).expect("an answer").status();
            assert_eq!(status, expected, "{listen} {path}");
        }
    }
}

/// Directives of modules that Debian's nginx does not have.
#[test]
fn guards_that_nobody_here_knows_stay_closed() {
    let upstream = Upstream::start();
    let folder = tempfile::tempdir().expect("a folder");
    let all = forms("unknown.txt");
    let text = configuration(&all, folder.path(), "80", &[("@UPSTREAM@", &upstream.address.to_string())]);
    let file = folder.path().join("nginx.conf");
    fs::write(&file, &text).expect("written");
    let gateway = Gateway::start_from_file(YAML_PROVIDER, "nginx", &file);
    for form in &all {
        for request in &form.requests {
            assert_eq!(ask(gateway.http, &form.name, request), 501, "{}: {request}", form.name);
        }
    }
    assert!(upstream.take().is_empty(), "nothing reached the upstream");
}
