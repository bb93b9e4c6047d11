//! Options of `tidegate import` that change nothing, and files of which nothing is converted.

use std::fs;
use std::process::Command;

use tidegate_testkit::gateway::binary;

const KONG: &str = "_format_version: '3.0'\nservices:\n- name: s\n  url: http://127.0.0.1:1\n  routes:\n  - {name: r, paths: [/r]}\n\
                    plugins:\n- {name: key-auth}\n- {name: openid-connect, config: {issuer: 'http://127.0.0.1:1'}}\n";

fn import(words: &[&str], text: &str) -> (bool, String, bool) {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, to) = (folder.path().join("file"), folder.path().join("apisix.yaml"));
    fs::write(&file, text).expect("written");
    let mut command = Command::new(binary());
    command.arg("import").args(words).arg("--to").arg(&to).arg(&file).env_remove("ADMIN_KEY");
    let output = command.output().expect("tidegate runs");
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned(), to.exists())
}

#[test]
fn options_without_effect_are_named_or_refused() {
    let nginx = "events {}\nhttp { server { listen 80; location / { return 200; } } }\n";
    for (words, text, expected) in [
        (["kong", "--nginx-prefix", "/nope"], KONG, "--nginx-prefix is for files of nginx"),
        (["kong", "--include-empty", "x"], KONG, "--include-empty is for files of nginx"),
        (["nginx", "--allow-missing", "key-auth"], nginx, "--allow-missing is for files of Kong"),
        (["nginx", "--env-file", "/nope"], nginx, "--env-file is for files of Kong"),
        (["nginx", "--include-empty", "conf.d/*"], nginx, "--include-empty conf.d/* has no effect"),
        (["kong", "--admin-key", "k"], KONG, "--admin-key has no effect without --apply"),
        (["kong", "--admin", "127.0.0.1:9999"], KONG, "--admin has no effect without --apply"),
        (["kong", "--cacert", "/nonexistent"], KONG, "--cacert has no effect without --check-against"),
        (["kong", "--insecure", "--strict"], KONG, "--insecure has no effect without --check-against"),
        (["kong", "--replace", "--strict"], KONG, "--replace has no effect without --apply"),
        (["kong", "--keep", "--strict"], KONG, "--keep has no effect without --apply"),
    ] {
        let (done, said, is_written) = import(&words, text);
        assert!(!done && !is_written && said.contains(expected), "{words:?}: {said}");
    }
    for (name, expected) in [
        (
            "openid-conect",
            Some(
                "--allow-missing openid-conect has no effect: the file has no such plugin; did you mean openid-connect?",
            ),
        ),
        ("key-auth", Some("--allow-missing key-auth has no effect: the plugin is converted")),
        ("openid-connect", None),
    ] {
        let (done, said, _) = import(&["kong", "--allow-missing", name], KONG);
        assert!(done, "{said}");
        assert_eq!(said.contains("has no effect: the"), expected.is_some(), "{name}: {said}");
        assert!(expected.is_none_or(|expected| said.contains(expected)), "{name}: {said}");
    }
}

#[test]
fn a_file_of_something_else_is_not_taken_for_an_empty_one() {
    let config = "apisix:\n  node_listen: 9080\ndeployment:\n  role: traditional\n";
    let (done, said, is_written) = import(&["apisix"], config);
    assert!(!done && !is_written && said.contains("[apisix] is not a list that apisix.yaml has"), "{said}");
    let (done, said, is_written) = import(&["apisix"], "routes: []\n#END\n");
    assert!(done && is_written, "{said}");
}
