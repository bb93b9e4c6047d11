//! Functions of other systems: what they are asked, with whose credentials, and what the client gets of their answers.

use serde_json::{Value, json};
use tidegate_testkit::gateway::{EMBEDDED, YAML_PROVIDER};
use tidegate_testkit::{Behaviour, Client, Gateway, Message, Upstream};

/// Answers with what it was asked, besides fields of its own.
fn echo() -> Upstream {
    Upstream::with(|_| {
        let answer = Upstream::answer(|request| {
            let body = format!("{} {}", request.method(), request.target());
            let fields =
                "Set-Cookie: a=1\r\nSet-Cookie: b=2\r\nConnection: X-Hop\r\nX-Hop: 1\r\nContent-Type: text/x";
            format!("HTTP/1.1 201 Made\r\n{fields}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
                .into_bytes()
        });
        Behaviour { read_body: true, steps: vec![answer] }
    })
}

fn gateway(routes: &[(&str, &str, Value)], metadata: &Value) -> Gateway {
    let routes: Vec<Value> =
        routes.iter().map(|(id, uri, plugins)| json!({"id": id, "uri": uri, "plugins": plugins})).collect();
    let objects = json!({"routes": routes, "plugin_metadata": metadata});
    Gateway::start(YAML_PROVIDER, Some(&objects.to_string()))
}

fn send(gateway: &Gateway, method: &str, target: &str, fields: &str, body: &str) -> Message {
    let length = body.len();
    let text =
        format!("{method} {target} HTTP/1.1\r\nHost: h\r\n{fields}Content-Length: {length}\r\n\r\n{body}");
    gateway.client().request(&text).unwrap_or_else(|error| panic!("{target}: {error}"))
}

#[test]
fn requests_go_to_the_function_as_they_are() {
    let function = echo();
    let at = function.address;
    let conf = |path: &str| json!({"function_uri": format!("http://{at}{path}"), "max_req_body_size": 10});
    let gateway = gateway(
        &[
            ("one", "/one", json!({"azure-functions": conf("/api/f?code=k")})),
            ("rest", "/rest/*", json!({"openfunction": conf("/f")})),
            ("lambda", "/lambda", json!({"aws-lambda": conf("")})),
        ],
        &json!([]),
    );
    let fields = "X-Own: 1\r\nConnection: X-Hop\r\nX-Hop: 1\r\n";
    let answer = send(&gateway, "PUT", "/one?a=1", fields, "0123456789");
    assert_eq!((answer.status(), answer.body_text().as_str()), (201, "PUT /api/f?code=k&a=1"));
    assert_eq!(answer.header("Content-Type"), Some("text/x"));
    assert_eq!(answer.header("X-Hop"), None);
    assert_eq!(answer.count("Set-Cookie"), 2);
    let answer = send(&gateway, "DELETE", "/rest/x%20y/z", "", "");
    assert_eq!(answer.body_text(), "DELETE /f/x%20y/z");
    assert_eq!(send(&gateway, "GET", "/lambda", "", "").body_text(), "GET /");
    for target in ["/one", "/rest/a", "/lambda"] {
        assert_eq!(send(&gateway, "POST", target, "", "0123456789a").status(), 400, "{target}: too large");
    }
    let seen = function.seen();
    assert_eq!(seen.len(), 3);
    let first = &seen[0].message;
    assert_eq!((first.header("X-Own"), first.header("X-Hop")), (Some("1"), None));
    assert_eq!(
        (first.header("Host"), first.body_text().as_str()),
        (Some(at.to_string().as_str()), "0123456789")
    );
}

#[test]
fn credentials_of_the_configuration_or_the_client() {
    let function = echo();
    let with = |authorization: Value| json!({"function_uri": format!("http://{}/f", function.address), "authorization": authorization});
    let plain = json!({"function_uri": format!("http://{}/f", function.address)});
    let iam = json!({"accesskey": "AKID", "secretkey": "secret", "service": "lambda"});
    let gateway = gateway(
        &[
            ("azure", "/azure", json!({"azure-functions": with(json!({"apikey": "k", "clientid": "c"}))})),
            ("master", "/master", json!({"azure-functions": plain})),
            ("open", "/open", json!({"openfunction": with(json!({"service_token": "test:test"}))})),
            ("key", "/key", json!({"aws-lambda": with(json!({"apikey": "k", "iam": iam}))})),
            ("iam", "/iam", json!({"aws-lambda": with(json!({"iam": iam}))})),
        ],
        &json!([{"id": "azure-functions", "master_apikey": "m"}]),
    );
    let own = "X-Functions-Key: own\r\nX-Api-Key: own\r\nAuthorization: own\r\nX-Amz-Date: own\r\n";
    for (target, fields) in [
        ("/azure", ""),
        ("/azure", own),
        ("/master", ""),
        ("/master", "X-Functions-Clientid: own\r\n"),
        ("/open", own),
        ("/key", ""),
        ("/key", own),
        ("/iam", own),
        ("/iam?b=2&a=%2f", "X-Amz-Date: own\r\n"),
    ] {
        assert_eq!(send(&gateway, "GET", target, fields, "").status(), 201, "{target}");
    }
    let seen = function.seen();
    let field = |at: usize, name: &str| seen[at].message.header(name).map(str::to_owned);
    let keys = |at: usize| (field(at, "X-Functions-Key"), field(at, "X-Functions-Clientid"));
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(keys(0), (some("k"), some("c")));
    assert_eq!(keys(1), (some("own"), None));
    assert_eq!(keys(2), (some("m"), None));
    assert_eq!(keys(3), (None, some("own")));
    assert_eq!(field(4, "Authorization"), some("Basic dGVzdDp0ZXN0"));
    assert_eq!((field(5, "X-Api-Key"), field(5, "Authorization")), (some("k"), None));
    assert_eq!((field(6, "X-Api-Key"), field(6, "Authorization")), (some("own"), some("own")));
    assert_eq!((field(7, "Authorization"), field(7, "X-Amz-Date")), (some("own"), some("own")));
    let (signature, date) =
        (field(8, "Authorization").expect("signed"), field(8, "X-Amz-Date").expect("a date"));
    let start = format!(
        "AWS4-HMAC-SHA256 Credential=AKID/{}/us-east-1/lambda/aws4_request, SignedHeaders=host;x-amz-date, Signature=",
        &date[..8]
    );
    let signed = seen[8].message.header("Host").expect("a host");
    let expected = signature_of(
        "secret",
        &date,
        &format!("GET\n/f\na=%2F&b=2\nhost:{signed}\nx-amz-date:{date}\n\nhost;x-amz-date\n"),
    );
    assert_eq!(signature, start + &expected);
    assert_eq!(seen[8].message.target(), "/f?a=%2F&b=2");
}

/// Signature 4 of AWS for Lambda in us-east-1, of a request without a body.
fn signature_of(secret: &str, date: &str, request: &str) -> String {
    use aws_lc_rs::{digest, hmac};
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let hash = |text: &str| hex(digest::digest(&digest::SHA256, text.as_bytes()).as_ref());
    let scope = format!("{}/us-east-1/lambda/aws4_request", &date[..8]);
    let request = hash(&(request.to_owned() + &hash("")));
    let text = format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{request}");
    let tag = |key: Vec<u8>, text: &str| {
        hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &key), text.as_bytes()).as_ref().to_vec()
    };
    hex(&scope.split('/').chain([text.as_str()]).fold(format!("AWS4{secret}").into_bytes(), tag))
}

#[test]
fn functions_that_do_not_answer() {
    let url = "http://127.0.0.1:1/";
    let whisk = json!({"api_host": url, "service_token": "a:b", "namespace": "n", "action": "a"});
    let silent =
        Upstream::with(|_| Behaviour { read_body: true, steps: vec![tidegate_testkit::Step::Silence] });
    let gateway = gateway(
        &[
            ("away", "/away", json!({"azure-functions": {"function_uri": url}})),
            ("whisk", "/whisk", json!({"openwhisk": whisk})),
            (
                "silent",
                "/silent",
                json!({"aws-lambda": {"function_uri": format!("http://{}", silent.address), "timeout": 100}}),
            ),
        ],
        &json!([]),
    );
    for target in ["/away", "/whisk", "/silent"] {
        assert_eq!(send(&gateway, "POST", target, "", "x").status(), 503, "{target}");
    }
    gateway.wait_for_log("failed to process openwhisk, err: ");
    assert_eq!(silent.seen().len(), 1, "a function is asked once");
}

#[test]
fn actions_of_openwhisk() {
    let host = Upstream::service(|request| {
        let action =
            request.target().split(['/', '?']).find(|part| part.starts_with("do-")).unwrap_or_default();
        let result = match action {
            "do-plain" => json!({"hello": "world"}).to_string(),
            "do-all" => json!({"statusCode": 403, "headers": {"X-A": "b"}, "body": "no"}).to_string(),
            "do-text" => "not json".to_owned(),
            _ => json!({"statusCode": 99}).to_string(),
        };
        (200, result)
    });
    let conf = |action: &str| {
        json!({"openwhisk": {
            "api_host": format!("http://{}/", host.address), "service_token": "test:test", "namespace": "a b",
            "package": "pkg", "action": action, "result": false, "timeout": 2000, "max_req_body_size": 4
        }})
    };
    let names = ["do-plain", "do-all", "do-text", "do-odd"];
    let uris = names.map(|name| format!("/{name}"));
    let routes: Vec<(&str, &str, Value)> =
        names.iter().zip(&uris).map(|(name, uri)| (*name, uri.as_str(), conf(name))).collect();
    let gateway = gateway(&routes, &json!([]));
    let answer = send(&gateway, "GET", "/do-plain?x=1", "Authorization: own\r\n", "body");
    assert_eq!((answer.status(), answer.body_text().as_str()), (200, r#"{"hello":"world"}"#));
    let asked = &host.seen()[0].message;
    let target = "/api/v1/namespaces/a%20b/actions/pkg/do-plain?blocking=true&result=false&timeout=2000";
    assert_eq!((asked.method(), asked.target()), ("POST", target));
    assert_eq!(asked.header("Authorization"), Some("Basic dGVzdDp0ZXN0"));
    assert_eq!(asked.header("Content-Type"), Some("application/json"));
    assert_eq!(asked.body_text(), "body");
    let answer = send(&gateway, "GET", "/do-all", "", "");
    assert_eq!((answer.status(), answer.header("X-A"), answer.body_text().as_str()), (403, Some("b"), "no"));
    assert_eq!(send(&gateway, "GET", "/do-text", "", "").status(), 503);
    assert_eq!(send(&gateway, "GET", "/do-odd", "", "").status(), 503);
    assert_eq!(send(&gateway, "GET", "/do-plain", "", "large").status(), 413);
}

#[test]
fn what_cannot_be_asked_is_refused_when_it_is_written() {
    let gateway = Gateway::start(EMBEDDED, None);
    for conf in [
        json!({"azure-functions": {"function_uri": "function.example"}}),
        json!({"aws-lambda": {"function_uri": "ftp://function.example"}}),
        json!({"openfunction": {"function_uri": "http://f", "authorization": {"service_token": 7}}}),
        json!({"openwhisk": {"api_host": "host", "service_token": "a", "namespace": "n", "action": "a"}}),
        json!({"openwhisk": {"api_host": "http://h", "service_token": "a", "namespace": "n/m", "action": "a"}}),
    ] {
        let route = json!({"uri": "/f", "plugins": conf}).to_string();
        let (status, answer) = gateway.admin("PUT", "/apisix/admin/routes/1", &route);
        assert_eq!(status, 400, "{conf}: {answer}");
    }
}

/// A client that takes large answers slowly holds an eighth of the memory for them, and one answer in any case.
#[test]
fn a_slow_reader_leaves_memory_for_the_answers_of_others() {
    let function = Upstream::with(|_| {
        let answer = Upstream::answer(|_| {
            let body = vec![b'a'; 9_000_000];
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
            [head.into_bytes(), body].concat()
        });
        Behaviour { read_body: true, steps: vec![answer] }
    });
    let plugins =
        json!({"aws-lambda": {"function_uri": format!("http://{}/", function.address), "timeout": 60_000}});
    let routes = json!({"routes": [{"id": "large", "uri": "/large", "plugins": plugins}]});
    let config = YAML_PROVIDER.replacen("apisix:\n", "apisix:\n  plugin_answer_memory: 64m\n", 1);
    let gateway = Gateway::start(&config, Some(&routes.to_string()));
    let from =
        |last: u8| Client::connect_from(([127, 0, 0, last], 0).into(), gateway.http).expect("connects");
    let mut slow: Vec<Client> = (0..6).map(|_| from(50)).collect();
    for client in &mut slow {
        client.send(b"GET /large HTTP/1.1\r\nHost: h\r\n\r\n").expect("sends");
    }
    let begun: Vec<String> = slow
        .iter_mut()
        .map(|client| String::from_utf8_lossy(&client.exactly(12).expect("an answer")).into_owned())
        .collect();
    assert!(begun.iter().any(|line| line == "HTTP/1.1 200"), "{begun:?}");
    for _ in 0..3 {
        let answer = from(9).get("h", "/large").expect("an answer");
        assert_eq!((answer.status(), answer.body.len()), (200, 9_000_000), "beside {begun:?}");
    }
}
