//! Expressions with look-around in an nginx configuration, imported, and nginx itself on the same directory: the same answers.

use std::{fs, os::unix::fs::PermissionsExt};

use tidegate_testkit::{Client, Gateway};

/// The usual guard of files that begin with a dot, beside what leads to other paths within the server.
const SERVERS: [&str; 4] = [
    "location / { index index.html; }
     location ~ /\\.(?!well-known) { deny all; }",
    "index index.html;
     location / { try_files $uri $uri/ /index.html; }
     location ~ /\\.(?!well-known).* { return 404; }",
    "error_page 404 /index.html;
     location / { index index.html; }
     location ~ /\\.(?!well-known) { return 403; }",
    "location / { index index.html; }
     location ~ ^/(?!a/).*\\.txt$ { return 403; }
     location ~ (?<!/a)/\\.env$ { return 410; }",
];

const PATHS: [&str; 19] = [
    "/",
    "/index.html",
    "/.git/config",
    "/.git/",
    "/.git",
    "/.well-known/x",
    "/.well-known/",
    "/.well-known/y",
    "/.well-known/.x",
    "/a/",
    "/a/.env",
    "/a/x.txt",
    "/x.txt",
    "/.env",
    "/%2egit/config",
    "/a/../.git/config",
    "//.git/config",
    "/none",
    "/d/",
];

#[test]
fn guards_with_look_around_answer_as_nginx_does() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().canonicalize().expect("there");
    for file in [
        "index.html",
        ".git/config",
        ".git/index.html",
        ".well-known/x",
        ".well-known/.x",
        ".well-known/index.html",
        "a/index.html",
        "a/.env",
        "a/x.txt",
        "x.txt",
        ".env",
        "d/file",
    ] {
        let path = root.join(file);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(&path, file).expect("a file");
    }
    // nginx's workers run as another user.
    fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).expect("readable");
    let mut wrong = Vec::new();
    for server in SERVERS {
        let body = format!("root {};\n{server}", root.display());
        let nginx = tidegate_testkit::servers::nginx(&body);
        let gateway = Gateway::start_from("nginx", &format!("server {{ listen 80;\n{body}}}"));
        for path in PATHS {
            let ask = |address| {
                let mut client = Client::connect(address).expect("connects");
                let answer = client.request(&format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n"));
                let answer = answer.expect("an answer");
                // Error pages differ, and are not files.
                let text = Some(answer.body_text()).filter(|text| !text.contains("<html"));
                (answer.status(), text)
            };
            let (theirs, ours) = (ask(nginx.address), ask(gateway.http));
            if theirs != ours {
                wrong.push(format!("{server}\n  {path}: nginx {theirs:?}, here {ours:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
