//! What the gateway refuses of a converted file does not count as if it behaved as in Kong.

use std::{fs, process::Command};

use tidegate_testkit::gateway::binary;

/// The report, and whether `--strict` accepts the file.
fn import(text: &str) -> (String, bool) {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("kong.yaml"), text).expect("written");
    let run = |more: &[&str]| {
        let mut command = Command::new(binary());
        command.args(["import", "kong", "kong.yaml"]).args(more).current_dir(folder.path());
        command.output().expect("the binary runs")
    };
    let report = String::from_utf8_lossy(&run(&[]).stderr).into_owned();
    (report, run(&["--strict"]).status.success())
}

#[test]
fn refused_objects_are_counted_with_their_line() {
    let long = "a".repeat(200);
    let (report, is_exact) = import(&format!(
        "_format_version: '3.0'\nservices:\n- name: s\n  url: http://127.0.0.1:9\n  routes:\n  \
         - {{name: l, paths: [/r/x], methods: [LINK]}}\n  \
         - {{name: fine, paths: [/fine]}}\n  \
         - {{name: redis, paths: [/redis], plugins: [{{name: rate-limiting, config: {{minute: 5, policy: redis, redis: {{host: r}}}}}}]}}\n  \
         - {{name: known, paths: [/known], plugins: [{{name: key-auth}}]}}\n\
         consumers:\n- {{username: {long}, keyauth_credentials: [{{key: k}}]}}\n"
    ));
    assert!(!is_exact, "{report}");
    for part in [
        "kong.yaml:6: not supported: routes l: ".to_owned(),
        "kong.yaml:8: not supported: routes redis: ".to_owned(),
        format!("kong.yaml:11: not supported: consumers {long}: "),
        "; the gateway refuses this, and shuts what needs it: change it in the file".to_owned(),
        "kong.yaml: 1 of 4 routes behave as in Kong; 1 answer differently: kong.yaml:9; 2 are closed: kong.yaml:6, kong.yaml:8"
            .to_owned(),
    ] {
        assert!(report.contains(&part), "{part}: {report}");
    }
}

/// Templates of Kong are in no header of ours, and `--strict` says so.
#[test]
fn templates_fail_with_strict() {
    for (config, is_exact) in [
        ("replace: {uri: '/users/$(uri_captures.id)'}", false),
        ("replace: {uri: '/users/$uri'}", true),
        ("append: {headers: ['x-user:$(consumer.username)']}", false),
        ("append: {headers: ['x-token:abc$def']}", true),
    ] {
        let (report, accepted) = import(&format!(
            "_format_version: '3.0'\nservices: [{{name: s, url: 'http://127.0.0.1:9', routes: [{{name: r, paths: [/r], plugins: [{{name: request-transformer, config: {{{config}}}}}]}}]}}]\n"
        ));
        assert_eq!(accepted, is_exact, "{config}: {report}");
        assert_eq!(report.contains("1 of 1 routes behave as in Kong"), is_exact, "{config}: {report}");
    }
}

/// A text that would be a reference to a secret here is refused, with its place.
#[test]
fn texts_that_would_name_secrets_are_refused() {
    for text in ["$env://HOME", "$ENV://HOME", "$secret://vault/1/a/b"] {
        let (report, accepted) = import(&format!(
            "_format_version: '3.0'\nconsumers:\n- {{username: a, keyauth_credentials: [{{key: '{text}'}}]}}\n"
        ));
        assert!(
            !accepted
                && report.contains("kong.yaml:3:")
                && report.contains("would be replaced by a secret here"),
            "{report}"
        );
    }
}

/// `tidegate start` warns of what has no effect: the import writes none of it.
#[test]
fn limits_that_count_here_have_no_settings_of_redis() {
    let text = |config: &str| {
        format!(
            "_format_version: '3.0'\nservices: [{{name: s, url: 'http://127.0.0.1:9', routes: [{{name: r, paths: [/r], plugins: [{{name: rate-limiting, config: {{minute: 5, {config}}}}}]}}]}}]\n"
        )
    };
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("kong.yaml");
    for (config, degrades) in [
        ("policy: local", None),
        ("policy: local, fault_tolerant: false", None),
        ("policy: redis, redis: {host: redis.test}", Some("allow_degradation: true")),
        ("policy: redis, fault_tolerant: false, redis: {host: redis.test}", Some("allow_degradation: false")),
    ] {
        fs::write(&file, text(config)).expect("written");
        let output = Command::new(binary()).args(["import", "kong"]).arg(&file).output().expect("it runs");
        let written = String::from_utf8_lossy(&output.stdout);
        match degrades {
            Some(line) => assert!(written.contains(line), "{config}: {written}"),
            None => assert!(!written.contains("allow_degradation"), "{config}: {written}"),
        }
        let report = String::from_utf8_lossy(&output.stderr);
        assert!(report.contains("0 not supported"), "{config}: {report}");
    }
}
