//! `error_page` of imported nginx configurations, and nginx itself beside them.

use std::{fs, net::SocketAddr, path::Path};

use tidegate_testkit::{Gateway, client::Client, servers};

use crate::tools::nginx_guards::{CHECK, make_readable};

const ORIGIN: &str = r#"
  location /fails { return 500 "a trace of the origin"; }
  location /missing { return 404 "the origin knows no such thing"; }
  location / { return 200 "origin $request_method $request_uri"; }
"#;

/// Paths, each with the places to ask; `nginx` answers all of them.
const EQUAL: &str = r#"
  types { text/html html; text/plain txt; } default_type text/plain;
  location / { root @ROOT@; error_page 404 /404.html; }
  location /kept/ { root @ROOT@; error_page 404 403 /404.html; }
  location /fixed/ { root @ROOT@; error_page 404 =200 /404.html; }
  location /away/ { root @ROOT@; error_page 404 http://other.example/gone; }
  location /moved/ { root @ROOT@; error_page 404 =301 /gone-for-good; }
  location = /gone-for-good { return 200 "it was here"; }
  location /app/ { root @ROOT@; error_page 404 = @app; }
  location @app { proxy_pass http://@UP@; }
  location /single/ { root @ROOT@; error_page 404 =200 /single/index.html; }
  location /denied/ { deny all; error_page 403 /sorry; }
  location /denied-url/ { deny all; error_page 403 https://login.example/?from=$uri; }
  location /denied-named/ { deny all; error_page 403 = @app; }
  location /denied-file/ { deny all; error_page 403 =401 /sorry.html; }
  location = /sorry.html { root @ROOT@; }
  location = /sorry { return 200 "sorry"; }
  location /off/ { return 503; error_page 503 @down; }
  location @down { rewrite ^ /down.html break; root @ROOT@; }
  location /bare/ { return 410; error_page 410 =404 /bare-page; }
  location = /bare-page { return 418; }
  location /text/ { return 403 "its own text"; error_page 403 /sorry; }
  location /inner/ { internal; error_page 404 /sorry; }
  location /up/ { proxy_pass http://@UP@/; error_page 404 /404.html; }
  location /hidden/ { proxy_intercept_errors on; proxy_pass http://@UP@/; error_page 404 500 /404.html; }
"#;

const ASKED: [&str; 33] = [
    "/index.html",
    "/none",
    "/404.html",
    "/kept/none",
    "/kept/",
    "/fixed/none",
    "/away/none",
    "/away/file.txt",
    "/moved/none",
    "/app/none?a=b",
    "/app/file.txt",
    "/app/bare/",
    "/single/none/at/all",
    "/single/file.txt",
    "/single/",
    "/denied/x",
    "/denied-url/x",
    "/denied-named/x",
    "/denied-file/x",
    "/sorry.html",
    "/off/x",
    "/bare/x",
    "/text/x",
    "/inner/x",
    "/up/",
    "/up/missing",
    "/up/fails",
    "/hidden/",
    "/hidden/missing",
    "/hidden/fails",
    "/hidden/x?y=z",
    "/kept/file.txt",
    "/gone-for-good",
];

/// Status, Location, the media type of what is not a page of the server's own, and the body.
fn told(address: SocketAddr, method: &str, target: &str) -> String {
    let mut client = Client::connect(address).expect("connects");
    let length = if method == "POST" { "Content-Length: 0\r\n" } else { "" };
    let request = format!("{method} {target} HTTP/1.1\r\nHost: h\r\n{length}Connection: close\r\n\r\n");
    client.send(request.as_bytes()).expect("sent");
    let answer = client.response_to(method).expect("an answer");
    let field = |name: &str| answer.header(name).unwrap_or_default();
    let own = format!("http://h:{}", address.port());
    let body = answer.body_text();
    let is_page = ["<center>", "<p>Tidegate"].iter().any(|sign| body.contains(sign)) || body.is_empty();
    let (kind, body) =
        if is_page { (String::new(), String::new()) } else { (field("content-type").to_owned(), body) };
    format!("{} {:?} {kind} {body:?}", answer.status(), field("location").replace(&own, ""))
}

fn site() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in [
        ("404.html", "<p>not here</p>"),
        ("down.html", "<p>down</p>"),
        ("sorry.html", "<p>sorry</p>"),
        ("index.html", "<p>index</p>"),
        ("kept/file.txt", "kept"),
        ("away/file.txt", "away"),
        ("app/file.txt", "app"),
        ("app/bare/file.txt", "bare"),
        ("single/file.txt", "single"),
        ("single/index.html", "<p>single</p>"),
    ] {
        let file = folder.path().join(name);
        fs::create_dir_all(file.parent().expect("a folder")).expect("made");
        fs::write(file, text).expect("written");
    }
    make_readable([folder.path()].into_iter());
    folder
}

fn filled(text: &str, origin: &servers::Server, root: &Path) -> String {
    text.replace("@UP@", &origin.address.to_string()).replace("@ROOT@", &root.display().to_string())
}

#[test]
fn error_pages_are_those_of_nginx() {
    let (origin, site) = (servers::nginx(ORIGIN), site());
    let server = filled(EQUAL, &origin, site.path());
    let nginx = servers::nginx(&server);
    let gateway = Gateway::start_from("nginx", &format!("server {{ listen 80; {server} }}"));
    let mut wrong = Vec::new();
    for target in ASKED {
        for method in ["GET", "HEAD"] {
            let (theirs, ours) = (told(nginx.address, method, target), told(gateway.http, method, target));
            if theirs != ours {
                wrong.push(format!("{method} {target}:\n  nginx {theirs}\n  ours  {ours}"));
            }
        }
    }
    for target in ["/app/none", "/denied/x", "/denied-file/x", "/denied-named/x"] {
        let (theirs, ours) = (told(nginx.address, "POST", target), told(gateway.http, "POST", target));
        if theirs != ours {
            wrong.push(format!("POST {target}:\n  nginx {theirs}\n  ours  {ours}"));
        }
    }
    assert!(wrong.is_empty(), "{}\n{}", wrong.join("\n"), gateway.process.output());
    let app = told(gateway.http, "DELETE", "/app/none");
    assert!(app.starts_with("405"), "the upstream gets no method that nginx keeps from it: {app}");
}

/// Locations whose errors lead to what cannot be converted, with what the report says of them.
const CLOSED: [(&str, &str); 6] = [
    ("location /a/ { deny all; error_page 403 =200 @other; }", "an upstream answers"),
    ("location /a/ { root @ROOT@; error_page 403 = @other; }", "an upstream would answer"),
    (
        "location /a/ { root @ROOT@; error_page 404 = /b/x; } location /b/ { allow 10.0.0.0/8; deny all; root @ROOT@; }",
        "has guards of its own",
    ),
    (
        "location /a/ { proxy_intercept_errors on; proxy_pass http://@UP@; error_page 404 = @other; }",
        "an upstream would answer",
    ),
    (
        "location /a/ { proxy_intercept_errors on; add_header A b always; proxy_pass http://@UP@; error_page 404 /404.html; }",
        "upstreams' errors are hidden",
    ),
    ("location /a/ { recursive_error_pages on; root @ROOT@; error_page 404 /x; }", "recursive_error_pages"),
];

#[test]
fn what_shows_more_than_an_error_is_closed() {
    let (origin, site) = (servers::nginx(ORIGIN), site());
    for (location, why) in CLOSED {
        let text =
            format!("server {{ listen 80; {location} location @other {{ proxy_pass http://@UP@; }} }}");
        let gateway = Gateway::start_from("nginx", &filled(&text, &origin, site.path()));
        let answer = told(gateway.http, "GET", "/a/x");
        assert!(answer.starts_with("501"), "{location}: {answer}");
        let said = gateway.process.output();
        assert!(said.contains(why), "{location}: {said}");
    }
}

/// Locations whose errors come without the page, which an upstream would send: nobody sees more than the error.
const BARE: [(&str, &str, u16); 3] = [
    ("location /a/ { proxy_pass http://127.0.0.1:@CLOSED@; error_page 502 = @other; }", "@other", 502),
    (
        "location /a/ { auth_request /ask; error_page 401 = /sign-in; proxy_pass http://@UP@; }
         location = /ask { internal; proxy_pass http://@CHECK@/unauthorized; }
         location /sign-in { proxy_pass http://@UP@; }",
        "/sign-in",
        401,
    ),
    (
        "location /a/ { auth_request /ask; error_page 403 =200 @other; proxy_pass http://@UP@; }
         location = /ask { internal; proxy_pass http://@CHECK@/denied; }",
        "@other",
        403,
    ),
];

#[test]
fn errors_without_their_page_show_nothing_else() {
    let (origin, check, site) = (servers::nginx(ORIGIN), servers::nginx(CHECK), site());
    let closed = tidegate_testkit::free_port();
    for (location, page, status) in BARE {
        let text = filled(location, &origin, site.path())
            .replace("@CHECK@", &check.address.to_string())
            .replace("@CLOSED@", &closed.to_string());
        let other = filled("location @other { proxy_pass http://@UP@; }", &origin, site.path());
        let nginx = servers::nginx(&format!("{text} {other}"));
        let gateway = Gateway::start_from("nginx", &format!("server {{ listen 80; {text} {other} }}"));
        let (theirs, ours) = (told(nginx.address, "GET", "/a/x"), told(gateway.http, "GET", "/a/x"));
        assert!(theirs.starts_with("200") || theirs.starts_with("404"), "{location}: {theirs}");
        assert!(ours.starts_with(&status.to_string()), "{location}: {ours}");
        let wanted = format!(
            "not supported: error_page: {page}: errors have the gateway's pages: an upstream would answer"
        );
        let said = gateway.process.output();
        assert!(said.contains(&wanted) && said.contains("1 answer differently"), "{location}: {said}");
    }
}

#[test]
fn a_page_behind_a_guard_is_not_shown() {
    let (origin, site) = (servers::nginx(ORIGIN), site());
    let text = "server { listen 80;
      location /a/ { deny all; error_page 403 /404.html; }
      location = /404.html { auth_request /check; root @ROOT@; }
      location /b/ { deny all; error_page 403 /down.html; }
      location = /down.html { allow 10.0.0.1; deny all; root @ROOT@; }
      location = /check { internal; proxy_pass http://@UP@/missing; }
    }";
    let gateway = Gateway::start_from("nginx", &filled(text, &origin, site.path()));
    for target in ["/a/x", "/b/x"] {
        let answer = told(gateway.http, "GET", target);
        assert!(answer.starts_with("403") && !answer.contains("<p>"), "{target}: {answer}");
    }
}

#[test]
fn what_upstreams_say_of_errors_stays_hidden() {
    let (origin, site) = (servers::nginx(ORIGIN), site());
    let text = "server { listen 80;
      location / { proxy_intercept_errors on; proxy_pass http://@UP@; error_page 404 /404.html; error_page 500 /no-such-file; }
      location = /404.html { root @ROOT@; } location = /no-such-file { root @ROOT@; }
    }";
    let gateway = Gateway::start_from("nginx", &filled(text, &origin, site.path()));
    for target in ["/fails", "/missing"] {
        let answer = told(gateway.http, "GET", target);
        assert!(!answer.contains("origin"), "{answer}");
    }
    assert!(told(gateway.http, "GET", "/x").contains("origin GET /x"));
    let said = gateway.process.output();
    assert!(said.contains("the upstream's page is hidden"), "{said}");
}
