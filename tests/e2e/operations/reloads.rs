//! A reload says what it did not take, and why: whose environment was looked in, which plugin there is not, which objects it put
//! out of use. What works goes on.

use std::{fs, process::Command};

use tidegate_testkit::{
    Gateway,
    gateway::{EMBEDDED, YAML_PROVIDER, binary, run_command},
};

const MOCKED: &str = r#"{"uri": "/a", "plugins": {"mocking": {"response_example": "mocked"}}}"#;

fn put(gateway: &Gateway, path: &str, body: &str) {
    let (status, answer) = gateway.admin("PUT", &format!("/apisix/admin/{path}"), body);
    assert!(status < 300, "{path}: {status} {answer}");
}

fn edit_config(gateway: &Gateway, from: &str, to: &str) {
    let path = gateway.prefix().join("conf/config.yaml");
    let text = fs::read_to_string(&path).expect("config.yaml");
    assert!(text.contains(from), "{from} is not in config.yaml");
    fs::write(path, text.replacen(from, to, 1)).expect("config.yaml written");
}

/// As `Gateway::verb_with`, in a shell that has exported this; the exit code, too.
fn verb(gateway: &Gateway, words: &[&str], variable: Option<(&str, &str)>) -> (i32, String) {
    let mut command = Command::new(binary());
    command.args(words).arg("--prefix").arg(gateway.prefix()).envs(variable);
    let output = command.output().expect("tidegate runs");
    let printed = [output.stdout, output.stderr].concat();
    (output.status.code().expect("it exits"), String::from_utf8_lossy(&printed).into_owned())
}

fn get(gateway: &Gateway) -> (u16, String) {
    let answer = gateway.client().get("a.test", "/a").expect("an answer");
    (answer.status(), answer.body_text())
}

/// The status of a request to the Admin API with this key.
fn with_key(gateway: &Gateway, key: &str) -> u16 {
    let mut client = tidegate_testkit::Client::connect(gateway.admin).expect("connects");
    let answer = client.request(&format!(
        "GET /apisix/admin/routes HTTP/1.1\r\nHost: admin\r\nX-API-KEY: {key}\r\nConnection: close\r\n\r\n"
    ));
    answer.expect("an answer").status()
}

#[test]
fn a_reload_has_the_environment_of_the_gateway() {
    let config = EMBEDDED.replace("key: test-admin-key", "key: \"${{OPS_KEY}}\"");
    let mut gateway = Gateway::start_by(&config, None, |prefix| {
        let mut command = run_command(prefix);
        command.env("OPS_KEY", "test-admin-key");
        command
    });
    gateway.process.wait_for_port(gateway.admin);
    put(&gateway, "routes/1", MOCKED);
    // The shell lacks what the gateway has.
    let (code, text) = verb(&gateway, &["reload"], None);
    assert!(code == 0 && text.contains("reloaded"), "{code} {text}");
    let unchecked =
        "config.yaml could not be checked here, only by the gateway, which has an environment of its own: ";
    assert!(text.contains(unchecked) && text.contains("can't find environment variable OPS_KEY;"), "{text}");
    // The shell has what the gateway lacks.
    let entry = "{name: admin, key: \"${{OPS_KEY}}\", role: admin}";
    edit_config(
        &gateway,
        entry,
        &format!("{entry}, {{name: next, key: \"${{{{OPS_KEY_NEXT}}}}\", role: admin}}"),
    );
    for words in ["reload", "upgrade"] {
        let (code, text) = verb(&gateway, &[words], Some(("OPS_KEY_NEXT", "the-next-key")));
        assert!(code == 1 && text.contains("can't find environment variable OPS_KEY_NEXT"), "{text}");
        assert!(text.contains("keep the environment that the gateway was started with"), "{text}");
        assert!(text.contains("write the value itself into config.yaml"), "{text}");
        assert_eq!(get(&gateway), (200, "mocked".to_owned()));
    }
    // As the message says.
    edit_config(&gateway, "\"${{OPS_KEY_NEXT}}\"", "the-next-key");
    let (code, text) = verb(&gateway, &["reload"], None);
    assert_eq!(code, 0, "{text}");
    assert_eq!((with_key(&gateway, "test-admin-key"), with_key(&gateway, "the-next-key")), (200, 200));
}

#[test]
fn a_plugin_that_there_is_not_is_refused_and_pointed_to() {
    let lua = tempfile::tempdir().expect("a folder");
    fs::create_dir_all(lua.path().join("apisix/plugins")).expect("a folder");
    let file = "local _M = {version = 1, priority = 1, name = 'my-plugin', schema = {type = 'object'}}\n\
                function _M.access() return 200, 'mine' end\nreturn _M";
    fs::write(lua.path().join("apisix/plugins/my-plugin.lua"), file).expect("written");
    let path = format!("apisix:\n  extra_lua_path: {}/?.lua\n", lua.path().display());
    let config = EMBEDDED.replacen("apisix:\n", &path, 1) + "plugins: [my-plugin, mocking]\n";
    let mut gateway = Gateway::start(&config, None);
    put(&gateway, "routes/1", r#"{"uri": "/a", "plugins": {"my-plugin": {}}}"#);
    assert_eq!(get(&gateway), (200, "mine".to_owned()));
    edit_config(&gateway, "[my-plugin,", "[my-plugn,");
    let (code, text) = verb(&gateway, &["reload"], None);
    assert!(code == 1 && text.contains("there is no plugin my-plugn; did you mean my-plugin?"), "{text}");
    assert!(
        text.contains("1 of 2 are not available, and objects that use them are rejected: my-plugn"),
        "{text}"
    );
    assert_eq!(get(&gateway), (200, "mine".to_owned()), "nothing has changed");
    // A start says the same, and where the name is misspelled.
    let (code, text) = verb(&gateway, &["test"], None);
    assert!(code == 2 && text.contains("1 of 2 are not available"), "{text}");
    gateway.process.signal(rustix::process::Signal::TERM);
    assert!(gateway.process.wait_for_exit().success());
    gateway.restart();
    assert_eq!(get(&gateway).0, 503);
    gateway.wait_for_log(
        "routes/1 cannot be used: plugin my-plugin: unknown plugin; the list in config.yaml has my-plugn, which does not exist: \
         did you mean my-plugin there?",
    );
    // A list that it runs with is no reason to refuse another change.
    edit_config(&gateway, "worker_processes: 1", "worker_processes: 2");
    let (code, text) = verb(&gateway, &["reload"], None);
    assert!(code == 0 && text.contains("serves"), "{text}");
}

#[test]
fn objects_that_a_reload_puts_out_of_use_are_named() {
    put_out_of_use(EMBEDDED);
}

/// The gateway itself says it: its Control API may be off, or its port taken.
#[test]
fn objects_that_a_reload_puts_out_of_use_are_named_without_a_control_api() {
    put_out_of_use(&EMBEDDED.replace("  control: {", "  enable_control: false\n  control: {"));
}

fn put_out_of_use(config: &str) {
    let gateway = Gateway::start(&(config.to_owned() + "plugins: [mocking, key-auth]\n"), None);
    put(&gateway, "routes/1", MOCKED);
    assert_eq!(get(&gateway), (200, "mocked".to_owned()));
    edit_config(&gateway, "[mocking, key-auth]", "[key-auth]");
    let (code, text) = verb(&gateway, &["reload"], None);
    assert_eq!(code, 2, "{text}");
    assert!(text.contains("1 object that could be used before cannot be"), "{text}");
    assert!(text.contains("routes/1 cannot be used: "), "{text}");
    assert_eq!(get(&gateway).0, 503);
    // They are no news to the next one.
    edit_config(&gateway, "worker_processes: 1", "worker_processes: 2");
    let (code, text) = verb(&gateway, &["reload"], None);
    assert!(code == 0 && !text.contains("routes/1"), "{text}");
}

/// A script that reloads must not believe that a file was taken which was not.
#[test]
fn a_resource_file_that_is_not_taken_is_no_reload() {
    let good = "routes:\n  - {id: 1, uri: /a, plugins: {mocking: {response_example: mocked}}}\n";
    let gateway = Gateway::start(YAML_PROVIDER, Some(good));
    let path = gateway.prefix().join("conf/apisix.yaml");
    let reload = |text: &str| {
        fs::write(&path, text).expect("written");
        verb(&gateway, &["reload"], None)
    };
    for broken in ["routes:\n  - {id: 1, uri: /b\n#END\n", "routes:\n  - id: 1\n    uri: [/b\n#END\n", ""] {
        // Again: the gateway has read it by itself, or by the reload before.
        for _ in 0..2 {
            let (code, text) = reload(broken);
            assert!(code == 1 && text.contains("apisix.yaml"), "{broken}: {code} {text}");
            assert!(
                text.contains("; the last good configuration stays") && !text.contains("reloaded"),
                "{text}"
            );
            assert_eq!(get(&gateway), (200, "mocked".to_owned()));
        }
    }
    let (_, text) = reload("routes:\n  - {id: 1, uri: /b\n#END\n");
    assert!(text.contains("apisix.yaml:"), "with its line: {text}");
    let (code, text) = reload(&format!("{good}  - {{id: 2, uri: /b, plugins: {{no-such: {{}}}}}}\n#END\n"));
    assert_eq!(code, 2, "{text}");
    assert!(text.contains("reloaded") && text.contains("1 object cannot be used"), "{text}");
    assert!(text.contains("routes/2 cannot be used: "), "{text}");
    let (code, text) = reload(&format!("{good}#END\n"));
    assert!(code == 0 && text.contains("reloaded"), "{code} {text}");
}

#[test]
fn a_trial_beside_a_gateway_has_its_newest_objects() {
    let gateway = Gateway::start(EMBEDDED, None);
    put(&gateway, "routes/1", MOCKED);
    edit_config(&gateway, "plugin_attr:", "plugins: [key-auth]\nplugin_attr:");
    for id in ["1", "2"] {
        put(&gateway, &format!("routes/{id}"), MOCKED);
        let (code, text) = verb(&gateway, &["test"], None);
        assert!(code == 2 && text.contains(&format!("routes/{id} cannot be used")), "{text}");
        assert!(!text.contains("lacks those of the last seconds"), "{text}");
    }
    fs::remove_file(gateway.prefix().join("logs/tidegate.sock")).expect("removed");
    let (_, text) = verb(&gateway, &["test"], None);
    assert!(text.contains("lacks those of the last seconds: cannot ask process"), "{text}");
}
