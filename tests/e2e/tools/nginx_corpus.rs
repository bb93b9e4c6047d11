//! The import's own comparison, `--check-against`, for every file of the corpus: tests/nginx and tests/nginx-guards; and what
//! `--strict` says of the files in tests/nginx-strict.
//!
//! Ten requests a second make it minutes long, so that `make test-all` runs it.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
};

use tidegate_testkit::{
    client::Client,
    free_port,
    gateway::{Gateway, YAML_PROVIDER, binary, workspace_root},
    servers,
};

use crate::{
    plugins::static_files::Site,
    tools::nginx_check::{check, run_nginx},
    tools::nginx_guards::{CHECK, configuration, forms, make_readable, write_files},
};

/// Says what it got. `Host` tells servers behind one port apart.
const ORIGIN: &str = "location / { default_type text/plain; return 200 \"$request_method $request_uri\"; }";

/// Files in sections that begin with `=== name`; a line after `!` is what the report must say, those after `?` are requests
/// whose answers differ, one after `-` says why none does.
struct Section {
    name: String,
    said: String,
    asked: Vec<String>,
    unseen: bool,
    text: String,
}

fn sections(file: &str) -> Vec<Section> {
    let text = fs::read_to_string(workspace_root().join("tests/nginx-strict").join(file)).expect("readable");
    let parts = text.split("=== ").filter(|part| !part.is_empty());
    let section = |part: &str| {
        let (name, rest) = part.split_once('\n').expect("a name");
        let said = rest.lines().find_map(|line| line.strip_prefix("! ")).unwrap_or_default().to_owned();
        let after = |sign: &str| {
            let lines = rest.lines().filter_map(|line| line.strip_prefix(sign));
            lines.map(str::to_owned).collect::<Vec<String>>()
        };
        let is_file = |line: &&str| !["! ", "? ", "- "].iter().any(|sign| line.starts_with(sign));
        let text = rest.lines().filter(is_file).collect::<Vec<_>>().join("\n");
        let (asked, unseen) = (after("? "), !after("- ").is_empty());
        Section { name: name.to_owned(), said, asked, unseen, text }
    };
    parts.map(section).collect()
}

/// Differences that the report names: what the line of the difference has, and what the report says.
const NAMED: [(&str, &str); 4] = [
    (
        " /x.GIF (Host: localhost): content-type: nginx image/gif",
        "approximated: return: Content-Type is text/plain",
    ),
    ("status: nginx 200, here 403", INDEX_REFUSED),
    ("status: nginx 404, here 403", INDEX_REFUSED),
    ("status: nginx 401, here 403", INDEX_REFUSED),
];
/// An index file that another location guards is refused for each directory of the server.
const INDEX_REFUSED: &str = "directories without a file before it are 403";

/// With what nginx needs to run in a folder.
fn whole(text: &str, folder: &Path) -> String {
    let path = folder.display();
    let whole = if text.contains("http {") { text.to_owned() } else { format!("http {{\n{text}\n}}") };
    let own = format!(
        "access_log off; client_body_temp_path {path}/1; proxy_temp_path {path}/2; \
         fastcgi_temp_path {path}/3; uwsgi_temp_path {path}/4; scgi_temp_path {path}/5;"
    );
    format!("pid {path}/pid; events {{ }} {}", whole.replacen("http {", &format!("http {{ {own}"), 1))
}

/// Configurations as nginx takes them, with their names; `@PORT@` is theirs.
fn corpus(folder: &Path) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(workspace_root().join("tests/nginx")).expect("the folder is there") {
        let file = entry.expect("an entry").path();
        let text = fs::read_to_string(&file).expect("readable");
        let text = text.split("\n---\n").next().unwrap_or_default().replace("listen 80", "listen @PORT@");
        let name = file.file_name().expect("a name").to_string_lossy().into_owned();
        all.push((name, whole(&text, folder)));
    }
    for name in
        ["access.txt", "conditions.txt", "places.txt", "redirected.txt", "rewritten.txt", "addresses.txt"]
    {
        all.push((name.to_owned(), configuration(&forms(name), folder, "@PORT@", &[])));
    }
    all
}

/// What the files stand for: upstreams, and directories.
struct Place {
    origin: servers::Server,
    asked: servers::Server,
    site: Site,
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        let (origin, site, asked) = (servers::nginx(ORIGIN), Site::new(), servers::nginx(CHECK));
        let folder = tempfile::tempdir().expect("a folder");
        write_files(folder.path());
        let root = site.root().canonicalize().expect("there");
        make_readable(root.ancestors().take(2).chain([folder.path()]));
        for name in ["mime.types", "fastcgi_params"] {
            fs::copy(Path::new("/etc/nginx").join(name), folder.path().join(name)).expect("Debian's file");
        }
        Place { origin, asked, site, folder }
    }

    /// Writes the file with its words replaced.
    fn write(&self, text: &str, port: u16) -> PathBuf {
        let root = self.site.root().canonicalize().expect("there");
        let mut text = text.to_owned();
        for (word, value) in [
            ("@PORT@", port.to_string()),
            ("@UPSTREAM@", self.origin.address.to_string()),
            ("@CHECK@", self.asked.address.to_string()),
            ("@DIR@", self.folder.path().display().to_string()),
            ("@ROOT@", root.display().to_string()),
        ] {
            text = text.replace(word, &value);
        }
        let file = self.folder.path().join("nginx.conf");
        fs::write(&file, text).expect("written");
        file
    }
}

/// What differs and is not named, with the verdict.
fn compare(place: &Place, name: &str, text: &str) -> Result<String, String> {
    let port = free_port();
    let file = place.write(text, port);
    let _nginx = run_nginx(&file, place.folder.path(), port);
    let (fine, said, report) = check(place.folder.path(), port);
    let verdict = said.lines().last().unwrap_or_default().to_owned();
    println!("{name}: {verdict}");
    let is_named = |line: &&str| {
        NAMED.iter().any(|(difference, named)| line.contains(difference) && report.contains(named))
    };
    let lines = said.lines().filter(|line| line.contains("(Host: ") && !line.contains("): closed; "));
    let unnamed: Vec<&str> = lines.filter(|line| !is_named(line)).collect();
    if !unnamed.is_empty() || !verdict.contains(" differ") || (fine && !verdict.contains(" 0 differ")) {
        return Err(format!("{name}:\n{}\n{verdict}\n{report}", unnamed.join("\n")));
    }
    Ok(verdict)
}

#[test]
#[ignore = "minutes, for it asks ten requests a second; `make test-all` runs it"]
fn every_file_of_the_corpus_answers_as_nginx_does_or_is_closed() {
    let place = Place::new();
    let all = corpus(place.folder.path());
    assert!(all.len() >= 7, "only {} files", all.len());
    let compared = all.iter().filter_map(|(name, text)| compare(&place, name, text).err());
    let wrong: Vec<String> = compared.collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
#[ignore = "a minute, for it asks ten requests a second; `make test-all` runs it"]
fn files_that_strict_passes_answer_as_nginx_does() {
    let place = Place::new();
    for Section { name, text, .. } in sections("equal.txt") {
        let verdict =
            compare(&place, &name, &whole(&text, place.folder.path())).unwrap_or_else(|why| panic!("{why}"));
        assert!(verdict.contains(", 0 closed here, 0 differ"), "{name}: {verdict}");
    }
}

#[test]
fn strict_passes_what_is_equal_and_refuses_what_differs() {
    let place = Place::new();
    let mut wrong = Vec::new();
    for (file, passes, count) in [("equal.txt", true, 22), ("differ.txt", false, 20)] {
        let sections = sections(file);
        assert_eq!(sections.len(), count, "{file}");
        for Section { name, said, text, .. } in sections {
            let path = place.write(&whole(&text, place.folder.path()), free_port());
            let run = |command: &mut Command| {
                let output = command.output().expect("it runs");
                (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
            };
            let (fine, report) = run(Command::new(binary()).args(["import", "nginx", "--strict"]).arg(&path));
            if fine != passes || !report.contains(&said) {
                wrong.push(format!("{name}: passes: {fine}, wanted {said:?}\n{report}"));
            }
            let mut nginx = Command::new(servers::find("nginx"));
            nginx.arg("-t").arg("-c").arg(&path).arg("-p").arg(place.folder.path()).args(["-e", "stderr"]);
            let (fine, why) = run(&mut nginx);
            if !fine {
                wrong.push(format!("{name}: nginx does not take it: {why}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Status, fields and body, as far as they are not of the time or of the server's own.
fn answer(address: SocketAddr, request: &str) -> String {
    let mut client = Client::connect(address).expect("connects");
    let answer =
        client.request(&format!("{request} HTTP/1.1\r\nHost: localhost\r\n\r\n")).expect("an answer");
    let names = ["content-type", "expires", "cache-control", "transfer-encoding", "x-cache"];
    let fields: Vec<String> = names.iter().map(|name| format!("{:?}", answer.header(name))).collect();
    let page = answer.body_text();
    let body = if page.contains("<center>") { String::new() } else { page };
    format!("{} {} {body}", answer.status(), fields.join(" "))
}

/// `--strict` refuses no file whose answers are those of nginx.
#[test]
#[ignore = "a minute, for it starts nginx and a gateway 16 times; `make test-all` runs it"]
fn what_strict_refuses_differs_beside_nginx() {
    let place = Place::new();
    let mut equal = Vec::new();
    let mut unseen = 0;
    for Section { name, asked, unseen: is_unseen, text, .. } in sections("differ.txt") {
        assert!(is_unseen == asked.is_empty(), "{name}: requests, or why there are none");
        if is_unseen {
            unseen += 1;
            continue;
        }
        let port = free_port();
        let file = place.write(&whole(&text, place.folder.path()), port);
        let _nginx = run_nginx(&file, place.folder.path(), port);
        let gateway = Gateway::start_from_file(YAML_PROVIDER, "nginx", &file);
        let theirs = SocketAddr::from(([127, 0, 0, 1], port));
        let pairs: Vec<(String, String)> =
            asked.iter().map(|request| (answer(theirs, request), answer(gateway.http, request))).collect();
        println!("{name}:\n  nginx {}\n  here  {}", pairs[0].0, pairs[0].1);
        if pairs.iter().all(|(theirs, ours)| theirs == ours) {
            equal.push(format!("{name}: {pairs:?}"));
        }
    }
    assert!(equal.is_empty(), "{}", equal.join("\n"));
    assert!(unseen <= 5, "{unseen} differences are not shown");
}
