//! Guards in Kong's files: what has no counterpart here closes its routes, wherever it stands.

use tidegate_testkit::{Gateway, Upstream, gateway::YAML_PROVIDER};

use super::kong_files::import;

/// Plugins of Kong and of others that may turn somebody away, each with the least configuration.
const GUARDS: [(&str, &str); 52] = [
    ("key-auth", "{}"),
    ("basic-auth", "{}"),
    ("jwt", "{}"),
    ("jwt", "{maximum_expiration: 60}"),
    ("hmac-auth", "{}"),
    ("key-auth", "{surprise: [1]}"),
    ("key-auth", "{identity_realms: [{id: r, region: eu, scope: realm}]}"),
    ("hmac-auth", "{algorithms: [hmac-sha384]}"),
    ("grpc-web", "{allow_origin_header: 'https://a.test'}"),
    ("key-auth", "{key_in_query: 'false'}"),
    ("key-auth", "{run_on_preflight: 'false'}"),
    ("key-auth", "{key_in_header: false, key_in_query: false}"),
    ("jwt", "{header_names: [], uri_param_names: [], cookie_names: []}"),
    ("acl", "{allow: [admins]}"),
    ("ip-restriction", "{allow: [10.0.0.1]}"),
    ("ip-restriction", "{deny: [127.0.0.1]}"),
    ("ip-restriction", "{whitelist: [10.0.0.1]}"),
    ("ip-restriction", "{blacklist: [127.0.0.1]}"),
    ("ip-restriction", "{allow: [127.0.0.0/8], deny: [127.0.0.1]}"),
    ("ip-restriction", "{allow: [nonsense]}"),
    ("ip-restriction", "{}"),
    ("request-termination", "{status_code: 403}"),
    ("request-size-limiting", "{surprise: 1}"),
    ("request-size-limiting", "{require_content_length: true}"),
    ("rate-limiting", "{}"),
    ("rate-limiting", "{minute: 5, limit_by: moon}"),
    ("pre-function", "{access: [\"kong.response.exit(403)\"]}"),
    ("post-function", "{access: [\"return kong.response.exit(403)\"]}"),
    ("ldap-auth", "{}"),
    ("ldap-auth-advanced", "{}"),
    ("oauth2", "{}"),
    ("oauth2-introspection", "{}"),
    ("openid-connect", "{issuer: 'http://127.0.0.1:1'}"),
    ("mtls-auth", "{}"),
    ("header-cert-auth", "{}"),
    ("session", "{}"),
    ("opa", "{}"),
    ("jwt-signer", "{}"),
    ("key-auth-enc", "{}"),
    ("vault-auth", "{}"),
    ("request-validator", "{}"),
    ("injection-protection", "{}"),
    ("rate-limiting-advanced", "{}"),
    ("rate-limiting-advanced", "{limit: [5], window_size: [60]}"),
    ("rate-limiting-advanced", "{limit: [5, 50], window_size: [1, 60], window_type: fixed}"),
    ("rate-limiting-advanced", "{limit: [5], window_size: [61], window_type: fixed}"),
    (
        "rate-limiting-advanced",
        "{limit: [5], window_size: [60], window_type: fixed, compound_identifier: [ip]}",
    ),
    ("rate-limiting", "{minute: 5, limit_by: consumer-group}"),
    ("forward-proxy", "{}"),
    ("my-custom-auth", "{}"),
    ("websocket-validator", "{}"),
    ("ace", "{}"),
];

fn plugin(number: usize, owner: &str) -> String {
    let (name, config) = GUARDS[number];
    let owner = if owner.is_empty() { String::new() } else { format!(", {owner}") };
    format!("{{name: {name}, config: {config}{owner}}}")
}

/// All guards on routes, on services, and from outside, each beside an open route for everything.
#[test]
fn no_guard_opens() {
    let upstream = Upstream::start();
    let mut text = "_format_version: '3.0'\nservices:\n".to_owned();
    for number in 0..GUARDS.len() {
        let on = plugin(number, "");
        text += &format!(
            "- {{name: a{number}, url: 'http://@UP@', routes: [{{name: a{number}, paths: [/a{number}/], plugins: [{on}]}}]}}\n"
        );
        text += &format!(
            "- {{name: b{number}, url: 'http://@UP@', plugins: [{on}], routes: [{{name: b{number}, paths: [/b{number}/]}}]}}\n"
        );
        text += &format!(
            "- {{name: c{number}, url: 'http://@UP@', routes: [{{name: c{number}, paths: [/c{number}/]}}]}}\n"
        );
        text += &format!(
            "- {{name: d{number}, url: 'http://@UP@', routes: [{{name: d{number}, paths: [/d{number}/]}}]}}\n"
        );
    }
    text += "- {name: open, url: 'http://@UP@', routes: [{name: open, paths: [/]}]}\nplugins:\n";
    for number in 0..GUARDS.len() {
        text += &format!("- {}\n", plugin(number, &format!("route: c{number}")));
        text += &format!("- {}\n", plugin(number, &format!("service: {{name: d{number}}}")));
    }
    text += "consumers: [{username: jack}]\n";
    let gateway = Gateway::start_from("kong", &text.replace("@UP@", &upstream.address.to_string()));
    let mut client = gateway.client();
    assert_eq!(client.get("h", "/open").expect("an answer").status(), 200);
    upstream.take();
    let mut open = Vec::new();
    for (number, (name, config)) in GUARDS.iter().enumerate() {
        for place in ["a", "b", "c", "d"] {
            let answer = gateway.client().get("h", &format!("/{place}{number}/x")).expect("an answer");
            if answer.status() < 400 {
                open.push(format!("{place} {name} {config}: {}", answer.status()));
            }
        }
    }
    assert!(open.is_empty(), "{}", open.join("\n"));
    assert!(upstream.take().is_empty(), "nothing reached the upstream");
}

/// For one consumer on one route, for all routes, and what a chain of filters does.
#[test]
fn guards_of_other_places_close_too() {
    let upstream = Upstream::start();
    let service = |name: &str, more: &str| {
        format!(
            "- {{name: {name}, url: 'http://{}', {more}routes: [{{name: {name}, paths: [/{name}]}}]}}\n",
            upstream.address
        )
    };
    let text = format!(
        "_format_version: '3.0'\nservices:\n{}{}{}plugins:\n\
         - {{name: ip-restriction, route: one, consumer: jack, config: {{deny: [127.0.0.1]}}}}\n\
         consumers:\n- {{username: jack, keyauth_credentials: [{{key: k}}], plugins: [{{name: my-guard}}]}}\n",
        service("one", "plugins: [{name: key-auth}], "),
        service("two", "plugins: [{name: key-auth}], "),
        service("three", "filter_chains: [{filters: [{name: guard}]}], "),
    );
    let gateway = Gateway::start_from("kong", &text);
    for path in ["/one", "/two", "/three"] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\napikey: k\r\n\r\n");
        assert_eq!(gateway.client().request(&request).expect("an answer").status(), 501, "{path}");
    }
    // Global ones close all.
    let text =
        format!("_format_version: '3.0'\nservices:\n{}plugins: [{{name: my-guard}}]\n", service("one", ""));
    let gateway = Gateway::start_from("kong", &text);
    assert_eq!(gateway.client().get("h", "/one").expect("an answer").status(), 501);
}

/// Guards that depend on who asks, over which protocol, and how a path is written.
#[test]
fn doors_beside_the_guards() {
    let upstream = Upstream::start();
    let address = upstream.address;
    let text = format!(
        "_format_version: '3.0'\nservices:\n- name: s\n  url: http://{address}/base\n  routes:\n\
         \x20 - {{name: both, paths: [/both], plugins: [{{name: key-auth, config: {{anonymous: anon}}}}, \
         {{name: basic-auth, config: {{anonymous: anon}}}}, {{name: acl, config: {{deny: [g1]}}}}]}}\n\
         \x20 - {{name: named, paths: [/named], snis: [a.com], plugins: [{{name: key-auth}}]}}\n\
         \x20 - {{name: slash, paths: ['~/u/[^/]+/secret$'], plugins: [{{name: key-auth}}]}}\n\
         \x20 - {{name: near, paths: [/near], plugins: [{{name: ip-restriction, config: {{deny: [127.0.0.1/32]}}}}]}}\n\
         \x20 - {{name: open, paths: [/]}}\n\
         consumers:\n- {{username: anon}}\n\
         - {{username: al, basicauth_credentials: [{{username: al, password: p, skip_hash: true}}], acls: [{{group: g1}}]}}\n"
    );
    let gateway = Gateway::start_from("kong", &text);
    for (target, field, expected) in [
        ("/both", "Authorization: Basic YWw6cA==", 501),
        ("/named", "A: b", 401),
        ("/u/x%2fy/secret", "A: b", 401),
        ("/u/%2f/secret", "A: b", 401),
        ("/u/x/secret", "A: b", 401),
        ("/near", "X-Real-IP: 9.9.9.9", 403),
        ("/else", "A: b", 200),
    ] {
        let request = format!("GET {target} HTTP/1.1\r\nHost: h\r\n{field}\r\n\r\n");
        let answer = gateway.client().request(&request).expect("an answer");
        assert_eq!(answer.status(), expected, "{target} {field}: {}", gateway.error_log());
    }
    // A path with a line feed stays below that of the service.
    upstream.take();
    assert_eq!(gateway.client().get("h", "/x%0ay").expect("an answer").status(), 200);
    let seen = upstream.take();
    assert!(seen.iter().all(|request| request.text().contains("GET /base/x%0Ay")), "{seen:?}");
}

/// `kong config db_export` writes hashes in the place of passwords.
#[test]
fn a_hash_is_not_a_password() {
    let upstream = Upstream::start();
    let text = format!(
        "_format_version: '3.0'\n_transform: false\nservices:\n- {{name: s, url: 'http://{}', routes: [{{name: a, paths: [/a], \
         plugins: [{{name: basic-auth}}]}}]}}\nconsumers:\n- {{username: u, basicauth_credentials: [{{username: a, password: b3f070}}]}}\n",
        upstream.address
    );
    let gateway = Gateway::start_from("kong", &text);
    // a:b3f070
    let request = "GET /a HTTP/1.1\r\nHost: h\r\nAuthorization: Basic YTpiM2YwNzA=\r\n\r\n";
    let answer = gateway.client().request(request).expect("an answer");
    assert!(matches!(answer.status(), 401 | 501), "{}", answer.status());
}

/// Guards whose order or end is another one here.
#[test]
fn guards_that_end_or_come_later_close() {
    let text = "_format_version: '3.0'\nservices: [{name: s, host: h, routes: [{name: r, paths: [/], plugins: [\
                {name: request-termination, config: {status_code: 200}}, @GUARD@]}]}]\n";
    for guard in [
        "{name: ip-restriction, config: {deny: [127.0.0.1]}}",
        "{name: acl, config: {allow: [a]}}",
        "{name: bot-detection}",
        "{name: rate-limiting, config: {minute: 1}}",
        "{name: request-size-limiting, config: {allowed_payload_size: 1}}",
    ] {
        let (_, objects, report) = import(&[], &text.replace("@GUARD@", guard), &[]);
        assert!(
            objects.contains("closed by import (r)") && report.contains("request-termination answers before"),
            "{guard}: {report}"
        );
    }
    let text = "_format_version: '3.0'\nconsumers:\n- {username: a, keyauth_credentials: [{key: kept}, {key: ended, ttl: 60}]}\n\
                keyauth_credentials:\n- {key: loose, consumer: a, ttl: 1}\n";
    let (_, objects, report) = import(&[], text, &[]);
    assert!(
        objects.contains("kept") && !objects.contains("ended") && !objects.contains("loose"),
        "{objects}"
    );
    assert!(report.contains("kong.yaml:3: closed: consumer a: keyauth_credentials: `ttl`"), "{report}");
}

/// Who the client is decides for itself only where config.yaml says so.
#[test]
fn addresses_are_believed_as_written() {
    let upstream = Upstream::start();
    let text = format!(
        "_format_version: '3.0'\nservices: [{{name: s, url: 'http://{}', routes: [{{name: r, paths: [/], plugins: [\
         {{name: ip-restriction, config: {{allow: [9.9.9.9]}}}}]}}]}}]\n",
        upstream.address
    );
    let ask = |config: &str| {
        let gateway = Gateway::start_from_with(config, "kong", &text);
        let request = "GET / HTTP/1.1\r\nHost: h\r\nX-Real-IP: 9.9.9.9\r\n\r\n";
        gateway.client().request(request).expect("an answer").status()
    };
    let with = |keys: &str| YAML_PROVIDER.replace("http: {", &format!("http: {{{keys}, "));
    assert_eq!(ask(YAML_PROVIDER), 403, "not the default of APISIX");
    assert_eq!(ask(&with("real_ip_header: X-Real-IP")), 403);
    assert_eq!(ask(&with("real_ip_from: [10.0.0.1]")), 403);
    assert_eq!(ask(&with("real_ip_from: [127.0.0.1]")), 200, "the operator wrote it");
}
