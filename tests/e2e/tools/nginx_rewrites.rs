//! nginx configurations that rewrite, limit and change answers, imported, and nginx itself in front of the same upstream.

use std::{
    fs,
    net::SocketAddr,
    process::Command,
    time::{Duration, Instant},
};

use tidegate_testkit::{
    Gateway, Message, PATIENCE, Upstream,
    client::Client,
    free_port,
    gateway::YAML_PROVIDER,
    upstream::{Behaviour, Step},
};

/// Valid for nginx and for the import.
const SERVER: &str = r#"
  rewrite ^/gone/(.*)$ http://new.example/$1 permanent;
  rewrite ^/gone-too/(.*)$ http://new.example/$1? redirect;
  rewrite "^/moved/(\d{2})/(.*)$" /api/$2?year=$1 last;
  location / { proxy_pass http://@UPSTREAM@; }
  location ^~ /api/ { proxy_pass http://@UPSTREAM@/v1/; }
  location /inside/ { rewrite ^/inside/(.*)$ /deep/$1 break; proxy_pass http://@UPSTREAM@/unused/; }
  location /users/{ rewrite ^/users/(\d+)$ /show?id=$1 break; rewrite /x /all break; proxy_pass http://@UPSTREAM@; }
  location /shop/ { rewrite ^/shop/(.*)/old$ /exact last; rewrite ^/shop/(.*)$ /api/shop/$1; }
  location = /exact { return 200 exact; }
  location /script/ { rewrite \.php$ /run last; proxy_pass http://@UPSTREAM@; }
  location ~ \.php$ { return 403; }
  location ~ ^/img/ { rewrite ^/img/(.)(.*)$ /pictures/$1/$2 break; proxy_pass http://@UPSTREAM@; }
  location /teapot { return 418 "a teapot"; }
  location /away { return 302 http://other.example/?back=$request_uri; }
  location /good { add_header X-Good yes; proxy_pass http://@UPSTREAM@; }
  location /good/none { add_header X-Good yes; return 404; }
  location /any/none { add_header X-Any "a: b/" always; return 404; }
"#;

fn ask(address: SocketAddr, target: &str, fields: &str) -> Message {
    let mut client = Client::connect(address).expect("connects");
    client.request(&format!("GET {target} HTTP/1.1\r\nHost: h\r\n{fields}\r\n")).expect("an answer")
}

/// `$host` is a name in lower case, without the client's port and the dot at the end.
#[test]
fn the_upstream_gets_the_host_that_nginx_sends() {
    let upstream = Upstream::start();
    let up = upstream.address;
    let server = format!(
        "location /name {{ proxy_set_header Host $host; proxy_pass http://{up}; }}\n\
         location /sent {{ proxy_set_header Host $http_host; proxy_pass http://{up}; }}\n"
    );
    let nginx = tidegate_testkit::servers::nginx(&server);
    let gateway = Gateway::start_from("nginx", &format!("server {{ listen 80; {server} }}"));
    for target in ["/name", "/sent"] {
        for host in ["EX.com", "ex.com.", "ex.com:1", "a.b"] {
            let [theirs, ours] = [nginx.address, gateway.http].map(|address| {
                let mut client = Client::connect(address).expect("connects");
                let request = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n");
                assert_eq!(client.request(&request).expect("an answer").status(), 200, "{target} {host}");
                let seen = upstream.take().pop().expect("a request").text();
                let line =
                    seen.lines().find(|line| line.to_lowercase().starts_with("host:")).map(str::to_owned);
                line.expect("a host")
            });
            assert_eq!(theirs, ours, "{target} {host}");
        }
    }
}

#[test]
fn rewritten_requests_go_where_nginx_sends_them() {
    let upstream = Upstream::start();
    let server = SERVER.replace("@UPSTREAM@", &upstream.address.to_string());
    let nginx = tidegate_testkit::servers::nginx(&server);
    let gateway = Gateway::start_from("nginx", &format!("server {{ listen 80; {server} }}"));
    let mut wrong = Vec::new();
    for target in [
        "/",
        "/gone/a/b?x=1",
        "/gone/a%20b",
        "/gone-too/a?x=1",
        "/moved/21/x?y=1",
        "/moved/2/x",
        "/api/x",
        "/inside/a%20b?c=d",
        "/inside",
        "/inside?a=b",
        "/users/7",
        "/users/7?a=b",
        "/users/x",
        "/users/y",
        "/shop/a/old",
        "/shop/a",
        "/exact",
        "/exact/not",
        "/script/a.php",
        "/script/a",
        "/img/cat.png",
        "/img/",
        "/teapot",
        "/away?x",
        "/good",
        "/good/none",
        "/any/none",
    ] {
        let tell = |address: SocketAddr| {
            upstream.take();
            let answer = ask(address, target, "");
            let seen: String = upstream.take().iter().map(tidegate_testkit::Seen::text).collect();
            let of = |name: &str| answer.header(name).unwrap_or_default().to_owned();
            // nginx puts its own address before a path.
            let location = of("Location").replace(&format!("http://h:{}", address.port()), "");
            let body =
                if answer.status() == 200 && seen.is_empty() { answer.body_text() } else { String::new() };
            let line = seen.lines().next().unwrap_or_default().replace("HTTP/1.0", "HTTP/1.1");
            (answer.status(), location, of("X-Good"), of("X-Any"), line, body)
        };
        let (theirs, ours) = (tell(nginx.address), tell(gateway.http));
        if theirs != ours {
            wrong.push(format!("{target}:\n  nginx {theirs:?}\n  ours  {ours:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}\n{}", wrong.join("\n"), gateway.process.output());
}

#[test]
fn connections_beyond_the_limit_are_refused() {
    let upstream = Upstream::with(|request| {
        let wait =
            if request.target().contains("wait") { Duration::from_millis(400) } else { Duration::ZERO };
        Behaviour { read_body: true, steps: vec![Step::Wait(wait), Step::Echo] }
    });
    let server = format!(
        "location / {{ limit_conn one 1; limit_conn_status 429; proxy_pass http://{}; }}",
        upstream.address
    );
    let zone = "limit_conn_zone $binary_remote_addr zone=one:1m;";
    let gateway = Gateway::start_from("nginx", &format!("{zone} server {{ {server} }}"));
    let mut first = Client::connect(gateway.http).expect("connects");
    first.send(b"GET /wait HTTP/1.1\r\nHost: h\r\n\r\n").expect("sent");
    upstream.wait_for(1);
    assert_eq!(ask(gateway.http, "/", "").status(), 429);
    assert_eq!(first.response().expect("an answer").status(), 200);
    let deadline = Instant::now() + PATIENCE;
    while ask(gateway.http, "/", "").status() != 200 {
        assert!(Instant::now() < deadline, "the place is not free again");
    }
}

const PAGE: &str = "0123456789012345678901234567890123456789";

#[test]
fn compressed_answers_are_those_that_nginx_compresses() {
    let body = format!(
        "gzip on; gzip_types text/css; gzip_min_length 30; gzip_vary on;
         location /page {{ default_type text/html; return 200 {PAGE}; }}
         location /style {{ default_type text/css; return 200 {PAGE}; }}
         location /plain {{ default_type text/plain; return 200 {PAGE}; }}
         location /short {{ default_type text/html; return 200 short; }}"
    );
    // What answers: the import proxies to it with the same gzip directives.
    let origin = tidegate_testkit::servers::nginx(&body.replace("gzip on;", "gzip off;"));
    let front = format!(
        "gzip on; gzip_types text/css; gzip_min_length 30; gzip_vary on; \
         location / {{ proxy_pass http://{}; }}",
        origin.address
    );
    let nginx =
        tidegate_testkit::servers::nginx(&front.replace("proxy_pass", "proxy_http_version 1.1; proxy_pass"));
    let gateway = Gateway::start_from("nginx", &format!("server {{ {front} }}"));
    for target in ["/page", "/style", "/plain", "/short"] {
        let coding = |address| {
            let answer = ask(address, target, "Accept-Encoding: gzip\r\n");
            let of = |name: &str| answer.header(name).unwrap_or_default().to_owned();
            (answer.status(), of("Content-Encoding"), of("Vary"))
        };
        assert_eq!(coding(gateway.http), coding(nginx.address), "{target}");
    }
}

#[test]
fn certificates_are_read_and_ports_tell_servers_apart() {
    let pair = crate::protocols::certs::self_signed("secure.example");
    let folder = tempfile::tempdir().expect("a folder");
    let (cert, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    fs::write(&cert, &pair.cert).and_then(|()| fs::write(&key, &pair.key)).expect("written");
    let port = free_port();
    let config = YAML_PROVIDER
        .replace("ssl: {enable: false}", &format!("ssl: {{listen: [{{ip: 127.0.0.1, port: {port}}}]}}"));
    let gateway = Gateway::start_from_with(
        &config,
        "nginx",
        &format!(
            "server {{ listen 80; server_name secure.example; return 301 https://$host$request_uri; }}
             server {{ listen 443 ssl; server_name secure.example; ssl_protocols TLSv1.2 TLSv1.3;
             ssl_certificate {}; ssl_certificate_key {}; location / {{ return 200 secret; }} }}
             server {{ listen 443 ssl; server_name bare.example; ssl_certificate none.pem;
             ssl_certificate_key {}; location / {{ return 200 bare; }} }}",
            cert.display(),
            key.display(),
            key.display()
        ),
    );
    gateway.process.wait_for_output("not supported: ssl_certificate: ");
    let answer = ask(gateway.http, "/a?b", "");
    assert_eq!((answer.status(), answer.header("Location")), (301, Some("https://h/a?b")));
    let output = Command::new("curl")
        .args([
            "-sS",
            "--max-time",
            "5",
            "--resolve",
            &format!("secure.example:{port}:127.0.0.1"),
            "--cacert",
        ])
        .arg(&cert)
        .arg(format!("https://secure.example:{port}/"))
        .output()
        .expect("curl runs; scripts/install-deps.sh installs it");
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said, "secret", "{}{}", String::from_utf8_lossy(&output.stderr), gateway.error_log());
}
