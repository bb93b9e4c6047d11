//! Parts of objects that no request meets are told where they are written and where they are loaded.

use serde_json::{Value, json};
use tidegate_testkit::gateway::{ADMIN_KEY, EMBEDDED, YAML_PROVIDER};
use tidegate_testkit::{Client, Gateway};

/// Fields of a route, and what is said of them; empty: nothing.
fn cases() -> Vec<(Value, &'static str)> {
    let plugin = |name: &str, conf: Value| json!({"plugins": {name: conf}});
    let blocks = |rule: &str| plugin("uri-blocker", json!({"block_rules": [rule]}));
    let cors = |origins: &str| plugin("cors", json!({"allow_origins": origins}));
    let rewrite = |conf: Value| plugin("proxy-rewrite", conf);
    vec![
        (blocks("^admin"), "uri-blocker: block_rules: ^admin matches no request"),
        (blocks("^http://x/"), "block_rules: ^http://x/ matches no request"),
        (blocks("^/admin"), "block_rules: ^/admin matches no uri of the route"),
        (blocks("^/"), ""),
        (blocks("^a?/admin"), ""),
        (blocks("^admin|^/root"), ""),
        (blocks("admin"), ""),
        (plugin("uri-blocker", json!({"block_rules": []})), "block_rules is empty: every request is refused"),
        (
            cors("https://a.example/"),
            "allow_origins: https://a.example allows nothing with a slash or path behind it",
        ),
        (
            cors("https://b.example,https://A.example:443"),
            "https://A.example:443 allows nothing: browsers write it otherwise; write https://a.example",
        ),
        (cors("https://a.example:8443,http://b.example"), ""),
        (cors("https://*.example"), "https://*.example allows nothing: * stands for no part of an origin"),
        (
            plugin("cors", json!({"allow_methods": "get,POST"})),
            "allow_methods: get allows nothing: methods are compared in capitals; write GET",
        ),
        (
            plugin(
                "proxy-cache",
                json!({"cache_strategy": "memory", "cache_zone": "memory_cache", "cache_bypass": ["arg_x"]}),
            ),
            "cache_bypass: arg_x is a constant, the same for all requests; the variable is $arg_x",
        ),
        (json!({"host": "_"}), "host _ matches only the name _; leave the host out for any"),
        (json!({"hosts": ["a.example", "_"]}), "host _ matches only"),
        (rewrite(json!({"uri": "/x/$nope"})), "proxy-rewrite: uri: $nope is not a variable of the gateway"),
        (rewrite(json!({"uri": "/x/$remote_addr"})), ""),
        (
            rewrite(json!({"regex_uri": ["^/a(.*)", "/b$2"]})),
            "regex_uri: /b$2 has $2, which is always empty: ^/a(.*) has 1 groups",
        ),
        (rewrite(json!({"regex_uri": ["^/(.*)", "/b$1"]})), ""),
        (
            rewrite(json!({"regex_uri": ["^/(.*)", "$1"]})),
            "regex_uri: ^/(.*) with \"$1\" makes a target that does not begin with /, and the request is answered 500; write /$1",
        ),
        (
            rewrite(json!({"regex_uri": ["^/", "http://b.test/"]})),
            "makes a target that does not begin with /, and the request is answered 500; another server is named by an upstream",
        ),
        (rewrite(json!({"regex_uri": ["^(/.*)", "$1"]})), ""),
        (
            json!({"uri": "/shop", "plugins": {"uri-blocker": {"block_rules": ["^/admin", "^/shop\\?x"]}}}),
            "plugin uri-blocker: block_rules: ^/admin matches no uri of the route",
        ),
        (json!({"uri": "/shop/*", "plugins": {"uri-blocker": {"block_rules": ["^/admin"]}}}), ""),
        (
            json!({"uri": "/ADMIN", "plugins": {"uri-blocker": {"block_rules": ["^/admin"], "case_insensitive": true}}}),
            "",
        ),
        (
            json!({"uri": "/shop", "vars": [["uri", "~~", "^/admin"]]}),
            "the condition uri ~~ ^/admin never holds: no uri of the route matches it",
        ),
        (
            plugin("redirect", json!({"regex_uri": ["^/a", "/b$1"]})),
            "redirect: regex_uri: /b$1 has $1, which is always empty",
        ),
        (plugin("redirect", json!({"uri": "/x/$nope"})), "redirect: uri: $nope is not a variable"),
        (
            plugin("fault-injection", json!({"abort": {"http_status": 403, "percentage": 0}})),
            "fault-injection: abort has no effect: its percentage is 0",
        ),
        (plugin("fault-injection", json!({"abort": {"http_status": 403, "percentage": 1}})), ""),
        (
            plugin("file-logger", json!({"path": "/nonexistent/x/l.log"})),
            "the folder /nonexistent/x does not exist",
        ),
        (plugin("file-logger", json!({"path": "/tmp"})), "file-logger: path: /tmp is a folder"),
        (plugin("file-logger", json!({"path": "conf/config.yaml"})), "is in the gateway's folder conf"),
        (plugin("chaitin-waf", json!({})), "chaitin-waf.nodes: plugin_metadata/chaitin-waf has none"),
        (
            plugin("ext-plugin-pre-req", json!({"conf": [{"name": "a", "value": "b"}]})),
            "ext-plugin.cmd, which starts the plugin runner: requests are",
        ),
        (
            plugin("request-validation", json!({"body_schema": {"type": "object", "maxLength": 3}})),
            "body_schema at #: \"maxLength\" has no effect beside type object",
        ),
        (
            plugin(
                "request-validation",
                json!({"body_schema": {"type": "object", "required": ["a"], "properties": {"a": {"type": "integer", "minimum": 1}}}}),
            ),
            "",
        ),
        (plugin("client-control", json!({})), "client-control: it has no effect without max_body_size"),
        (plugin("gzip", json!({"types": ["text/*"]})), "gzip: types: text/* compresses nothing"),
        (plugin("gzip", json!({"types": ["text/css"]})), ""),
        (
            plugin(
                "response-rewrite",
                json!({"headers": {"set": {"content-length": "5"}, "add": ["Connection: upgrade"]}}),
            ),
            "response-rewrite: headers: Connection, Content-Length has no effect: the gateway frames messages itself",
        ),
        (plugin("response-rewrite", json!({"headers": {"set": {"X-A": "Connection: 5"}}})), ""),
        (
            rewrite(json!({"headers": {"set": {"Transfer-Encoding": "chunked"}}})),
            "proxy-rewrite: headers: Transfer-Encoding has no effect",
        ),
        (
            plugin(
                "workflow",
                json!({"rules": [{"actions": [["return", {"code": 403}]]}, {"case": [["uri", "==", "/x"]], "actions": [["return", {"code": 404}]]}]}),
            ),
            "workflow: the rules behind rule 1 never run: it has no case",
        ),
        (
            plugin(
                "workflow",
                json!({"rules": [{"case": [["uri", "==", "/elsewhere"]], "actions": [["return", {"code": 403}]]}]}),
            ),
            "plugin workflow: rules[0]: the condition uri == /elsewhere never holds: no uri of the route matches it",
        ),
        (
            plugin("forward-auth", json!({"uri": "http://$arg_h/"})),
            "plugin forward-auth: uri: $arg_h is looked up as it is written",
        ),
        (
            rewrite(json!({"regex_uri": ["^/elsewhere/(.*)", "/b/$1"]})),
            "proxy-rewrite: regex_uri: ^/elsewhere/(.*) matches no uri of the route",
        ),
        (
            json!({"vars": [["uri", "==", "/elsewhere"]]}),
            "the condition uri == /elsewhere never holds: no uri of the route matches it",
        ),
        (json!({"vars": [["arg_x", "==", "1"], ["uri", "~~", "^/."]]}), ""),
        (
            json!({"host": "a.test", "vars": [["host", "in", ["b.test"]]]}),
            "the condition host in [\"b.test\"] never holds: no host of the route matches it",
        ),
        (
            json!({"vars": [["server_port", "==", "1"]]}),
            "the condition server_port == 1 never holds: the gateway listens for requests on port ",
        ),
        (
            json!({"plugins": {"real-ip": {"source": "http_x_forwarded_for"}, "ip-restriction": {"whitelist": ["10.1.1.1"]}}}),
            "plugin real-ip: every client chooses the address that ip-restriction goes by, with http_x_forwarded_for; name the",
        ),
        (
            json!({"plugins": {"real-ip": {"source": "http_x_forwarded_for", "trusted_addresses": ["10.0.0.0/8"]},
                "ip-restriction": {"whitelist": ["10.1.1.1"]}}}),
            "",
        ),
        (json!({"plugins": {"real-ip": {"source": "http_x_forwarded_for"}}}), ""),
        (
            rewrite(json!({"headers": {"set": {"X-User": "$consumer_nme"}}})),
            "plugin proxy-rewrite: headers.set.X-User: $consumer_nme is not a variable of the gateway and is empty unless Lua sets it; did you mean consumer_name?",
        ),
        (
            rewrite(json!({"headers": {"set": {"X-User": "$consumer_name", "X-A": "5$", "X-B": "\\$nope"}}})),
            "",
        ),
        (
            plugin("response-rewrite", json!({"headers": {"add": ["X-U: ${upstrem_addr}"]}})),
            "plugin response-rewrite: headers.add[0]: $upstrem_addr is not a variable",
        ),
        (
            plugin(
                "fault-injection",
                json!({"abort": {"http_status": 403, "headers": {"X-U": "$remte_addr"}}}),
            ),
            "plugin fault-injection: abort.headers.X-U: $remte_addr is not a variable",
        ),
        (
            plugin("mocking", json!({"response_example": "{\"a\": \"$remte_addr\"}"})),
            "plugin mocking: response_example: $remte_addr is not a variable",
        ),
        (
            plugin(
                "http-logger",
                json!({"uri": "http://127.0.0.1:1", "log_format": {"a": {"b": "$remte_addr"}}}),
            ),
            "plugin http-logger: log_format.a.b: $remte_addr is not a variable",
        ),
        (
            plugin("http-logger", json!({"uri": "http://127.0.0.1:1", "log_format": {"a": "$remote_addr"}})),
            "",
        ),
        (
            plugin(
                "forward-auth",
                json!({"uri": "http://127.0.0.1:1", "extra_headers": {"X-A": "$remte_addr"}}),
            ),
            "plugin forward-auth: extra_headers.X-A: $remte_addr is not a variable",
        ),
        (
            json!({"plugins": {
                "serverless-pre-function": {"functions": ["return function(_, ctx) ctx.var.tenant = 'a' end"]},
                "proxy-rewrite": {"headers": {"set": {"X-Tenant": "$tenant"}}}}}),
            "",
        ),
        (
            plugin(
                "serverless-pre-function",
                json!({"functions": ["return function()\n os.execute('id') end"]}),
            ),
            "plugin serverless-pre-function: functions[0]: line 2: os.execute is not available: no program is started",
        ),
        (
            json!({"upstream": {"type": "chash", "hash_on": "vars_combinations", "key": "$remte_addr$host", "nodes": {"127.0.0.1:1": 1}}}),
            "the key of the upstream: $remte_addr is not a variable",
        ),
        (
            json!({"upstream": {"nodes": {"127.0.0.1:1": 0, "127.0.0.1:2": 0}}}),
            "upstream.nodes: every weight is 0, so they get the requests all the same",
        ),
        (json!({"upstream": {"nodes": {"127.0.0.1:1": 0, "127.0.0.1:2": 1}}}), ""),
        (json!({"upstream": {"service_name": "x", "discovery_type": "nacos"}}), "service x has no nodes"),
    ]
}

fn route(fields: &Value, id: usize) -> Value {
    let mut route =
        json!({"id": id.to_string(), "uri": format!("/{id}"), "upstream": {"nodes": {"127.0.0.1:1": 1}}});
    let object = route.as_object_mut().expect("an object");
    object.extend(fields.as_object().expect("an object").clone());
    route
}

#[test]
fn a_write_tells_what_no_request_meets() {
    let gateway = Gateway::start(EMBEDDED, None);
    for (fields, expected) in cases() {
        let body = route(&fields, 1).to_string();
        let put = format!(
            "PUT /apisix/admin/routes/1 HTTP/1.1\r\nHost: h\r\nX-API-KEY: {ADMIN_KEY}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        let answer = Client::connect(gateway.admin).expect("a connection").request(&put).expect("an answer");
        let told = answer.header("X-Tidegate-Warning").unwrap_or_default();
        assert!(matches!(answer.status(), 200 | 201), "{fields}: {}", answer.body_text());
        assert!(
            if expected.is_empty() { told.is_empty() } else { told.contains(expected) },
            "{fields}: {told:?}"
        );
    }
}

#[test]
fn so_do_a_start_and_a_test() {
    for chunk in cases().chunks(8) {
        let routes: Vec<Value> =
            chunk.iter().enumerate().map(|(id, (fields, _))| route(fields, id)).collect();
        let gateway = Gateway::start(YAML_PROVIDER, Some(&json!({"routes": routes}).to_string()));
        let (done, said) = gateway.verb("test");
        assert!(done, "{said}");
        for (_, expected) in chunk {
            assert!(said.contains(expected), "{expected}: {said}");
            gateway.wait_for_log(expected);
        }
    }
}

/// Of another object, too: the plugins run together.
#[test]
fn an_address_that_clients_choose_is_told_wherever_it_is_chosen() {
    let gateway = Gateway::start(EMBEDDED, None);
    let told = |path: &str, body: Value| {
        let body = body.to_string();
        let put = format!(
            "PUT /apisix/admin/{path} HTTP/1.1\r\nHost: h\r\nX-API-KEY: {ADMIN_KEY}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        let answer = Client::connect(gateway.admin).expect("a connection").request(&put).expect("an answer");
        assert!(matches!(answer.status(), 200 | 201), "{}", answer.body_text());
        answer.header("X-Tidegate-Warning").unwrap_or_default().to_owned()
    };
    let chosen = "every client chooses the address that ip-restriction goes by, with http_x_real_ip";
    let real_ip = json!({"real-ip": {"source": "http_x_real_ip"}});
    assert_eq!(told("services/s", json!({"plugins": real_ip})), "");
    let route = json!({"uri": "/a", "service_id": "s", "upstream": {"nodes": {"127.0.0.1:1": 1}}, "plugins": {"ip-restriction": {"whitelist": ["10.1.1.1"]}}});
    let said = told("routes/1", route);
    assert!(said.contains(chosen), "{said}");
    let said = told("global_rules/g", json!({"plugins": real_ip}));
    assert!(said.contains(chosen), "{said}");
}
