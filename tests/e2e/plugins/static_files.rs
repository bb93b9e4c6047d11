//! Plugin `static-files` as clients see it: what is served, conditions, ranges, codings, protocols, and packets.

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;
use tidegate_testkit::gateway::{Gateway, YAML_PROVIDER};
use tidegate_testkit::{Message, free_port};

use crate::protocols::certs::{quoted, self_signed};

/// Larger than what is kept in memory, and no multiple of anything.
pub(crate) const LARGE_BYTES: usize = 3_000_017;

/// A directory to serve, and beside it a file that must never be seen.
pub(crate) struct Site {
    folder: TempDir,
}

impl Site {
    pub(crate) fn new() -> Site {
        let site = Site { folder: tempfile::tempdir().expect("a folder") };
        site.write("secret.txt", SECRET);
        site.write("www-other/file.txt", SECRET);
        for (name, text) in [
            ("index.html", "<p>index</p>"),
            ("page.txt", "0123456789"),
            ("empty.txt", ""),
            ("sub/index.html", "sub index"),
            ("bare/file.txt", "bare file"),
            ("a b/ü.txt", "umlaut"),
            (".hidden", SECRET),
            (".git/config", SECRET),
            (".well-known/acme", "acme"),
            ("coded.js", "plain"),
            ("coded.js.gz", "gzip"),
            ("coded.js.br", "brotli"),
            ("coded.js.zst", "zstd"),
            ("fallback.html", "fallback"),
            ("about.html", "about"),
        ] {
            site.write(&format!("www/{name}"), text);
        }
        fs::write(site.root().join("large.bin"), large()).expect("written");
        site
    }

    pub(crate) fn root(&self) -> std::path::PathBuf {
        self.folder.path().join("www")
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.folder.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
        fs::write(path, text).expect("written");
    }

    /// A gateway that serves it: a route for each prefix with its plugin configuration, `root` filled in.
    pub(crate) fn serve(&self, routes: &[(&str, Value)]) -> Gateway {
        Gateway::start(YAML_PROVIDER, Some(&self.routes(routes)))
    }

    pub(crate) fn routes(&self, routes: &[(&str, Value)]) -> String {
        let mut text = "routes:\n".to_owned();
        for (number, (uri, conf)) in routes.iter().enumerate() {
            let mut conf = conf.clone();
            if conf.get("root").is_none() {
                conf["root"] = self.root().to_str().expect("UTF-8").into();
            }
            let route = json!({"id": format!("r{number}"), "uri": uri, "plugins": {"static-files": conf}});
            text += &format!("- {route}\n");
        }
        text
    }
}

/// What no answer may hold.
pub(crate) const SECRET: &str = "outside-the-root";

pub(crate) fn large() -> Vec<u8> {
    (0..LARGE_BYTES).map(|at| (at * 31 / 7 % 251) as u8).collect()
}

pub(crate) fn get(gateway: &Gateway, target: &str, fields: &str) -> Message {
    ask(gateway, "GET", target, fields)
}

fn ask(gateway: &Gateway, method: &str, target: &str, fields: &str) -> Message {
    let mut client = gateway.client();
    client.send(format!("{method} {target} HTTP/1.1\r\nHost: h\r\n{fields}\r\n").as_bytes()).expect("sent");
    client.response_to(method).unwrap_or_else(|error| panic!("{method} {target} {fields:?}: {error}"))
}

#[test]
fn files_directories_and_what_is_not_there() {
    let site = Site::new();
    let gateway = site.serve(&[
        ("/*", json!({})),
        ("/s/*", json!({"strip_prefix": "/s", "autoindex": true})),
        ("/s", json!({"strip_prefix": "/s", "autoindex": true})),
        (
            "/app/*",
            json!({"strip_prefix": "/app/", "try_files": ["$uri", "$uri.html", "$uri/", "/fallback.html"]}),
        ),
        (
            "/strict/*",
            json!({"strip_prefix": "/strict", "try_files": ["$uri", "=410"], "types": {"txt": "text/x-own"}}),
        ),
        ("/gone/*", json!({"root": "/nonexistent/folder"})),
    ]);
    let check = |target: &str, status: u16, body: &str| {
        let answer = get(&gateway, target, "");
        assert_eq!(answer.status(), status, "{target}: {answer:?}");
        assert!(answer.body_text().contains(body), "{target}: {answer:?}");
        answer
    };
    // Twice: from the disk threads and from the cache.
    for _ in 0..2 {
        let page = check("/page.txt", 200, "0123456789");
        assert_eq!(page.header("Content-Type"), Some("text/plain; charset=utf-8"));
        assert_eq!(
            (page.header("Accept-Ranges"), page.header("Content-Length")),
            (Some("bytes"), Some("10"))
        );
        assert!(page.header("ETag").is_some_and(|tag| tag.starts_with('"')) && page.count("Vary") == 0);
        check("/", 200, "<p>index</p>");
        check("/sub/", 200, "sub index");
        check("/empty.txt", 200, "");
        check("/a%20b/%C3%BC.txt", 200, "umlaut");
        check("/.well-known/acme", 200, "acme");
        assert_eq!(check("/sub?x=1", 301, "").header("Location"), Some("/sub/?x=1"));
        assert_eq!(check("/a%20b", 301, "").header("Location"), Some("/a%20b/"));
        check("/bare/", 403, "");
        assert_eq!(check("/s?x=1", 301, "").header("Location"), Some("/s/?x=1"));
        check("/s/", 200, "<p>index</p>");
        check("/nothing", 404, "");
        check("/page.txt/", 404, "");
        check("/page.txt/x", 404, "");
        assert_eq!(get(&gateway, "/large.bin", "").body, large());
        check("/app/about", 200, "about");
        check("/app/some/deep/link", 200, "fallback");
        check("/app/sub/", 200, "sub index");
        check("/strict/none", 410, "");
        assert_eq!(
            check("/strict/page.txt", 200, "0").header("Content-Type"),
            Some("text/x-own; charset=utf-8")
        );
        check("/gone/x", 500, "");
    }
    let list = check("/s/bare/", 200, "<a href=\"./file.txt\">file.txt</a>");
    assert_eq!(list.header("Content-Type"), Some("text/html; charset=utf-8"));
    let hidden = check("/s/a%20b/", 200, "./%C3%BC.txt");
    assert!(!hidden.body_text().contains("<script"));
    let put = ask(&gateway, "PUT", "/page.txt", "Content-Length: 0\r\n");
    assert_eq!((put.status(), put.header("Allow")), (405, Some("GET, HEAD")));
}

#[test]
fn head_is_get_without_its_body() {
    let site = Site::new();
    let gateway = site.serve(&[("/*", json!({}))]);
    for target in ["/page.txt", "/large.bin", "/empty.txt", "/"] {
        let (head, whole) = (ask(&gateway, "HEAD", target, ""), get(&gateway, target, ""));
        assert_eq!(head.status(), 200, "{target}");
        for name in ["Content-Length", "Content-Type", "ETag", "Last-Modified"] {
            assert_eq!(head.header(name), whole.header(name), "{target}: {name}");
        }
    }
    // A range counts with GET only; a condition with both.
    assert_eq!(ask(&gateway, "HEAD", "/large.bin", "Range: bytes=0-1\r\n").status(), 200);
    let unchanged = ask(&gateway, "HEAD", "/page.txt", "If-None-Match: *\r\n");
    assert_eq!((unchanged.status(), unchanged.count("Content-Length")), (304, 0));
}

#[test]
fn conditions_and_ranges() {
    let site = Site::new();
    let gateway = site.serve(&[("/*", json!({"max_ranges": 4}))]);
    let (small, big) = (get(&gateway, "/page.txt", ""), get(&gateway, "/large.bin", ""));
    let field = |message: &Message, name: &str| message.header(name).unwrap_or_default().to_owned();
    let (etag, modified) = (field(&small, "ETag"), field(&small, "Last-Modified"));
    let old = "Sun, 06 Nov 1994 08:49:37 GMT";
    // (fields, status, body, Content-Range)
    let rows: &[(&str, u16, &str, &str)] = &[
        ("If-Match: {etag}", 200, "0123456789", ""),
        ("If-Match: *", 200, "0123456789", ""),
        ("If-Match: \"other\"", 412, "", ""),
        ("If-Match: W/{etag}", 412, "", ""),
        ("If-Unmodified-Since: {modified}", 200, "0123456789", ""),
        ("If-Unmodified-Since: {old}", 412, "", ""),
        ("If-Match: {etag}\r\nIf-Unmodified-Since: {old}", 200, "0123456789", ""),
        ("If-None-Match: {etag}", 304, "", ""),
        ("If-None-Match: W/{etag}", 304, "", ""),
        ("If-None-Match: \"x\", {etag}", 304, "", ""),
        ("If-None-Match: \"other\"", 200, "0123456789", ""),
        ("If-Modified-Since: {modified}", 304, "", ""),
        ("If-Modified-Since: {old}", 200, "0123456789", ""),
        ("If-None-Match: \"other\"\r\nIf-Modified-Since: {modified}", 200, "0123456789", ""),
        ("If-Match: \"other\"\r\nIf-None-Match: {etag}", 412, "", ""),
        ("Range: bytes=2-4", 206, "234", "bytes 2-4/10"),
        ("Range: bytes=-3", 206, "789", "bytes 7-9/10"),
        ("Range: bytes=8-", 206, "89", "bytes 8-9/10"),
        ("Range: bytes=8-100", 206, "89", "bytes 8-9/10"),
        ("Range: bytes=10-", 416, "", "bytes */10"),
        ("Range: bytes=-0", 416, "", "bytes */10"),
        ("Range: bytes=4-2", 200, "0123456789", ""),
        ("Range: lines=1-2", 200, "0123456789", ""),
        ("Range: bytes=0-,0-,0-", 200, "0123456789", ""),
        ("Range: bytes=0-0,2-2,4-4,6-6,8-8", 200, "0123456789", ""),
        ("Range: bytes=2-4\r\nIf-Range: {etag}", 206, "234", "bytes 2-4/10"),
        ("Range: bytes=2-4\r\nIf-Range: W/{etag}", 200, "0123456789", ""),
        ("Range: bytes=2-4\r\nIf-Range: {old}", 200, "0123456789", ""),
        ("Range: bytes=2-4\r\nIf-None-Match: {etag}", 304, "", ""),
        ("Range: bytes=2-4\r\nIf-Match: \"other\"", 412, "", ""),
    ];
    for (fields, status, body, range) in rows {
        let fields = fields.replace("{etag}", &etag).replace("{modified}", &modified).replace("{old}", old);
        let answer = get(&gateway, "/page.txt", &format!("{fields}\r\n"));
        assert_eq!(answer.status(), *status, "{fields}: {answer:?}");
        assert_eq!(answer.header("Content-Range").unwrap_or_default(), *range, "{fields}");
        if *status < 300 {
            assert_eq!(answer.body_text(), *body, "{fields}");
        }
        if *status == 304 {
            assert_eq!(field(&answer, "ETag"), etag, "{fields}");
            assert_eq!((answer.count("Content-Type"), answer.body.len()), (0, 0), "{fields}");
        }
    }
    assert_eq!(big.body.len(), LARGE_BYTES);
    large_ranges(&gateway);
}

/// Of a file that is not in memory.
fn large_ranges(gateway: &Gateway) {
    let (all, last) = (large(), LARGE_BYTES - 1);
    for (from, to) in [(0, 0), (65_535, 65_537), (1_000_000, 2_999_999), (last, last)] {
        let answer = get(gateway, "/large.bin", &format!("Range: bytes={from}-{to}\r\n"));
        assert_eq!(answer.status(), 206);
        assert!(answer.body == all[from..=to], "{from}-{to}");
    }
    for target in ["/large.bin", "/page.txt"] {
        let content = if target == "/page.txt" { b"0123456789".to_vec() } else { all.clone() };
        let answer = get(gateway, target, "Range: bytes=1-2, -2\r\n");
        let kind = answer.header("Content-Type").unwrap_or_default();
        let boundary = kind.strip_prefix("multipart/byteranges; boundary=").expect("a boundary");
        let inner =
            if target == "/page.txt" { "text/plain; charset=utf-8" } else { "application/octet-stream" };
        let mut expected = Vec::new();
        let end = content.len();
        for (from, to) in [(1, 2), (end - 2, end - 1)] {
            let head = format!(
                "--{boundary}\r\nContent-Type: {inner}\r\nContent-Range: bytes {from}-{to}/{end}\r\n\r\n"
            );
            expected.extend_from_slice(head.as_bytes());
            expected.extend_from_slice(&content[from..=to]);
            expected.extend_from_slice(b"\r\n");
        }
        expected.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
        assert_eq!(String::from_utf8_lossy(&answer.body), String::from_utf8_lossy(&expected));
    }
}

#[test]
fn files_beside_a_file_in_other_codings() {
    let site = Site::new();
    let all = json!({"precompressed": ["br", "zstd", "gzip"]});
    let gateway = site.serve(&[("/*", all), ("/no/*", json!({"strip_prefix": "/no"}))]);
    let mut tags = Vec::new();
    for (accepted, coding, body) in [
        ("gzip", Some("gzip"), "gzip"),
        ("gzip, br;q=0.1", Some("gzip"), "gzip"),
        ("gzip, br", Some("br"), "brotli"),
        ("zstd", Some("zstd"), "zstd"),
        ("*", Some("br"), "brotli"),
        ("br;q=0, *;q=0.5", Some("zstd"), "zstd"),
        ("gzip;q=0", None, "plain"),
        ("identity, gzip;q=0.5", None, "plain"),
        ("deflate", None, "plain"),
    ] {
        let answer = get(&gateway, "/coded.js", &format!("Accept-Encoding: {accepted}\r\n"));
        assert_eq!((answer.header("Content-Encoding"), &*answer.body_text()), (coding, body), "{accepted}");
        assert_eq!(answer.header("Vary"), Some("Accept-Encoding"), "{accepted}");
        assert_eq!(answer.header("Content-Type"), Some("text/javascript; charset=utf-8"), "{accepted}");
        tags.push((coding, answer.header("ETag").unwrap_or_default().to_owned()));
    }
    tags.sort();
    tags.dedup();
    assert_eq!(tags.len(), 4, "one tag for each coding: {tags:?}");
    let alone = get(&gateway, "/page.txt", "Accept-Encoding: gzip\r\n");
    assert_eq!((alone.count("Vary"), alone.count("Content-Encoding")), (0, 0));
    let itself = get(&gateway, "/coded.js.gz", "Accept-Encoding: gzip\r\n");
    assert_eq!(
        (itself.header("Content-Type"), itself.count("Content-Encoding")),
        (Some("application/gzip"), 0)
    );
    assert_eq!(get(&gateway, "/no/coded.js", "Accept-Encoding: gzip\r\n").body_text(), "plain");
}

/// A file that changes, appears and goes away is seen at the latest after twice `valid`.
#[test]
fn changes_are_seen() {
    let site = Site::new();
    let gateway = site.serve(&[
        ("/*", json!({"cache": {"valid": 0.05}})),
        ("/now/*", json!({"strip_prefix": "/now", "cache": {"valid": 0}})),
    ]);
    let body = |target: &str| get(&gateway, target, "").body_text();
    let wait_for = |wanted: &str| {
        let deadline = std::time::Instant::now() + tidegate_testkit::PATIENCE;
        while !body("/page.txt").contains(wanted) {
            assert!(std::time::Instant::now() < deadline, "never {wanted}");
        }
    };
    assert_eq!(body("/page.txt"), "0123456789");
    for text in ["changed", "again", "0123456789"] {
        site.write("www/page.txt", text);
        assert_eq!(body("/now/page.txt"), text);
        wait_for(text);
    }
    fs::remove_file(site.root().join("page.txt")).expect("removed");
    assert_eq!(get(&gateway, "/now/page.txt", "").status(), 404);
    wait_for("404");
    site.write("www/page.txt", "back");
    assert_eq!(body("/page.txt"), "back");
}

#[test]
fn tls_and_http2_get_the_same_bytes() {
    let site = Site::new();
    let (pair, port) = (self_signed("static.test"), free_port());
    let config = YAML_PROVIDER.replace(
        "ssl: {enable: false}",
        &format!("ssl: {{listen: [{{ip: 127.0.0.1, port: {port}}}], fallback_sni: static.test}}"),
    );
    let (cert, key) = (quoted(&pair.cert), quoted(&pair.key));
    let ssl = format!("ssls:\n- {{id: s, sni: static.test, cert: {cert}, key: {key}}}\n");
    let gateway = Gateway::start(&config, Some(&(site.routes(&[("/*", json!({}))]) + &ssl)));
    let plain = format!("http://{}", gateway.http);
    let secure = format!("https://static.test:{port}");
    for (flag, base) in [
        ("--http1.1", &plain),
        ("--http1.0", &plain),
        ("--http2-prior-knowledge", &plain),
        ("--http1.1", &secure),
        ("--http2", &secure),
    ] {
        for (target, expected) in [("/large.bin", large()), ("/page.txt", b"0123456789".to_vec())] {
            let got = curl(&[flag, &format!("{base}{target}")], port);
            assert!(got == expected, "{flag} {base}{target}: {} bytes", got.len());
        }
        let range = curl(&[flag, "-r", "100000-100099", &format!("{base}/large.bin")], port);
        assert!(range == large()[100_000..100_100], "{flag} {base}");
    }
}

/// The disk threads bring what the kernel has dropped; a client that reads slowly gets the rest when it has room.
#[test]
fn files_that_no_cache_holds_and_clients_that_read_slowly() {
    let site = Site::new();
    // One thread, so that everything goes through one queue.
    let config =
        YAML_PROVIDER.replace("plugin_attr:\n", "plugin_attr:\n  static-files: {threads: 1, queue: 10}\n");
    let gateway =
        Gateway::start(&config, Some(&site.routes(&[("/*", json!({"cache": {"small_file_bytes": 0}}))])));
    let url = format!("http://{}/large.bin", gateway.http);
    let file = fs::File::open(site.root().join("large.bin")).expect("there");
    file.sync_all().expect("on the disk");
    for flags in [&["--http1.1"][..], &["--http2-prior-knowledge"], &["--http1.1", "--limit-rate", "6M"]] {
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("dropped from the cache");
        let arguments = [flags, &[url.as_str()]].concat();
        assert!(curl(&arguments, 1) == large(), "{flags:?}");
    }
    assert_eq!(get(&gateway, "/page.txt", "").body_text(), "0123456789");
    let refused = YAML_PROVIDER.replace("plugin_attr:\n", "plugin_attr:\n  static-files: {threads: 0}\n");
    let mut refused = Gateway::start_unready(&refused, Some("routes: []\n"));
    assert!(!refused.process.wait_for_exit().success());
    assert!(refused.process.output().contains("plugin_attr.static-files.threads should be"));
}

fn curl(arguments: &[&str], port: u16) -> Vec<u8> {
    let output = Command::new("curl")
        .args(["-sSk", "-m", "20", "--resolve", &format!("static.test:{port}:127.0.0.1")])
        .args(arguments)
        .output()
        .expect("curl runs");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// A body filter sees a file that is sent in pieces.
#[test]
fn a_large_file_through_a_body_filter() {
    let site = Site::new();
    let text = "all work and no play ".repeat(20_000);
    site.write("www/long.txt", &text);
    let root = site.root();
    let plugins = json!({"static-files": {"root": root}, "gzip": {"types": ["text/plain"]}});
    let route = json!({"id": "r", "uri": "/*", "plugins": plugins});
    let gateway = Gateway::start(YAML_PROVIDER, Some(&format!("routes:\n- {route}\n")));
    let url = format!("http://{}/long.txt", gateway.http);
    let coded = get(&gateway, "/long.txt", "Accept-Encoding: gzip\r\n");
    assert_eq!(coded.header("Content-Encoding"), Some("gzip"));
    assert!(coded.body.len() < text.len() / 10, "{} bytes", coded.body.len());
    assert!(curl(&["--compressed", &url], 1) == text.as_bytes());
    assert!(curl(&[&url], 1) == text.as_bytes());
}

/// A server that sends a head and a body apart makes a client that delays its acknowledgements wait for 40 ms
/// (Nagle's algorithm on one side, delayed ACK on the other). Head and body of a page come in one segment; before a
/// large file, the head comes with its first bytes.
#[test]
fn no_answer_waits_for_an_acknowledgement() {
    let site = Site::new();
    let gateway = site.serve(&[("/*", json!({}))]);
    for target in ["/page.txt", "/large.bin", "/nothing", "/sub", "/empty.txt"] {
        // From the cache: what is not there yet is not in question here.
        get(&gateway, target, "");
        let mut stream = TcpStream::connect(gateway.http).expect("connects");
        let before = segments(&stream);
        stream.write_all(format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes()).expect("sent");
        let mut first = vec![0; 4096];
        stream.set_read_timeout(Some(tidegate_testkit::PATIENCE)).expect("set");
        let count = std::io::Read::read(&mut stream, &mut first).expect("an answer");
        let text = String::from_utf8_lossy(&first[..count]).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").expect("a whole head");
        let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).expect("a length");
        let length: usize = length.parse().expect("a number");
        if target == "/large.bin" {
            assert!(!body.is_empty(), "the head came alone");
        } else {
            assert_eq!(body.len(), length, "{target}");
            assert_eq!(segments(&stream) - before, 1, "{target}: segments with data");
        }
    }
}

/// Segments with data that this end has received, as the kernel counts them.
fn segments(stream: &TcpStream) -> u32 {
    let own = stream.local_addr().expect("an address").port();
    let peer = stream.peer_addr().expect("an address").port();
    let output = Command::new("ss").args(["-tinH", &format!("sport = :{own} and dport = :{peer}")]).output();
    let output = output.expect("ss runs; scripts/install-deps.sh installs it");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains(&format!(":{own}")), "ss shows no such connection: {text}");
    // Not shown while there are none.
    let count = text.split("data_segs_in:").nth(1).and_then(|rest| rest.split_whitespace().next());
    count.map_or(0, |count| count.parse().expect("a number"))
}

#[test]
fn serve_is_a_web_server_in_one_line() {
    let site = Site::new();
    let port = free_port();
    let mut command = Command::new(tidegate_testkit::gateway::binary());
    command.args(["serve", "-r"]).arg(site.root()).args([
        "-p",
        &port.to_string(),
        "-t",
        "5",
        "-w",
        "1",
        "-d",
    ]);
    let mut server = tidegate_testkit::process::Process::start("tidegate serve", &mut command);
    server.wait_for_port(([127, 0, 0, 1], port).into());
    let url = format!("http://127.0.0.1:{port}/");
    assert_eq!(curl(&[&format!("{url}page.txt")], 1), b"0123456789");
    server.wait_for_output("\"GET /page.txt HTTP/1.1\" 200 10 ");
    // As its terminal sends it; in the background it has none.
    server.signal(rustix::process::Signal::HUP);
    assert!(server.wait_for_exit().success());
    let refused = |arguments: &[&str], reason: &str| {
        let output = Command::new(tidegate_testkit::gateway::binary())
            .arg("serve")
            .args(arguments)
            .output()
            .expect("runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(reason), "{arguments:?}: {said}");
    };
    refused(&[], "--root");
    refused(&["-r", "/nonexistent"], "cannot serve /nonexistent");
    refused(&["-r", "/etc/passwd"], "not a directory");
    refused(&["-r", "/", "-w", "1000"], "processors");
    refused(&["-r", "/", "-d", "--daemon"], "cannot be used with");
    in_background(&site, &free_port().to_string());
}

fn in_background(site: &Site, port: &str) {
    let log = site.root().join("../log");
    let started = Command::new(tidegate_testkit::gateway::binary())
        .args(["serve", "--daemon", "-p", port, "-r"])
        .arg(site.root())
        .stdout(fs::File::create(&log).expect("a file"))
        .output()
        .expect("runs");
    let said = String::from_utf8_lossy(&started.stderr).into_owned();
    assert!(started.status.success(), "{said}");
    let id: i32 = said.trim().rsplit(' ').next().and_then(|id| id.parse().ok()).expect("a process id");
    let process = rustix::process::Pid::from_raw(id).expect("a process id");
    rustix::process::kill_process(process, rustix::process::Signal::HUP).expect("signalled");
    assert_eq!(curl(&[&format!("http://127.0.0.1:{port}/page.txt")], 1), b"0123456789");
    rustix::process::kill_process(process, rustix::process::Signal::TERM).expect("signalled");
    let deadline = std::time::Instant::now() + tidegate_testkit::PATIENCE;
    while Path::new(&format!("/proc/{id}")).exists() {
        assert!(std::time::Instant::now() < deadline, "process {id} does not end");
        std::thread::yield_now();
    }
    let lines = fs::read_to_string(&log).expect("a log");
    assert!(lines.contains("GET /page.txt"), "{lines}");
}

/// Whatever their priorities and phases, guards run before a file is served.
#[test]
fn all_guards_run_before_a_file_is_served() {
    let site = Site::new();
    let deny = "return function(conf, ctx) if ngx.var.arg_key ~= 'k' then return 403 end end";
    let late = json!({"serverless-post-function": {"functions": [deny]}});
    let last = json!({"serverless-post-function": {"phase": "before_proxy", "functions": [deny]}});
    let lowest = json!({"ua-restriction": {"denylist": ["bad"], "_meta": {"priority": -5000}}});
    let route = |uri: &str, guards: &Value| {
        let mut plugins = guards.clone();
        plugins["static-files"] = json!({"root": site.root()});
        json!({"uri": format!("/{uri}/*"), "plugins": plugins})
    };
    let mut routes = vec![route("late", &late), route("last", &last), route("lowest", &lowest)];
    for route in &mut routes {
        let prefix = route["uri"].as_str().unwrap_or_default().trim_end_matches('*').to_owned();
        route["plugins"]["static-files"]["strip_prefix"] = prefix.into();
    }
    let gateway = Gateway::start(YAML_PROVIDER, Some(&json!({ "routes": routes }).to_string()));
    let status = |target: &str, agent: &str| {
        let request =
            format!("GET {target} HTTP/1.1\r\nHost: h\r\nUser-Agent: {agent}\r\nConnection: close\r\n\r\n");
        gateway.client().request(&request).expect("an answer").status()
    };
    for uri in ["late", "last"] {
        assert_eq!(status(&format!("/{uri}/page.txt"), "a"), 403, "{uri}");
        assert_eq!(status(&format!("/{uri}/page.txt?key=k"), "a"), 200, "{uri}");
    }
    assert_eq!((status("/lowest/page.txt", "bad"), status("/lowest/page.txt", "good")), (403, 200));
}
