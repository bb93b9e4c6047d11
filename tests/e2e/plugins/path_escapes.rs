//! Attempts to read files outside of the directory that plugin `static-files` serves. None may get one, in whatever
//! configuration, whatever the answer is instead.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::json;
use tidegate_testkit::gateway::Gateway;
use tidegate_testkit::http2::{
    DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, Http2Client, RST_STREAM, field, request,
};

use crate::plugins::static_files::{SECRET, Site};

/// Targets as sent; `X` becomes `secret.txt`, which lies beside the root, and `etc/passwd`.
const CLIMBS: &[&str] = &[
    "/../X",
    "/../../X",
    "/../../../../../../../../X",
    "/./../X",
    "/.././../X",
    "/sub/../../X",
    "/sub/../sub/../../X",
    "/bare/../../../X",
    "//../X",
    "///../../X",
    "/..//X",
    "/..///../X",
    "/%2e%2e/X",
    "/%2E%2E/X",
    "/%2e./X",
    "/.%2e/X",
    "/%2e%2e%2fX",
    "/..%2fX",
    "/..%2F..%2FX",
    "/sub%2f..%2f..%2fX",
    "/%2e%2e%2f%2e%2e%2fX",
    "/%252e%252e/X",
    "/%252e%252e%252fX",
    "/..%252fX",
    "/%25252e%25252e/X",
    "/..%5cX",
    "/..\\X",
    "/..\\..\\X",
    "/sub\\..\\..\\X",
    "/%5c..%5cX",
    "/..%c0%afX",
    "/%c0%ae%c0%ae/X",
    "/%c0%ae%c0%ae%c0%afX",
    "/%e0%80%ae%e0%80%ae/X",
    "/%u002e%u002e/X",
    "/..%00/X",
    "/..%00X",
    "/../X%00.html",
    "/../X%00",
    "/page.txt/../../X",
    "/index.html/../../X",
    "/nothing/../../X",
    "/..;/X",
    "/..;a=b/X",
    "/;/../X",
    "/.;/../X",
    "/sub/..;/..;/X",
    "/...//X",
    "/..../X",
    "/ ../X",
    "/.. /X",
    "/..%20/X",
    "/%20../X",
    "/..%09/X",
    "/..%0a/X",
    "/..%0d%0aX",
    "/.%00./X",
    "/..?/../X",
    "/..#/X",
    "/~/../X",
    "/$uri/../../X",
    "/sub/%2e%2e/%2e%2e/X",
    "/sub/%2e%2e%2f%2e%2e/X",
    "/sub//../..//X",
    "/sub/./.././../X",
    "http://h/../X",
    "http://h/%2e%2e/X",
    "http://h//../X",
    "../X",
    "..%2fX",
    "//X",
    "///X",
    "/%2fX",
    "/%2f%2fX",
    "//%2fX",
    "/\\X",
    "/%5cX",
    "/file:///X",
    "/file://h/X",
    "/www-other/file.txt",
    "-other/file.txt",
    "/../www-other/file.txt",
    "/..-other/file.txt",
    "/%2e%2e/www-other/file.txt",
];

/// Links of the site, each of which leads out, and names that hide.
const LINKS: &[&str] = &[
    "/link-up",
    "/link-absolute",
    "/link-parent/secret.txt",
    "/link-parent/",
    "/link-parent",
    "/link-slash/etc/passwd",
    "/link-slash/",
    "/link-etc/passwd",
    "/link-other/file.txt",
    "/link-chain",
    "/link-proc/etc/passwd",
    "/link-self",
    "/sub/link-deep",
    "/link-parent/www/link-parent/secret.txt",
    "/link-index/",
    "/link-coded.js",
    "/link-coded-only.js",
];

const HIDDEN: &[&str] = &[
    "/.hidden",
    "/%2ehidden",
    "/%2Ehidden",
    "/./.hidden",
    "/sub/../.hidden",
    "//.hidden",
    "/.git/config",
    "/%2egit/config",
    "/.git%2fconfig",
    "/.git//config",
    "/.well-known/../.hidden",
    "/.well-known/.hidden",
    "/.hidden/",
    "/.hidden%00",
    "/.hidden?x",
];

fn site() -> Site {
    let site = Site::new();
    let root = site.root();
    let link = |target: &str, name: &str| symlink(target, root.join(name)).expect("a link");
    link("../secret.txt", "link-up");
    link(root.join("../secret.txt").to_str().expect("UTF-8"), "link-absolute");
    link("..", "link-parent");
    link("/", "link-slash");
    link("/etc", "link-etc");
    link("../www-other", "link-other");
    link("link-up", "link-chain");
    link("/proc/self/root", "link-proc");
    link("link-self", "link-self");
    link("../../secret.txt", "sub/link-deep");
    fs::create_dir(root.join("link-index")).expect("a folder");
    link("../../secret.txt", "link-index/index.html");
    site.write("www/link-coded-only.js", "plain");
    link("../secret.txt", "link-coded-only.js.gz");
    link("../secret.txt", "link-coded.js");
    site.write("www/.well-known/.hidden", SECRET);
    site
}

fn gateway(site: &Site) -> Gateway {
    let generous = json!({"strip_prefix": "/g", "dotfiles": true, "autoindex": true, "precompressed": ["gzip"],
                          "try_files": ["$uri", "$uri/", "$uri.txt", "/$uri", "=404"]});
    site.serve(&[("/*", json!({"precompressed": ["gzip"]})), ("/g*", generous)])
}

fn attempts() -> Vec<String> {
    let climbs = CLIMBS.iter().flat_map(|climb| {
        let filled = |name: &str| climb.replace('X', name);
        [filled("secret.txt"), filled("etc/passwd")]
    });
    climbs.chain(LINKS.iter().map(|&link| link.to_owned())).collect()
}

fn leaks(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer);
    text.contains(SECRET)
        || text.contains("root:")
        || text.contains("www-other")
        || text.contains("secret.txt\"")
}

/// All bytes that come back for a target.
fn ask(gateway: &Gateway, target: &str) -> Vec<u8> {
    let mut client = gateway.client();
    let head =
        format!("GET {target} HTTP/1.1\r\nHost: h\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n");
    client.send(head.as_bytes()).expect("sent");
    client.to_close().unwrap_or_default()
}

#[test]
fn nothing_outside_of_the_root_is_served() {
    let site = site();
    let gateway = gateway(&site);
    // The same would leak if it lay inside: the test can fail.
    site.write("www/inside.txt", SECRET);
    assert!(leaks(&ask(&gateway, "/inside.txt")) && leaks(&ask(&gateway, "/g/.hidden")));
    fs::remove_file(site.root().join("inside.txt")).expect("removed");
    // And these lie behind `..` and links, for who resolves them.
    assert_eq!(fs::read_to_string(site.root().join("../secret.txt")).expect("there"), SECRET);
    assert_eq!(fs::read_to_string(site.root().join("link-chain")).expect("there"), SECRET);

    let attempts = attempts();
    assert!(attempts.len() > 100, "{}", attempts.len());
    let mut wrong = Vec::new();
    for target in &attempts {
        // Twice: what the cache has learnt must not help.
        for prefix in ["", "", "/g", "/g/."] {
            let target = format!("{prefix}{target}");
            let answer = ask(&gateway, &target);
            if leaks(&answer) || answer.is_empty() {
                wrong.push(format!("{target}: {}", String::from_utf8_lossy(&answer)));
            }
        }
    }
    for target in HIDDEN {
        if leaks(&ask(&gateway, target)) {
            wrong.push(format!("{target} is hidden"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), attempts.len(), wrong.join("\n"));
    // Still in order.
    assert!(String::from_utf8_lossy(&ask(&gateway, "/page.txt")).ends_with("0123456789"));
}

/// A redirect to the slash at the end of a directory never leads to another host.
#[test]
fn redirects_stay_here() {
    let site = site();
    site.write("www/evil.example/index.html", "evil");
    let gateway = gateway(&site);
    for target in [
        "/evil.example",
        "//evil.example",
        "///evil.example",
        "/%2fevil.example",
        "//evil.example/%2e",
        "/\\evil.example",
        "/sub/..//evil.example",
        "http://evil.example//evil.example",
    ] {
        let answer = String::from_utf8_lossy(&ask(&gateway, target)).into_owned();
        let location = answer.lines().find_map(|line| line.strip_prefix("Location: "));
        assert!(location.is_none_or(|to| to.starts_with("/evil.example/")), "{target}: {answer}");
    }
}

#[test]
fn nor_over_http2() {
    let site = site();
    let gateway = gateway(&site);
    let mut wrong = Vec::new();
    for target in attempts().iter().filter(|target| target.starts_with('/')) {
        let mut client = Http2Client::connect(gateway.http, &[]).expect("connects");
        let mut block = request("GET", target, &[]);
        block.extend_from_slice(&field("accept-encoding", "gzip"));
        client.send(HEADERS, END_STREAM | END_HEADERS, 1, &block).expect("sent");
        let mut received = Vec::new();
        while let Ok(frame) = client.read() {
            if frame.kind == DATA {
                received.extend_from_slice(&frame.payload);
            }
            let ended = matches!(frame.kind, DATA | HEADERS) && frame.flags & END_STREAM != 0;
            if ended || matches!(frame.kind, RST_STREAM | GOAWAY) {
                break;
            }
        }
        if leaks(&received) {
            wrong.push(target.clone());
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
