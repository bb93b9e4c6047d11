//! A gateway whose configuration was lost or damaged does not start as an empty one, whatever is left of it: with 404
//! for everybody, and an Admin API that takes writes, nothing would tell that anything had been guarded.

use std::fs;
use std::path::Path;

use tidegate_testkit::gateway::{EMBEDDED, Gateway, YAML_PROVIDER, run_command};
use tidegate_testkit::process::Process;
use tidegate_testkit::{Etcd, eventually};

const GUARDED: &str = r#"{"uri":"/guarded","plugins":{"key-auth":{},"mocking":{"response_example":"x"}}}"#;

fn status(gateway: &Gateway, path: &str) -> u16 {
    gateway.client().get("h", path).expect("the gateway answers").status()
}

/// Starts again, which has to fail with all of these words.
fn refused(gateway: &mut Gateway, words: &[&str]) {
    gateway.restart_unready();
    assert!(!gateway.process.wait_for_exit().success(), "{}", gateway.process.output());
    for word in words {
        gateway.process.wait_for_output(word);
    }
}

#[test]
fn a_lost_store_is_not_taken_for_a_new_one() {
    let mut gateway = Gateway::start(EMBEDDED, None);
    assert_eq!(gateway.admin("PUT", "/apisix/admin/routes/1", GUARDED).0, 201);
    assert_eq!(status(&gateway, "/guarded"), 401);
    gateway.process.stop();
    let store = gateway.prefix().join("data/tidegate.redb");
    let marker = gateway.prefix().join("data/tidegate.created");
    let copy = gateway.prefix().join("data/tidegate.last-good");
    let good = fs::read(&store).expect("a store");
    // Else it is served.
    fs::remove_file(&copy).expect("a copy");
    let name = store.to_str().expect("a path");
    let damages: [(&str, fn(&Path, &[u8])); 6] = [
        ("0 bytes", |store, _| fs::write(store, "").expect("written")),
        ("is missing", |store, _| fs::remove_file(store).expect("removed")),
        ("is damaged", |store, good| fs::write(store, vec![0; good.len()]).expect("written")),
        ("is damaged", |store, good| fs::write(store, &good[..100]).expect("written")),
        ("is damaged", |store, good| fs::write(store, &good[..good.len() / 2]).expect("written")),
        ("not a regular file", |store, _| {
            fs::remove_file(store).expect("removed");
            fs::create_dir(store).expect("a folder");
        }),
    ];
    for (found, damage) in damages {
        damage(&store, &good);
        refused(&mut gateway, &[name, found, "backup", "tidegate.created", "empty configuration"]);
        // The backup.
        let _ = fs::remove_dir(&store);
        fs::write(&store, &good).expect("written");
    }
    gateway.restart();
    assert_eq!(status(&gateway, "/guarded"), 401);
    gateway.process.stop();

    // A store of a version that left no marker.
    fs::remove_file(&marker).expect("a marker");
    gateway.restart();
    assert_eq!(status(&gateway, "/guarded"), 401);
    assert!(marker.exists());
    gateway.process.stop();

    // On purpose, as the message says.
    fs::remove_file(&store).expect("removed");
    fs::remove_file(&marker).expect("removed");
    refused(&mut gateway, &["is missing", "tidegate.last-good shows that it has been in use"]);
    fs::remove_file(&copy).expect("removed");
    gateway.restart();
    assert_eq!(status(&gateway, "/guarded"), 404);
}

#[test]
fn a_first_start_that_was_killed_can_be_repeated() {
    for round in 0..6 {
        let mut gateway = Gateway::start_unready(EMBEDDED, None);
        let data = gateway.prefix().join("data");
        // As soon as the first file is there, or a little later.
        let files = || fs::read_dir(&data).map_or(0, |entries| entries.flatten().count());
        eventually("a file of the store", || files() > round % 2 || data.join("tidegate.redb").exists());
        gateway.process.signal_kill();
        gateway.process.wait_for_exit();
        gateway.restart();
        assert_eq!(gateway.admin("PUT", "/apisix/admin/routes/1", GUARDED).0, 201);
    }
}

#[test]
fn what_came_from_etcd_is_missed_as_well() {
    let etcd = Etcd::start();
    let with_etcd = |prefix: &str| {
        let url = etcd.url();
        EMBEDDED.replace(
            "config_provider: embedded}",
            &format!("config_provider: etcd}}\n  etcd: {{host: ['{url}'], prefix: {prefix}, timeout: 5}}"),
        )
    };
    let mut gateway = Gateway::start(&with_etcd("/lost"), None);
    assert_eq!(gateway.admin("PUT", "/apisix/admin/routes/1", GUARDED).0, 201);
    gateway.process.stop();
    let snapshot = gateway.prefix().join("data/etcd.snapshot");
    let good = fs::read_to_string(&snapshot).expect("a snapshot");
    // etcd's data are gone, and the snapshot as well.
    etcd.control(&["del", "--prefix", "/lost/"]);
    for damaged in ["", &good[..good.len() / 2], &good.replace("\"/lost\"", "\"/other\"")] {
        fs::write(&snapshot, damaged).expect("written");
        refused(&mut gateway, &["nothing below /lost", "etcd.snapshot", "restore etcd's data"]);
    }
    // Another store in its place, which is empty.
    let config = gateway.prefix().join("conf/config.yaml");
    let text = fs::read_to_string(&config).expect("config.yaml");
    let text: String =
        text.lines().filter(|line| !line.contains("  etcd: {")).map(|line| format!("{line}\n")).collect();
    fs::write(&config, text.replace("config_provider: etcd", "config_provider: embedded")).expect("written");
    refused(&mut gateway, &["tidegate.redb is missing", "etcd.snapshot", "empty configuration"]);
    fs::remove_file(&snapshot).expect("removed");
    gateway.restart();
}

#[test]
fn a_resource_file_that_is_not_whole_is_not_served() {
    let routes = "routes:\n- uri: /guarded\n  plugins: {key-auth: {}, mocking: {response_example: x}}\n";
    let mut gateway = Gateway::start(YAML_PROVIDER, Some(routes));
    assert_eq!(status(&gateway, "/guarded"), 401);
    let file = gateway.prefix().join("conf/apisix.yaml");
    let good = fs::read_to_string(&file).expect("apisix.yaml");
    let name = file.to_str().expect("a path").to_owned();
    let damages = [
        (Some(""), "0 bytes"),
        (Some("\0\0\0\0\0\0\0\0\0\0"), "missing valid end flag"),
        (Some(routes), "missing valid end flag"),
        (Some("# nothing\n#END\n"), "it is empty"),
        (None, "No such file"),
    ];
    for (text, problem) in damages {
        match text {
            Some(text) => fs::write(&file, text).expect("written"),
            None => fs::remove_file(&file).expect("removed"),
        }
        // The running gateway goes on with what it has,
        let problem_is_told = || {
            let log = gateway.error_log();
            log.lines()
                .any(|line| line.contains(problem) && line.contains("the last good configuration stays"))
        };
        eventually(problem, problem_is_told);
        assert_eq!(status(&gateway, "/guarded"), 401, "{problem}");
        gateway.process.stop();
        // a start has nothing, and tells what the test tells.
        refused(&mut gateway, &[&name, problem]);
        let (good_test, said) = gateway.verb("test");
        assert!(!good_test && said.contains(problem), "{said}");
        fs::write(&file, &good).expect("written");
        gateway.restart();
    }
    assert_eq!(status(&gateway, "/guarded"), 401);
}

#[test]
fn a_data_plane_does_not_begin_a_store() {
    let config = EMBEDDED
        .replace("role: traditional", "role: data_plane")
        .replace("role_traditional", "role_data_plane");
    let mut gateway = Gateway::start_unready(&config, None);
    assert!(!gateway.process.wait_for_exit().success());
    gateway.process.wait_for_output("tidegate.redb is missing, and role data_plane does not write to it");
}

#[test]
fn a_store_that_is_removed_while_it_runs_takes_no_writes() {
    let mut gateway = Gateway::start(EMBEDDED, None);
    assert_eq!(gateway.admin("PUT", "/apisix/admin/routes/1", GUARDED).0, 201);
    let store = gateway.prefix().join("data/tidegate.redb");
    let aside = gateway.prefix().join("aside");
    fs::rename(&store, &aside).expect("moved");
    let (code, answer) = gateway.admin("PUT", "/apisix/admin/routes/2", GUARDED);
    assert!(code == 503 && answer.contains("tidegate.redb"), "{code} {answer}");
    assert_eq!(status(&gateway, "/guarded"), 401);
    // Nor does a second process begin an empty one.
    gateway.process.signal_kill();
    gateway.process.wait_for_exit();
    let _ = fs::remove_file(gateway.prefix().join("data/tidegate.last-good"));
    let mut second = Process::start("tidegate", &mut run_command(gateway.prefix()));
    assert!(!second.wait_for_exit().success());
    fs::rename(&aside, &store).expect("moved back");
    gateway.restart();
    assert_eq!(gateway.admin("GET", "/apisix/admin/routes/2", "").0, 404);
}

#[test]
fn an_emptied_config_is_not_started_with() {
    let mut gateway = Gateway::start(EMBEDDED, None);
    assert_eq!(gateway.admin("PUT", "/apisix/admin/routes/1", GUARDED).0, 201);
    gateway.process.stop();
    let config = gateway.prefix().join("conf/config.yaml");
    let good = fs::read_to_string(&config).expect("config.yaml");
    for text in ["", "# nothing yet\n", "null\n", "---\n"] {
        fs::write(&config, text).expect("written");
        refused(
            &mut gateway,
            &["config.yaml is empty", "tidegate.redb shows", "restore", "write {} into it"],
        );
        for verb in ["test", "start"] {
            let (done, said) = gateway.verb(verb);
            assert!(!done && said.contains("config.yaml is empty, and"), "{verb} {text:?}: {said}");
        }
    }
    fs::remove_file(&config).expect("removed");
    std::os::unix::fs::symlink("nowhere", &config).expect("a link");
    let (done, said) = gateway.verb("start");
    assert!(!done && said.contains("config.yaml is empty, and"), "{said}");
    fs::remove_file(&config).expect("removed");
    // The defaults on purpose.
    fs::write(&config, "{}\n").expect("written");
    let (_, said) = gateway.verb("test");
    assert!(!said.contains("is empty"), "{said}");
    fs::write(&config, good).expect("written");
    gateway.restart();
    assert_eq!(status(&gateway, "/guarded"), 401);
}

#[test]
fn a_gateway_of_a_file_is_missed_when_its_config_is_emptied() {
    let mut gateway = Gateway::start(YAML_PROVIDER, Some("routes: []\n"));
    gateway.process.stop();
    fs::write(gateway.prefix().join("conf/config.yaml"), "").expect("written");
    refused(&mut gateway, &["config.yaml is empty", "apisix.yaml shows"]);
}

#[test]
fn a_changed_provider_without_objects_takes_nothing_over() {
    let routes = "routes:\n- uri: /guarded\n  plugins: {key-auth: {}, mocking: {response_example: x}}\n";
    let gateway = Gateway::start(YAML_PROVIDER, Some(routes));
    let config = gateway.prefix().join("conf/config.yaml");
    let good = fs::read_to_string(&config).expect("config.yaml");
    let pid = gateway.pid();
    let slip = good
        .replace("role: data_plane", "role: traditional")
        .replace("role_data_plane:", "role_traditional:")
        .replace("config_provider: yaml", "config_provider: embedded");
    assert_ne!(slip, good);
    fs::write(&config, &slip).expect("written");
    for verb in ["reload", "upgrade"] {
        let (done, said) = gateway.verb(verb);
        assert!(!done && said.contains("leads to a configuration without objects"), "{verb}: {said}");
        assert_eq!((gateway.pid(), status(&gateway, "/guarded")), (pid, 401), "{verb}");
    }
    let (done, said) = gateway.verb_with(&["reload", "--force"]);
    assert!(done, "{said}");
    assert_eq!(status(&gateway, "/guarded"), 404);
}
