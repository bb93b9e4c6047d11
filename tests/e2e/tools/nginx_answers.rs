//! nginx configurations that translate answers of upstreams, imported, and nginx itself in front of the same upstream.

use std::net::SocketAddr;

use tidegate_testkit::{Gateway, client::Client};

/// The upstream: redirects to itself in several ways, and cookies. `$http_host` is its own address.
const ORIGIN: &str = r#"
  location /two/go { return 302 http://$http_host/two/there?a=b; }
  location /two/elsewhere { return 302 http://other.example/two/; }
  location /two/case { return 302 HTTP://$http_host/two/; }
  location /two/created { add_header Location http://$http_host/two/new always; return 201; }
  location /two/refresh { add_header Refresh "3; URL=http://$http_host/two/x"; return 200 fresh; }
  location /two/cookie {
    add_header Set-Cookie "a=b; Path=/two/deep; HttpOnly"; add_header Set-Cookie "c=d;domain=.inner.example;path=/";
    add_header Set-Cookie "path=/two/; Max-Age=3"; return 200 cookies;
  }
  location / { return 302 http://$http_host$request_uri/more; }
"#;

const SERVER: &str = r#"
  location / { proxy_pass http://@UP@; }
  location /one/ { proxy_pass http://@UP@/two/; }
  location /off/ { proxy_redirect off; proxy_pass http://@UP@/two/; }
  location /explicit/ { proxy_pass http://@UP@/two/; proxy_redirect default; proxy_redirect http://other.example/ /other/; }
  location /own/ { proxy_redirect http://@UP@/two/ https://front.example/; proxy_pass http://@UP@/two/; }
  location /host/ { proxy_redirect http://@UP@/ $scheme://$host/; proxy_pass http://@UP@/two/; }
  location = /exact { proxy_pass http://@UP@/two/go; }
  location ~ ^/two/(?<rest>.*)$ { proxy_pass http://@UP@; }
  location /cookies/ {
    proxy_pass http://@UP@/two/; proxy_cookie_path /two/ /cookies/; proxy_cookie_domain inner.example outer.example;
  }
  location /cookies-off/ { proxy_pass http://@UP@/two/; proxy_cookie_path off; proxy_cookie_domain off; }
"#;

fn told(address: SocketAddr, target: &str) -> (u16, Vec<String>) {
    let mut client = Client::connect(address).expect("connects");
    let request = format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n");
    let answer = client.request(&request).expect("an answer");
    // nginx puts its own address before a path.
    let own = format!("http://h:{}", address.port());
    let is_told = |name: &str| ["location", "refresh", "set-cookie"].contains(&name.to_lowercase().as_str());
    let fields = answer.headers.iter().filter(|(name, _)| is_told(name));
    (answer.status(), fields.map(|(_, value)| value.replace(&own, "")).collect())
}

#[test]
fn what_upstreams_say_of_themselves_is_translated_as_in_nginx() {
    let origin = tidegate_testkit::servers::nginx(ORIGIN);
    let server = SERVER.replace("@UP@", &origin.address.to_string());
    let nginx = tidegate_testkit::servers::nginx(&server);
    let gateway = Gateway::start_from("nginx", &format!("server {{ listen 80; {server} }}"));
    let mut wrong = Vec::new();
    for place in
        ["/", "/one/", "/off/", "/explicit/", "/own/", "/host/", "/two/", "/cookies/", "/cookies-off/"]
    {
        for name in ["go", "elsewhere", "case", "created", "refresh", "cookie"] {
            let target = format!("{place}{name}");
            let (theirs, ours) = (told(nginx.address, &target), told(gateway.http, &target));
            if theirs != ours {
                wrong.push(format!("{target}:\n  nginx {theirs:?}\n  ours  {ours:?}"));
            }
        }
    }
    assert_eq!(told(gateway.http, "/exact"), told(nginx.address, "/exact"));
    assert_eq!(told(gateway.http, "/one/go"), (302, vec!["/one/there?a=b".to_owned()]));
    assert!(wrong.is_empty(), "{}\n{}", wrong.join("\n"), gateway.process.output());
}

/// Groups that hash by a key which every request has: each request goes where nginx sends it, and the report has nothing to say.
const RINGS: &str = r#"
  upstream uri { hash $request_uri consistent; server @A@; server @B@; server @C@; }
  upstream heavy { hash $request_uri consistent; server @A@ weight=3; server @B@; server @C@ weight=2; }
  upstream field { hash $http_x consistent; server @A@; server @B@; server @C@; }
  upstream even { hash $request_uri consistent; server @A@ weight=2; server @B@ weight=2; server @C@ weight=4; }
"#;

#[test]
fn keys_stay_where_nginx_has_them() {
    let nodes: Vec<_> = (0..3)
        .map(|number| tidegate_testkit::servers::nginx(&format!("location / {{ return 200 {number}; }}")))
        .collect();
    let mut text = RINGS.to_owned();
    for (name, node) in ["@A@", "@B@", "@C@"].iter().zip(&nodes) {
        text = text.replace(name, &node.address.to_string());
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (path, port) = (folder.path().display(), tidegate_testkit::free_port());
    let places =
        ["uri", "heavy", "field"].map(|name| format!("location /{name}/ {{ proxy_pass http://{name}; }}"));
    let whole = format!(
        "pid {path}/pid; events {{ }} http {{ access_log off; client_body_temp_path {path}/1; proxy_temp_path {path}/2; \
         fastcgi_temp_path {path}/3; uwsgi_temp_path {path}/4; scgi_temp_path {path}/5;\n{text}\n\
         server {{ listen {port}; {} location /even/ {{ proxy_pass http://even; }} }} }}",
        places.concat()
    );
    let file = folder.path().join("nginx.conf");
    std::fs::write(&file, whole).expect("written");
    let _nginx = crate::tools::nginx_check::run_nginx(&file, folder.path(), port);
    let gateway = Gateway::start_from_file(tidegate_testkit::gateway::YAML_PROVIDER, "nginx", &file);
    let node = |address: SocketAddr, target: &str| {
        let request = format!("GET {target} HTTP/1.1\r\nHost: h\r\nX: {target}\r\nConnection: close\r\n\r\n");
        Client::connect(address).expect("connects").request(&request).expect("an answer").body_text()
    };
    let mut moved = Vec::new();
    for place in ["uri", "heavy", "field"] {
        for (number, form) in
            (0..40).flat_map(|number| ["a", "%61%2Fb", "/a", "b/../a", "a?b=%2e&"].map(|form| (number, form)))
        {
            let target = format!("/{place}/{form}{number}");
            let (theirs, ours) = (node(([127, 0, 0, 1], port).into(), &target), node(gateway.http, &target));
            if theirs != ours {
                moved.push(format!("{target}: nginx {theirs:?}, ours {ours:?}"));
            }
        }
    }
    assert!(moved.is_empty(), "{} moved:\n{}", moved.len(), moved.join("\n"));
    let said = gateway.process.output();
    assert!(said.contains("2 of 4 locations behave as in nginx; 2 answer differently"), "{said}");
    assert_eq!(
        said.matches("approximated: hash").count(),
        2,
        "fields may be missing, and weights divide: {said}"
    );
}
