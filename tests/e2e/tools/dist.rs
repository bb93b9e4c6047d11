//! `make dist`, with a program that is there already: the same bytes twice, packages that other tools read, and an
//! `install.sh` that installs what the sums say and nothing else.

use std::{
    fs,
    io::{Read, Write},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Command, Output},
    thread,
};

use tempfile::TempDir;
use tidegate_testkit::gateway::{binary, workspace_root};

/// In place of the program in packages, which would take a minute to compress; the real one writes its pages.
const PROGRAM: &str = "#!/bin/sh\necho \"stands in for tidegate: $*\"\n";

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

/// A command that has to end well.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", text(&output));
    text(&output)
}

fn has(program: &str) -> bool {
    let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
    found.is_ok_and(|output| output.status.success())
}

struct Made {
    folder: TempDir,
    out: PathBuf,
}

fn make(key: Option<&Path>) -> Made {
    make_for("http://dist.test", key).0
}

fn make_for(url: &str, key: Option<&Path>) -> (Made, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let (out, program) = (folder.path().join("dist"), folder.path().join("program"));
    let certificates = folder.path().join("certificates");
    fs::write(&certificates, "certificates").expect("written");
    fs::write(&program, PROGRAM).expect("written");
    run(Command::new("chmod").arg("+x").arg(&program));
    let mut command = Command::new(workspace_root().join("scripts/dist/make"));
    command.arg("--out").arg(&out).arg("--program").arg(&program).arg("--pages-of").arg(binary());
    command.args(["--level", "1", "--certificates"]).arg(&certificates);
    command.env("SOURCE_DATE_EPOCH", "1700000000").env("DIST_URL", url).env_remove("MINISIGN_KEY");
    if let Some(key) = key {
        command.env("MINISIGN_KEY", key);
    }
    let said = run(&mut command);
    assert_eq!(said.contains("SHA256SUMS is not signed"), key.is_none(), "{said}");
    (Made { folder, out }, said)
}

impl Made {
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.out).expect("results").flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    fn file(&self, part: &str) -> PathBuf {
        let name = self.names().into_iter().find(|name| name.contains(part));
        self.out.join(name.unwrap_or_else(|| panic!("no file with {part}: {:?}", self.names())))
    }
}

#[test]
fn two_runs_make_the_same_bytes() {
    let (one, other) = (make(None), make(None));
    assert_eq!(one.names(), other.names());
    for name in one.names() {
        let read = |made: &Made| fs::read(made.out.join(&name)).expect("a result");
        assert_eq!(read(&one), read(&other), "{name}");
    }
    let sums = fs::read_to_string(one.file("SHA256SUMS")).expect("sums");
    assert!(
        sums.starts_with("# beside some of these files: sha256sum -c --ignore-missing SHA256SUMS\n"),
        "{sums}"
    );
    assert_eq!(sums.lines().count(), one.names().len(), "{sums}");
    run(Command::new("sha256sum").args(["--check", "--strict", "SHA256SUMS"]).current_dir(&one.out));
    let bill = fs::read(one.file(".cdx.json")).expect("a bill");
    let bill: serde_json::Value = serde_json::from_slice(&bill).expect("JSON");
    let components = bill["components"].as_array().expect("components");
    assert!(components.len() > 100 && bill["metadata"]["component"]["name"] == "tidegate", "{bill}");
    for part in components {
        assert!(part["purl"].as_str().is_some_and(|purl| purl.starts_with("pkg:cargo/")), "{part}");
    }
}

/// The address of releases and that of the maintainers are for those to fill in who publish.
#[test]
fn placeholders_are_named() {
    let (made, said) = make_for("", None);
    for (part, line) in
        [("DIST_URL is not set", "https://tidegate.invalid"), ("nobody reads", "maintainers@")]
    {
        assert!(said.lines().any(|it| it.contains(part) && it.contains(line)), "{said}");
    }
    let output = Command::new("sh").arg(made.file("install.sh")).env_remove("TIDEGATE_URL").output();
    let output = output.expect("the script runs");
    assert!(
        !output.status.success() && text(&output).contains("TIDEGATE_URL names one"),
        "{}",
        text(&output)
    );
    let (_, said) = make_for("http://dist.test", None);
    assert!(!said.contains("DIST_URL"), "{said}");
}

#[test]
fn packages_have_the_program_its_pages_and_its_service() {
    let made = make(None);
    let wanted = [
        "/usr/bin/tidegate",
        "/usr/lib/systemd/system/tidegate.service",
        "/usr/share/man/man1/tidegate-proxy.1.gz",
        "/usr/share/doc/tidegate/docs/getting-started.md",
        "/usr/share/bash-completion/completions/tidegate",
        "/etc/logrotate.d/tidegate",
    ];
    let mut lists = vec![run(Command::new("dpkg-deb").arg("--contents").arg(made.file(".deb")))];
    if has("rpm") {
        lists.push(run(Command::new("rpm").args(["-qlvp"]).arg(made.file(".rpm"))));
        let digests = run(Command::new("rpm").args(["-Kv"]).arg(made.file(".rpm")));
        assert!(digests.contains("Payload SHA256 digest: OK"), "{digests}");
    }
    for list in &lists {
        for path in wanted {
            assert!(list.contains(path), "no {path} in {list}");
        }
    }
    let control = made.folder.path().join("control");
    run(Command::new("dpkg-deb").arg("--control").arg(made.file(".deb")).arg(&control));
    for script in ["postinst", "prerm", "postrm"] {
        let script = control.join(script);
        run(Command::new("sh").arg("-n").arg(&script));
        assert!(!fs::read_to_string(&script).expect("a script").contains("#SETUP#"));
    }
}

/// A reader of the archive has nothing else.
#[test]
fn links_of_the_archive_lead_into_it() {
    let made = make(None);
    let folder = made.folder.path().join("unpacked");
    fs::create_dir(&folder).expect("created");
    let mut tar = Command::new("tar");
    run(tar.arg("-xf").arg(made.file("-linux.tar.gz")).args(["--strip-components=1", "-C"]).arg(&folder));
    assert!(folder.join("man/man1/tidegate.1").exists() && !folder.join("conf").exists());
    let mut links = 0;
    for page in
        ["README.md", "README.zh-CN.md", "docs/README.md", "docs/README.zh-CN.md", "docs/guide/install.md"]
    {
        let text = fs::read_to_string(folder.join(page)).expect("a page");
        let base = folder.join(page).parent().expect("a folder").to_owned();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next()) {
            // `tidegate init` writes the one that is not there.
            if link.is_empty() || link.contains("://") || link == "conf/config.yaml" {
                continue;
            }
            links += 1;
            assert!(base.join(link).exists(), "{page}: {link}");
        }
    }
    assert!(links > 100, "{links}");
}

#[test]
fn the_image_is_read_by_other_tools() {
    let made = make(None);
    let layout = made.folder.path().join("layout");
    fs::create_dir(&layout).expect("created");
    run(Command::new("tar").arg("-xf").arg(made.file(".oci.tar")).arg("-C").arg(&layout));
    let index: serde_json::Value =
        serde_json::from_slice(&fs::read(layout.join("index.json")).expect("an index")).expect("JSON");
    let version = index["manifests"][0]["annotations"]["org.opencontainers.image.ref.name"].as_str();
    let image = format!("{}:{}", layout.display(), version.expect("a version"));
    if has("skopeo") {
        let seen = run(Command::new("skopeo").args(["inspect", "--config", &format!("oci:{image}")]));
        assert!(seen.contains("10001:10001") && seen.contains("/usr/bin/tidegate"), "{seen}");
    }
    if has("umoci") {
        let bundle = made.folder.path().join("bundle");
        run(Command::new("umoci").args(["unpack", "--rootless", "--image", &image]).arg(&bundle));
        assert_eq!(
            fs::read(bundle.join("rootfs/usr/bin/tidegate")).expect("the program"),
            PROGRAM.as_bytes()
        );
    }
}

/// Answers with files of a folder until the test ends.
fn serve(folder: PathBuf) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = [0; 2048];
            let read = stream.read(&mut head).unwrap_or(0);
            let head = String::from_utf8_lossy(&head[..read]).into_owned();
            let name = head.split(' ').nth(1).unwrap_or_default().trim_start_matches('/').to_owned();
            let (status, body) = match fs::read(folder.join(name)) {
                Ok(body) => ("200 OK", body),
                Err(_) => ("404 Not Found", Vec::new()),
            };
            let head =
                format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            let _ = stream.write_all(&[head.into_bytes(), body].concat());
        }
    });
    address
}

#[test]
fn install_sh_installs_what_the_sums_say() {
    let keys = tempfile::tempdir().expect("a folder");
    let (secret, public) = (keys.path().join("secret"), keys.path().join("public"));
    let signs = has("minisign");
    if signs {
        run(Command::new("minisign").args(["-G", "-W", "-s"]).arg(&secret).arg("-p").arg(&public));
    }
    let made = make(signs.then_some(secret.as_path()));
    let url = serve(made.out.clone());
    let target = made.folder.path().join("bin");
    let install = |key: Option<&str>| {
        let mut command = Command::new("sh");
        command.arg(made.file("install.sh")).arg("--to").arg(&target).env("TIDEGATE_URL", &url);
        if let Some(key) = key {
            command.env("TIDEGATE_PUBLIC_KEY", key);
        }
        let output = command.output().expect("the script runs");
        (output.status.success(), text(&output))
    };
    let (success, said) = install(None);
    assert!(success && said.contains("is version"), "{said}");
    assert_eq!(fs::read(target.join("tidegate")).expect("the program"), PROGRAM.as_bytes());
    if signs {
        let public = fs::read_to_string(&public).expect("a key");
        let public = public.lines().nth(1).expect("a key");
        assert!(install(Some(public)).0);
        let other = public.replacen('R', "S", 1);
        let (success, said) = install(Some(&other));
        assert!(!success && said.contains("not signed with"), "{said}");
    }
    // One byte more than was summed.
    fs::remove_file(target.join("tidegate")).expect("removed");
    let archive = made.file("-linux.tar.gz");
    let mut bytes = fs::read(&archive).expect("the archive");
    bytes.push(0);
    fs::write(&archive, bytes).expect("written");
    let (success, said) = install(None);
    assert!(
        !success && said.contains("nothing was installed") && !target.join("tidegate").exists(),
        "{said}"
    );
}

/// systemd has the last word on what is in the unit.
#[test]
fn the_unit_is_valid_and_hardened() {
    if !has("systemd-analyze") {
        eprintln!("skipped: systemd-analyze is not installed");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let unit = fs::read_to_string(workspace_root().join("packaging/tidegate.service")).expect("the unit");
    let here = folder.path().join("tidegate.service");
    let bin = binary().display().to_string();
    fs::write(&here, unit.replace("/usr/bin/tidegate", &bin).replace("Documentation=man:tidegate(1)\n", ""))
        .expect("written");
    let said = run(Command::new("systemd-analyze").arg("verify").arg(&here));
    assert!(!said.contains("tidegate.service:"), "{said}");
    run(Command::new("systemd-analyze").args(["security", "--offline=true", "--threshold=30"]).arg(&here));
}

/// `make test-all`: installs it in a Debian of its own.
#[test]
#[ignore = "makes a Debian with debootstrap, as root"]
fn the_package_is_installed_upgraded_under_load_and_purged() {
    if !has("debootstrap") || !rustix::process::geteuid().is_root() {
        eprintln!("skipped: this needs root and debootstrap");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("dist");
    let mut command = Command::new(workspace_root().join("scripts/dist/make"));
    command.arg("--out").arg(&out).args([
        "--level",
        "1",
        "--certificates",
        "/etc/ssl/certs/ca-certificates.crt",
        "--program",
    ]);
    run(command.arg(binary()));
    let made = Made { folder, out };
    for suite in ["bookworm", "trixie"] {
        let mut check = Command::new(workspace_root().join("scripts/dist/check-deb"));
        println!("{}", run(check.arg(made.file(".deb")).arg(suite)));
    }
    // An image has nothing that a dynamic program could load.
    let headers = run(Command::new("readelf").args(["--wide", "--segments"]).arg(binary()));
    if has("umoci") && !headers.contains("INTERP") {
        let check = workspace_root().join("scripts/dist/check-image");
        println!("{}", run(Command::new(check).arg(made.file(".oci.tar"))));
    }
}
