//! `tidegate import nginx FILE --check-against URL` beside a real nginx.

use std::{fs, path::Path, process::Command};

use tidegate_testkit::{Upstream, free_port, gateway::binary, process::Process, servers};

use crate::protocols::certs::Authority;

const EQUAL: &str = "
  add_header X-Site yes;
  location / { proxy_pass http://@UP@; }
  location /admin/ { deny all; proxy_pass http://@UP@; }
  location /old { return 302 /new; }
  location ~ \\.php$ { return 404; }
  location = /empty { return 204; }
";

fn start_nginx(folder: &Path, port: u16, server: &str) -> Process {
    let path = folder.display();
    let text = format!(
        "pid {path}/pid; events {{ }} http {{ access_log off; client_body_temp_path {path}/1; proxy_temp_path {path}/2; \
         fastcgi_temp_path {path}/3; uwsgi_temp_path {path}/4; scgi_temp_path {path}/5;\n\
         server {{ listen {port}; server_name shop.example; {server} }} }}\n"
    );
    let file = folder.join("nginx.conf");
    fs::write(&file, text).expect("written");
    run_nginx(&file, folder, port)
}

/// nginx with this file, which listens at this port.
pub(super) fn run_nginx(file: &Path, folder: &Path, port: u16) -> Process {
    let mut command = Command::new(servers::find("nginx"));
    command.arg("-c").arg(file).arg("-p").arg(folder).args(["-e", "stderr", "-g", "daemon off;"]);
    let mut nginx = Process::start("nginx", &mut command);
    nginx.wait_for_port(([127, 0, 0, 1], port).into());
    nginx
}

/// Success, what was printed, and the report.
pub(super) fn check(folder: &Path, port: u16) -> (bool, String, String) {
    let mut command = Command::new(binary());
    command.args(["import", "nginx"]).arg(folder.join("nginx.conf"));
    command.arg("--check-against").arg(format!("http://127.0.0.1:{port}"));
    let output = command.output().expect("the binary runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.success(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn equal_answers_are_the_same() {
    let origin = servers::nginx("location / { return 200 up; }");
    let folder = tempfile::tempdir().expect("a folder");
    let port = free_port();
    let _nginx = start_nginx(folder.path(), port, &EQUAL.replace("@UP@", &origin.address.to_string()));
    let (fine, said, _) = check(folder.path(), port);
    assert!(fine && said.contains("answers are the same, 0 closed here, 0 differ"), "{said}");
}

#[test]
fn differences_are_shown_with_their_lines() {
    let upstream = Upstream::start();
    let folder = tempfile::tempdir().expect("a folder");
    let port = free_port();
    let server =
        "\nlocation /changed { return 200 a; }\nlocation /closed { sub_filter a b; proxy_pass http://@UP@; }";
    let server = server.replace("@UP@", &upstream.address.to_string());
    let _nginx = start_nginx(folder.path(), port, &server);
    // The file is not the one that nginx runs.
    let file = folder.path().join("nginx.conf");
    let text = fs::read_to_string(&file).expect("it is there");
    fs::write(&file, text.replace("return 200 a;", "return 403;")).expect("written");
    let (fine, said, _) = check(folder.path(), port);
    assert!(!fine, "{said}");
    assert!(
        said.contains("nginx.conf:3: GET /changed (Host: shop.example): status: nginx 200, here 403"),
        "{said}"
    );
    assert!(said.contains("nginx.conf:4: GET /closed (Host: shop.example): closed; nginx 200"), "{said}");
    assert!(
        upstream
            .take()
            .iter()
            .all(|seen| ["GET ", "HEAD "].iter().any(|method| seen.text().starts_with(method)))
    );
}

#[test]
fn ports_with_and_without_tls_are_compared_in_one_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let (plain, secure) = (free_port(), free_port());
    let authority = Authority::new();
    let pair = authority.issue("shop.example");
    for (name, text) in [("cert.pem", &pair.cert), ("key.pem", &pair.key), ("ca.pem", &authority.cert)] {
        fs::write(folder.path().join(name), text).expect("written");
    }
    let server = format!(
        "return 301 https://$host:{secure}$request_uri; }}
         server {{ listen {secure} ssl; server_name shop.example; ssl_certificate {0}/cert.pem; ssl_certificate_key {0}/key.pem;
         location / {{ return 302 /to/$scheme; }} location /a/ {{ return 302 /b; }}",
        folder.path().display()
    );
    let _nginx = start_nginx(folder.path(), plain, &server);
    let check = |urls: &[String], trust: &[&str]| {
        let mut command = Command::new(binary());
        command.args(["import", "nginx"]).arg(folder.path().join("nginx.conf")).args(trust);
        urls.iter().for_each(|url| _ = command.arg("--check-against").arg(url));
        let output = command.output().expect("the binary runs");
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&said).into_owned())
    };
    let (http, https) = (format!("http://127.0.0.1:{plain}"), format!("https://127.0.0.1:{secure}"));
    let certificate = folder.path().join("ca.pem").display().to_string();
    for trust in [&["--insecure"][..], &["--cacert", &certificate]] {
        let (fine, said) = check(&[http.clone(), https.clone()], trust);
        assert!(fine && said.contains(", 0 closed here, 0 differ"), "{said}");
        assert!(said.contains("2 of 2 locations behave as in nginx"), "{said}");
    }
    let (fine, said) = check(&[https], &[]);
    assert!(!fine && said.contains("give --cacert FILE, or --insecure"), "{said}");
    let (fine, said) = check(&[format!("http://127.0.0.1:{secure}")], &[]);
    assert!(!fine && said.contains("is for HTTPS: give https://"), "{said}");
}

#[test]
fn only_an_address_can_be_given() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("nginx.conf"), "server { listen 80; }").expect("written");
    for bad in ["ftp://127.0.0.1", "http://127.0.0.1/path", "http://user@127.0.0.1", "127.0.0.1:80"] {
        let mut command = Command::new(binary());
        command
            .args(["import", "nginx"])
            .arg(folder.path().join("nginx.conf"))
            .args(["--check-against", bad]);
        let output = command.output().expect("the binary runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains("give http://HOST:PORT"), "{bad}: {said}");
    }
}
