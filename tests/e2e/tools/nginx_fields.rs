//! `add_header` and `expires` of imported nginx configurations, and nginx itself beside them: what errors say of caches.

use std::net::SocketAddr;

use tidegate_testkit::{Gateway, client::Client, servers};

use crate::plugins::static_files::Site;

/// Each with files and an error; `/always/` and `/hidden/` have fields that errors need as well.
const SERVER: &str = "
  location /plain/ { alias @ROOT@/; expires 7d; }
  location /both/ { alias @ROOT@/; expires 7d; add_header Cache-Control public; }
  location /always/ { alias @ROOT@/; expires 30d; add_header X-A 1 always; }
  location /added/ { alias @ROOT@/; add_header Cache-Control \"public, max-age=60\"; add_header X-A 1 always; }
  location /hidden/ { alias @ROOT@/; expires 30d; proxy_hide_header X-P; }
  location = /text { expires 1h; add_header X-A 1 always; add_header X-B 2; return 200 text; }
  location = /error { expires 1h; add_header X-A 1 always; add_header X-B 2; return 503; }
  location /denied/ { expires 1h; add_header X-A 1 always; add_header X-B 2; deny all; }
";

/// Status and fields, lines of one name as one.
fn told(address: SocketAddr, target: &str) -> (u16, String, String) {
    let mut client = Client::connect(address).expect("connects");
    let request = format!("GET {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    let answer = client.request(&request).expect("an answer");
    let of = |wanted: &str| {
        let values = answer.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case(wanted));
        values.map(|(_, value)| value.clone()).collect::<Vec<_>>().join(", ")
    };
    (answer.status(), of("Cache-Control"), format!("{} {}", of("X-A"), of("X-B")))
}

#[test]
fn errors_are_kept_no_longer_than_nginx_lets_them() {
    let site = Site::new();
    let root = site.root().canonicalize().expect("there");
    crate::tools::nginx_guards::make_readable(root.ancestors().take(2));
    let server = SERVER.replace("@ROOT@", &root.display().to_string());
    let nginx = servers::nginx(&server);
    let gateway = Gateway::start_from("nginx", &format!("server {{ listen 80;\n{server}}}"));
    for target in
        ["/plain/page.txt", "/plain/none", "/both/page.txt", "/both/none", "/text", "/error", "/denied/x"]
    {
        assert_eq!(told(gateway.http, target), told(nginx.address, target), "{target}");
    }
    for place in ["always", "added", "hidden"] {
        for (name, status) in [("page.txt", 200), ("none", 404)] {
            let target = format!("/{place}/{name}");
            let (theirs, ours) = (told(nginx.address, &target), told(gateway.http, &target));
            assert_eq!((theirs.0, ours.0), (status, status), "{target}");
            assert_eq!((ours.1.as_str(), &ours.2), ("", &theirs.2), "{target}");
        }
    }
    let said = gateway.process.output();
    assert_eq!(said.matches("not supported: expires: beside").count(), 2, "{said}");
    assert!(said.contains("`Cache-Control` is on no answer: errors would be kept as well"), "{said}");
}

/// What `rewrite` redirects to has the fields of its place, as what `return` does.
const REWRITES: &str = "
  add_header X-A server always; add_header X-B server;
  rewrite ^/server/(.*)$ /new/$1 permanent;
  location /old/ { rewrite ^/old/(.*)$ https://other.test/$1 permanent; return 404; }
  location /flag/ { rewrite ^/flag/(.*)$ /new/$1 redirect; return 404; }
  location /absolute/ { rewrite ^/absolute/(.*)$ https://other.test/$1; return 404; }
  location /own/ { add_header X-A own always; rewrite ^/own/(.*)$ /new/$1 redirect; return 404; }
  location /plain/ { add_header X-B own; rewrite ^/plain/(.*)$ /new/$1 redirect; return 404; }
  location /if/ { if ($arg_a = 1) { add_header X-A if always; rewrite ^ /new permanent; } return 404; }
  location /inherited/ { if ($arg_a = 1) { rewrite ^ /new permanent; } return 404; }
  location /kept/ { expires 1h; rewrite ^ /new redirect; return 404; }
  location /value/ { add_header X-A $arg_a always; rewrite ^ /new redirect; return 404; }
";

#[test]
fn redirects_of_rewrites_have_the_fields_of_their_place() {
    let nginx = servers::nginx(REWRITES);
    let gateway = Gateway::start_from("nginx", &format!("server {{ listen 80;\n{REWRITES}}}"));
    for target in [
        "/server/x",
        "/old/x",
        "/flag/x",
        "/absolute/x",
        "/own/x",
        "/plain/x",
        "/if/x?a=1",
        "/if/x",
        "/inherited/x?a=1",
        "/kept/x",
        "/value/x?a=1",
    ] {
        assert_eq!(told(gateway.http, target), told(nginx.address, target), "{target}");
    }
    let said = gateway.process.output();
    assert!(said.contains("8 of 9 locations behave as in nginx; 1 answer differently"), "{said}");
    // nginx sends a page in place of the redirect.
    let text =
        "server { listen 80; error_page 301 /page; location / { rewrite ^ /new permanent; return 404; } }";
    let gateway = Gateway::start_from("nginx", text);
    assert_eq!(told(gateway.http, "/x").0, 501, "{}", gateway.process.output());
}
