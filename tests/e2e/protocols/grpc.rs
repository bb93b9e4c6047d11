//! gRPC through the gateway: all kinds of calls, errors, nodes that send GOAWAY, and the two plugins that translate.

use std::time::Duration;

use tidegate_testkit::gateway::YAML_PROVIDER;
use tidegate_testkit::{Client, Gateway};

use crate::protocols::grpc_peer::{Caller, Server, message, runtime};

fn gateway(server: &Server, more: &str) -> Gateway {
    let upstream = format!(
        "upstream: {{scheme: grpc, type: roundrobin, nodes: {{\"{}\": 1}}, timeout: {{connect: 5, send: 5, read: 5}}}}",
        server.address
    );
    let routes =
        format!("routes:\n- {{id: all, uri: /*, {upstream}}}\n{}", more.replace("@UPSTREAM@", &upstream));
    Gateway::start(YAML_PROVIDER, Some(&routes))
}

#[test]
fn calls_of_all_kinds() {
    let server = Server::start();
    let gateway = gateway(&server, "");
    runtime().block_on(async {
        let caller = Caller::connect(gateway.http).await;
        let large = vec![b'x'; 300_000];
        let cases: &[(&str, &[&[u8]], bool)] = &[
            ("/e.Echo/Unary", &[b"hello"], false),
            ("/e.Echo/Empty", &[b""], false),
            ("/e.Echo/Large", &[&large], false),
            ("/e.Echo/Client", &[b"one", b"two", b"three"], false),
            // The second message is sent when the first has come back.
            ("/e.Echo/Both", &[b"one", b"two", b"three"], true),
        ];
        for (path, messages, in_turn) in cases {
            let answer = caller.call(path, messages, *in_turn).await;
            let expected: Vec<u8> = messages.iter().flat_map(|bytes| message(bytes)).collect();
            assert_eq!((answer.status, answer.reset), (200, None), "{path}: {answer:?}");
            assert!(answer.body == expected, "{path}: {} bytes", answer.body.len());
            assert_eq!(answer.headers["content-type"], "application/grpc", "{path}");
            assert_eq!(answer.trailers["grpc-status"], "0", "{path}: {answer:?}");
            // The request's trailers made it to the server and back.
            assert_eq!(answer.trailers["x-sent"], messages.len().to_string(), "{path}");
        }
        let parallel: Vec<_> = (0..50)
            .map(|number| {
                let caller = caller.clone();
                tokio::spawn(async move {
                    let text = format!("message {number}");
                    let answer = caller.call("/e.Echo/Both", &[text.as_bytes(), b"end"], true).await;
                    assert_eq!(answer.body, [message(text.as_bytes()), message(b"end")].concat());
                })
            })
            .collect();
        for one in parallel {
            one.await.expect("as the others");
        }
    });
    assert_eq!(server.connections(), 1, "all calls share a connection to the node");
}

#[test]
fn errors_and_fields() {
    let server = Server::start();
    let gateway = gateway(&server, "");
    runtime().block_on(async {
        let caller = Caller::connect(gateway.http).await;
        let failed = caller.call("/e.Echo/Fail", &[b"x"], false).await;
        assert_eq!((failed.status, failed.headers["grpc-status"].as_str()), (200, "9"), "{failed:?}");
        assert_eq!(failed.headers["grpc-message"], "as asked");
        assert!(failed.body.is_empty() && !failed.headers.contains_key("content-length"), "{failed:?}");

        let fields = caller.call("/e.Echo/Fields", &[b"x"], false).await;
        let text = String::from_utf8_lossy(&fields.body[5..]).into_owned();
        assert_eq!(text, "grpc.test trailers application/grpc 1234m kept - -");

        let broken = caller.call("/e.Echo/Break", &[b"x"], false).await;
        assert!(broken.reset.is_some(), "an answer that is cut must not look whole: {broken:?}");

        // The node answers nothing in the time that the upstream has.
        let late = caller.call("/e.Echo/Silent", &[b"x"], false).await;
        assert_eq!(late.status, 504, "{late:?}");
    });
}

#[test]
fn a_stream_that_was_never_begun_is_sent_again() {
    let server = Server::start();
    let gateway = gateway(&server, "");
    runtime().block_on(async {
        let caller = Caller::connect(gateway.http).await;
        // Without a body, since one that has been passed on is gone.
        let answer = caller.call("/e.Echo/RefuseFirst", &[], false).await;
        assert_eq!((answer.status, answer.reset), (200, None), "{answer:?}");
        assert_eq!(answer.headers["x-call"], "1");
    });
    assert_eq!(server.calls(), 2);
}

#[test]
fn a_call_whose_message_is_gone_is_not_sent_again() {
    let server = Server::start();
    let gateway = gateway(&server, "");
    runtime().block_on(async {
        let caller = Caller::connect(gateway.http).await;
        let answer = caller.call("/e.Echo/RefuseLate", &[b"whole"], false).await;
        assert_eq!(answer.status, 502, "{answer:?}");
    });
    // Not an empty message instead.
    assert_eq!(server.calls(), 1);
}

#[test]
fn goaway_costs_nothing() {
    let server = Server::start();
    let gateway = gateway(&server, "");
    runtime().block_on(async {
        let caller = Caller::connect(gateway.http).await;
        for round in 0..5 {
            let last = caller.call("/e.Echo/Goodbye", &[b"last"], false).await;
            assert_eq!((last.status, last.body), (200, message(b"last")), "round {round}");
            let next = caller.call("/e.Echo/Unary", &[b"next"], false).await;
            assert_eq!((next.status, next.body), (200, message(b"next")), "round {round}");
        }
    });
    assert_eq!(server.connections(), 6);
}

#[test]
fn a_client_that_cancels_frees_the_node() {
    let server = Server::start();
    let gateway = gateway(&server, "");
    runtime().block_on(async {
        let caller = Caller::connect(gateway.http).await;
        let call = caller.call("/e.Echo/Silent", &[b"x"], false);
        assert!(tokio::time::timeout(Duration::from_millis(100), call).await.is_err());
        // More than one connection may carry at once, were the streams still held.
        let calls: Vec<_> = (0..90)
            .map(|_| {
                let caller = caller.clone();
                tokio::spawn(async move { caller.call("/e.Echo/Unary", &[b"y"], false).await.status })
            })
            .collect();
        for call in calls {
            assert_eq!(call.await.expect("answers"), 200);
        }
    });
    assert_eq!(server.connections(), 1);
}

#[test]
fn nothing_listens() {
    let port = tidegate_testkit::free_port();
    let routes = format!(
        "routes:\n- {{id: 1, uri: /*, upstream: {{scheme: grpc, type: roundrobin, nodes: {{\"127.0.0.1:{port}\": 1}}}}}}\n"
    );
    let gateway = Gateway::start(YAML_PROVIDER, Some(&routes));
    runtime().block_on(async {
        let caller = Caller::connect(gateway.http).await;
        let answer = caller.call("/e.Echo/Unary", &[b"x"], false).await;
        assert_eq!(
            (answer.status, answer.headers["content-type"].as_str()),
            (502, "text/html; charset=utf-8")
        );
    });
}

fn post(client: &mut Client, path: &str, kind: &str, body: &[u8]) -> tidegate_testkit::Message {
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: h\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n"
    );
    client.send(&[head.as_bytes(), body].concat()).expect("sends");
    client.response_to("POST").unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn grpc_web() {
    let server = Server::start();
    let gateway = gateway(&server, "- {id: web, uri: /web/*, plugins: {grpc-web: {}}, @UPSTREAM@}\n");
    let mut client = gateway.client();
    let sent = message(b"hello");
    let trailers = b"\x80\0\0\0\x1egrpc-status:0\r\ngrpc-message:\r\n";

    let answer = post(&mut client, "/web/e.Echo/Unary", "application/grpc-web+proto", &sent);
    assert_eq!(answer.status(), 200, "{answer:?}");
    assert_eq!(answer.header("content-type"), Some("application/grpc-web+proto"));
    assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
    assert_eq!(answer.header("access-control-expose-headers"), Some("grpc-message,grpc-status"));
    assert_eq!(answer.body, [&sent[..], trailers].concat());

    // In base64: each piece is encoded for itself.
    let answer = post(&mut client, "/web/e.Echo/Unary", "application/grpc-web-text", b"AAAAAAVoZWxsbw==");
    let trailers = "gAAAAB5ncnBjLXN0YXR1czowDQpncnBjLW1lc3NhZ2U6DQo=";
    assert_eq!(answer.body_text(), format!("AAAAAAVoZWxsbw=={trailers}"));

    // The status is in the head, and the body stays empty.
    let answer = post(&mut client, "/web/e.Echo/Fail", "application/grpc-web", &sent);
    assert_eq!((answer.status(), answer.header("grpc-status")), (200, Some("9")), "{answer:?}");
    assert_eq!(answer.body_text(), "");

    let statuses = [("application/json", &sent[..], 400), ("application/grpc-web-text", b"!!", 400)];
    for (kind, body, status) in statuses {
        assert_eq!(post(&mut client, "/web/e.Echo/Unary", kind, body).status(), status, "{kind}");
    }
    assert_eq!(client.get("h", "/web/e.Echo/Unary").expect("answers").status(), 405);
    let preflight = client.request("OPTIONS /web/e.Echo/Unary HTTP/1.1\r\nHost: h\r\n\r\n").expect("answers");
    assert_eq!(preflight.status(), 204);
    assert_eq!(preflight.header("access-control-allow-methods"), Some("POST"));
    assert_eq!(
        preflight.header("access-control-allow-headers"),
        Some("content-type,x-grpc-web,x-user-agent")
    );
}

const PROTO: &str = "syntax = \\\"proto3\\\"; package helloworld; \
    service Greeter { rpc SayHello (HelloRequest) returns (HelloReply) {} rpc Fail (HelloRequest) returns (HelloReply) {} rpc FailWithDetails (HelloRequest) returns (HelloReply) {} } \
    message HelloRequest { string name = 1; int32 age = 2; } message HelloReply { string message = 1; repeated string items = 2; }";

#[test]
fn grpc_transcode() {
    let server = Server::start();
    let route = |id: &str, conf: &str| {
        format!(
            "- {{id: {id}, uri: /{id}, plugins: {{grpc-transcode: {{proto_id: \"1\", service: helloworld.Greeter, {conf}}}}}, @UPSTREAM@}}\n"
        )
    };
    let more = [
        route("hello", "method: SayHello"),
        route("fail", "method: Fail"),
        route("missing", "method: Nothing"),
        format!("protos:\n- {{id: \"1\", content: \"{PROTO}\"}}\n"),
    ]
    .concat();
    let gateway = gateway(&server, &more);
    let mut client = gateway.client();
    let hello = "{\"message\":\"Hello world\",\"items\":[]}";
    let check = |answer: tidegate_testkit::Message| {
        assert_eq!((answer.status(), answer.body_text().as_str()), (200, hello), "{answer:?}");
        assert_eq!(answer.header("content-type"), Some("application/json"));
    };
    check(client.get("h", "/hello?name=world").expect("answers"));
    check(post(&mut client, "/hello", "application/json", b"{\"name\": \"world\"}"));
    check(post(&mut client, "/hello", "application/x-www-form-urlencoded", b"name=world"));
    let bad = post(&mut client, "/hello", "application/json", b"{\"name\": {\"a\": 1}}");
    assert_eq!(bad.status(), 400);
    assert_eq!(client.get("h", "/missing").expect("answers").status(), 503);
    // FAILED_PRECONDITION
    let failed = client.get("h", "/fail?name=x").expect("answers");
    assert_eq!((failed.status(), failed.header("grpc-message")), (400, Some("as asked")), "{failed:?}");
}

#[test]
fn grpc_transcode_as_configured() {
    let server = Server::start();
    let route = |id: &str, conf: &str| {
        format!(
            "- {{id: {id}, uri: /{id}, plugins: {{grpc-transcode: {{proto_id: \"1\", service: helloworld.Greeter, {conf}}}}}, @UPSTREAM@}}\n"
        )
    };
    let more = [
        route("hello", "method: SayHello, deadline: 1500, pb_option: [no_default_values]"),
        route("short", "method: SayHello, max_resp_body_size: 10"),
        route("fail", "method: FailWithDetails, show_status_in_body: true"),
        route(
            "why",
            "method: FailWithDetails, show_status_in_body: true, status_detail_type: helloworld.HelloReply",
        ),
        format!("protos:\n- {{id: \"1\", content: \"{PROTO}\"}}\n"),
    ]
    .concat();
    let gateway = gateway(&server, &more);
    let get = |target: &str| gateway.client().get("h", target).expect("an answer");
    let hello = get("/hello?name=world");
    assert_eq!((hello.status(), hello.body_text().as_str()), (200, "{\"message\":\"Hello world\"}"));
    assert_eq!(hello.header("x-timeout"), Some("1500m"));
    assert_eq!(get("/short?name=world").status(), 502);
    let fail = get("/fail");
    assert!(fail.status() == 400 && fail.body_text().contains("\"message\":\"as asked\""), "{fail:?}");
    assert!(get("/why").body_text().contains("\"message\":\"why\""), "{:?}", get("/why"));
}

#[test]
fn a_real_server_with_and_without_tls() {
    let folder = tempfile::tempdir().expect("a folder");
    let key = rcgen::KeyPair::generate().expect("a key");
    let params = rcgen::CertificateParams::new(vec!["node.test".to_owned()]).expect("a name");
    let cert = params.self_signed(&key).expect("a certificate");
    let (cert_file, key_file) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    std::fs::write(&cert_file, cert.pem()).expect("cert.pem");
    std::fs::write(&key_file, key.serialize_pem()).expect("key.pem");
    let (plain, secure) = (tidegate_testkit::free_port(), tidegate_testkit::free_port());
    let nginx = tidegate_testkit::servers::nginx(&format!(
        "listen 127.0.0.1:{plain} http2; listen 127.0.0.1:{secure} ssl http2; ssl_certificate {}; \
         ssl_certificate_key {}; location / {{ return 200 \"$server_protocol $https $http_te\"; }}",
        cert_file.display(),
        key_file.display()
    ));
    let node = |scheme: &str, port: u16| {
        format!("upstream: {{scheme: {scheme}, type: roundrobin, nodes: {{\"127.0.0.1:{port}\": 1}}}}")
    };
    let routes = format!(
        "routes:\n- {{id: 1, uri: /plain, {}}}\n- {{id: 2, uri: /secure, {}}}\n",
        node("grpc", plain),
        node("grpcs", secure)
    );
    let gateway = Gateway::start(YAML_PROVIDER, Some(&routes));
    for round in 0..3 {
        for (path, expected) in [("/plain", "HTTP/2.0  trailers"), ("/secure", "HTTP/2.0 on trailers")] {
            let answer = gateway.client().get("node.test", path).expect("answers");
            assert_eq!((answer.status(), answer.body_text().as_str()), (200, expected), "{path} {round}");
        }
    }
    drop(nginx);
}

const RULES: &str = r#"syntax = "proto3";
package helloworld;
import "google/api/annotations.proto";
service Greeter {
  rpc SayHello (HelloRequest) returns (HelloReply) {
    option (google.api.http) = { get: "/v1/hello/{name}" additional_bindings { post: "/v1/hello" body: "*" } };
  }
}
message HelloRequest { string name = 1; int32 age = 2; }
message HelloReply { string message = 1; repeated string items = 2; }
"#;

#[test]
fn the_http_rules_of_kongs_grpc_gateway() {
    let server = Server::start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("hello.proto");
    std::fs::write(&file, RULES).expect("written");
    let gateway = Gateway::start_from(
        "kong",
        &format!(
            "_format_version: '3.0'\nservices:\n- {{name: g, url: 'grpc://{}', routes: [{{name: r, paths: [/], \
             plugins: [{{name: grpc-gateway, config: {{proto: {}}}}}]}}]}}\n",
            server.address,
            file.display()
        ),
    );
    gateway.process.wait_for_output("approximated: plugin grpc-gateway");
    let mut client = gateway.client();
    let hello = |name: &str| format!("{{\"message\":\"Hello {name}\",\"items\":[]}}");
    for (target, name) in
        [("/v1/hello/world", "world"), ("/v1/hello/a%20b", "a b"), ("/v1/hello/path?name=query", "path")]
    {
        let answer = client.get("h", target).expect("answers");
        assert_eq!(
            (answer.status(), answer.body_text()),
            (200, hello(name)),
            "{target} {}",
            gateway.error_log()
        );
    }
    let answer = post(&mut client, "/v1/hello", "application/json", b"{\"name\": \"body\"}");
    assert_eq!((answer.status(), answer.body_text()), (200, hello("body")));
    for target in ["/v1/hello", "/v1/hello/a/b", "/"] {
        assert_eq!(client.get("h", target).expect("answers").status(), 400, "{target}");
    }
}
