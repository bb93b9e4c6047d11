//! Plugins that ask somebody else, or compare what a client wrote: only a clear yes is one, and the form makes no difference.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tidegate_testkit::gateway::{EMBEDDED, YAML_PROVIDER};
use tidegate_testkit::{Behaviour, Gateway, Upstream};

/// One route below `/NAME` for each of these, and a mock behind it.
fn start(routes: &[(&str, Value)], consumers: &Value) -> Gateway {
    let routes: Vec<Value> = routes
        .iter()
        .map(|(name, plugins)| {
            let mut plugins = plugins.clone();
            plugins["mocking"] = json!({"response_example": "fine", "_meta": {"priority": -1}});
            json!({"id": name, "uri": format!("/{name}"), "plugins": plugins})
        })
        .collect();
    let resources = json!({"routes": routes, "consumers": consumers});
    Gateway::start(YAML_PROVIDER, Some(&resources.to_string()))
}

fn status(gateway: &Gateway, target: &str, fields: &str) -> u16 {
    let request = format!("GET {target} HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
    gateway.client().request(&request).unwrap_or_else(|error| panic!("{target}: {error}")).status()
}

#[test]
fn opa_allows_with_true_only() {
    let rows: [(&str, u16, &str, u16); 12] = [
        ("true", 200, r#"{"result":{"allow":true}}"#, 200),
        ("text", 200, r#"{"result":{"allow":"true"}}"#, 403),
        ("false-text", 200, r#"{"result":{"allow":"false"}}"#, 403),
        ("zero", 200, r#"{"result":{"allow":0}}"#, 403),
        ("one", 200, r#"{"result":{"allow":1}}"#, 403),
        ("set", 200, r#"{"result":{"allow":{}}}"#, 403),
        ("list", 200, r#"{"result":{"allow":[]}}"#, 403),
        ("null", 200, r#"{"result":{"allow":null}}"#, 403),
        ("nothing", 200, r#"{"result":{}}"#, 403),
        ("failed", 500, r#"{"result":{"allow":true}}"#, 403),
        ("accepted", 202, r#"{"result":{"allow":true}}"#, 403),
        ("unauthorized", 401, r#"{"result":{"allow":true}}"#, 403),
    ];
    let agent = Upstream::service(move |request| {
        let policy = request.target().rsplit('/').next().unwrap_or_default();
        let row = rows.iter().find(|row| row.0 == policy);
        row.map_or((404, String::new()), |(_, status, body, _)| (*status, (*body).to_owned()))
    });
    let host = format!("http://{}", agent.address);
    let opa = |name: &str| json!({"opa": {"host": host, "policy": name}});
    let routes: Vec<(&str, Value)> = rows.iter().map(|row| (row.0, opa(row.0))).collect();
    let gateway = start(&routes, &json!([]));
    for (name, _, _, expected) in rows {
        assert_eq!(status(&gateway, &format!("/{name}"), ""), expected, "{name}");
    }
}

#[test]
fn forward_auth_allows_with_2xx_only() {
    let service = Upstream::with(|request| {
        let code = request.target().rsplit('/').next().unwrap_or_default().to_owned();
        let answer = match code.as_str() {
            "101" => "HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n".to_owned(),
            "204" => "HTTP/1.1 204 None\r\n\r\n".to_owned(),
            code => format!("HTTP/1.1 {code} Status\r\nContent-Length: 0\r\n\r\n"),
        };
        let answer = Upstream::answer(move |_| answer.clone().into_bytes());
        Behaviour { read_body: true, steps: vec![answer] }
    });
    let rows =
        [("200", 200), ("204", 200), ("299", 200), ("101", 403), ("302", 302), ("401", 401), ("500", 500)];
    let conf = |code: &str| json!({"forward-auth": {"uri": format!("http://{}/{code}", service.address)}});
    let routes: Vec<(&str, Value)> = rows.iter().map(|(code, _)| (*code, conf(code))).collect();
    let gateway = start(&routes, &json!([]));
    for (code, expected) in rows {
        assert_eq!(status(&gateway, &format!("/{code}"), ""), expected, "{code}");
    }
}

/// Answers each bind with success, as this message.
fn ldap(message: u8) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            // A bind is short: it comes in one piece.
            let _ = stream.read(&mut [0; 512]);
            let _ = stream.write_all(&[0x30, 12, 2, 1, message, 0x61, 7, 0x0a, 1, 0, 4, 0, 4, 0]);
        }
    });
    address
}

#[test]
fn ldap_answers_belong_to_their_question() {
    let rows = [("own", 1, 200), ("other", 2, 401), ("unsolicited", 0, 401)];
    let conf = |address: SocketAddr| json!({"ldap-auth": {"base_dn": "dc=x", "uid": "cn", "ldap_uri": address.to_string()}});
    let routes: Vec<(&str, Value)> = rows.iter().map(|(name, id, _)| (*name, conf(ldap(*id)))).collect();
    let jack = json!([{"username": "jack", "plugins": {"ldap-auth": {"user_dn": "cn=jack,dc=x"}}}]);
    let gateway = start(&routes, &jack);
    let jack = format!("Authorization: Basic {}\r\n", STANDARD.encode("jack:p"));
    for (name, _, expected) in rows {
        assert_eq!(status(&gateway, &format!("/{name}"), &jack), expected, "{name}");
    }
}

#[test]
fn an_introspected_token_that_has_ended() {
    let provider = Upstream::service(|request| match request.target() {
        "/ended" => (200, json!({"active": true, "exp": 1}).to_string()),
        "/early" => (200, json!({"active": true, "nbf": 4_000_000_000u32}).to_string()),
        "/good" => (200, json!({"active": true, "exp": 4_000_000_000u32}).to_string()),
        _ => (404, String::new()),
    });
    let conf = |name: &str| {
        json!({"openid-connect": {"client_id": "c", "client_secret": "s", "bearer_only": true,
               "discovery": format!("http://{}/.well-known", provider.address),
               "introspection_endpoint": format!("http://{}/{name}", provider.address)}})
    };
    let rows = [("good", 200), ("ended", 401), ("early", 401)];
    let routes: Vec<(&str, Value)> = rows.iter().map(|(name, _)| (*name, conf(name))).collect();
    let gateway = start(&routes, &json!([]));
    for (name, expected) in rows {
        assert_eq!(status(&gateway, &format!("/{name}"), "Authorization: Bearer t\r\n"), expected, "{name}");
    }
}

/// A provider may judge a token by the fields beside it: what it said of one value is not said of another.
#[test]
fn an_introspected_token_is_judged_with_its_fields() {
    let provider = Upstream::service(|request| {
        let active = request.count("X-Tenant") == 1 && request.header("X-Tenant") == Some("mine");
        (200, json!({"active": active, "exp": 4_000_000_000u32}).to_string())
    });
    let conf = json!({"openid-connect": {"client_id": "c", "client_secret": "s", "bearer_only": true,
        "discovery": format!("http://{}/.well-known", provider.address), "introspection_addon_headers": ["X-Tenant"],
        "introspection_endpoint": format!("http://{}/i", provider.address)}});
    let gateway = start(&[("asked", conf)], &json!([]));
    for (fields, expected) in [
        ("X-Tenant: mine\r\n", 200),
        ("X-Tenant: mine\r\n", 200),
        ("X-Tenant: yours\r\n", 401),
        ("", 401),
        ("X-Tenant: mine\r\nX-Tenant: yours\r\n", 401),
        // The provider would be asked without what some upstreams read.
        ("X-Tenant: mine\r\nX_Tenant: yours\r\n", 401),
    ] {
        let fields = format!("Authorization: Bearer t\r\n{fields}");
        assert_eq!(status(&gateway, "/asked", &fields), expected, "{fields}");
    }
}

#[test]
fn an_ipv4_address_is_one_in_either_form() {
    let told = |list: &str, address: &str| json!({"real-ip": {"source": "http_x_addr"}, "ip-restriction": {list: [address]}});
    let routes = [
        ("black", told("blacklist", "10.1.2.3")),
        ("mapped", told("blacklist", "::ffff:10.1.2.3")),
        ("network", told("blacklist", "::ffff:a00:0/104")),
        ("white", told("whitelist", "::ffff:10.1.2.3")),
        ("own", json!({"ip-restriction": {"blacklist": ["::ffff:127.0.0.1"]}})),
    ];
    let gateway = start(&routes, &json!([]));
    for address in
        ["10.1.2.3", "::ffff:10.1.2.3", "::FFFF:a01:203", "[::ffff:10.1.2.3]:80", "0:0:0:0:0:ffff:10.1.2.3"]
    {
        let fields = format!("X-Addr: {address}\r\n");
        for (name, expected) in
            [("black", 403), ("mapped", 403), ("network", 403), ("white", 200), ("own", 403)]
        {
            assert_eq!(status(&gateway, &format!("/{name}"), &fields), expected, "{name} {address}");
        }
    }
    let other = "X-Addr: ::ffff:11.1.2.3\r\n";
    for (name, expected) in [("black", 200), ("mapped", 200), ("network", 200), ("white", 403)] {
        assert_eq!(status(&gateway, &format!("/{name}"), other), expected, "{name}");
    }
}

#[test]
fn uri_blocker_reads_queries_as_upstreams_do() {
    let routes = [("blocked", json!({"uri-blocker": {"block_rules": ["root", "a b", "%41"]}}))];
    let gateway = start(&routes, &json!([]));
    for (query, expected) in [
        ("a=root", 403),
        ("a=%72oot", 403),
        ("a=%72%6f%6F%74", 403),
        ("%72oot=1", 403),
        ("x=a+b", 403),
        ("x=%41", 403),
        ("a=%2572oot", 200),
        ("a=rot", 200),
    ] {
        assert_eq!(status(&gateway, &format!("/blocked?{query}"), ""), expected, "{query}");
    }
}

#[test]
fn connect_with_a_path() {
    let gateway = start(&[("any", json!({}))], &json!([]));
    for target in ["/any", "*", "h:80", "http://h/any"] {
        let mut client = gateway.client();
        client.send(format!("CONNECT {target} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes()).expect("sent");
        let answer = client.response().unwrap_or_else(|error| panic!("{target}: {error}"));
        assert_eq!(answer.status(), 405, "{target}");
    }
}

#[test]
fn settings_that_guard_nothing_are_refused() {
    let gateway = Gateway::start(EMBEDDED, None);
    let oidc = |key: &str| {
        json!({"openid-connect": {"client_id": "c", "discovery": "http://127.0.0.1:1/d", "bearer_only": true,
               "public_key": key}})
    };
    for plugins in [
        json!({"consumer-restriction": {"allowed_by_methods": []}}),
        oidc("x"),
        oidc("-----BEGIN PUBLIC KEY-----\n-----END PUBLIC KEY-----"),
    ] {
        let body = json!({"uri": "/r", "plugins": plugins}).to_string();
        let (status, answer) = gateway.admin("PUT", "/apisix/admin/routes/r", &body);
        assert_eq!(status, 400, "{body}: {answer}");
    }
}
