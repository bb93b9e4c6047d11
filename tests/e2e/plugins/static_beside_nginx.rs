//! The web server beside nginx with Debian's table of types: some 600 requests for the same directory. What may differ has a
//! reason in docs/guide/static.md.

use std::{
    fs,
    net::SocketAddr,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    process::Command,
};

use tidegate_testkit::{client::Client, free_port, gateway::binary, process::Process, servers};

/// Endings of nginx's table, and those that it lacks.
const ENDINGS: &str = "html htm shtml css xml gif jpeg jpg js atom rss mml txt jad wml htc avif png svg svgz tif tiff wbmp webp \
    ico jng bmp woff woff2 jar war ear json hqx doc pdf ps eps ai rtf m3u8 kml kmz xls eot ppt odg odp ods odt pptx xlsx docx \
    wmlc wasm 7z cco jardiff jnlp run pl pm prc pdb rar rpm sea swf sit tcl tk der pem crt xpi xhtml xspf zip bin exe dll deb \
    dmg iso img msi msp msm mid midi kar mp3 ogg m4a ra 3gpp 3gp ts mp4 mpeg mpg mov webm flv m4v mng asx asf wmv avi unknown";
/// RFC 9239, RFC 9512 and the registry's names, for what nginx calls otherwise or does not know.
const BETTER: [(&str, &str); 10] = [
    ("js", "text/javascript"),
    ("mjs", "text/javascript"),
    ("map", "application/json"),
    ("yaml", "application/yaml"),
    ("otf", "font/otf"),
    ("ttf", "font/ttf"),
    ("jxl", "image/jxl"),
    ("tgz", "application/gzip"),
    ("gz", "application/gzip"),
    ("webmanifest", "application/manifest+json"),
];

fn fill(root: &Path) {
    let outside = root.parent().expect("a folder above");
    fs::write(outside.join("secret.txt"), "secret").expect("written");
    fs::create_dir_all(root.join("releases/2")).expect("folders");
    fs::create_dir_all(root.join("empty")).expect("folders");
    fs::create_dir_all(root.join("a b")).expect("folders");
    for (name, text) in [
        ("index.html", "index"),
        ("nothing.txt", ""),
        ("page.txt", "0123456789"),
        ("releases/2/app.html", "app"),
        ("a b/ü #%.txt", "letters"),
        ("back\\slash.txt", "backslash"),
        ("a;b=c.txt", "parameters"),
        ("UPPER.TXT", "upper"),
        ("noending", "none"),
        ("two.tar.gz", "two"),
    ] {
        fs::write(root.join(name), text).expect("written");
    }
    for ending in ENDINGS.split_whitespace().chain(BETTER.iter().map(|(ending, _)| *ending)) {
        fs::write(root.join(format!("file.{ending}")), ending).expect("written");
    }
    for (name, target) in [
        ("current", root.join("releases/2")),
        ("relative", "releases/2".into()),
        (
            "around",
            format!("../{}/releases/2", root.file_name().unwrap_or_default().to_string_lossy()).into(),
        ),
        ("page-link.txt", root.join("page.txt")),
        ("dangling.txt", "nowhere".into()),
    ] {
        symlink(target, root.join(name)).expect("a link");
    }
    symlink(outside.join("secret.txt"), root.join("out.txt")).expect("a link");
}

fn requests() -> Vec<String> {
    let mut all = Vec::new();
    let mut add = |method: &str, target: &str, field: &str| {
        let field = if field.is_empty() { String::new() } else { format!("{field}\r\n") };
        all.push(format!("{method} {target} HTTP/1.1\r\nHost: h\r\n{field}Connection: close\r\n\r\n"));
    };
    let endings = ENDINGS.split_whitespace().chain(BETTER.iter().map(|(ending, _)| *ending));
    for ending in endings {
        for method in ["GET", "HEAD"] {
            add(method, &format!("/file.{ending}"), "");
        }
        add("GET", &format!("/file.{ending}"), "Range: bytes=0-0");
    }
    let targets = [
        "/",
        "/index.html",
        "/nothing.txt",
        "/page.txt",
        "/releases",
        "/releases/",
        "/releases/2",
        "/releases/2/app.html",
        "/empty",
        "/empty/",
        "/none",
        "/none/",
        "/page.txt/",
        "/a%20b/%C3%BC%20%23%25.txt",
        "/a%20b",
        "/back%5Cslash.txt",
        "/back\\slash.txt",
        "/a;b=c.txt",
        "/UPPER.TXT",
        "/upper.txt",
        "/noending",
        "/two.tar.gz",
        "/current/app.html",
        "/relative/app.html",
        "/around/app.html",
        "/current",
        "/page-link.txt",
        "/dangling.txt",
        "/page.txt?query",
        "//page.txt",
        "/./page.txt",
        "/releases/../page.txt",
        "/%70age.txt",
    ];
    for target in targets {
        for method in ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"] {
            add(method, target, "");
        }
    }
    let ranges = [
        "bytes=0-3",
        "bytes=5-",
        "bytes=-3",
        "bytes=10-",
        "bytes=0-100",
        "bytes=5-2",
        "bytes=a-b",
        "items=0-1",
        "bytes=-0",
        "bytes=-100",
        "bytes=0-0,2-2",
        "bytes=0-1,20-30",
    ];
    for target in ["/page.txt", "/nothing.txt", "/page-link.txt"] {
        for range in ranges {
            add("GET", target, &format!("Range: {range}"));
        }
        for field in [
            "If-Modified-Since: Thu, 01 Jan 1970 00:00:00 GMT",
            "If-Modified-Since: Fri, 31 Dec 2100 00:00:00 GMT",
            "If-None-Match: *",
            "If-None-Match: \"other\"",
            "If-Match: \"other\"",
            "If-Unmodified-Since: Thu, 01 Jan 1970 00:00:00 GMT",
        ] {
            add("GET", target, field);
        }
    }
    all
}

/// Status, type, length, range, allowed place and body; of pages the status.
fn ask(address: SocketAddr, request: &str) -> (u16, Vec<String>, String) {
    let method = request.split(' ').next().unwrap_or_default();
    let mut client = Client::connect(address).expect("connects");
    client.send(request.as_bytes()).expect("sends");
    let Ok(answer) = client.response_to(method) else { return (0, Vec::new(), String::new()) };
    let status = answer.status();
    let of = |name: &str| answer.header(name).unwrap_or_default().to_owned();
    let location = of("Location").replace(&format!("http://h:{}", address.port()), "");
    if status >= 300 {
        return (status, vec![location, of("Content-Range")], String::new());
    }
    let kind = of("Content-Type");
    let kind = kind.split(';').next().unwrap_or_default().to_owned();
    let length = if kind.starts_with("multipart") { String::new() } else { of("Content-Length") };
    let body = if kind.starts_with("multipart") { String::new() } else { answer.body_text() };
    (status, vec![kind, length, of("Content-Range")], body)
}

#[test]
fn the_same_as_nginx_but_for_reasons() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().canonicalize().expect("there").join("www");
    fs::create_dir(&root).expect("a folder");
    fill(&root);
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("readable");
    let nginx = servers::nginx(&format!(
        "include /etc/nginx/mime.types; default_type application/octet-stream; root {};",
        root.display()
    ));
    let port = free_port();
    let ours = SocketAddr::from(([127, 0, 0, 1], port));
    let mut command = Command::new(binary());
    command.args(["serve", "-w", "1", "-r"]).arg(&root).args(["--listen", &ours.to_string()]);
    let mut server = Process::start("tidegate serve", &mut command);
    server.wait_for_port(ours);
    let mut wrong = Vec::new();
    let all = requests();
    assert!(all.len() >= 600, "{}", all.len());
    for request in &all {
        let (theirs, own) = (ask(nginx.address, request), ask(ours, request));
        if theirs != own && !has_a_reason(request, &theirs, &own) {
            let line = request.trim_end().replace("\r\n", "  ");
            wrong.push(format!("{line}\n  nginx {theirs:?}\n  ours  {own:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), all.len(), wrong.join("\n"));
    let (status, ..) = ask(ours, "GET /out.txt HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    assert_eq!(status, 404, "a link that leads out");
    let mut client = Client::connect(ours).expect("connects");
    let answer = client.get("h", "/page.txt").expect("an answer");
    let signed = answer.header("Server").unwrap_or_default().to_owned();
    assert!(signed.starts_with("Tidegate/"), "{signed}");
}

/// Those of docs/guide/static.md.
fn has_a_reason(
    request: &str,
    theirs: &(u16, Vec<String>, String),
    own: &(u16, Vec<String>, String),
) -> bool {
    let rest = |answer: &(u16, Vec<String>, String)| {
        (answer.0, answer.1.get(1..).map(<[String]>::to_vec), answer.2.clone())
    };
    let better = BETTER.iter().any(|(ending, kind)| {
        request.contains(&format!(".{ending} ")) && own.1.first().is_some_and(|own| own == kind)
    });
    let is_empty = request.contains("/nothing.txt ");
    let statuses = (theirs.0, own.0);
    (better && rest(theirs) == rest(own))
        || (request.starts_with("POST ") && own.0 == 405)
        || (statuses == (416, 200) && (is_empty || request.contains("=5-2") || request.contains("=a-b")))
        || (own.0 == 400 && request.contains('\\'))
        || (statuses == (200, 304) && request.contains("If-Modified-Since: Fri, 31 Dec 2100"))
}
