//! What goes wrong in a first hour: each message says what to do. Here what is met in requests and logs; what each verb says is in
//! [`verbs`].

mod verbs;

use std::fs;
use std::net::TcpListener;
use std::process::Command;

use serde_json::Value;
use tidegate_testkit::gateway::{ADMIN_KEY, EMBEDDED, Gateway, YAML_PROVIDER, binary};
use tidegate_testkit::{Client, free_port, process::Process};

/// Status and body of a request to the Admin API.
fn admin(gateway: &Gateway, fields: &str, body: &str) -> (u16, Value) {
    let mut client = Client::connect(gateway.admin).expect("connects");
    let length = body.len();
    let answer = client.request(&format!(
        "PUT /apisix/admin/routes/1 HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\n{fields}Connection: close\r\n\r\n{body}"
    ));
    let answer = answer.expect("an answer");
    (answer.status(), serde_json::from_str(&answer.body_text()).expect("JSON"))
}

fn text<'v>(body: &'v Value, name: &str) -> &'v str {
    body.get(name).and_then(Value::as_str).unwrap_or_default()
}

#[test]
fn an_empty_gateway_says_so_with_a_command_that_works() {
    let gateway = Gateway::start(EMBEDDED, None);
    gateway.process.wait_for_output("routes      none: every request is answered 404");
    gateway.wait_for_log("there is no route: every request is answered 404; add one: curl http://");
    assert_eq!(gateway.client().get("h", "/").expect("an answer").status(), 404);
    let (success, said) = gateway.verb("routes");
    let (_, command) =
        said.split_once("every request is answered 404; add one:\n").unwrap_or_else(|| panic!("{said}"));
    assert!(success, "{said}");
    let output = Command::new("bash")
        .args(["-c", &format!("curl() {{ command curl -sS --fail-with-body \"$@\"; }}\n{command}")])
        .env("ADMIN_KEY", ADMIN_KEY)
        .output()
        .expect("bash runs");
    assert!(output.status.success(), "{command}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(gateway.client().get("h", "/hello").expect("an answer").status(), 200);
    let (_, said) = gateway.verb("routes");
    assert!(said.contains("/hello") && !said.contains("404"), "{said}");
}

#[test]
fn an_empty_file_is_said_to_be_with_what_to_add() {
    let mut gateway = Gateway::start(YAML_PROVIDER, Some("routes: []\n"));
    gateway.process.wait_for_output("routes      none");
    let (success, said) = gateway.verb("routes");
    assert!(success && said.contains("conf/apisix.yaml, above #END:"), "{said}");
    let line = said.lines().find_map(|line| line.trim().strip_prefix("routes: ")).expect("a line");
    gateway.write_routes(&format!("routes: {line}\n"));
    tidegate_testkit::eventually("the route", || {
        gateway.client().get("h", "/hello").is_ok_and(|answer| answer.status() == 200)
    });
    gateway.process.stop();
    gateway.restart();
    let printed = gateway.process.output();
    assert!(!printed.contains("routes      none"), "{printed}");
}

#[test]
fn keys_that_are_missing_wrong_or_elsewhere() {
    let gateway = Gateway::start(EMBEDDED, None);
    for (fields, description, remedy) in [
        ("", "missing apikey", "in the header X-API-KEY: a generated key is in data/admin.key"),
        ("Authorization: Bearer x\r\n", "missing apikey", "X-API-KEY; this request has Authorization"),
        ("apikey: test-admin-key\r\n", "missing apikey", "X-API-KEY; this request has apikey"),
        ("X-API-KEY: wrong\r\n", "wrong apikey", "deployment.admin.admin_key of config.yaml"),
    ] {
        let (status, body) = admin(&gateway, fields, "{}");
        assert_eq!((status, text(&body, "error_msg")), (401, "failed to check token"), "{fields}");
        assert_eq!(text(&body, "description"), description, "{fields}");
        assert!(text(&body, "remedy").contains(remedy), "{fields}: {body}");
    }
}

#[test]
fn bodies_that_are_not_json_and_plugins_that_do_not_exist() {
    let gateway = Gateway::start(EMBEDDED, None);
    let key = format!("X-API-KEY: {ADMIN_KEY}\r\n");
    for (body, remedy) in [
        ("{uri:/hello}", "a shell takes them away unless single quotes"),
        (r#"{"uri": "/hello",}"#, "correct the place"),
        ("uri: /hello", "send JSON, such as"),
        ("@route.json", "-d @FILE"),
    ] {
        let (status, answer) = admin(&gateway, &key, body);
        assert_eq!(status, 400, "{body}");
        assert!(text(&answer, "error_msg").starts_with("invalid request body: "), "{answer}");
        assert!(text(&answer, "remedy").contains(remedy), "{body}: {answer}");
    }
    let (status, answer) = admin(&gateway, &key, r#"{"uri": "/a", "plugins": {"key_auth": {}}}"#);
    assert!(status == 400 && text(&answer, "error_msg").contains("did you mean key-auth?"), "{answer}");
}

/// APISIX's message stays; what to do is beside it, and behind it where one is read in a log.
#[test]
fn refused_objects_have_a_remedy() {
    let gateway = Gateway::start(EMBEDDED, None);
    let put = |path: &str, body: &str| {
        let (status, answer) = gateway.admin("PUT", &format!("/apisix/admin/{path}"), body);
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        assert_eq!(status, 400, "{body}: {answer}");
        answer
    };
    let plugin = |name: &str, conf: &str| format!(r#"{{"uri": "/a", "plugins": {{"{name}": {conf}}}}}"#);
    for (path, body, message, remedy) in [
        (
            "routes/1",
            plugin("limit-count", r#"{"count": 2}"#),
            "value should match only one schema, but matches none",
            "it needs count and time_window, or rules",
        ),
        (
            "routes/1",
            plugin("limit-count", r#"{"count": -1, "time_window": 1}"#),
            "value should match only one schema, but matches none",
            "it needs a whole number above 0, or a text",
        ),
        (
            "routes/1",
            plugin("ip-restriction", r#"{"whitelst": []}"#),
            "matches none",
            "it needs whitelist, or blacklist",
        ),
        (
            "routes/1",
            plugin("ip-restriction", r#"{"whitelist": ["10.0.0.0/33"]}"#),
            "failed to validate item 1: object matches none of the required",
            "a network (10.0.0.0/8; the mask is 32 at most",
        ),
        (
            "routes/1",
            r#"{"uri": "/a", "plugins": null}"#.to_owned(),
            "expected object, got userdata",
            "it is empty (null)",
        ),
        (
            "routes/1",
            r#"{"uri": "/a", "host": "http://a.test"}"#.to_owned(),
            "failed to match pattern",
            "without scheme",
        ),
        (
            "consumers/1",
            r#"{"username": "a b"}"#.to_owned(),
            "failed to match pattern",
            "use letters, digits, _ and -",
        ),
        (
            "ssls/1",
            r#"{"cert": "x", "key": "y", "snis": ["a.test"]}"#.to_owned(),
            "string too short",
            "the PEM text itself",
        ),
        (
            "routes/1",
            r#"{"uri": "/a", "upstream_id": "nope"}"#.to_owned(),
            "failed to fetch upstream info by upstream id [nope], response code: 404",
            "GET /apisix/admin/upstreams lists",
        ),
        (
            "routes/1",
            r#"{"uri": "/a", "timeout": {"connect": "3s", "send": 3, "read": 3}}"#.to_owned(),
            "expected number, got string",
            "a number of seconds, without unit",
        ),
        (
            "upstreams/1",
            r#"{"nodes": [{"host": "a", "port": 80, "weight": 1}, {"host": "b", "port": "x", "weight": 1}]}"#
                .to_owned(),
            "property \"nodes\" validation failed: object matches none of the required",
            "node 2 (b): its port is \"x\"; write a number from 1 to 65535",
        ),
        (
            "routes/1",
            r#"{"uri": "/a", "upstream": {"nodes": {"a:99999": 1}}}"#.to_owned(),
            "invalid port 99999",
            "node \"a:99999\": its port is 99999",
        ),
        (
            "upstreams/1",
            r#"{"nodes": {"a:80": 1}, "scheme": "htp"}"#.to_owned(),
            "matches none of the enum values",
            "http",
        ),
    ] {
        let answer = put(path, &body);
        assert!(text(&answer, "error_msg").contains(message), "{body}: {answer}");
        let told = format!("{}{}", text(&answer, "error_msg"), text(&answer, "remedy"));
        assert!(told.contains(remedy), "{body}: {answer}");
    }
    let rr = put("upstreams/1", r#"{"nodes": {"a:80": 1}, "type": "rr"}"#);
    assert!(text(&rr, "error_msg").contains("are available, did you mean roundrobin?"), "{rr}");
    let change = format!(
        r#"{{"changes": [{{"method": "PUT", "path": "/routes/1", "value": {}}}]}}"#,
        plugin("limit-count", "{}")
    );
    let (_, answer) = gateway.admin("POST", "/apisix/admin/transactions", &change);
    assert!(answer.contains("; it needs count and time_window, or rules"), "{answer}");
    // In a file each once, with its place and the remedy.
    let file = "routes:\n  - id: 1\n    uri: /a\n    plugins: {limit-count: {count: 2}}\nrotes: []\nroute:\n  - uri: /b\n";
    let mut gateway = Gateway::start(YAML_PROVIDER, Some("routes: []\n"));
    gateway.write_routes(file);
    let (success, said) = gateway.verb("test");
    assert!(!success, "{said}");
    let lines = |part: &str| said.lines().filter(|line| line.contains(part)).count();
    assert_eq!(lines("matches none"), 1, "{said}");
    assert!(said.contains("; it needs count and time_window, or rules"), "{said}");
    assert_eq!((lines("unknown key [route]"), lines("global_rules/route")), (1, 0), "{said}");
    gateway.process.stop();
    // The list of plugins in config.yaml, too.
    let gateway = Gateway::start(&(EMBEDDED.to_owned() + "plugins: [key-auth, keyauth]\n"), None);
    let (_, said) = gateway.verb("test");
    assert!(said.contains("keyauth (did you mean key-auth?)"), "{said}");
}

#[test]
fn upstreams_that_refuse_have_no_name_or_speak_otherwise() {
    // It answers what is not HTTP.
    let plain = std::net::SocketAddr::from(([127, 0, 0, 1], free_port()));
    let mut echo = Command::new(binary());
    let mut echo = Process::start("tidegate echo", echo.args(["echo", "--listen", &plain.to_string()]));
    echo.wait_for_port(plain);
    let closed = free_port();
    let routes = format!(
        "routes:\n\
         - {{id: closed, uri: /closed, upstream: {{nodes: {{'127.0.0.1:{closed}': 1}}}}}}\n\
         - {{id: plain, uri: /plain, upstream: {{scheme: https, nodes: {{'{plain}': 1}}}}}}\n\
         - {{id: nowhere, uri: /nowhere, upstream: {{nodes: {{'nowhere.invalid:80': 1}}}}}}\n"
    );
    let gateway = Gateway::start(YAML_PROVIDER, Some(&routes));
    for (path, status, logged) in [
        (
            "/closed",
            502,
            "nothing listens there: start the server, or correct the port in the upstream's nodes",
        ),
        ("/plain", 502, "speaks plain HTTP, not TLS; set the upstream's scheme to http or grpc"),
        ("/nowhere", 503, "failed to resolve nowhere.invalid, used by"),
    ] {
        assert_eq!(gateway.client().get("h", path).expect("an answer").status(), status, "{path}");
        gateway.wait_for_log(logged);
    }
    gateway.wait_for_log("correct the name, or set apisix.dns_resolver");
}

#[test]
fn tls_to_a_plain_port_and_back() {
    let pair = rcgen::generate_simple_self_signed(vec!["a.test".to_owned()]).expect("a certificate");
    let port = free_port();
    let config = YAML_PROVIDER
        .replace("ssl: {enable: false}", &format!("ssl: {{listen: [{{ip: 127.0.0.1, port: {port}}}]}}"));
    let ssl = serde_json::json!([{
        "id": "1", "snis": ["a.test"], "cert": pair.cert.pem(), "key": pair.signing_key.serialize_pem(),
    }]);
    let gateway = Gateway::start(&config, Some(&format!("routes: []\nssls: {ssl}\n")));
    let tls = (std::net::Ipv4Addr::LOCALHOST, port).into();
    let mut client = Client::connect(tls).expect("connects");
    let answer = client.get("a.test", "/path").expect("an answer");
    assert_eq!(answer.status(), 400);
    let page = answer.body_text();
    assert!(page.contains("The plain HTTP request was sent to HTTPS port: use https://"), "{page}");
    assert_eq!(client.to_close().expect("closes"), b"");
    // A long request is read to its end, so that the answer arrives.
    let long = format!("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 200000\r\n\r\n{}", "x".repeat(200_000));
    let answer = Client::connect(tls).expect("connects").request(&long).expect("an answer");
    assert_eq!(answer.status(), 400);
    let output = Command::new("curl")
        .args(["-sSk", "-m", "20", &format!("https://127.0.0.1:{}/", gateway.http.port())])
        .output()
        .expect("curl runs");
    assert!(!output.status.success());
    gateway.wait_for_log("a port for plain HTTP: use http:// for it, or a port of apisix.ssl.listen");
}

#[test]
fn ports_that_are_taken_and_folders_of_others() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address");
    let folder = tempfile::tempdir().expect("a folder");
    let prefix = folder.path().display().to_string();
    let run = |user: &[&str], words: &[&str]| {
        let mut command = match user {
            [] => Command::new(binary()),
            [program, rest @ ..] => {
                let mut command = Command::new(program);
                command.args(rest).arg(binary());
                command
            }
        };
        let output = command.args(words).output().expect("runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert_eq!(run(&[], &["init", "--standalone", "--prefix", &prefix]).0, Some(0));
    let (code, said) = run(&[], &["run", "--prefix", &prefix, "--listen", &address.to_string()]);
    let owner = format!("process {} (", std::process::id());
    assert!(code == Some(1) && said.contains(&owner) && said.contains("choose another port"), "{said}");
    if !rustix::process::geteuid().is_root() {
        return;
    }
    fs::remove_dir_all(folder.path().join("logs")).unwrap_or_default();
    let nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(folder.path(), mode).expect("for every user");
    let (code, said) = run(&nobody, &["run", "--prefix", &prefix]);
    assert!(code == Some(1) && said.contains("user 65534 may not") && said.contains("chown"), "{said}");
}

/// What `run --from` serves is in a file that nothing encrypts.
#[test]
fn a_gateway_without_a_store_is_not_warned_of_its_keyring() {
    let ports = "apisix:\n  node_listen: [{ip: 127.0.0.1, port: @HTTP@}]\n  ssl: {enable: false}\n  control: {ip: 127.0.0.1, port: @CONTROL@}\n\
                 plugin_attr:\n  prometheus: {export_addr: {ip: 127.0.0.1, port: @METRICS@}}\n";
    let gateway =
        Gateway::start_from_with(ports, "nginx", "server { listen 80; location / { return 204; } }");
    let said = gateway.process.output();
    assert!(said.contains("  proxy ") && !said.contains("keyring"), "{said}");
}
