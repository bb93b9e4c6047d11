//! Guards in Lua judge what the upstream will read, or refuse: bytes that are not UTF-8, JSON that other readers take, names
//! in another case.

use serde_json::{Value, json};
use tidegate_testkit::gateway::EMBEDDED;
use tidegate_testkit::{Behaviour, Gateway, Upstream};

use super::put;

fn guarded(gateway: &Gateway, id: &str, body: &str) {
    let source = format!("local cjson = require('cjson.safe') return function(conf, ctx) {body} end");
    let plugins = json!({"serverless-pre-function": {"phase": "rewrite", "functions": [source]},
                         "mocking": {"response_example": "SECRET"}});
    let route = json!({"uri": format!("/{id}*"), "plugins": plugins});
    put(gateway, &format!("routes/{id}"), &route.to_string());
}

fn status_of(gateway: &Gateway, head: &[u8], body: &[u8]) -> u16 {
    let mut client = gateway.client();
    let length = format!("Host: h\r\nContent-Length: {}\r\n\r\n", body.len());
    client.send(&[head, length.as_bytes(), body].concat()).expect("sends");
    client.response().expect("an answer").status()
}

#[test]
fn expressions_see_bytes() {
    let gateway = Gateway::start(EMBEDDED, None);
    guarded(&gateway, "path", "if ngx.re.find(ngx.var.uri, 'secret', 'jo') then return 403 end");
    let agent =
        "if ngx.re.match(ngx.req.get_headers()['user-agent'] or '', 'bad(\\\\w+)') then return 403 end";
    guarded(&gateway, "agent", agent);
    guarded(
        &gateway,
        "args",
        "if ngx.re.find(ngx.unescape_uri(ngx.var.args or ''), 'secret') then return 403 end",
    );
    guarded(
        &gateway,
        "place",
        "local m, e = ngx.re.find(ngx.unescape_uri(ngx.var.args), 'b+') return 200 + m, e",
    );
    guarded(&gateway, "far", "if ngx.re.match(ngx.var.args or '', '(?<!x)admin=1') then return 403 end");
    let cases: [(&[u8], u16); 11] = [
        (b"GET /path/secret HTTP/1.1\r\n", 403),
        (b"GET /path/secret%ff HTTP/1.1\r\n", 403),
        (b"GET /path/%ff/secret HTTP/1.1\r\n", 403),
        (b"GET /path/%ff HTTP/1.1\r\n", 200),
        (b"GET /agent HTTP/1.1\r\nUser-Agent: badbot\r\n", 403),
        (b"GET /agent HTTP/1.1\r\nUser-Agent: \xffbadbot\xfe\r\n", 403),
        (b"GET /agent HTTP/1.1\r\nUser-Agent: good\xff\r\n", 200),
        (b"GET /args?x=secret%ff HTTP/1.1\r\n", 403),
        // Places are those of bytes.
        (b"GET /place?%ff%c3%a9bb HTTP/1.1\r\n", 204),
        (b"GET /far?admin=1 HTTP/1.1\r\n", 403),
        (b"GET /far?x HTTP/1.1\r\n", 200),
    ];
    for (head, expected) in cases {
        let shown = String::from_utf8_lossy(head).into_owned();
        assert_eq!(status_of(&gateway, head, b""), expected, "{shown} {}", gateway.error_log());
    }
    let long = format!("GET /far?admin=1&{} HTTP/1.1\r\n", "a".repeat(9_000));
    assert_eq!(status_of(&gateway, long.as_bytes(), b""), 500, "what takes too much is refused");
    gateway.wait_for_log("bytes are too many for this expression");
}

#[test]
fn documents_that_other_readers_take_do_not_pass() {
    let gateway = Gateway::start(EMBEDDED, None);
    let decode = "ngx.req.read_body() local t = cjson.decode(ngx.req.get_body_data() or '') \
                  if t and t.role == 'admin' then return 403 end";
    guarded(&gateway, "json", decode);
    let deep = format!("{{\"role\":\"admin\",\"d\":{}{}}}", "[".repeat(900), "]".repeat(900));
    let cases: [(&[u8], u16); 14] = [
        (br#"{"role":"admin"}"#, 403),
        (br#"{"role":"user"}"#, 200),
        (b"not a document", 200),
        (b"information=finance&x=0x10", 200),
        (br#"{"role":"admin","info":"#, 200),
        (b"{\"role\":\"admin\",\n \"n\": -Infinity}", 500),
        (br#"{"role":"admin","n":nan}"#, 500),
        (br#"["inf"#, 200),
        (b"{\"role\":\"admin\",\"x\":\"\xff\"}", 500),
        (br#"{"role":"admin","n":1e999}"#, 500),
        (br#"{"role":"admin","n":01}"#, 500),
        (br#"{"role":"admin","n":NaN}"#, 500),
        (br#"{"role":"admin","n":0x10}"#, 500),
        (deep.as_bytes(), 500),
    ];
    for (body, expected) in cases {
        let shown = String::from_utf8_lossy(body.get(..40.min(body.len())).unwrap_or_default()).into_owned();
        assert_eq!(status_of(&gateway, b"POST /json HTTP/1.1\r\n", body), expected, "{shown}");
    }
}

/// `ngx.var` is nginx's, `ctx.var` APISIX's.
#[test]
fn names_of_arguments_and_cookies_have_any_case() {
    let gateway = Gateway::start(EMBEDDED, None);
    guarded(&gateway, "arg", "if ngx.var.arg_admin then return 403 end");
    guarded(&gateway, "ctx", "if ctx.var.arg_admin then return 403 end");
    guarded(&gateway, "cookie", "if ngx.var.cookie_s == 'bad' then return 403 end");
    guarded(&gateway, "target", "if ngx.var.request_uri ~= '/target/../target%2f' then return 403 end");
    for (head, expected) in [
        ("GET /arg?admin=1 HTTP/1.1\r\n", 403),
        ("GET /arg?ADMIN=1 HTTP/1.1\r\n", 403),
        ("GET /arg?a=1 HTTP/1.1\r\n", 200),
        ("GET /ctx?admin=1 HTTP/1.1\r\n", 403),
        ("GET /ctx?ADMIN=1 HTTP/1.1\r\n", 200),
        ("GET /cookie HTTP/1.1\r\nCookie: s=bad\r\n", 403),
        ("GET /cookie HTTP/1.1\r\nCookie: S=bad\r\n", 403),
        ("GET /target/../target%2f HTTP/1.1\r\n", 200),
    ] {
        assert_eq!(status_of(&gateway, head.as_bytes(), b""), expected, "{head}");
    }
}

/// What a configuration takes off an answer's head, or sets, does not come behind the body; nor does anything behind another
/// body.
#[test]
fn trailers_are_part_of_the_answer() {
    let answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Secret, X-Sum\r\n\r\n\
                   2\r\nok\r\n0\r\nX-Secret: inside\r\nX-Sum: 1\r\n\r\n"
        .to_vec();
    let upstream = Upstream::with(move |_| Behaviour {
        read_body: true,
        steps: vec![tidegate_testkit::Step::Send(answer.clone())],
    });
    let gateway = Gateway::start(EMBEDDED, None);
    let hide = "ngx.header['X-Secret'] = nil";
    let hide = format!("return function() {hide} end");
    for (id, plugins, secret, sum) in [
        ("plain", json!({}), true, true),
        ("removed", json!({"response-rewrite": {"headers": {"remove": ["x-secret"]}}}), false, true),
        ("set", json!({"response-rewrite": {"headers": {"set": {"X-Secret": "no"}}}}), false, true),
        ("body", json!({"response-rewrite": {"body": "hidden"}}), false, false),
        (
            "lua",
            json!({"serverless-post-function": {"phase": "header_filter", "functions": [hide]}}),
            false,
            true,
        ),
    ] {
        let node: Value = json!({"nodes": {upstream.address.to_string(): 1}});
        let route = json!({"uri": format!("/{id}"), "plugins": plugins, "upstream": node});
        put(&gateway, &format!("routes/{id}"), &route.to_string());
        let mut client = gateway.client();
        let request =
            format!("GET /{id} HTTP/1.1\r\nHost: h\r\nTE: trailers\r\nConnection: TE, close\r\n\r\n");
        client.send(request.as_bytes()).expect("sends");
        let text = String::from_utf8_lossy(&client.to_close().expect("an answer")).into_owned();
        assert_eq!((text.contains("inside"), text.contains("X-Sum: 1")), (secret, sum), "{id}: {text}");
    }
}
