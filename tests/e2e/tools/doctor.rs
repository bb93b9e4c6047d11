//! `tidegate doctor`: what is healthy is not blamed, and whether APISIX can be left. Planted faults are in [`faults`].

mod faults;

use std::fs;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;
use tidegate_testkit::gateway::{EMBEDDED, Gateway, YAML_PROVIDER, binary};
use tidegate_testkit::{Etcd, Upstream, free_port};

/// A folder with this configuration; the ports in it are free.
fn folder(config: &str, resources: Option<&str>) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let mut config = config.to_owned();
    for name in ["@HTTP@", "@ADMIN@", "@CONTROL@", "@METRICS@"] {
        config = config.replace(name, &free_port().to_string());
    }
    fs::create_dir(folder.path().join("conf")).expect("a folder");
    fs::write(folder.path().join("conf/config.yaml"), config).expect("written");
    if let Some(text) = resources {
        fs::write(folder.path().join("conf/apisix.yaml"), format!("{}\n#END\n", text.trim_end()))
            .expect("written");
    }
    folder
}

/// The exit code, and the checks. Without those of the machine, which may be anything.
fn doctor(words: &[&str]) -> (Option<i32>, Vec<Value>) {
    let output = Command::new(binary()).args(["doctor", "--json"]).args(words).output().expect("runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = String::from_utf8_lossy(&output.stderr);
    let answer: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}{said}"));
    let checks = answer["checks"].as_array().cloned().unwrap_or_default();
    let bad = checks.iter().filter(|check| check["state"] == "bad").count();
    assert_eq!(
        (answer["bad"].as_u64(), output.status.code()),
        (Some(bad as u64), Some(if bad > 0 { 3 } else { 0 }))
    );
    let own = checks.into_iter().skip_while(|check| words.contains(&"--prefix") && check["check"] != "clock");
    (output.status.code(), own.collect())
}

fn of_folder(folder: &Path) -> Vec<Value> {
    doctor(&["--prefix", &folder.display().to_string()]).1
}

/// What is wrong, one line for each.
fn bad(checks: &[Value]) -> Vec<String> {
    let bad = checks.iter().filter(|check| check["state"] == "bad");
    bad.map(|check| {
        format!("{}: {} -> {}", text(&check["check"]), text(&check["seen"]), text(&check["remedy"]))
    })
    .collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

const FILE: &str = "\
apisix: {node_listen: [{ip: 127.0.0.1, port: @HTTP@}], ssl: {enable: false}, enable_admin: false, control: {ip: 127.0.0.1, port: @CONTROL@}}
deployment: {role: data_plane, role_data_plane: {config_provider: yaml}}
";

#[test]
fn healthy_configurations_are_not_blamed() {
    let upstream = Upstream::start();
    let node = format!(
        "routes: [{{id: 1, uri: /a, upstream: {{nodes: {{'{}': 1, 'localhost:80': 1}}}}}}]",
        upstream.address
    );
    let etcd = Etcd::start();
    let cluster = format!(
        "{}etcd: {{host: [\"{}\"]}}}}\n",
        FILE.replace("config_provider: yaml}}\n", "config_provider: etcd}, "),
        etcd.url()
    )
    .replace("apisix: {", "apisix: {data_encryption: {keyring: [abcdefghijklmnop]}, ");
    let own_key =
        EMBEDDED.replace("apisix:\n", "apisix:\n  data_encryption: {keyring: [abcdefghijklmnop]}\n");
    for (config, resources) in [(FILE, Some(node.as_str())), (&own_key, None), (&cluster, None)] {
        let folder = folder(config, resources);
        let checks = of_folder(folder.path());
        assert!(bad(&checks).is_empty(), "{config}\n{:#?}", bad(&checks));
        assert!(checks.len() >= 5, "{checks:#?}");
    }
    // The ports of a gateway that runs are its own.
    let gateway = Gateway::start(&own_key, None);
    let checks = of_folder(gateway.prefix());
    assert!(bad(&checks).is_empty(), "{:#?}", bad(&checks));
}

#[test]
fn it_answers_whether_apisix_can_be_left() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("apisix.yaml");
    let path = file.display().to_string();
    fs::write(&file, "routes:\n- {id: 1, uri: /a, upstream: {nodes: {'127.0.0.1:1': 1}}}\n#END\n")
        .expect("written");
    let (code, checks) = doctor(&[&path]);
    assert!(code == Some(0) && text(&checks[0]["seen"]) == "1 of 1 can be used", "{checks:#?}");
    fs::write(&file, "routes:\n- {id: 1, uri: /a, plugins: {no-such: {}}}\n- {id: 2, uri: /b, plugins: {cors: {}}}\n#END\n")
        .expect("written");
    let (code, checks) = doctor(&[&path]);
    assert_eq!((code, text(&checks[0]["seen"])), (Some(3), "1 of 2 can be used"), "{checks:#?}");
    let wanted = format!("{path}:2:30: routes/1 cannot be used: unknown plugin [no-such]");
    assert!(bad(&checks)[0].contains(&wanted), "{checks:#?}");
    // What it takes from the config.yaml beside: which plugins are on, and registries of services.
    let registry = "routes: [{id: 1, uri: /a, upstream: {service_name: s, discovery_type: eureka}}]\n#END\n";
    let off =
        "routes: [{id: 1, uri: /a, plugins: {cors: {}}, upstream: {nodes: {'127.0.0.1:1': 1}}}]\n#END\n";
    for (routes, config, wanted) in [
        (registry, "", "config.yaml has no discovery.eureka"),
        (registry, "discovery: {eureka: {host: ['http://127.0.0.1:1']}}\n", ""),
        (off, "", ""),
        (off, "plugins: [prometheus]\n", "plugin cors does not run where it is configured"),
    ] {
        fs::write(&file, routes).expect("written");
        let keyring = "apisix: {data_encryption: {keyring: [abcdefghijklmnop]}}\n";
        fs::write(folder.path().join("config.yaml"), format!("{keyring}{config}")).expect("written");
        let found = bad(&doctor(&[&path]).1);
        assert_eq!(
            found.iter().any(|line| line.contains(wanted)),
            !wanted.is_empty(),
            "{config}: {found:#?}"
        );
        assert!(found.len() <= 1, "{config}: {found:#?}");
    }
    let etcd = Etcd::start();
    let put = |key: &str, value: &str| {
        let done = Command::new("etcdctl")
            .args(["--endpoints", &etcd.url(), "put", key, value])
            .env("ETCDCTL_API", "3")
            .output();
        assert!(done.expect("etcdctl runs").status.success(), "{key}");
    };
    put("/apisix/routes/1", r#"{"id": "1", "uri": "/a", "upstream": {"nodes": {"127.0.0.1:1": 1}}}"#);
    let (code, checks) = doctor(&["--etcd", &etcd.url()]);
    assert!(code == Some(0) && bad(&checks).is_empty(), "{checks:#?}");
    put("/apisix/routes/2", r#"{"id": "2", "uri": "/b", "plugins": {"no-such": {}}}"#);
    let (code, checks) = doctor(&["--etcd", &etcd.url()]);
    assert!(code == Some(3) && bad(&checks)[0].contains("routes/2 cannot be used"), "{checks:#?}");
}

/// A look at the text finds what the sandbox does not have, also in what a plugin requires.
#[test]
fn calls_of_plugins_in_files_that_are_not_available_are_named() {
    let lua = tempfile::tempdir().expect("a folder");
    fs::create_dir_all(lua.path().join("apisix/plugins")).expect("a folder");
    let write = |name: &str, text: &str| fs::write(lua.path().join(name), text).expect("written");
    let plugin =
        |body: &str| format!("return {{version = 1, priority = 1, schema = {{type = 'object'}},\n{body}}}");
    write(
        "apisix/plugins/my-good.lua",
        &plugin("-- io.open\nrewrite = function() return 200, 'io.open is a text' end"),
    );
    write(
        "apisix/plugins/my-bad.lua",
        &format!("require('my_helper')\n{}", plugin("log = function() ngx.socket.tcp() end")),
    );
    write(
        "my_helper.lua",
        "return function()\n    local redis = require('resty.redis')\n    return io.open('/etc/passwd')\nend",
    );
    write("apisix/plugins/my-broken.lua", "return {\n");
    let path = format!("apisix:\n  extra_lua_path: {}/?.lua\n", lua.path().display());
    let config = EMBEDDED.replacen("apisix:\n", &path, 1) + "plugins: [my-good, my-bad, my-broken]\n";
    let folder = folder(&config, None);
    let checks = of_folder(folder.path());
    let found = bad(&checks);
    let file = |name: &str| lua.path().join(name).display().to_string();
    for expected in [
        format!("plugin my-bad: {}:3: ngx.socket is not available", file("apisix/plugins/my-bad.lua")),
        format!("plugin my-bad: {}:2: module resty.redis is not available", file("my_helper.lua")),
        format!("plugin my-bad: {}:3: io is not available", file("my_helper.lua")),
        format!("plugin my-broken: it cannot be loaded: {}:2: ", file("apisix/plugins/my-broken.lua")),
    ] {
        assert!(found.iter().any(|line| line.starts_with(&expected)), "{expected}: {found:#?}");
    }
    assert!(!found.iter().any(|line| line.starts_with("plugin my-good")), "{found:#?}");
}

/// Of a file alone, too: a plugin that the config.yaml beside it has is known.
#[test]
fn own_plugins_beside_a_file_are_known() {
    let module = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/guide/wasm/greet.wasm");
    let own = "wasm: {plugins: [{name: greet, priority: 1500, file: greet.wasm}]}\next-plugin: {cmd: [/bin/true]}\n";
    let lua = "apisix:\n  extra_lua_path: lua/?.lua\n";
    let config =
        YAML_PROVIDER.replacen("apisix:\n", lua, 1) + own + "plugins: [my-good, ext-plugin-pre-req]\n";
    let routes = "routes:\n- {id: 1, uri: /1, plugins: {greet: {conf: hi}, my-good: {}, ext-plugin-pre-req: {conf: [{name: a, value: b}]}}, \
                  upstream: {nodes: {\"127.0.0.1:1\": 1}}}";
    let folder = folder(&config, Some(routes));
    fs::copy(module, folder.path().join("greet.wasm")).expect("copied");
    fs::create_dir_all(folder.path().join("lua/apisix/plugins")).expect("a folder");
    let plugin = "return {version = 0.1, priority = 1, name = 'my-good', schema = {type = 'object'}, log = function() end}\n";
    fs::write(folder.path().join("lua/apisix/plugins/my-good.lua"), plugin).expect("written");
    for (place, file) in [(".", "conf/apisix.yaml"), ("conf", "apisix.yaml")] {
        let mut command = Command::new(binary());
        let output =
            command.args(["doctor", file]).current_dir(folder.path().join(place)).output().expect("runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains("1 of 1 can be used") && !text.contains("BAD  object"), "{place}: {text}");
    }
}

/// A running gateway holds its store: what is said of its objects is the same.
#[test]
fn objects_of_the_store_are_looked_at() {
    let own_key =
        EMBEDDED.replace("apisix:\n", "apisix:\n  data_encryption: {keyring: [abcdefghijklmnop]}\n");
    let mut gateway = Gateway::start(&own_key, None);
    let (certificate, key) = faults::ending_soon("a.test");
    let ssl = serde_json::json!({"sni": "a.test", "cert": certificate, "key": key});
    let route = r#"{"uri": "/a", "upstream": {"nodes": {"no-such-host.invalid:80": 1}}}"#;
    let vain = r#"{"uri": "y", "upstream": {"nodes": {"127.0.0.1:80": 1}}}"#;
    let secret = r#"{"plugins": {"key-auth": {"header": "$env://NOT_THERE"}}}"#;
    for (path, body) in [
        ("ssls/1", ssl.to_string().as_str()),
        ("routes/1", route),
        ("routes/vain", vain),
        ("global_rules/1", secret),
    ] {
        let (status, answer) = gateway.admin("PUT", &format!("/apisix/admin/{path}"), body);
        assert!(status < 300, "{path}: {answer}");
    }
    let found = |gateway: &Gateway| {
        let checks = of_folder(gateway.prefix());
        let texts: Vec<String> = bad(&checks).iter().map(ToString::to_string).collect();
        texts.join("\n")
    };
    let named = ["no-such-host.invalid", "the certificate ends in", "routes/vain"];
    // The copy is seconds behind.
    tidegate_testkit::eventually("both are named", || {
        let text = found(&gateway);
        named.iter().all(|part| text.contains(part)) && text.contains("global_rules/1 cannot be used")
    });
    gateway.process.signal(Signal::TERM);
    assert!(gateway.process.wait_for_exit().success());
    let text = found(&gateway);
    assert!(named.iter().all(|part| text.contains(part)), "{text}");
}

/// What does not answer elsewhere is no reason to say nothing of the store.
#[test]
fn a_damaged_store_is_named_beside_a_redis_that_does_not_answer() {
    let mut gateway = Gateway::start(EMBEDDED, None);
    let port = free_port();
    let limit = format!(
        r#"{{"uri": "/a", "plugins": {{"limit-count": {{"count": 2, "time_window": 9, "policy": "redis", "redis_host": "127.0.0.1", "redis_port": {port}}}}}}}"#
    );
    let (status, answer) = gateway.admin("PUT", "/apisix/admin/routes/1", &limit);
    assert!(status < 300, "{answer}");
    gateway.process.signal(Signal::TERM);
    assert!(gateway.process.wait_for_exit().success());
    let store = gateway.prefix().join("data/tidegate.redb");
    fs::OpenOptions::new().write(true).open(store).and_then(|file| file.set_len(4096)).expect("truncated");
    let found = bad(&of_folder(gateway.prefix())).join("\n");
    assert!(found.contains("Redis: 127.0.0.1:"), "{found}");
    assert!(found.contains("data/tidegate.redb"), "{found}");
}
