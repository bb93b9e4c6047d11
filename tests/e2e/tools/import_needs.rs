//! What converted routes need of the config.yaml that they are served with: APISIX's defaults believe more than nginx and Kong do.

use std::{fs, path::Path, process::Command};

use tidegate_testkit::{
    Gateway, Upstream,
    gateway::{ADMIN_KEY, EMBEDDED, YAML_PROVIDER, binary, workspace_root},
};

const BELIEVED: &str = "nginx_config.http.real_ip_from";

fn nginx(upstream: &Upstream) -> String {
    let allowed = "allow 9.9.9.9; deny all;";
    format!(
        "http {{ server {{ listen 80; location / {{ {allowed} proxy_pass http://{0}; }}
         location /role/ {{ if ($http_x_role != admin) {{ return 403; }} proxy_pass http://{0}; }} }} }}",
        upstream.address
    )
}

fn kong(upstream: &Upstream) -> String {
    format!(
        "_format_version: '3.0'\nservices:\n- name: s\n  url: http://{}\n  routes:\n  - {{name: near, paths: [/near], plugins: [\
         {{name: ip-restriction, config: {{allow: [9.9.9.9]}}}}]}}\n  - {{name: open, paths: [/near/open]}}\n",
        upstream.address
    )
}

/// Exit code 0, and what standard error says.
fn import(folder: &Path, kind: &str, arguments: &[&str]) -> (bool, String) {
    let mut command = Command::new(binary());
    command.current_dir(folder).args(["import", kind, "source"]).args(arguments);
    let output = command.output().expect("the binary runs");
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// The config.yaml that the page of a migration prescribes, with the ports of a test.
fn prescribed(page: &str) -> String {
    let text = fs::read_to_string(workspace_root().join("docs/migrate").join(page)).expect("readable");
    let block =
        text.split("```yaml\n").find(|block| block.starts_with("deployment:")).expect("a config.yaml");
    let block = block.split("```").next().unwrap_or_default();
    let own =
        "apisix: {node_listen: [{ip: 127.0.0.1, port: @HTTP@}], enable_control: false, ssl: {enable: false}";
    let rest = "plugin_attr: {prometheus: {enable_export_server: false}}\n";
    match block.split_once("apisix: {") {
        Some((before, after)) => format!("{before}{own}, {after}{rest}"),
        None => format!("{block}{own}}}\n{rest}"),
    }
}

fn status(gateway: &Gateway, path: &str, field: &str) -> u16 {
    let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\n{field}\r\n\r\n");
    gateway.client().request(&request).expect("an answer").status()
}

/// The whole way of the page: import, its config.yaml, the gateway.
#[test]
fn with_the_config_of_the_page_no_guard_is_lost() {
    let upstream = Upstream::start();
    for (kind, text, refused) in [
        (
            "nginx",
            nginx(&upstream),
            vec![
                ("/", "X-Real-IP: 9.9.9.9", 403),
                ("/role/", "X_Role: admin", 403),
                ("/role/", "X-Role: admin", 200),
            ],
        ),
        (
            "kong",
            kong(&upstream),
            vec![
                ("/near", "X-Real-IP: 9.9.9.9", 403),
                ("/near%2Fopen", "A: b", 403),
                ("/near%2fopen/x", "A: b", 403),
                ("/near/open", "A: b", 200),
            ],
        ),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("source"), text).expect("written");
        fs::create_dir(folder.path().join("conf")).expect("a folder");
        for page in [format!("{kind}.md"), format!("{kind}.zh-CN.md")] {
            let config = prescribed(&page);
            fs::write(folder.path().join("conf/config.yaml"), config.replace("@HTTP@", "9080"))
                .expect("written");
            let (fine, said) = import(folder.path(), kind, &["--to", "conf/apisix.yaml"]);
            assert!(fine && !said.contains("config.yaml"), "{page}: {said}");
            let routes = fs::read_to_string(folder.path().join("conf/apisix.yaml")).expect("readable");
            let gateway = Gateway::start(&config, Some(&routes));
            for (path, field, wanted) in &refused {
                assert_eq!(status(&gateway, path, field), *wanted, "{page}: {path} {field}");
            }
        }
    }
}

/// The config.yaml beside the file that is written is the one that will be served with.
#[test]
fn a_config_that_believes_more_is_named_with_its_place() {
    let upstream = Upstream::start();
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        fs::create_dir_all(folder.path().join("conf")).expect("a folder");
        fs::write(folder.path().join(name), text).expect("written");
    };
    let to = ["--to", "conf/apisix.yaml"];
    for (kind, text, keys) in [
        ("nginx", nginx(&upstream), vec![BELIEVED, "nginx_config.http.underscores_in_headers"]),
        ("kong", kong(&upstream), vec![BELIEVED, "apisix.match_uri_encoded_slash"]),
        ("hyperapi", "services: []\n".to_owned(), vec![BELIEVED]),
    ] {
        let _ = fs::remove_dir_all(folder.path().join("conf"));
        write("source", &text);
        let (fine, said) = import(folder.path(), kind, &to);
        assert!(fine, "{said}");
        for key in &keys {
            assert!(said.contains(&format!("source: set {key}: ")), "{kind} without a config.yaml: {said}");
        }
        fs::remove_file(folder.path().join("conf/apisix.yaml")).expect("there");
        write(
            "conf/config.yaml",
            "deployment: {role: data_plane, role_data_plane: {config_provider: yaml}}\n",
        );
        let (fine, said) = import(folder.path(), kind, &to);
        assert!(fine && said.contains(&format!("conf/config.yaml: {BELIEVED} is not set")), "{kind}: {said}");
        assert!(said.contains("a request from 127.0.0.1 names its client in X-Real-IP"), "{kind}: {said}");
        for key in &keys[1..] {
            assert!(said.contains(&format!("conf/config.yaml: set {key}: ")), "{kind}: {said}");
        }
        fs::remove_file(folder.path().join("conf/apisix.yaml")).expect("there");
        let (fine, said) = import(folder.path(), kind, &["--to", "conf/apisix.yaml", "--strict"]);
        assert!(!fine && said.contains("--strict was given"), "{kind}: {said}");
        assert!(!folder.path().join("conf/apisix.yaml").exists(), "{kind}: nothing is written");
    }
}

/// Peers that the operator wrote: beside nginx's own list they are named; Kong has its list in kong.conf.
#[test]
fn a_list_of_the_operator_counts() {
    let upstream = Upstream::start();
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("conf")).expect("a folder");
    let config = "nginx_config:\n  http:\n    underscores_in_headers: \"off\"\n    real_ip_from: [10.0.0.1]\n\
                  apisix: {match_uri_encoded_slash: true, router: {http: radixtree_uri}}\n";
    fs::write(folder.path().join("conf/config.yaml"), config).expect("written");
    for (kind, text, named) in [("nginx", nginx(&upstream), true), ("kong", kong(&upstream), false)] {
        fs::write(folder.path().join("source"), text).expect("written");
        let (fine, said) = import(folder.path(), kind, &["--to", "conf/apisix.yaml"]);
        let line = format!("conf/config.yaml:4:19: {BELIEVED} holds besides the `set_real_ip_from`");
        assert_eq!((fine, said.contains(&line)), (true, named), "{kind}: {said}");
        let line = "conf/config.yaml:5:56: set apisix.router.http: radixtree_host_uri; else ";
        assert!(said.contains(line), "{kind}: {said}");
    }
}

/// The gateway that is applied to is known where its key comes from its folder.
#[test]
fn what_is_applied_needs_the_same() {
    let upstream = Upstream::start();
    let mut gateway = Gateway::start(EMBEDDED, None);
    gateway.process.wait_for_port(gateway.admin);
    let source = gateway.prefix().join("source");
    fs::write(&source, nginx(&upstream)).expect("written");
    let admin = gateway.admin.to_string();
    let apply = |more: &[&str]| {
        let mut command = Command::new(binary());
        command.args(["import", "nginx", "--apply", "--admin", &admin]).arg(&source).args(more);
        let output = command.output().expect("runs");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let prefix = gateway.prefix().display().to_string();
    let (fine, said) = apply(&["--prefix", &prefix, "--strict"]);
    assert!(!fine && said.contains("conf/config.yaml:") && said.contains(BELIEVED), "{said}");
    assert!(
        gateway.admin("GET", "/apisix/admin/routes", "").1.contains("\"total\":0"),
        "nothing was written"
    );
    let (fine, said) = apply(&["--admin-key", ADMIN_KEY]);
    assert!(fine && said.contains(&format!("source: set {BELIEVED}: []")), "{said}");
    // In its folder, its address and key tell that it is that one.
    let here = |key: &str| {
        let mut command = Command::new(binary());
        command.args(["import", "nginx", "--apply", "--admin", &admin, "--admin-key", key]).arg(&source);
        let output = command.current_dir(gateway.prefix()).output().expect("runs");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let said = here(ADMIN_KEY);
    assert!(said.contains("conf/config.yaml:") && !said.contains("source: set"), "{said}");
    let said = here("another-key");
    assert!(said.contains("source: set") && !said.contains("conf/config.yaml:"), "{said}");
}

/// `run --from` sets it by itself.
#[test]
fn hyperapi_believes_nobody_unless_config_says_so() {
    let upstream = Upstream::start();
    let text = fs::read_to_string(workspace_root().join("tests/hyperapi/code-shape.yaml")).expect("readable");
    let text = text.split("\n---\n").next().unwrap_or_default();
    let text = text.replace("@UPSTREAM@", &upstream.address.to_string());
    let client = |config: &str| {
        let gateway = Gateway::start_from_with(config, "hyperapi", &text);
        let request = "GET /open/a HTTP/1.1\r\nHost: h\r\nX-Real-IP: 9.9.9.9\r\n\r\n";
        gateway.client().request(request).expect("an answer");
        upstream.take().last().map(|seen| seen.text()).unwrap_or_default()
    };
    assert!(client(YAML_PROVIDER).contains("X-Real-IP: 127.0.0.1"), "not the default of APISIX");
    let own = YAML_PROVIDER.replace("http: {", "http: {real_ip_from: [127.0.0.1], ");
    assert!(client(&own).contains("X-Real-IP: 9.9.9.9"), "the operator wrote it");
}

/// What is stored, and who may change it, is no matter there.
#[test]
fn keys_of_a_store_that_is_not_there_are_not_warned_of() {
    let folder = tempfile::tempdir().expect("a folder");
    let port = tidegate_testkit::free_port();
    fs::write(folder.path().join("nginx.conf"), format!("server {{ listen 127.0.0.1:{port}; return 204; }}"))
        .expect("written");
    let mut command = Command::new(binary());
    command.current_dir(folder.path()).args(["run", "--from", "nginx:nginx.conf"]);
    let mut process = tidegate_testkit::process::Process::start("tidegate", &mut command);
    process.wait_for_port(([127, 0, 0, 1], port).into());
    let said = process.output();
    assert!(!said.contains("keyring"), "{said}");
}

const OBJECTS: &str = "\
routes:
- id: typo
  uri: /a
  plugin: {key-auth: {}}
  upstream: {nodes: {\"127.0.0.1:1\": 1}}
- id: unlisted
  uri: /c
  plugins: {ip-restriction: {whitelist: [10.0.0.0/8]}}
  upstream: {nodes: {\"127.0.0.1:1\": 1}}
- uri: /d
  plugins: {key-auth: {hide_credentails: true}}
  upstream: {nodes: {\"127.0.0.1:1\": 1}}
plugin_metadata:
- {id: http-logger, log_formt: {a: b}}
ssl:
- {id: one, sni: a.test, cert: none, key: none}
#END
";

/// `import apisix` and `doctor` say the same of the same files, each time.
#[test]
fn objects_of_apisix_are_judged_as_doctor_does() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    fs::write(path("source"), OBJECTS).expect("written");
    fs::write(path("config.yaml"), "plugins: [key-auth]\n").expect("written");
    let (fine, said) = import(folder.path(), "apisix", &["--to", "to/apisix.yaml"]);
    assert!(fine, "{said}");
    for line in [
        "source:4: not supported: routes/typo cannot be used: invalid configuration: additional properties forbidden, found plugin; \
         did you mean plugins?",
        "source:8: not supported: routes/unlisted cannot be used: plugin ip-restriction: not in the list of plugins; add \
         ip-restriction to `plugins` of config.yaml",
        ": no effect on answers: routes/arr_3: unknown field plugins.key-auth.hide_credentails has no effect; did you mean",
        ": no effect on answers: plugin_metadata/http-logger: unknown field http-logger.log_formt has no effect; did you mean log_format?",
        "source:16: not supported: ssls/one cannot be used: ",
    ] {
        assert!(said.contains(line), "{line}\n{said}");
    }
    assert!(!said.contains("property \"id\""), "an id is made: {said}");
    let (fine, said) = import(folder.path(), "apisix", &["--strict"]);
    assert!(!fine && said.contains("--strict was given"), "{said}");
    // The list of the gateway that it is for counts.
    fs::create_dir(path("to/own")).expect("a folder");
    fs::write(path("to/own/config.yaml"), "plugins: [key-auth, ip-restriction]\n").expect("written");
    let (_, said) = import(folder.path(), "apisix", &["--to", "to/own/apisix.yaml"]);
    assert!(!said.contains("routes/unlisted"), "{said}");
    let doctor = || {
        let output = Command::new(binary()).current_dir(folder.path()).args(["doctor", "source"]).output();
        String::from_utf8_lossy(&output.expect("it runs").stdout).into_owned()
    };
    for _ in 0..5 {
        let said = doctor();
        for part in [
            "source:4:3: routes/typo",
            "source:8:13: routes/unlisted",
            "hide_credentails has no effect",
            "log_formt has",
        ] {
            assert!(said.contains(part), "{part}\n{said}");
        }
    }
}
