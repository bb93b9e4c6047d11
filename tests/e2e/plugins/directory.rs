//! ldap-auth-advanced with OpenLDAP: who is found, who is let in, and what of names and answers is worth nothing.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tidegate_testkit::gateway::{EMBEDDED, YAML_PROVIDER};
use tidegate_testkit::{Gateway, Message, Upstream, servers};

use crate::protocols::certs::Authority;

const ENTRIES: &str = "\
dn: dc=example,dc=org
objectClass: dcObject
objectClass: organization
o: example

dn: ou=users,dc=example,dc=org
objectClass: organizationalUnit

dn: cn=user01,ou=users,dc=example,dc=org
objectClass: inetOrgPerson
sn: One
uid: user01
userPassword: pass:word

dn: cn=Jane Doe,ou=users,dc=example,dc=org
objectClass: inetOrgPerson
sn: Doe
uid: jdoe
userPassword: janesecret

dn: cn=dup1,ou=users,dc=example,dc=org
objectClass: inetOrgPerson
sn: Dup
uid: dup
userPassword: duppass

dn: cn=dup2,ou=users,dc=example,dc=org
objectClass: inetOrgPerson
sn: Dup
uid: dup
userPassword: duppass

dn: cn=odd,ou=users,dc=example,dc=org
objectClass: inetOrgPerson
sn: Odd
uid: a*(b)\\~
userPassword: odd

dn: cn=secret,ou=users,dc=example,dc=org
objectClass: inetOrgPerson
sn: Secret
uid: secretuser
userPassword: hidden
";

/// Nobody but the administrator finds `secretuser`, and anybody may try a password.
const ACCESS: &str = "\
access to attrs=userPassword by anonymous auth by * none
access to dn.exact=\"cn=secret,ou=users,dc=example,dc=org\" by * none
access to * by * read";

struct Scene {
    gateway: Gateway,
    upstream: Upstream,
    _directory: servers::Server,
}

fn scene(consumers: &Value) -> Scene {
    let authority = Authority::new();
    let pair = authority.issue("localhost");
    let (directory, secure) = servers::slapd(ENTRIES, ACCESS, (&pair.cert, &pair.key));
    let trusted = directory.folder().join("authority.pem");
    std::fs::write(&trusted, &authority.cert).expect("the authority's certificate");
    let plain = directory.address;
    let upstream = Upstream::start();
    let conf = |more: Value| {
        let mut conf = json!({"ldap_uri": plain.to_string(), "base_dn": "ou=users,dc=example,dc=org", "attribute": "uid"});
        for (name, value) in more.as_object().expect("fields") {
            conf[name] = value.clone();
        }
        conf
    };
    let admin = |password: &str| json!({"bind_dn": "cn=admin,dc=example,dc=org", "ldap_password": password});
    let local = |port: u16| format!("localhost:{port}");
    let confs = [
        ("plain", conf(json!({}))),
        ("basic", conf(json!({"header_type": "basic", "realm": "staff"}))),
        ("open", conf(json!({"consumer_required": false}))),
        ("by-cn", conf(json!({"attribute": "cn"}))),
        ("by-oid", conf(json!({"attribute": "0.9.2342.19200300.100.1.1"}))),
        ("by-class", conf(json!({"attribute": "objectClass"}))),
        ("by-class-two", conf(json!({"attribute": "objectClass", "size_limit": 100}))),
        ("admin", conf(admin("adminpassword"))),
        ("wrong-admin", conf(admin("wrong"))),
        ("no-base", conf(json!({"base_dn": "ou=none,dc=example,dc=org"}))),
        ("away", conf(json!({"ldap_uri": "127.0.0.1:1"}))),
        ("ldaps", conf(json!({"ldap_uri": local(secure.port()), "use_ldaps": true, "ssl_verify": false}))),
        (
            "starttls",
            conf(json!({"ldap_uri": local(plain.port()), "use_starttls": true, "ssl_verify": false})),
        ),
        ("ldaps-verified", conf(json!({"ldap_uri": local(secure.port()), "use_ldaps": true}))),
        ("starttls-verified", conf(json!({"ldap_uri": local(plain.port()), "use_starttls": true}))),
        ("ldaps-other", conf(json!({"ldap_uri": secure.to_string(), "use_ldaps": true}))),
        ("starttls-other", conf(json!({"ldap_uri": plain.to_string(), "use_starttls": true}))),
    ];
    let target = json!({"type": "roundrobin", "nodes": {upstream.address.to_string(): 1}});
    let route = |name: &str, plugins: Value| json!({"id": name, "uri": format!("/{name}"), "plugins": plugins, "upstream": target});
    let mut routes: Vec<Value> =
        confs.iter().map(|(name, conf)| route(name, json!({ "ldap-auth-advanced": conf }))).collect();
    let multi = json!({"auth_plugins": [{"ldap-auth-advanced": conf(json!({}))}, {"key-auth": {}}]});
    routes.push(route("multi", json!({ "multi-auth": multi })));
    let objects = json!({"routes": routes, "consumers": consumers}).to_string();
    let trusts = format!("ssl: {{enable: false, ssl_trusted_certificate: {}}}", trusted.display());
    let config = YAML_PROVIDER.replace("ssl: {enable: false}", &trusts);
    Scene { gateway: Gateway::start(&config, Some(&objects)), upstream, _directory: directory }
}

fn consumers() -> Value {
    json!([
        {"username": "one", "plugins": {"ldap-auth-advanced": {"user_dn": "cn=user01,ou=users,dc=example,dc=org"}}},
        {"username": "jane", "plugins": {"ldap-auth-advanced": {"user_dn": "cn=Jane Doe,ou=users,dc=example,dc=org"},
                                         "key-auth": {"key": "k"}}},
    ])
}

fn field(name: &str, scheme: &str, credentials: &[u8]) -> String {
    format!("{name}: {scheme} {}\r\n", STANDARD.encode(credentials))
}

impl Scene {
    fn ask(&self, route: &str, fields: &str) -> Message {
        let text = format!("GET /{route} HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
        self.gateway.client().request(&text).unwrap_or_else(|error| panic!("{route}: {error}"))
    }

    /// Status, and the consumer that the upstream is told of.
    fn outcome(&self, route: &str, credentials: &[u8]) -> (u16, Option<String>) {
        self.upstream.take();
        let scheme = if route == "basic" { "Basic" } else { "LDAP" };
        let status = self.ask(route, &field("Authorization", scheme, credentials)).status();
        let seen = self.upstream.take();
        assert_eq!(seen.len(), usize::from(status == 200), "{route}");
        (status, seen.first().and_then(|seen| seen.message.header("X-Consumer-Username")).map(str::to_owned))
    }
}

#[test]
fn users_of_a_directory() {
    let scene = scene(&consumers());
    let in_as = |name: &str| (200, Some(name.to_owned()));
    for (route, credentials, expected) in [
        ("plain", &b"user01:pass:word"[..], in_as("one")),
        ("plain", b"jdoe:janesecret", in_as("jane")),
        ("basic", b"jdoe:janesecret", in_as("jane")),
        ("by-cn", b"Jane Doe:janesecret", in_as("jane")),
        ("by-oid", b"jdoe:janesecret", in_as("jane")),
        ("admin", b"jdoe:janesecret", in_as("jane")),
        ("ldaps", b"jdoe:janesecret", in_as("jane")),
        ("starttls", b"jdoe:janesecret", in_as("jane")),
        ("ldaps-verified", b"jdoe:janesecret", in_as("jane")),
        ("starttls-verified", b"jdoe:janesecret", in_as("jane")),
        ("multi", b"jdoe:janesecret", in_as("jane")),
        ("open", b"jdoe:janesecret", (200, None)),
        // A name is a value, whatever signs it has.
        ("open", b"a*(b)\\~:odd", (200, None)),
        ("plain", b"user01:wrong", (401, None)),
        ("plain", b"user01:", (401, None)),
        ("plain", b":pass:word", (401, None)),
        ("plain", b"nobody:x", (401, None)),
        ("plain", b"dup:duppass", (401, None)),
        ("plain", b"*:pass:word", (401, None)),
        ("plain", b"user0*:pass:word", (401, None)),
        ("plain", b"user01)(uid=*:pass:word", (401, None)),
        ("plain", b"user\\30\\31:pass:word", (401, None)),
        ("plain", b"us\xffer:x", (401, None)),
        ("plain", "jürgen~:x".as_bytes(), (401, None)),
        // A user whom no consumer has.
        ("plain", b"a*(b)\\~:odd", (401, None)),
        ("by-class", b"inetOrgPerson:x", (401, None)),
        ("by-class-two", b"inetOrgPerson:x", (401, None)),
        // What is no fault of the client.
        ("wrong-admin", b"jdoe:janesecret", (500, None)),
        ("no-base", b"jdoe:janesecret", (500, None)),
        ("away", b"jdoe:janesecret", (500, None)),
        // The certificate is for another name.
        ("ldaps-other", b"jdoe:janesecret", (500, None)),
        ("starttls-other", b"jdoe:janesecret", (500, None)),
    ] {
        let shown = String::from_utf8_lossy(credentials);
        assert_eq!(scene.outcome(route, credentials), expected, "{route} {shown}");
    }
}

/// ldap-auth binds as the user, whose DN it makes of the name.
#[test]
fn users_who_bind_themselves() {
    let authority = Authority::new();
    let pair = authority.issue("localhost");
    let (directory, secure) = servers::slapd(ENTRIES, ACCESS, (&pair.cert, &pair.key));
    let upstream = Upstream::start();
    let target = json!({"type": "roundrobin", "nodes": {upstream.address.to_string(): 1}});
    let plain = directory.address.to_string();
    let secure = format!("localhost:{}", secure.port());
    let route = |name: &str, more: Value| {
        let mut conf = json!({"base_dn": "ou=users,dc=example,dc=org"});
        conf.as_object_mut().expect("fields").extend(more.as_object().expect("fields").clone());
        json!({"id": name, "uri": format!("/{name}"), "plugins": {"ldap-auth": conf}, "upstream": target})
    };
    let objects = json!({
        "routes": [
            route("plain", json!({"ldap_uri": plain})),
            route("hidden", json!({"ldap_uri": plain, "hide_credentials": true})),
            route("tls", json!({"ldap_uri": secure, "use_tls": true})),
            // Nobody vouches for the directory's certificate.
            route("verified", json!({"ldap_uri": secure, "use_tls": true, "tls_verify": true})),
        ],
        "consumers": [{"username": "dup", "plugins": {"ldap-auth": {"user_dn": "cn=dup1,ou=users,dc=example,dc=org"}}}],
    });
    let gateway = Gateway::start(YAML_PROVIDER, Some(&objects.to_string()));
    let ask = |route: &str, password: &str| {
        let credentials = field("Authorization", "Basic", format!("dup1:{password}").as_bytes());
        let text = format!("GET /{route} HTTP/1.1\r\nHost: h\r\n{credentials}\r\n");
        gateway.client().request(&text).expect("a response").status()
    };
    for (route, password, status) in [
        ("plain", "duppass", 200),
        ("plain", "wrong", 401),
        ("tls", "duppass", 200),
        ("verified", "duppass", 401),
    ] {
        assert_eq!(ask(route, password), status, "{route} {password}");
    }
    upstream.take();
    for (route, is_seen) in [("plain", true), ("hidden", false)] {
        assert_eq!(ask(route, "duppass"), 200, "{route}");
        let seen = upstream.take()[0].text();
        assert!(seen.contains("X-Consumer-Username: dup"), "{route}: {seen}");
        assert_eq!(seen.contains("Authorization:"), is_seen, "{route}: {seen}");
    }
}

#[test]
fn connections_that_are_kept_are_nobody_s() {
    let scene = scene(&consumers());
    for _ in 0..3 {
        assert_eq!(scene.outcome("admin", b"jdoe:janesecret").0, 200);
        assert_eq!(scene.outcome("plain", b"jdoe:janesecret").0, 200);
        // Whom the administrator alone finds.
        assert_eq!(scene.outcome("plain", b"secretuser:hidden").0, 401);
    }
}

#[test]
fn fields_with_credentials() {
    let scene = scene(&consumers());
    let good = field("Authorization", "ldap", b"jdoe:janesecret");
    let proxy = |scheme: &str, credentials: &[u8]| field("Proxy-Authorization", scheme, credentials);
    for (route, fields, status, challenge) in [
        ("plain", String::new(), 401, Some("ldap realm=\"ldap\"")),
        ("basic", String::new(), 401, Some("Basic realm=\"staff\"")),
        ("plain", field("Authorization", "Basic", b"jdoe:janesecret"), 401, Some("ldap realm=\"ldap\"")),
        ("basic", good.clone(), 401, Some("Basic realm=\"staff\"")),
        ("plain", "Authorization: ldap ?\r\n".to_owned(), 401, Some("ldap realm=\"ldap\"")),
        ("plain", proxy("ldap", b"jdoe:janesecret"), 200, None),
        ("plain", proxy("ldap", b"jdoe:janesecret") + &field("Authorization", "ldap", b"x:y"), 200, None),
        ("plain", proxy("ldap", b"jdoe:janesecret").repeat(2), 401, Some("ldap realm=\"ldap\"")),
        ("plain", proxy("ldap", b"jdoe:wrong") + &good, 401, Some("ldap realm=\"ldap\"")),
        ("plain", proxy("Basic", b"proxy:hunter2") + &good, 200, None),
        ("plain", proxy("ldap", b":") + &good, 200, None),
        ("multi", field("Authorization", "ldap", b"jdoe:wrong"), 401, Some("apikey realm=\"key\"")),
        ("multi", "apikey: k\r\n".to_owned(), 200, None),
    ] {
        let answer = scene.ask(route, &fields);
        assert_eq!(
            (answer.status(), answer.header("WWW-Authenticate")),
            (status, challenge),
            "{route} {fields}"
        );
        if status == 401 && route != "multi" {
            assert_eq!(answer.body_text(), "{\"message\":\"Authorization required\"}\n");
        }
    }
    scene.upstream.take();
    let claims = "X-Authenticated-Groups: a\r\nX_Authenticated_Groups: a\r\nX-Consumer-Username: root\r\nX-Credential-Identifier: 1\r\n";
    assert_eq!(scene.ask("open", &format!("{good}{claims}")).status(), 200);
    let seen = scene.upstream.take()[0].text();
    for name in ["Groups", "X-Consumer", "X-Credential", "root"] {
        assert!(!seen.contains(name), "{seen}");
    }
}

/// A directory that answers each message with these bytes, the message's own id behind the first three.
fn directory(answers: &'static [(&'static [u8], &'static [u8])]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            std::thread::spawn(move || {
                for (sign, answer) in answers {
                    let mut message = [0; 4096];
                    // Requests are short: each comes in one piece.
                    let Ok(read) = stream.read(&mut message) else { return };
                    if read == 0 || !message[..read].windows(sign.len()).any(|part| part == *sign) {
                        return;
                    }
                    let _ = stream.write_all(answer);
                }
                let _ = stream.read(&mut [0; 16]);
            });
        }
    });
    address
}

const BOUND: &[u8] = &[0x30, 12, 2, 1, 1, 0x61, 7, 0x0a, 1, 0, 4, 0, 4, 0];
const FOUND: &[u8] = &[
    0x30, 11, 2, 1, 2, 0x64, 6, 4, 2, b'c', b'n', 0x30, 0, 0x30, 12, 2, 1, 2, 0x65, 7, 0x0a, 1, 0, 4, 0, 4, 0,
];
const IN: &[u8] = &[0x30, 12, 2, 1, 3, 0x61, 7, 0x0a, 1, 0, 4, 0, 4, 0];

#[test]
fn answers_that_are_none() {
    const BIND: &[u8] = &[0x60];
    const SEARCH: &[u8] = b"1.1";
    let rows: [(&str, &'static [(&[u8], &[u8])], u16); 9] = [
        ("good", &[(BIND, BOUND), (SEARCH, FOUND), (BIND, IN)], 200),
        // The answer to another request.
        ("old", &[(BIND, BOUND), (SEARCH, FOUND), (BIND, BOUND)], 500),
        ("unsolicited", &[(BIND, &[0x30, 12, 2, 1, 0, 0x61, 7, 0x0a, 1, 0, 4, 0, 4, 0])], 500),
        ("kind", &[(BIND, &[0x30, 12, 2, 1, 1, 0x65, 7, 0x0a, 1, 0, 4, 0, 4, 0])], 500),
        ("cut", &[(BIND, &[0x30, 12, 2, 1, 1])], 500),
        ("long", &[(BIND, &[0x30, 0x84, 0x7f, 0xff, 0xff, 0xff])], 500),
        // An entry without a name: a bind as it would prove nothing.
        (
            "root",
            &[
                (BIND, BOUND),
                (
                    SEARCH,
                    &[
                        0x30, 9, 2, 1, 2, 0x64, 4, 4, 0, 0x30, 0, 0x30, 12, 2, 1, 2, 0x65, 7, 0x0a, 1, 0, 4,
                        0, 4, 0,
                    ],
                ),
                (BIND, IN),
            ],
            500,
        ),
        (
            "refused",
            &[(BIND, BOUND), (SEARCH, FOUND), (BIND, &[0x30, 12, 2, 1, 3, 0x61, 7, 0x0a, 1, 49, 4, 0, 4, 0])],
            401,
        ),
        (
            "busy",
            &[(BIND, BOUND), (SEARCH, FOUND), (BIND, &[0x30, 12, 2, 1, 3, 0x61, 7, 0x0a, 1, 51, 4, 0, 4, 0])],
            500,
        ),
    ];
    let upstream = Upstream::start();
    let target = json!({"type": "roundrobin", "nodes": {upstream.address.to_string(): 1}});
    let routes: Vec<Value> = rows
        .iter()
        .map(|(name, answers, _)| {
            let conf = json!({"ldap_uri": directory(answers).to_string(), "base_dn": "dc=x", "timeout": 500,
                              "consumer_required": false, "keepalive": false});
            json!({"id": name, "uri": format!("/{name}"), "plugins": {"ldap-auth-advanced": conf}, "upstream": target})
        })
        .collect();
    let gateway = Gateway::start(YAML_PROVIDER, Some(&json!({ "routes": routes }).to_string()));
    let credentials = field("Authorization", "ldap", b"a:b");
    for (name, _, expected) in rows {
        let text = format!("GET /{name} HTTP/1.1\r\nHost: h\r\n{credentials}\r\n");
        let answer = gateway.client().request(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(answer.status(), expected, "{name}");
    }
}

#[test]
fn what_cannot_be_asked_is_refused_when_it_is_written() {
    let gateway = Gateway::start(EMBEDDED, None);
    for (more, said) in [
        (
            json!({"use_ldaps": true, "use_starttls": true}),
            "use_ldaps and use_starttls are mutually exclusive",
        ),
        (json!({"bind_dn": "cn=a"}), "ldap_password is required when bind_dn is set"),
        (json!({"attribute": "a b"}), "attribute"),
        (json!({"attribute": "cn)(uid"}), "attribute"),
        (json!({"size_limit": 1}), "size_limit"),
        (json!({"ldap_uri": ""}), "ldap_uri"),
        (json!({"ldap_uri": "a:x"}), "ldap_uri"),
        (json!({"realm": "a\"b"}), "realm"),
    ] {
        let mut conf = json!({"ldap_uri": "127.0.0.1:389", "base_dn": "dc=x"});
        for (name, value) in more.as_object().expect("fields") {
            conf[name] = value.clone();
        }
        let route = json!({"uri": "/x", "plugins": {"ldap-auth-advanced": conf}}).to_string();
        let (status, answer) = gateway.admin("PUT", "/apisix/admin/routes/1", &route);
        assert!(status == 400 && answer.contains(said), "{more}: {answer}");
    }
    let consumer = json!({"username": "a", "plugins": {"ldap-auth-advanced": {"user_dn": ""}}}).to_string();
    assert_eq!(gateway.admin("PUT", "/apisix/admin/consumers", &consumer).0, 400);
}
