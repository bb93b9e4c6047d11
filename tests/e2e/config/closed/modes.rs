//! Places that stay shut in every mode: a route that cannot be built beside a broader one, certificates, plugins that are
//! unknown or not in the list.

use std::process::Command;

use rcgen::{CertificateParams, KeyPair};
use tidegate_testkit::gateway::{EMBEDDED, Gateway, YAML_PROVIDER};
use tidegate_testkit::{Client, Etcd, eventually, free_port};

use super::{ask, is_rejected, put, status};

/// Routes that cannot be built, by what is wrong, each with a request that is theirs. The broader route is open.
const BROKEN: [(&str, &str); 8] = [
    ("secret", r#"{"uri":"/b/secret","plugins":{"key-auth":{"header":"$env://TG_GONE"}}}"#),
    ("number", r#"{"uri":"/b/number","priority":1e300,"plugins":{"key-auth":{}}}"#),
    ("schema", r#"{"uri":"/b/schema","plugins":{"ip-restriction":{"whitelist":"10.0.0.1"}}}"#),
    ("unknown", r#"{"uri":"/b/unknown","plugins":{"no-such-guard":{}}}"#),
    ("vars", r#"{"uri":"/b/vars","vars":[["arg_x","~~~","1"]],"plugins":{"key-auth":{}}}"#),
    ("func", r#"{"uri":"/b/func","filter_func":"function(","plugins":{"key-auth":{}}}"#),
    ("address", r#"{"uri":"/b/address","remote_addr":"10.0.0.0/99","plugins":{"key-auth":{}}}"#),
    ("timeout", r#"{"uris":["/b/timeout",7],"timeout":"long","plugins":{"key-auth":{}}}"#),
];

const BROADER: &str = r#"{"uri":"/b/*","plugins":{"mocking":{"response_example":"open"}}}"#;

fn check_broken(gateway: &Gateway, when: &str) {
    assert_eq!(status(gateway, "/b/other"), 200, "{when}: the broader route is open");
    for (id, _) in BROKEN {
        assert_eq!(status(gateway, &format!("/b/{id}")), 503, "{when}: {id}\n{}", gateway.error_log());
        assert!(is_rejected(gateway, &format!("routes/{id}")), "{when}: {id}");
    }
}

#[test]
fn routes_keep_their_place_in_file_mode() {
    let list: Vec<String> = BROKEN.iter().map(|(id, route)| with_id(id, route)).collect();
    let good = format!("routes: [{}]\n", with_id("broad", BROADER));
    let bad = format!("routes: [{}, {}]\n", with_id("broad", BROADER), list.join(", "));
    let mut gateway = Gateway::start(YAML_PROVIDER, Some(&bad));
    check_broken(&gateway, "at the start");
    gateway.write_routes(&good);
    eventually("they are gone", || status(&gateway, "/b/vars") == 200);
    gateway.write_routes(&bad);
    eventually("they are back", || status(&gateway, "/b/vars") == 503);
    check_broken(&gateway, "while running");
    gateway.process.stop();
    gateway.restart();
    check_broken(&gateway, "after a restart");
}

fn with_id(id: &str, route: &str) -> String {
    route.replacen('{', &format!(r#"{{"id":"{id}","#), 1)
}

#[test]
fn routes_keep_their_place_in_etcd_mode() {
    let etcd = Etcd::start();
    etcd.put("/apisix/routes/broad", BROADER);
    let mut gateway = Gateway::start(&crate::config::etcd::config(&etcd.url()), None);
    eventually("the broader route is open", || status(&gateway, "/b/vars") == 200);
    for (id, route) in BROKEN {
        etcd.put(&format!("/apisix/routes/{id}"), route);
    }
    let last = BROKEN[BROKEN.len() - 1].0;
    eventually("the last is there", || status(&gateway, &format!("/b/{last}")) == 503);
    check_broken(&gateway, "while running");
    gateway.process.stop();
    gateway.restart();
    check_broken(&gateway, "after a restart");
    // A global rule that cannot be read guards everything.
    etcd.put("/apisix/global_rules/1", "{half a ru");
    eventually("everything is shut", || status(&gateway, "/b/other") == 503);
    assert_eq!(status(&gateway, "/nowhere"), 503);
    etcd.control(&["del", "/apisix/global_rules/1"]);
    eventually("it is open again", || status(&gateway, "/b/other") == 200);
}

#[test]
fn what_api_driven_mode_is_sent_is_refused() {
    let config = EMBEDDED.replace(
        "role: traditional\n  role_traditional: {config_provider: embedded}",
        "role: traditional\n  role_traditional: {config_provider: yaml}",
    );
    let gateway = Gateway::start(&config, Some("{}\n"));
    for (id, route) in BROKEN.iter().filter(|(id, _)| *id != "secret") {
        let body = format!(r#"{{"routes":[{}]}}"#, with_id(id, route));
        let (status, answer) = send(&gateway, id, &body);
        assert_eq!(status, 400, "{body}: {answer}");
    }
    let secret = BROKEN[0].1;
    let body = format!(r#"{{"routes":[{},{}]}}"#, with_id("secret", secret), with_id("broad", BROADER));
    assert_eq!(send(&gateway, "last", &body).0, 202);
    assert_eq!((status(&gateway, "/b/secret"), status(&gateway, "/b/other")), (503, 200));
    assert!(is_rejected(&gateway, "routes/secret"));
}

fn send(gateway: &Gateway, digest: &str, body: &str) -> (u16, String) {
    let mut client = Client::connect(gateway.admin).expect("the admin port accepts connections");
    let request = format!(
        "PUT /apisix/admin/configs HTTP/1.1\r\nHost: a\r\nX-API-KEY: {}\r\nX-Digest: {digest}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        tidegate_testkit::gateway::ADMIN_KEY,
        body.len()
    );
    let answer = client.request(&request).expect("an answer");
    (answer.status(), answer.body_text())
}

#[test]
fn a_route_does_not_answer_for_its_broken_service() {
    let resources = "services:\n- {id: 1, plugins: {key-auth: {header: $env://TG_GONE}}}\n\
        plugin_configs:\n- {id: 1, plugins: {key-auth: {header: $env://TG_GONE}}}\n\
        global_rules: []\n\
        routes:\n- {uri: /service, service_id: 1, plugins: {mocking: {response_example: open}}}\n\
        - {uri: /config, plugin_config_id: 1, plugins: {mocking: {response_example: open}}}\n\
        - {uri: /absent, service_id: 2, plugins: {mocking: {response_example: open}}}\n";
    let gateway = Gateway::start(YAML_PROVIDER, Some(resources));
    for (path, expected) in [("/service", 503), ("/config", 503), ("/absent", 503)] {
        let answer = ask(&gateway, path, "");
        assert_eq!((answer.status(), answer.body_text().contains("open")), (expected, false), "{path}");
    }
}

#[test]
fn plugins_off_the_list_do_not_open() {
    let config = format!("{YAML_PROVIDER}plugins: [mocking, key-auth]\n");
    let resources = "routes:\n- {id: guard, uri: /guard, plugins: {ip-restriction: {whitelist: [10.0.0.1]}, mocking: \
        {response_example: open}}}\n- {id: other, uri: /other, plugins: {gzip: {}, mocking: {response_example: open}}}\n\
        - {id: 'off', uri: /off, plugins: {ip-restriction: {whitelist: [10.0.0.1], _meta: {disable: true}}, mocking: \
        {response_example: open}}}\n";
    let gateway = Gateway::start(&config, Some(resources));
    assert_eq!(status(&gateway, "/guard"), 503);
    assert!(is_rejected(&gateway, "routes/guard"));
    assert_eq!((status(&gateway, "/other"), status(&gateway, "/off")), (200, 200), "{}", gateway.error_log());
    gateway.wait_for_log("plugin gzip does not run");
}

#[test]
fn a_broken_certificate_does_not_fall_to_another() {
    let certificate = |name: &str| {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        (params.self_signed(&key).expect("a certificate").pem(), key.serialize_pem())
    };
    let (cert, key) = certificate("*.closed.test");
    let port = free_port();
    let config = EMBEDDED
        .replace("ssl: {enable: false}", &format!("ssl: {{listen: [{{ip: 127.0.0.1, port: {port}}}]}}"));
    let gateway = Gateway::start(&config, None);
    let json = serde_json::json!({"snis": ["*.closed.test"], "cert": cert, "key": key});
    put(&gateway, "ssls/wide", &json.to_string());
    put(&gateway, "routes/1", BROADER);
    let curl = |name: &str| {
        let output = Command::new("curl")
            .args(["-sk", "-m", "5", "-o", "/dev/null", "-w", "%{http_code}"])
            .args(["--resolve", &format!("{name}:{port}:127.0.0.1"), &format!("https://{name}:{port}/b/x")])
            .output()
            .expect("curl runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert_eq!((curl("a.closed.test"), curl("b.closed.test")), ("200".to_owned(), "200".to_owned()));
    let gone = r#"{"sni":"a.closed.test","cert":"$env://TG_GONE","key":"$env://TG_GONE","client":{"ca":"$env://TG_GONE"}}"#;
    put(&gateway, "ssls/gone", gone);
    assert_eq!((curl("a.closed.test"), curl("b.closed.test")), ("000".to_owned(), "200".to_owned()));
    assert!(is_rejected(&gateway, "ssls/gone"));
}
