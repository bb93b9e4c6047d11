//! Who gets into the Admin API: only `admin_key_required: false` opens it, and what stands open is told at every start.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use tidegate_config::admin_door::PUBLISHED_KEYS;
use tidegate_testkit::gateway::{ADMIN_KEY, EMBEDDED, binary, run_command, workspace_root};
use tidegate_testkit::{Client, Gateway};

const LISTED: &str = "admin_key: [{name: admin, key: test-admin-key, role: admin}]";
const ROUTE: &str = r#"{"uri":"/open","plugins":{"mocking":{"response_status":200,"response_example":"x"}}}"#;

/// A gateway whose `deployment.admin` has this in place of its keys.
fn start(keys: &str) -> Gateway {
    let mut gateway = Gateway::start(&EMBEDDED.replace(LISTED, keys), None);
    gateway.process.wait_for_port(gateway.admin);
    gateway
}

/// Puts a route with these header lines.
fn put(gateway: &Gateway, fields: &str) -> u16 {
    let mut client = Client::connect(gateway.admin).expect("the admin port accepts connections");
    let length = ROUTE.len();
    let request = format!(
        "PUT /apisix/admin/routes/1 HTTP/1.1\r\nHost: a\r\n{fields}Content-Length: {length}\r\nConnection: close\r\n\r\n{ROUTE}"
    );
    client.request(&request).expect("an answer").status()
}

/// What a start says on its terminal and in the error log: the same.
fn check_said(gateway: &Gateway, wanted: &str) {
    gateway.process.wait_for_output("Try it:");
    let printed = gateway.process.output();
    assert!(printed.contains(wanted), "{wanted:?} was not printed:\n{printed}");
    gateway.wait_for_log(wanted);
}

#[test]
fn no_key_in_the_list_opens_nothing() {
    for keys in [
        "admin_key: []",
        "admin_key: ~",
        "admin_key: []\n    admin_key_required: true",
        "admin_key_required: ~\n    admin_key: []",
    ] {
        let gateway = Gateway::start(&EMBEDDED.replace(LISTED, keys), None);
        gateway.process.wait_for_output("answered 401");
        gateway.wait_for_log("there is no admin key");
        for fields in ["", "X-API-KEY: \r\n", "X-API-KEY: x\r\n", "Cookie: x_api_key=\r\n"] {
            assert_eq!(put(&gateway, fields), 401, "{keys:?} with {fields:?}");
        }
    }
}

#[test]
fn only_false_opens_and_is_told_at_every_start() {
    let mut gateway = start("admin_key_required: false");
    assert_eq!(put(&gateway, ""), 201);
    check_said(&gateway, "the Admin API requires no key");
    gateway.process.stop();
    fs::write(gateway.prefix().join("logs/error.log"), "").expect("an empty log");
    gateway.restart();
    check_said(&gateway, "the Admin API requires no key");
}

#[test]
fn a_published_key_is_told() {
    for key in ["edd1c9f034335f136f87ad84b625c8f1", "4054f7cf07e344346cd3f287985e76a2", "change-me"] {
        let gateway = start(&format!("admin_key: [{{name: admin, key: {key}, role: admin}}]"));
        assert_eq!(put(&gateway, &format!("X-API-KEY: {key}\r\n")), 201);
        check_said(&gateway, "is published in documentation");
        assert!(!gateway.process.output().contains(key), "a key from config.yaml is not shown");
    }
}

/// Whoever copies an example has a key that everybody knows.
#[test]
fn every_key_in_the_documentation_counts_as_published() {
    let mut pages = vec![workspace_root().join("README.md"), workspace_root().join("README.zh-CN.md")];
    for folder in ["docs", "docs/guide", "docs/plugins", "docs/migrate"] {
        let entries = fs::read_dir(workspace_root().join(folder)).expect("documentation");
        pages.extend(entries.flatten().map(|entry| entry.path()).filter(|path| path.extension().is_some()));
    }
    for page in pages {
        let text = fs::read_to_string(&page).expect("a page");
        for shown in text.split("X-API-KEY: ").skip(1) {
            let key = shown.split(['\'', '"', ' ', '`', '\n']).next().unwrap_or_default();
            let known = key.starts_with('$') || PUBLISHED_KEYS.contains(&key);
            assert!(known, "{}: {key:?} is missing in PUBLISHED_KEYS", page.display());
        }
    }
}

#[test]
fn a_listener_that_others_can_reach_is_told() {
    let open = EMBEDDED.replace(
        "admin_listen: {ip: 127.0.0.1,",
        "allow_admin: [0.0.0.0/0]\n    admin_listen: {ip: 0.0.0.0,",
    );
    let gateway = Gateway::start(&open, None);
    check_said(&gateway, "other machines can reach the Admin API");
    let keyring = "apisix:\n  data_encryption: {keyring: [sixteen-letters-]}\n";
    let own = Gateway::start(&EMBEDDED.replace("apisix:\n", keyring), None);
    own.process.wait_for_output("Try it:");
    assert!(!own.process.output().contains("warning"), "{}", own.process.output());
}

/// APISIX writes `deny all` after an empty list; only null lets every address in.
#[test]
fn an_empty_list_of_addresses_lets_none_in() {
    let lists = [
        ("[]", 403),
        ("['unix:']", 403),
        ("~", 201),
        ("[127.0.0.1]", 201),
        ("['::ffff:127.0.0.0/104']", 201),
        ("['::ffff:10.0.0.0/104']", 403),
    ];
    for (list, status) in lists {
        let gateway = start(&format!("{LISTED}\n    allow_admin: {list}"));
        assert_eq!(put(&gateway, &format!("X-API-KEY: {ADMIN_KEY}\r\n")), status, "allow_admin: {list}");
    }
}

#[test]
fn a_key_from_config_yaml_is_never_printed() {
    let gateway = start(LISTED);
    gateway.process.wait_for_output("Try it:");
    let printed = gateway.process.output();
    assert!(!printed.contains(ADMIN_KEY), "{printed}");
    assert!(!gateway.error_log().contains(ADMIN_KEY));
    let (printed, _) =
        on_terminal(&format!("{} config export --prefix {}", shown(binary()), shown(gateway.prefix())));
    assert!(!printed.contains(ADMIN_KEY), "{printed}");
}

#[test]
fn a_generated_key_has_a_file_of_its_own() {
    for keys in ["", "admin_key: [{name: admin, key: '', role: admin}]"] {
        let mut gateway = start(keys);
        let config = fs::read_to_string(gateway.prefix().join("conf/config.yaml")).expect("config.yaml");
        assert!(config.contains(keys), "{config}");
        let path = gateway.prefix().join("data/admin.key");
        let key = fs::read_to_string(&path).expect("a key").trim().to_owned();
        assert_eq!((key.len(), mode(&path)), (32, 0o600));
        assert_eq!(put(&gateway, ""), 401);
        assert_eq!(put(&gateway, &format!("X-API-KEY: {key}\r\n")), 201);
        gateway.process.wait_for_output("Try it:");
        assert!(!gateway.process.output().contains(&key), "it is shown to a terminal only");
        // Verbs that ask the Admin API find it, too.
        let (success, text) = gateway.verb_with(&["config", "export"]);
        assert!(success && text.contains("/open"), "{text}");
        gateway.process.stop();
        gateway.restart();
        gateway.process.wait_for_port(gateway.admin);
        assert_eq!(put(&gateway, &format!("X-API-KEY: {key}\r\n")), 200, "the same key after a restart");
        assert_eq!(fs::read_to_string(&path).expect("a key").trim(), key);
        let now = fs::read_to_string(gateway.prefix().join("conf/config.yaml")).expect("config.yaml");
        assert_eq!(now, config, "config.yaml is never written");
        let (success, text) = gateway.verb("upgrade");
        assert!(success, "{text}");
        assert_eq!(put(&gateway, &format!("X-API-KEY: {key}\r\n")), 200, "and after an upgrade");
    }
}

#[test]
fn a_generated_key_is_shown_once_on_a_terminal() {
    let gateway = start("");
    let key_file = gateway.prefix().join("data/admin.key");
    let mut gateway = gateway;
    gateway.process.stop();
    fs::remove_file(&key_file).expect("the key is removed");
    let start = format!("{} start --prefix {}", shown(binary()), shown(gateway.prefix()));
    let (printed, success) = on_terminal(&start);
    assert!(success, "{printed}");
    let key = fs::read_to_string(&key_file).expect("a new key").trim().to_owned();
    assert!(printed.contains(&key), "{printed}");
    assert!(gateway.verb("stop").0);
    let (printed, success) = on_terminal(&start);
    assert!(success && !printed.contains(&key), "{printed}");
    let output = fs::read_to_string(gateway.prefix().join("logs/tidegate.out")).expect("what it printed");
    assert!(!output.contains(&key), "{output}");
    assert!(gateway.verb("stop").0);
}

#[test]
fn what_is_written_is_for_the_owner_and_the_group() {
    let gateway = Gateway::start_by(EMBEDDED, None, |prefix| {
        for folder in ["logs", "data"] {
            fs::remove_dir(prefix.join(folder)).expect("an empty folder is removed");
        }
        run_command(prefix)
    });
    gateway.process.wait_for_output("Try it:");
    for (name, wanted) in
        [("logs", 0o750), ("data", 0o750), ("logs/error.log", 0o640), ("logs/access.log", 0o640)]
    {
        let path = gateway.prefix().join(name);
        assert_eq!(mode(&path), wanted, "{name}: {:o}", mode(&path));
    }
    for folder in ["logs", "data"] {
        for entry in fs::read_dir(gateway.prefix().join(folder)).expect("a folder").flatten() {
            assert_eq!(mode(&entry.path()) & 0o027, 0, "{}", entry.path().display());
        }
    }
}

fn mode(path: &Path) -> u32 {
    let metadata = fs::metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    metadata.permissions().mode() & 0o777
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// Runs a command as its user sees it: with a terminal. What it printed, and whether it succeeded.
fn on_terminal(command: &str) -> (String, bool) {
    let output = Command::new("script").args(["-qec", command, "/dev/null"]).output().expect("script runs");
    (String::from_utf8_lossy(&output.stdout).into_owned(), output.status.success())
}

/// What a client says of its own address counts for nothing where anybody may say it.
#[test]
fn a_shared_port_believes_no_client_where_all_peers_are_trusted() {
    let status = |real_ip_from: &str| {
        let shared =
            EMBEDDED.replace("port: @ADMIN@}", "port: @HTTP@}\n    allow_admin: [127.0.0.1]").replace(
                "  worker_processes: 1\n",
                &format!("  worker_processes: 1\n  http: {{real_ip_from: [{real_ip_from}]}}\n"),
            );
        let gateway = Gateway::start(&shared, None);
        let mut client =
            Client::connect_from("127.0.1.5:0".parse().expect("an address"), gateway.http).expect("connects");
        let request = format!(
            "GET /apisix/admin/routes HTTP/1.1\r\nHost: a\r\nX-API-KEY: {ADMIN_KEY}\r\nX-Real-IP: 127.0.0.1\r\nConnection: close\r\n\r\n"
        );
        (client.request(&request).expect("an answer").status(), gateway)
    };
    let (answered, gateway) = status("0.0.0.0/0");
    assert_eq!(answered, 403);
    check_said(
        &gateway,
        "with 0.0.0.0/0 in nginx_config.http.real_ip_from nearly every client is believed what its address is in X-Real-IP",
    );
    assert_eq!(status("127.0.1.5").0, 200, "a proxy that is named");
}

#[test]
fn short_keys_and_names_that_are_not_unique_are_told() {
    let gateway = start("admin_key: [{name: e, key: a}, {name: e, key: test-admin-key, role: viewer}]");
    check_said(&gateway, "the admin key \"e\" has fewer than 8 characters");
    check_said(&gateway, "two admin keys have the name \"e\"");
    let output = |text: &str| {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("conf")).expect("a folder");
        fs::write(folder.path().join("conf/config.yaml"), text).expect("written");
        let output =
            Command::new(binary()).args(["test", "--prefix"]).arg(folder.path()).output().expect("runs");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let said = output("deployment: {admin: {admin_key: [{name: a, key: some-long-key, roles: viewer}]}}\n");
    assert!(said.contains("unknown key deployment.admin.admin_key[].roles; did you mean role?"), "{said}");
    let said = output("deployment: {admin: {admin_key: [{name: a, some-long-secret: x}]}}\n");
    assert!(said.contains("an entry has name, key, role and scope") && !said.contains("secret"), "{said}");
}
