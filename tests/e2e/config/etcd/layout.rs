//! The keys and values are APISIX's: what it writes is served, what is written here it can read.

use tidegate_testkit::{Etcd, Gateway, eventually, servers};

use super::{config, metric, mock, status};

/// What APISIX stores for the password "bar" with the keyring of these tests.
const SEALED_BAR: &str = "77+NmbYqNfN+oLm0aX5akg==";

#[test]
fn what_apisix_wrote_is_served() {
    let etcd = Etcd::start();
    let upstream = servers::nginx("location / { return 200 $http_x_consumer_username; }");
    // As `apisix init_etcd` leaves its directories.
    for directory in ["routes", "upstreams", "consumers", "services", "plugin_metadata", "plugins", "secrets"]
    {
        etcd.put(&format!("/apisix/{directory}/"), "init_dir");
    }
    let times = r#""create_time":1700000000,"update_time":1700000000"#;
    etcd.put(
        "/apisix/upstreams/1",
        &format!(r#"{{"id":"1","type":"roundrobin","nodes":{{"{}":1}},{times}}}"#, upstream.address),
    );
    etcd.put("/apisix/services/s", &format!(r#"{{"id":"s","upstream_id":"1",{times}}}"#));
    etcd.put(
        "/apisix/routes/00000000000000000017",
        &format!(r#"{{"id":"00000000000000000017","uri":"\/who","service_id":"s","plugins":{{"basic-auth":{{}}}},{times}}}"#),
    );
    etcd.put("/apisix/consumers/jack", &format!(r#"{{"username":"jack",{times}}}"#));
    etcd.put(
        "/apisix/consumers/jack/credentials/one",
        &format!(r#"{{"id":"one","plugins":{{"basic-auth":{{"username":"foo","password":"{SEALED_BAR}"}}}},{times}}}"#),
    );
    etcd.put("/apisix/data_plane/server_info/x", r#"{"hostname":"a"}"#);
    let gateway = Gateway::start(&config(&etcd.url()), None);

    let mut client = gateway.client();
    let request = "GET /who HTTP/1.1\r\nHost: h\r\nAuthorization: Basic Zm9vOmJhcg==\r\n\r\n";
    let answer = client.request(request).expect("an answer");
    assert_eq!((answer.status(), answer.body_text().as_str()), (200, "jack"), "{}", gateway.error_log());
    assert_eq!(status(&gateway, "/who"), 401);
    let (code, body) = gateway.admin("GET", "/apisix/admin/consumers/jack/credentials/one", "");
    assert_eq!(code, 200);
    assert!(body.contains(r#""password":"bar""#), "{body}");
    let (_, list) = gateway.admin("GET", "/apisix/admin/routes", "");
    assert!(
        list.contains(r#""total":1"#) && list.contains(r#""key":"/apisix/routes/00000000000000000017""#),
        "{list}"
    );

    // What APISIX does from now on is seen at once: a new route, a change, a deletion.
    etcd.put("/apisix/routes/2", &mock("/late", 202));
    eventually("the new route is served", || status(&gateway, "/late") == 202);
    etcd.put("/apisix/routes/2", &mock("/late", 203));
    eventually("the change is served", || status(&gateway, "/late") == 203);
    let index = |key: &str| {
        let value = metric(&gateway, &format!("apisix_etcd_modify_indexes{{key=\"{key}\"}}"));
        value.parse::<u64>().expect("a number")
    };
    assert!(index("routes") > index("consumers") && index("consumers") > 0);
    assert_eq!(index("routes"), index("max_modify_index"));
    assert_eq!(index("routes"), index("x_etcd_index"), "the newest change in etcd was to a route");
    etcd.control(&["del", "/apisix/routes/2"]);
    eventually("the route is gone", || status(&gateway, "/late") == 404);
}

#[test]
fn what_is_written_here_is_apisix_own_form() {
    let etcd = Etcd::start();
    let gateway = Gateway::start(&config(&etcd.url()), None);
    eventually("directories have placeholders", || etcd.get("/apisix/secrets/") == "init_dir");
    let put = |path: &str, body: &str, expected: u16| {
        let (code, answer) = gateway.admin("PUT", &format!("/apisix/admin/{path}"), body);
        assert_eq!(code, expected, "{path}: {answer}");
        answer
    };
    put("routes/1", &mock("/one", 201), 201);
    assert_eq!(status(&gateway, "/one"), 201, "the writer's next request sees it");
    let stored = etcd.get("/apisix/routes/1");
    for part in [r#""id":"1""#, r#""uri":"/one""#, r#""create_time":"#, r#""update_time":"#] {
        assert!(stored.contains(part), "{part} in {stored}");
    }
    put("routes/1", &mock("/one", 202), 200);
    put("consumers", r#"{"username":"jack"}"#, 201);
    put(
        "consumers/jack/credentials/one",
        r#"{"plugins":{"basic-auth":{"username":"foo","password":"bar"}}}"#,
        201,
    );
    let credential = etcd.get("/apisix/consumers/jack/credentials/one");
    assert!(credential.contains(SEALED_BAR) && !credential.contains(r#""bar""#), "{credential}");
    put("plugin_metadata/http-logger", r#"{"log_format":{"host":"$host"}}"#, 201);
    assert!(etcd.get("/apisix/plugin_metadata/http-logger").contains(r#""host":"$host""#));
    put("secrets/vault/1", r#"{"uri":"http://127.0.0.1","prefix":"kv","token":"t"}"#, 201);
    assert!(etcd.get("/apisix/secrets/vault/1").contains(r#""id":"vault/1""#));

    // An id that etcd's revision gave, 20 digits wide.
    let (code, answer) = gateway.admin("POST", "/apisix/admin/routes", &mock("/posted", 204));
    assert_eq!(code, 201, "{answer}");
    let id = answer.split("/apisix/routes/").nth(1).and_then(|rest| rest.split('"').next()).expect("an id");
    assert!(id.len() == 20 && id.bytes().all(|byte| byte.is_ascii_digit()), "{id}");
    assert!(etcd.get(&format!("/apisix/routes/{id}")).contains(&format!(r#""id":"{id}""#)));

    // With the consumer go its credentials.
    let (code, answer) = gateway.admin("DELETE", "/apisix/admin/consumers/jack", "");
    assert_eq!(code, 200, "{answer}");
    assert_eq!(etcd.control(&["get", "--prefix", "--keys-only", "/apisix/consumers/jack"]).trim(), "");
    assert_eq!(gateway.admin("DELETE", "/apisix/admin/routes/none", "").0, 404);

    // Something that expires does so in etcd.
    let (code, answer) = gateway.admin("PUT", "/apisix/admin/routes/short?ttl=1", &mock("/short", 201));
    assert_eq!(code, 201, "{answer}");
    assert_eq!(status(&gateway, "/short"), 201);
    eventually("the lease ends", || status(&gateway, "/short") == 404);
}

#[test]
fn the_list_of_plugins_in_etcd_is_followed() {
    let etcd = Etcd::start();
    etcd.put("/apisix/routes/1", &mock("/mock", 202));
    let gateway = Gateway::start(&config(&etcd.url()), None);
    assert_eq!(status(&gateway, "/mock"), 202);
    etcd.put("/apisix/plugins", r#"[{"name":"cors"},{"name":"mqtt-proxy","stream":true}]"#);
    eventually("mocking is off", || status(&gateway, "/mock") == 503);
    etcd.put("/apisix/plugins", "no list");
    etcd.put("/apisix/plugins", r#"[{"name":"mocking"}]"#);
    eventually("mocking is on", || status(&gateway, "/mock") == 202);
    assert!(
        gateway.error_log().contains("[/apisix/plugins] err:it should be JSON"),
        "{}",
        gateway.error_log()
    );
}
