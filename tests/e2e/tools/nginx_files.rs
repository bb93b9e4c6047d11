//! nginx configurations that serve files, imported, and nginx itself on the same directory: the same answers.

use tidegate_testkit::Gateway;
use tidegate_testkit::client::Client;

use crate::plugins::static_files::Site;

const SERVER: &str = "
  index index.html;
  location / { try_files $uri $uri/ =404; }
  location /app/ { alias @ROOT@/sub/; }
  location = /exact.txt { try_files /page.txt =404; }
  location ~ \\.js$ { gzip_static on; add_header X-Kind script always; }
  location /deep/ { alias @ROOT@/; try_files $uri/index.html =404; }
  location /list/ { alias @ROOT@/bare/; autoindex on; }
  location /img { alias @ROOT@/sub; }
  location /shown { alias @ROOT@/bare; autoindex on; }
";

/// Handlers and guards that are not converted must not become files.
const CLOSED: &str = "server {
  root @ROOT@;
  location ~ \\.txt$ { fastcgi_pass 127.0.0.1:9000; }
  location /sub/ { rewrite ^ /login; }
  location /bare/ { deny all; }
  location /named/ { try_files $uri @other; }
  location /args/ { try_files $uri /index.html?$args; }
}";

#[test]
fn imported_sites_answer_as_nginx_does() {
    let site = Site::new();
    let root = site.root().canonicalize().expect("there");
    let server = SERVER.replace("@ROOT@", root.to_str().expect("UTF-8"));
    // nginx's workers run as another user.
    for folder in root.ancestors().take(2) {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(folder, mode).expect("readable");
    }
    let body = format!("root {};\n{server}", root.display());
    let nginx = tidegate_testkit::servers::nginx(&body);
    let gateway = Gateway::start_from("nginx", &format!("server {{ listen 80;\n{body}}}"));
    let mut wrong = Vec::new();
    for (target, fields) in [
        ("/", ""),
        ("/page.txt", ""),
        ("/page.txt", "Range: bytes=2-4\r\n"),
        ("/sub/", ""),
        ("/sub", ""),
        ("/bare/", ""),
        ("/none", ""),
        ("/app/", ""),
        ("/app/none", ""),
        ("/exact.txt", ""),
        ("/coded.js", "Accept-Encoding: gzip\r\n"),
        ("/coded.js", ""),
        ("/list/file.txt", ""),
        ("/.hidden", ""),
        ("/deep/", ""),
        ("/deep/sub/", ""),
        ("/deep/sub", ""),
        ("/a%20b/%C3%BC.txt", ""),
        ("/img", ""),
        ("/img?x=1", ""),
        ("/img/", ""),
        ("/img/none", ""),
        ("/shown", ""),
    ] {
        let ask = |address| {
            let mut client = Client::connect(address).expect("connects");
            client.request(&format!("GET {target} HTTP/1.1\r\nHost: h\r\n{fields}\r\n")).expect("an answer")
        };
        let (theirs, ours) = (ask(nginx.address), ask(gateway.http));
        let telling = |answer: &tidegate_testkit::Message| {
            let page = answer.status() >= 300;
            let of = |name: &str| answer.header(name).unwrap_or_default().to_owned();
            let body = if page { String::new() } else { answer.body_text() };
            let own = format!("http://h:{}", nginx.address.port());
            let to = of("Location").replace(&own, "");
            (answer.status(), body, of("Content-Encoding"), of("Content-Range"), of("X-Kind"), to)
        };
        if telling(&theirs) != telling(&ours) {
            wrong.push(format!("{target} {fields:?}:\n  nginx {theirs:?}\n  ours  {ours:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_is_not_converted_is_closed() {
    let site = Site::new();
    let gateway =
        Gateway::start_from("nginx", &CLOSED.replace("@ROOT@", site.root().to_str().expect("UTF-8")));
    let status = |target: &str| gateway.client().get("h", target).expect("an answer").status();
    for target in ["/page.txt", "/sub/", "/bare/file.txt", "/named/x", "/args/x", "/sub/index.html"] {
        assert_eq!(status(target), 501, "{target}");
    }
    assert_eq!(status("/about.html"), 200, "the rest comes from the server's root");
    assert_eq!(status("/../secret.txt"), 400);
}
