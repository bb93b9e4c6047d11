//! `tidegate init`, and what a folder has to have before anything is served from it.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output};

use tidegate_testkit::gateway::binary;
use tidegate_testkit::process::Process;
use tidegate_testkit::{Client, Etcd, PATIENCE, free_port};

/// A verb that has to end by itself. One that serves instead is ended, and has failed.
fn tidegate(prefix: &Path, words: &[&str]) -> (bool, String) {
    let mut command = Command::new("timeout");
    command.arg(PATIENCE.as_secs().to_string()).arg(binary()).args(words).arg("--prefix").arg(prefix);
    let Output { status, stdout, stderr } = command.output().expect("tidegate runs");
    (status.success(), String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned())
}

#[test]
fn a_folder_without_conf_is_refused_with_the_remedy() {
    let folder = tempfile::tempdir().expect("a folder");
    let missing = folder.path().join("nowhere");
    for prefix in [folder.path(), &missing] {
        for words in [&["run"][..], &["start"], &["test"], &["config", "export"]] {
            let (success, text) = tidegate(prefix, words);
            assert!(!success, "{words:?}: {text}");
            let remedy = format!("tidegate init --prefix {}", prefix.display());
            assert!(text.contains("has no folder conf/") && text.contains(&remedy), "{words:?}: {text}");
        }
    }
    assert_eq!(fs::read_dir(folder.path()).expect("the folder").count(), 0, "nothing was made");
}

#[test]
fn what_needs_no_configuration_goes_without() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = folder.path().join("kong.yaml");
    fs::write(&source, "_format_version: '3.0'\nservices: []\n").expect("written");
    let prefix = folder.path().join("prefix");
    let port = free_port();
    let mut command = Command::new(binary());
    command.arg("run").arg("--prefix").arg(&prefix).arg("--from").arg(format!("kong:{}", source.display()));
    command.args(["--listen", &format!("127.0.0.1:{port}")]);
    let mut process = Process::start("tidegate", &mut command);
    process.wait_for_port(([127, 0, 0, 1], port).into());
    process.stop();
    assert!(!prefix.join("conf").exists() && !prefix.join("data/admin.key").exists());
    let (_, text) = tidegate(&folder.path().join("nowhere"), &["bench", "--help"]);
    assert!(text.contains("Usage"), "{text}");
}

#[test]
fn init_writes_what_test_finds_good() {
    for (kind, words) in [
        (None, "        key: ''"),
        (Some("--standalone"), "\n    config_provider: yaml\n"),
        (Some("--etcd"), "\n    host: [\"http://127.0.0.1:2379\"]\n"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let prefix = folder.path().join("new");
        let init: Vec<&str> = ["init"].into_iter().chain(kind).collect();
        let (success, text) = tidegate(&prefix, &init);
        assert!(success && text.contains("start it with: tidegate start --prefix"), "{text}");
        let path = prefix.join("conf/config.yaml");
        let config = fs::read_to_string(&path).expect("config.yaml");
        assert!(config.contains(words) && config.contains("# Ports for HTTP"), "{config}");
        // As start would, test asks the etcd that is named.
        let etcd = (kind == Some("--etcd")).then(Etcd::start);
        if let Some(etcd) = &etcd {
            fs::write(&path, config.replace("http://127.0.0.1:2379", &etcd.url())).expect("written");
        }
        let (success, text) = tidegate(&prefix, &["test"]);
        let warnings: Vec<&str> = text.lines().filter(|line| line.contains("warning")).collect();
        assert!(success && warnings.is_empty(), "{text}");
        if etcd.is_some() {
            // Which key a cluster has, only its users know.
            let keyring = config.split_once("need the same keyring. Before the first object is written");
            assert!(keyring.is_some_and(|(_, rest)| rest.contains("\n    keyring: [")), "{config}");
            assert!(!config.contains("keyring: [qeddd145sfvddff3"), "{config}");
        }
        // Never over something that is there.
        fs::write(&path, "# mine\n").expect("written");
        let (success, text) = tidegate(&prefix, &init);
        assert!(!success && text.contains("already exists"), "{text}");
        assert_eq!(fs::read_to_string(&path).expect("config.yaml"), "# mine\n");
    }
}

#[test]
fn the_standalone_example_answers() {
    let folder = tempfile::tempdir().expect("a folder");
    assert!(tidegate(folder.path(), &["init", "--standalone"]).0);
    // Control API and metrics give way where their default ports are taken.
    let _taken = [9090, 9091].map(|port| TcpListener::bind(("127.0.0.1", port)).ok());
    let port = free_port();
    let mut command = Command::new(binary());
    command.arg("run").arg("--prefix").arg(folder.path()).args(["--listen", &format!("127.0.0.1:{port}")]);
    let mut process = Process::start("tidegate", &mut command);
    process.wait_for_port(([127, 0, 0, 1], port).into());
    let mut client = Client::connect(([127, 0, 0, 1], port).into()).expect("connects");
    assert_eq!(client.get("h", "/hello").expect("an answer").body_text(), "hello from tidegate\n");
    let said = process.output();
    assert!(said.contains("no Control API: cannot listen on 127.0.0.1:9090"), "{said}");
    assert!(said.contains("no metrics page: cannot listen on 127.0.0.1:9091"), "{said}");
    process.stop();
}

/// A store that is there was written with the keys that are the default: a new key alone would not read it.
#[test]
fn init_beside_a_store_keeps_its_keys() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("data")).expect("a folder");
    fs::write(folder.path().join("data/tidegate.redb"), "").expect("a store");
    let (success, text) = tidegate(folder.path(), &["init"]);
    assert!(success && text.contains("data/ already has a store"), "{text}");
    let config = fs::read_to_string(folder.path().join("conf/config.yaml")).expect("config.yaml");
    let keyring = config.lines().find(|line| line.trim_start().starts_with("keyring:")).expect("a keyring");
    assert!(keyring.contains("qeddd145sfvddff3") && keyring.contains("edd1c9f0985e76a2"), "{keyring}");
    assert!(!keyring.trim_start().starts_with("keyring: [qeddd145sfvddff3"), "{keyring}");
}
