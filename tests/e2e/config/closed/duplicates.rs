//! What is written twice: nobody can say which of the two is meant, so nothing of it is taken.

use std::fs;

use tidegate_testkit::eventually;
use tidegate_testkit::gateway::{EMBEDDED, Gateway, YAML_PROVIDER};

use super::{admin, api_driven, configure, status};

const OPEN: &str = r#"{"id":1,"uri":"/x","plugins":{"mocking":{"response_example":"open"}}}"#;
const GUARD: &str = r#"{"id":1,"plugins":{"key-auth":{}}}"#;
const OTHER: &str = r#"{"id":1,"plugins":{"prometheus":{}}}"#;

/// Files, each with the end of its message: what stands twice, and where.
fn files() -> Vec<(String, &'static str)> {
    vec![
        (
            format!("global_rules: [{GUARD}]\nroutes: [{OPEN}]\nglobal_rules: []\n"),
            ":3:1: key \"global_rules\" is given twice, first at 1:1",
        ),
        (
            format!("routes: [{OPEN}]\n---\nglobal_rules: [{GUARD}]\n"),
            ":2:1: a second document begins here, the first one at 1:1",
        ),
        (
            "routes:\n- id: 1\n  uri: /x\n  plugins: {key-auth: {}}\n  plugins: {mocking: {response_example: open}}\n".to_owned(),
            ":5:3: key \"plugins\" is given twice, first at 4:3",
        ),
        (
            format!("routes: [{OPEN}]\nglobal_rules:\n- {GUARD}\n- {OTHER}\n"),
            ":4:3: global_rules has id \"1\" twice, first at 3:3",
        ),
        (
            format!("routes:\n- {OPEN}\n- {}\n", OPEN.replace("\"id\":1", "\"id\":\"1\"")),
            ":3:3: routes has id \"1\" twice, first at 2:3",
        ),
        (
            "consumers:\n- {username: a, plugins: {key-auth: {key: k}}}\n- {username: a}\n".to_owned(),
            ":3:3: consumers has id \"a\" twice, first at 2:3",
        ),
    ]
}

#[test]
fn a_file_with_something_twice_is_refused() {
    let good = format!("global_rules: [{GUARD}]\nroutes: [{OPEN}]\n");
    let gateway = Gateway::start(YAML_PROVIDER, Some(&good));
    assert_eq!(status(&gateway, "/x"), 401);
    for (text, message) in files() {
        gateway.write_routes(&text);
        let path = gateway.prefix().join("conf/apisix.yaml");
        let told = format!("{}{message}; the last good configuration stays", path.display());
        eventually("it is told", || gateway.error_log().contains(&told));
        assert_eq!(status(&gateway, "/x"), 401, "{text}");
        let (good, said) = gateway.verb("test");
        assert!(!good && said.contains(message), "{text}: {said}");
    }
    for (_, message) in files() {
        assert_eq!(gateway.error_log().matches(message).count(), 1, "{message}");
    }
}

/// The gateway's own file is no exception: which of two `admin_key` lists counts nobody can say.
#[test]
fn config_yaml_is_no_exception() {
    for (text, message) in [
        (
            "apisix: {enable_ipv6: true}\nnginx_config: {}\napisix: {}\n",
            ":3:1: key \"apisix\" is given twice, first at 1:1",
        ),
        (
            "deployment:\n  admin:\n    admin_key_required: true\n    admin_key_required: false\n",
            ":4:5: key \"admin_key_required\" is given twice, first at 3:5",
        ),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir_all(folder.path().join("conf")).expect("a folder");
        fs::write(folder.path().join("conf/config.yaml"), text).expect("written");
        for verb in ["test", "run"] {
            let mut command = std::process::Command::new(tidegate_testkit::gateway::binary());
            let output = command.args([verb, "--prefix"]).arg(folder.path()).output().expect("runs");
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(!output.status.success() && said.contains(message), "{verb}: {said}");
            assert!(said.contains("conf/config.yaml:"), "{verb}: {said}");
        }
    }
}

/// Of a list of plugins that is there twice the guards may be in the one that is lost.
#[test]
fn files_of_other_gateways_neither() {
    let kong = "_format_version: \"3.0\"\nservices:\n- name: s\n  url: http://127.0.0.1:1\n  plugins: [{name: key-auth}]\n  \
                plugins: []\n  routes: [{name: r, paths: [/]}]\n";
    let apisix = format!("global_rules: [{GUARD}]\nroutes: [{OPEN}]\nglobal_rules: []\n");
    for (kind, text, message) in [
        ("kong", kong, "6:3: key \"plugins\" is given twice, first at 5:3"),
        ("apisix", &*apisix, "3:1: key \"global_rules\" is given twice, first at 1:1"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("file.yaml");
        fs::write(&file, text).expect("written");
        let from = format!("{kind}:{}", file.display());
        let prefix = folder.path().display().to_string();
        let ways: &[&[&str]] =
            &[&["import", kind, &file.display().to_string()], &["run", "--prefix", &prefix, "--from", &from]];
        for arguments in ways {
            let mut command = std::process::Command::new(tidegate_testkit::gateway::binary());
            let output = command.args(*arguments).current_dir(folder.path()).output().expect("runs");
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(!output.status.success() && said.contains(message), "{arguments:?}: {said}");
        }
    }
}

#[test]
fn nothing_starts_from_such_a_file() {
    let (text, message) = files().remove(0);
    let mut gateway = Gateway::start_unready(YAML_PROVIDER, Some(&text));
    assert!(!gateway.process.wait_for_exit().success());
    gateway.process.wait_for_output(message);
}

#[test]
fn json_is_no_exception() {
    let config = YAML_PROVIDER.replace("config_provider: yaml", "config_provider: json");
    let gateway = Gateway::start_unready(&config, None);
    let path = gateway.prefix().join("conf/apisix.json");
    for (text, message) in [
        (
            format!("{{\"global_rules\": [{GUARD}],\n\"routes\": [{OPEN}],\n\"global_rules\": []}}"),
            ":3:1: key \"global_rules\" is given twice, first at 1:2",
        ),
        (
            format!("{{\"global_rules\": [{GUARD},\n{OTHER}]}}"),
            ":2:1: global_rules has id \"1\" twice, first at 1:19",
        ),
    ] {
        fs::write(&path, &text).expect("written");
        let (good, said) = gateway.verb("test");
        assert!(!good && said.contains(message), "{text}: {said}");
    }
}

#[test]
fn the_admin_api_names_the_key() {
    let gateway = Gateway::start(EMBEDDED, None);
    let route = r#"{"uri":"/x","plugins":{"key-auth":{},"mocking":{"response_example":"open"},"key-auth":{"_meta":{"disable":true}}}}"#;
    let import = format!("{{\"global_rules\":[{GUARD}],\"routes\":[],\"global_rules\":[]}}");
    let transaction =
        format!("{{\"changes\":[{{\"method\":\"PUT\",\"path\":\"/routes/1\",\"value\":{route}}}]}}");
    for (method, path, body, message) in [
        ("PUT", "routes/1", route, r#"key \"key-auth\" is given twice in plugins"#),
        ("POST", "routes", route, r#"key \"key-auth\" is given twice in plugins"#),
        (
            "POST",
            "transactions",
            &transaction,
            r#"key \"key-auth\" is given twice in changes[0].value.plugins"#,
        ),
        ("PUT", "import", &import, r#"key \"global_rules\" is given twice"#),
    ] {
        let answer = admin(&gateway, method, path, "Content-Type: application/json\r\n", body);
        assert_eq!(answer.status(), 400, "{body}");
        assert!(answer.body_text().contains(message), "{}", answer.body_text());
    }
    let yaml = format!("routes: [{OPEN}]\n---\nglobal_rules: [{GUARD}]\n#END\n");
    let answer = admin(&gateway, "PUT", "import", "", &yaml);
    assert_eq!((answer.status(), status(&gateway, "/x")), (400, 404), "{}", answer.body_text());
    assert!(answer.body_text().contains("2:1: a second document begins here"), "{}", answer.body_text());
}

#[test]
fn whole_configurations_neither() {
    let gateway = api_driven();
    assert_eq!(
        configure(&gateway, "1", &format!(r#"{{"routes":[{OPEN}],"global_rules":[{GUARD}]}}"#)).status(),
        202
    );
    for (body, message) in [
        (format!(r#"{{"routes":[{OPEN}],"global_rules":[{GUARD}],"global_rules":[]}}"#), "is given twice"),
        (
            format!(r#"{{"routes":[{OPEN}],"global_rules":[{GUARD},{OTHER}]}}"#),
            "found duplicate id 1 in global_rules",
        ),
    ] {
        let answer = configure(&gateway, "2", &body);
        assert_eq!((answer.status(), status(&gateway, "/x")), (400, 401), "{body}");
        assert!(answer.body_text().contains(message), "{}", answer.body_text());
    }
}
