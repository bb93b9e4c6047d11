//! What plugins in files reach: other services by HTTP, timers, consumers.

use std::time::{Duration, Instant};

use serde_json::json;
use tidegate_testkit::upstream::{Behaviour, Step};
use tidegate_testkit::{Upstream, eventually};

use super::kit::{Fixture, get, send};

#[test]
fn other_services_are_asked_while_the_worker_goes_on() {
    let service = Upstream::with(|request| {
        let text = format!(
            "HTTP/1.1 203 Non\r\nContent-Length: 4\r\nX-Method: {}\r\nX-Twice: a\r\nX-Twice: b\r\n\r\nbody",
            request.method()
        );
        let mut steps = vec![Step::Send(text.into_bytes())];
        if request.target().contains("slow") {
            steps.insert(0, Step::Wait(Duration::from_millis(700)));
        }
        Behaviour { read_body: true, steps }
    });
    let file = r#"
        local core, http = require("apisix.core"), require("resty.http")
        local _M = { version = 1, priority = 1, name = "x", schema = { type = "object", properties = { url = { type = "string" } } } }
        function _M.access(conf, ctx)
            local how = ctx.var.arg_how
            if how == "none" then return 200, "at once" end
            local client = http.new()
            client:set_timeout(tonumber(ctx.var.arg_time) or 5000)
            if how == "parts" then
                local parts = client:parse_uri(conf.url)
                assert(client:connect({ scheme = parts[1], host = parts[2], port = parts[3] }))
                local answer = assert(client:request({ path = "/parts", method = "PUT", body = "up" }))
                client:set_keepalive()
                return 200, answer.status .. answer:read_body() .. answer.headers["x-method"]
            end
            local answer, err = client:request_uri(conf.url .. "/" .. how, { query = { a = "1 2" }, headers = { ["X-Own"] = "own" } })
            if not answer then return 502, tostring(err) end
            return 200, answer.status .. answer.body .. answer.headers["X-METHOD"] .. #answer.headers["x_twice"]
        end
        function _M.header_filter(conf, ctx)
            if ctx.var.arg_late then
                local ok, err = pcall(function() return http.new():request_uri(conf.url) end)
                core.response.set_header("X-Late", tostring(err))
            end
        end
        return _M"#;
    let url = format!("http://{}", service.address);
    let objects = json!({"routes": [{"id": 1, "uri": "/a", "plugins": {"my-http": {"url": url}}}]});
    let fixture = Fixture::start(&[("apisix/plugins/my-http.lua", file)], &["my-http"], "", &objects);
    assert_eq!(get(&fixture.gateway, "/a?how=whole").body_text(), "203bodyGET2");
    let seen = service.take()[0].text();
    assert!(seen.starts_with("GET /whole?a=1%202 HTTP/1.1\r\n") && seen.contains("X-Own: own\r\n"), "{seen}");
    assert_eq!(get(&fixture.gateway, "/a?how=parts").body_text(), "203bodyPUT");
    let late = get(&fixture.gateway, "/a?how=none&late=1");
    assert!(
        late.header("X-Late")
            .is_some_and(|text| text.contains("API disabled in the context of header_filter"))
    );
    let timed = get(&fixture.gateway, "/a?how=slow&time=50");
    assert_eq!((timed.status(), timed.body_text().as_str()), (502, "timeout"));

    // One worker: the second request is answered while the first one waits.
    let mut slow = fixture.gateway.client();
    let started = Instant::now();
    slow.send(b"GET /a?how=slow HTTP/1.1\r\nHost: h\r\n\r\n").expect("sends");
    assert_eq!(get(&fixture.gateway, "/a?how=none").body_text(), "at once");
    assert!(started.elapsed() < Duration::from_millis(600));
    assert_eq!(slow.response().expect("an answer").body_text(), "203bodyGET2");
}

#[test]
fn timers_run_beside_requests_and_are_bounded() {
    let service = Upstream::service(|_| (200, "tick".to_owned()));
    let file = r#"
        local core, http = require("apisix.core"), require("resty.http")
        local _M = { version = 1, priority = 1, name = "x", schema = { type = "object", properties = { url = { type = "string" } } } }
        local ticks, fetched, heard = 0, "nothing", {}
        function _M.init() ngx.timer.every(0.02, function(premature) ticks = ticks + 1 end) end
        function _M.access(conf, ctx)
            local how = ctx.var.arg_how
            if how == "fetch" then
                ngx.timer.at(0, function(premature, url, tail)
                    local answer = http.new():request_uri(url)
                    fetched = tostring(premature) .. (answer and answer.body or "none") .. tail
                end, conf.url, "!")
            elseif how == "many" then
                local started = 0
                for _ = 1, 1000 do
                    local ok, err = ngx.timer.at(3600, function() end)
                    if not ok then return 200, started .. " " .. err end
                    started = started + 1
                end
            elseif how == "spin" then
                ngx.timer.at(0, function() while true do end end)
            elseif how == "request" then
                ngx.timer.at(0, function() heard = { pcall(core.request.header, nil, "Host") } end)
            end
            return 200, { ticks = ticks, fetched = fetched, heard = tostring(heard[2]) }
        end
        return _M"#;
    let url = format!("http://{}", service.address);
    let objects = json!({"routes": [{"id": 1, "uri": "/a", "plugins": {"my-timer": {"url": url}}}]});
    let fixture = Fixture::start(&[("apisix/plugins/my-timer.lua", file)], &["my-timer"], "", &objects);
    let text = |path: &str| get(&fixture.gateway, path).body_text();
    text("/a?how=fetch");
    eventually("the timer fetches", || text("/a").contains("falsetick!"));
    text("/a?how=request");
    eventually("the timer has no request", || text("/a").contains("there is no request"));
    let ticks = |text: &str| {
        serde_json::from_str::<serde_json::Value>(text).expect("JSON")["ticks"].as_u64().expect("ticks")
    };
    eventually("it repeats itself", || ticks(&text("/a")) > 3);
    text("/a?how=spin");
    fixture.gateway.wait_for_log("failed to run a Lua timer: ");
    let many = text("/a?how=many");
    assert!(many.ends_with(" too many pending timers"), "{many}");
    let started: usize = many.split(' ').next().and_then(|number| number.parse().ok()).expect("a number");
    assert!((200..=256).contains(&started), "{many}");
    assert_eq!(get(&fixture.gateway, "/a").status(), 200);
}

#[test]
fn an_authentication_plugin_finds_its_consumers() {
    let file = r#"
        local core, consumer_mod = require("apisix.core"), require("apisix.consumer")
        local schema = { type = "object", properties = { header = { type = "string", default = "X-Token" } } }
        local consumer_schema = { type = "object", properties = { token = { type = "string" }, level = { type = "integer", default = 1 } },
            required = { "token" }, encrypt_fields = { "token" } }
        local _M = { version = 0.1, priority = 2600, type = "auth", name = "my-auth", schema = schema, consumer_schema = consumer_schema }
        function _M.check_schema(conf, schema_type)
            return core.schema.check(schema_type == core.schema.TYPE_CONSUMER and consumer_schema or schema, conf)
        end
        function _M.rewrite(conf, ctx)
            local token = core.request.header(ctx, conf.header)
            if not token then return 401, { message = "Missing token" } end
            local consumer, consumer_conf = consumer_mod.find_consumer(_M.name, "token", token)
            if not consumer then return 401, { message = "Invalid token" } end
            local listed = consumer_mod.plugin(_M.name)
            local names = {}
            for _, node in ipairs(listed.nodes) do names[#names + 1] = node.username end
            table.sort(names)
            consumer_mod.attach_consumer(ctx, consumer, consumer_conf)
            core.response.set_header("X-Level", consumer.auth_conf.level, "X-Names", table.concat(names, " "))
        end
        return _M"#;
    let fixture =
        Fixture::with_admin(&[("apisix/plugins/my-auth.lua", file)], &["my-auth", "limit-count"], "");
    let admin = |path: &str, body: &serde_json::Value| {
        let (status, text) = fixture.gateway.admin("PUT", path, &body.to_string());
        assert!(status == 201, "{path}: {status} {text}");
        text
    };
    let limited = json!({"count": 1, "time_window": 60, "rejected_code": 429});
    admin(
        "/apisix/admin/consumers",
        &json!({"username": "ann", "plugins": {"my-auth": {"token": "t-ann"}, "limit-count": limited}}),
    );
    admin("/apisix/admin/consumers", &json!({"username": "ben"}));
    admin(
        "/apisix/admin/consumers/ben/credentials/one",
        &json!({"plugins": {"my-auth": {"token": "t-ben", "level": 7}}}),
    );
    let upstream = Upstream::start();
    let node = json!({"type": "roundrobin", "nodes": {upstream.address.to_string(): 1}});
    admin("/apisix/admin/routes/1", &json!({"uri": "/a", "plugins": {"my-auth": {}}, "upstream": node}));
    let (status, text) = fixture.gateway.admin(
        "PUT",
        "/apisix/admin/consumers",
        r#"{"username": "bad", "plugins": {"my-auth": {}}}"#,
    );
    assert!(status == 400 && text.contains("property \\\"token\\\" is required"), "{status} {text}");
    let ask = |token: &str| send(&fixture.gateway, &format!("GET /a HTTP/1.1\r\nHost: h\r\n{token}\r\n"));
    eventually("the route is there", || ask("").status() == 401);
    assert_eq!(ask("").body_text(), "{\"message\":\"Missing token\"}\n");
    assert_eq!(ask("X-Token: none\r\n").body_text(), "{\"message\":\"Invalid token\"}\n");
    let ben = ask("X-Token: t-ben\r\n");
    assert_eq!(
        (ben.status(), ben.header("X-Level"), ben.header("X-Names")),
        (200, Some("7"), Some("ann ben"))
    );
    let ann = ask("X-Token: t-ann\r\n");
    assert_eq!((ann.status(), ann.header("X-Level")), (200, Some("1")));
    assert_eq!(ask("X-Token: t-ann\r\n").status(), 429, "the consumer's own plugins run");
}
