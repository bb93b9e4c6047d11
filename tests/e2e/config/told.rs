//! Messages say what is wrong, where, and what to do.

use std::fs;
use std::net::TcpListener;
use std::process::Command;

use serde_json::{Value, json};
use tidegate_testkit::gateway::{ADMIN_KEY, EMBEDDED, Gateway, YAML_PROVIDER, binary};
use tidegate_testkit::{Client, servers};

#[test]
fn a_port_that_is_taken_is_told_with_its_process() {
    let nginx = servers::nginx("location / { return 200 ok; }");
    let own = TcpListener::bind("127.0.0.1:0").expect("a port");
    let (own, pid) = (own.local_addr().expect("an address"), std::process::id());
    let taken = nginx.address.port().to_string();
    // Data plane, Admin API, Control API, metrics page, in this order.
    for place in ["@HTTP@", "@ADMIN@", "@CONTROL@", "@METRICS@"] {
        let mut gateway = Gateway::start_unready(&EMBEDDED.replace(place, &taken), None);
        assert!(!gateway.process.wait_for_exit().success());
        gateway.process.wait_for_output("(nginx) listens on");
        let said = gateway.process.output();
        assert!(said.contains(&format!("127.0.0.1:{taken}")), "{place}: {said}");
    }
    let mut gateway = Gateway::start_unready(&EMBEDDED.replace("@HTTP@", &own.port().to_string()), None);
    gateway.process.wait_for_exit();
    gateway.process.wait_for_output(&format!("process {pid} ("));
}

/// On the terminal of `run` and `start`, too.
#[test]
fn a_start_names_what_it_cannot_use() {
    let text = "routes:\n- {id: bad, uri: /bad, plugins: {kye-auth: {}}}\n";
    let gateway = Gateway::start(YAML_PROVIDER, Some(text));
    let said = "tidegate: warning: 1 object cannot be used, and what it guards is denied: routes/bad (";
    gateway.process.wait_for_output(said);
    let gateway = Gateway::start(YAML_PROVIDER, Some("routes: []\n"));
    gateway.process.wait_for_output("tidegate ");
    assert!(!gateway.process.output().contains("cannot be used"), "{}", gateway.process.output());
}

/// As in the list of config.yaml.
#[test]
fn a_name_in_the_list_of_a_file_that_no_plugin_has_is_told() {
    let text = "plugins: [{name: key-auht}, {name: mocking}]\nroutes: []\n";
    let gateway = Gateway::start(YAML_PROVIDER, Some(text));
    let said = "conf/apisix.yaml: plugins: unknown plugin key-auht; did you mean key-auth?; objects that use it are rejected";
    gateway.wait_for_log(said);
    let (_, test) = gateway.verb("test");
    assert!(test.contains(said), "{test}");
    assert!(!test.contains("no plugin mocking"), "{test}");
}

#[test]
fn a_wrong_object_of_a_file_is_told_with_its_place() {
    let mock = "mocking: {response_example: x}";
    let routes = format!(
        "routes:\n- {{id: good, uri: /good, plugins: {{{mock}}}}}\n- id: bad\n  uri: /bad\n  plugins:\n    kye-auth: {{}}\n\
         - id: worse\n  uri: /worse\n  plugins:\n    cors:\n      allow_origins: '*'\n      max_age: x\n\
         - id: odd\n  urii: /odd\nrotes: []\n"
    );
    let gateway = Gateway::start(YAML_PROVIDER, Some(&routes));
    let file = gateway.prefix().join("conf/apisix.yaml");
    let place = |at: &str| format!("{}:{at}: ", file.display());
    let wanted = [
        (place("6:5"), "unknown plugin [kye-auth]; did you mean key-auth?"),
        (place("12:7"), "property \"max_age\" validation failed"),
        (place("14:3"), "found urii; did you mean uri?"),
        (place("15:1"), "unknown key [rotes] is ignored; did you mean routes?"),
    ];
    gateway.wait_for_log("unknown key [rotes]");
    let log = gateway.error_log();
    let (good, test) = gateway.verb("test");
    assert!(!good, "{test}");
    for said in [&log, &test] {
        for (place, text) in &wanted {
            assert!(
                said.lines().any(|line| line.contains(place) && line.contains(text)),
                "{place} {text}: {said}"
            );
        }
    }
    assert_eq!(gateway.client().get("h", "/good").expect("an answer").status(), 200);
}

#[test]
fn the_admin_api_suggests_too() {
    let gateway = Gateway::start(EMBEDDED, None);
    for (body, message) in [
        (r#"{"uri":"/a","plugins":{"kye-auth":{}}}"#, "unknown plugin [kye-auth]; did you mean key-auth?"),
        (
            r#"{"urii":"/a"}"#,
            "invalid configuration: additional properties forbidden, found urii; did you mean uri?",
        ),
        (r#"{"uri":"/a","plugins":{"nothing-like-it":{}}}"#, "unknown plugin [nothing-like-it]"),
    ] {
        let (code, answer) = gateway.admin("PUT", "/apisix/admin/routes/1", body);
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        assert_eq!((code, &answer["error_msg"]), (400, &json!(message)));
    }
}

#[test]
fn all_faults_of_a_whole_configuration_are_told() {
    let config = EMBEDDED
        .replace("config_provider: embedded", "config_provider: yaml")
        .replace("apisix:\n", "apisix:\n  status: {ip: 127.0.0.1, port: @STATUS@}\n");
    let status = tidegate_testkit::free_port();
    let mut gateway = Gateway::start_unready(&config.replace("@STATUS@", &status.to_string()), None);
    gateway.process.wait_for_port(gateway.admin);
    let ready = || {
        let mut client = Client::connect(([127, 0, 0, 1], status).into()).expect("connects");
        client.get("h", "/status/ready").expect("an answer").status()
    };
    assert_eq!(ready(), 503, "nothing was sent yet");
    let ask = |method: &str, path: &str, body: &Value| {
        let (body, mut client) = (body.to_string(), Client::connect(gateway.admin).expect("connects"));
        let answer = client.request(&format!(
            "{method} /apisix/admin{path} HTTP/1.1\r\nHost: a\r\nX-API-KEY: {ADMIN_KEY}\r\nX-Digest: d\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        ));
        let answer = answer.expect("an answer");
        (answer.status(), serde_json::from_str::<Value>(&answer.body_text()).unwrap_or(Value::Null))
    };
    let body = json!({
        "routes": [
            {"id": "good", "uri": "/a", "service_id": "s"},
            {"id": "bad", "uri": 5, "service_id": "s"},
            {"id": "good", "uri": "/b", "service_id": "s"},
        ],
        "services": [{"id": "s", "plugins": {"kye-auth": {}}}],
        "upstreams": {"u": {}},
    });
    let (code, answer) = ask("PUT", "/configs", &body);
    assert_eq!(code, 400, "{answer}");
    let message = answer["error_msg"].as_str().expect("a message");
    assert!(
        message.starts_with("invalid configuration: property \"uri\"") && message.contains("3 more"),
        "{message}"
    );
    let told: Vec<String> = answer["errors"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|error| {
            let text = |field: &str| error[field].as_str().unwrap_or("-").to_owned();
            format!("{} {} {}", text("resource_type"), text("resource_id"), text("error"))
        })
        .collect();
    let wanted = [
        "routes bad invalid",
        "routes good found duplicate",
        "services s unknown plugin",
        "upstreams - invalid data",
    ];
    assert_eq!(told.len(), wanted.len(), "{told:?}");
    for (told, wanted) in told.iter().zip(wanted) {
        assert!(told.starts_with(wanted), "{told} {wanted}");
    }
    // A bounded number of them, and how many more.
    let many: Vec<Value> = (0..250).map(|id| json!({"id": id, "uri": 5})).collect();
    for (method, path) in [("PUT", "/configs"), ("POST", "/configs/validate")] {
        let (code, answer) = ask(method, path, &json!({"routes": many}));
        let named = answer["errors"].as_array().map(Vec::len);
        assert_eq!((code, named, &answer["more"]), (400, Some(100), &json!(150)), "{path}");
    }
    // One is told as APISIX tells it.
    let (_, answer) =
        ask("PUT", "/configs", &json!({"services": [{"id": "s", "plugins": {"nothing-like-it": {}}}]}));
    assert_eq!(answer["error_msg"], "unknown plugin [nothing-like-it]");
    // What is not an error is not passed over in silence.
    assert_eq!(ready(), 503);
    assert_eq!(ask("PUT", "/configs", &json!({"rotes": [], "routes": []})).0, 202);
    assert_eq!(ready(), 200);
    gateway.wait_for_log("unknown key [rotes] is ignored; did you mean routes?");
}

fn tidegate(gateway: &Gateway, arguments: &[&str]) -> (bool, String) {
    let mut command = Command::new(binary());
    let output =
        command.args(arguments).arg("--prefix").arg(gateway.prefix()).output().expect("tidegate runs");
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn an_import_tells_all_faults() {
    let gateway = Gateway::start(EMBEDDED, None);
    let items: String = (1..=130).map(|id| format!("- {{id: {id}, uri: 5}}\n")).collect();
    let file = gateway.prefix().join("bad.yaml");
    fs::write(&file, format!("routes:\n{items}#END\n")).expect("written");
    let (good, said) = tidegate(&gateway, &["config", "import", file.to_str().expect("a path")]);
    assert!(
        !good && said.contains("/routes/1") && said.contains("/routes/17") && said.contains("and 30 more"),
        "{said}"
    );
}

#[test]
fn long_histories_are_told_whole() {
    const CHANGES: usize = 620;
    let gateway = Gateway::start(EMBEDDED, None);
    let put = |thread: usize| {
        let mut client = Client::connect(gateway.admin).expect("connects");
        for number in 0..CHANGES / 20 {
            let body = format!(r#"{{"nodes":{{"127.0.0.1:{}":1}}}}"#, number + 1);
            let answer = client.request(&format!(
                "PUT /apisix/admin/upstreams/{thread}-{number} HTTP/1.1\r\nHost: a\r\nX-API-KEY: {ADMIN_KEY}\r\n\
                 Content-Length: {}\r\n\r\n{body}",
                body.len()
            ));
            assert_eq!(answer.expect("an answer").status(), 201);
        }
    };
    std::thread::scope(|scope| {
        (0..20).for_each(|thread| _ = scope.spawn(move || put(thread)));
    });
    let lines = |arguments: &[&str]| {
        let (good, said) = tidegate(&gateway, arguments);
        assert!(good, "{arguments:?}: {said}");
        said.lines().count()
    };
    // And a line that says how far back it goes.
    assert_eq!(lines(&["config", "history", "-n", "5000"]), CHANGES + 1);
    assert_eq!(lines(&["config", "history", "-n", "510"]), 510 + 1);
    assert_eq!(lines(&["config", "history"]), 20 + 1);
    let (_, json) = tidegate(&gateway, &["config", "history", "-n", "100000", "--json"]);
    let json: Value = serde_json::from_str(&json).expect("JSON");
    let revisions: Vec<u64> = json["list"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|entry| entry["revision"].as_u64())
        .collect();
    assert_eq!(revisions, (1..=CHANGES as u64).rev().collect::<Vec<_>>());
    let (good, said) = tidegate(&gateway, &["config", "history", "-n", "0"]);
    assert!(!good && said.contains("-n"), "{said}");

    // One change of as many objects.
    let changes: Vec<Value> = (0..20)
        .flat_map(|thread| (0..CHANGES / 20).map(move |number| format!("/upstreams/{thread}-{number}")))
        .map(|path| json!({"method": "DELETE", "path": path}))
        .collect();
    let (code, answer) =
        gateway.admin("POST", "/apisix/admin/transactions", &json!({"changes": changes}).to_string());
    assert_eq!(code, 200, "{answer}");
    let (good, said) = tidegate(&gateway, &["config", "history", &(CHANGES + 1).to_string()]);
    assert_eq!((good, said.matches("delete upstreams/").count()), (true, CHANGES));
}

#[test]
fn a_change_does_not_wait_until_all_objects_are_looked_at() {
    let mut gateway = Gateway::start(EMBEDDED, None);
    let route = |number: usize| json!({"uri": format!("/{number}"), "upstream": {"scheme": "tcp", "nodes": {"127.0.0.1:1": 1}}});
    let change =
        |number| json!({"method": "PUT", "path": format!("/routes/{number}"), "value": route(number)});
    let changes: Vec<Value> = (0..1000).map(change).collect();
    let changes = json!({"changes": changes}).to_string();
    let (status, answer) = gateway.admin("POST", "/apisix/admin/transactions", &changes);
    assert_eq!(status, 200, "{answer}");
    gateway.process.stop();
    fs::write(gateway.prefix().join("logs/error.log"), "").expect("a file");
    gateway.restart();
    let route = r#"{"uri":"/new","plugins":{"mocking":{"response_example":"new"}}}"#;
    let (status, answer) = gateway.admin("PUT", "/apisix/admin/routes/new?wait=applied", route);
    let logged = gateway.error_log();
    assert_eq!(status, 201, "{answer}");
    assert_eq!(gateway.client().get("a.test", "/new").expect("an answer").body_text(), "new");
    // At the start in one line for all, behind which the change would have come.
    let line = "(and in 999 more) has no effect";
    assert!(!logged.contains(line), "{logged}");
    gateway.wait_for_log(line);
}

/// What the answer to a write warns of.
fn warning_of(gateway: &Gateway, path: &str, body: &str) -> Option<String> {
    let mut client = Client::connect(gateway.admin).expect("connects");
    let length = body.len();
    let answer = client.request(&format!(
        "PUT {path} HTTP/1.1\r\nHost: h\r\nX-API-KEY: {ADMIN_KEY}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    ));
    let answer = answer.expect("an answer");
    assert!(answer.status() < 300, "{path}: {} {}", answer.status(), answer.body_text());
    answer.header("X-Tidegate-Warning").map(str::to_owned)
}

/// A guarded route behind an open one of the same path guards nothing: whoever looks at it is told.
#[test]
fn routes_behind_others_are_told_everywhere() {
    let open = r#"{"uri": "/c", "plugins": {"mocking": {"response_example": "open"}}}"#;
    let guarded = r#"{"uri": "/c", "plugins": {"key-auth": {}, "mocking": {"response_example": "guarded"}}}"#;
    let said = "no request reaches this route: route c answers those for /c first, and has the same path and priority and comes \
                first in the store; give this route a higher priority or other conditions, or delete one of them";
    let gateway = Gateway::start(EMBEDDED, None);
    let put = |id: &str, body: &str| warning_of(&gateway, &format!("/apisix/admin/routes/{id}"), body);
    assert_eq!(put("c", open), None);
    // Before it is written.
    let change = format!(
        r#"{{"dry_run": true, "changes": [{{"method": "PUT", "path": "/routes/d", "value": {guarded}}}]}}"#
    );
    let (status, body) = gateway.admin("POST", "/apisix/admin/transactions", &change);
    assert!(status == 200 && body.contains(&format!("routes/d: {said}")), "{status} {body}");
    assert_eq!(put("d", guarded).as_deref(), Some(said));
    gateway.wait_for_log(&format!("routes/d: {said}"));
    // Whoever writes the other one is told, too.
    let other = put("c", open).expect("a warning");
    assert_eq!(other, format!("routes/d: {said}"));
    let answer = gateway.client().get("a.test", "/c").expect("an answer");
    assert_eq!((answer.status(), answer.body_text().as_str()), (200, "open"), "explain says why");
    let (_, explained) = gateway.admin("POST", "/apisix/admin/explain", r#"{"url": "/c"}"#);
    assert!(
        explained.contains("route c has the same path and priority and comes first in the store"),
        "{explained}"
    );
    for (id, body) in [
        ("e", guarded.replace("\"/c\"", "\"/c\", \"methods\": [\"PUT\"]")),
        ("f", guarded.replace("\"/c\"", "\"/c\", \"host\": \"f.test\"")),
        ("g", guarded.replace("\"/c\"", "\"/c\", \"priority\": 1")),
    ] {
        let expected = (id == "e").then_some("no request reaches this route");
        let warning = put(id, &body);
        assert!(
            warning.as_deref().map(|text| text.starts_with(expected.unwrap_or("routes/"))) != Some(false),
            "{id}: {warning:?}"
        );
        assert_eq!(gateway.admin("DELETE", &format!("/apisix/admin/routes/{id}"), "").0, 200);
    }
    assert_eq!(
        put("d", &guarded.replace("\"/c\"", "\"/c\", \"priority\": 1"))
            .map(|text| text.starts_with("routes/c: ")),
        Some(true)
    );
    // In a file.
    let file = format!(
        "routes:\n  - {}\n  - {}\n",
        open.replacen('{', r#"{"id": "c", "#, 1),
        guarded.replacen('{', r#"{"id": "d", "#, 1)
    );
    let gateway = Gateway::start(YAML_PROVIDER, Some(&file));
    gateway.wait_for_log(&format!("apisix.yaml:3:5: routes/d: {said}"));
    let (success, printed) = gateway.verb("test");
    assert!(success && printed.contains(&format!("routes/d: {said}")), "{printed}");
    let (_, printed) = gateway.verb("doctor");
    assert!(
        printed.contains("routes/d: no request reaches this route: route c answers those for /c first"),
        "{printed}"
    );
    assert!(printed.contains("-> give this route a higher priority or other conditions"), "{printed}");
}

/// Certificates that clients will refuse, milliseconds in place of seconds, an upstream without nodes.
#[test]
fn what_cannot_work_is_told_when_it_is_written() {
    let gateway = Gateway::start(EMBEDDED, None);
    let mut parameters = rcgen::CertificateParams::new(vec!["shop.test".to_owned()]).expect("parameters");
    let key = rcgen::KeyPair::generate().expect("a key");
    let ssl = |parameters: &rcgen::CertificateParams, names: &[&str]| {
        let cert = parameters.self_signed(&key).expect("a certificate").pem();
        json!({"cert": cert, "key": key.serialize_pem(), "snis": names}).to_string()
    };
    let put = |body: &str| warning_of(&gateway, "/apisix/admin/ssls/1", body);
    assert_eq!(put(&ssl(&parameters, &["shop.test"])), None);
    let foreign = put(&ssl(&parameters, &["shop.test", "foreign.test"])).expect("a warning");
    assert!(
        foreign.starts_with("sni foreign.test: the certificate is for shop.test, so clients"),
        "{foreign}"
    );
    parameters.not_after = rcgen::date_time_ymd(2025, 1, 1);
    let ended = put(&ssl(&parameters, &["shop.test"])).expect("a warning");
    assert!(ended.starts_with("the certificate ended ") && ended.contains("replace it"), "{ended}");
    gateway.wait_for_log("ssls/1: the certificate ended ");
    let upstream = r#"{"nodes": {}, "timeout": {"connect": 3000, "send": 3000, "read": 3000}}"#;
    let warning = warning_of(&gateway, "/apisix/admin/upstreams/1", upstream).expect("a warning");
    assert!(warning.contains("timeout.connect 3000 is in seconds; for milliseconds write 3"), "{warning}");
    assert!(warning.contains("nodes is empty, so requests for it are answered 503"), "{warning}");
}

/// Texts that hold a mask in place of a word, or name a type without what to do.
#[test]
fn refusals_of_wrong_types_have_a_remedy() {
    let routes = "routes:\n- id: quoted\n  uri: /a\n  plugins: {key-auth: {_meta: {disable: \"true\"}}}\n- id: none\n  uri: /b\n  plugins:\n\
                  - id: list\n  uri: /c\n  plugins: [key-auth]\n- id: text\n  uri: [a]\n";
    let gateway = Gateway::start(YAML_PROVIDER, Some(routes));
    let (_, test) = gateway.verb("test");
    for (route, text) in [
        ("quoted", "write true or false, without quotes"),
        ("none", "it is empty (null): indent below it what belongs to it"),
        ("list", "it is a list: write an object, with the configuration of each plugin by its name"),
        ("text", "write a text"),
    ] {
        let of = format!("routes/{route} cannot be used");
        assert!(test.lines().any(|line| line.contains(&of) && line.contains(text)), "{route}: {test}");
    }
}

/// What is masked are secrets.
#[test]
fn names_of_variables_are_in_the_log() {
    let routes = "routes:\n- id: counted\n  uri: /a\n  plugins: {limit-count: {count: 1, time_window: 1, key: remte_addr}}\n- id: hashed\n  uri: /b\n  \
                  upstream: {type: chash, key: remte_addr, nodes: {\"127.0.0.1:1\": 1}}\n";
    let gateway = Gateway::start(YAML_PROVIDER, Some(routes));
    gateway.wait_for_log("routes/counted: plugin limit-count: key: $remte_addr is not a variable");
    gateway.wait_for_log("with \"remte_addr\"");
}

#[test]
fn a_file_has_a_place_for_anchors() {
    let text = "x-common: &open\n  mocking: {response_example: shared}\nroutes:\n- id: 1\n  uri: /a\n  plugins: *open\n";
    let gateway = Gateway::start(YAML_PROVIDER, Some(text));
    assert_eq!(gateway.client().get("h", "/a").expect("an answer").body_text().trim(), "shared");
    let (good, test) = gateway.verb("test");
    assert!(good && !test.contains("unknown key"), "{test}");
    let gateway = Gateway::start(YAML_PROVIDER, Some(&text.replace("x-common", "common")));
    let (good, test) = gateway.verb("test");
    let remedy = "unknown key [common] is ignored; expected routes, upstreams, services and so on, or x-... for anchors of YAML";
    assert!(!good && test.contains(remedy), "{test}");
}

#[test]
fn an_import_has_a_place_for_anchors_too() {
    let gateway = Gateway::start(EMBEDDED, None);
    let body = |key: &str| json!({key: {"mocking": {}}, "routes": []}).to_string();
    let (code, answer) = gateway.admin("PUT", "/apisix/admin/import", &body("x-common"));
    assert_eq!(code, 200, "{answer}");
    let (code, answer) = gateway.admin("PUT", "/apisix/admin/import", &body("common"));
    assert!(code == 400 && answer.contains("unknown list"), "{answer}");
}

/// A start tries such a program again and again.
#[test]
fn a_plugin_runner_that_is_not_there_is_told_before_the_start() {
    for (program, what) in [
        ("/nonexistent/runner", "there is no program /nonexistent/runner"),
        ("no-such-runner", "there is no program no-such-runner in any folder of PATH"),
        ("/etc/passwd", "there is no program /etc/passwd"),
    ] {
        let gateway = Gateway::start(&format!("{EMBEDDED}ext-plugin: {{cmd: [{program}]}}\n"), None);
        let (_, test) = gateway.verb("test");
        assert!(test.lines().any(|line| line.contains("config.yaml:") && line.contains(what)), "{test}");
    }
    let gateway = Gateway::start(&format!("{EMBEDDED}ext-plugin: {{cmd: [sh, -c, exit]}}\n"), None);
    let (_, test) = gateway.verb("test");
    assert!(!test.contains("there is no program"), "{test}");
}
