//! Plugins in other processes: ext-plugin-pre-req, -post-req and -post-resp, with a runner written from the protocol, and with
//! one that is made of Apache's library for Go.

mod kit;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::{Value, json};
use tidegate_testkit::gateway::{YAML_PROVIDER, workspace_root};
use tidegate_testkit::{Gateway, Message, Upstream, eventually};

use kit::{Runner, Seen};

struct Fixture {
    gateway: Gateway,
    runner: Runner,
    upstream: Upstream,
    _folder: tempfile::TempDir,
}

/// A route `/NAME` for each plugin of the runner.
fn fixture(kind: &str, plugins: &[(&str, &str)]) -> Fixture {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("runner.sock");
    let runner = Runner::listen(&path);
    let upstream = Upstream::start();
    let config = format!("{YAML_PROVIDER}ext-plugin: {{path_for_test: {}}}\n", path.display());
    let gateway = Gateway::start(&config, Some(&routes(kind, plugins, &upstream, &json!({}))));
    Fixture { gateway, runner, upstream, _folder: folder }
}

fn routes(kind: &str, plugins: &[(&str, &str)], upstream: &Upstream, more: &Value) -> String {
    let node = json!({"type": "roundrobin", "nodes": {upstream.address.to_string(): 1}});
    let route = |(name, value): &(&str, &str)| {
        let mut conf = json!({"conf": [{"name": name, "value": value}]});
        conf.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        json!({"id": name, "uris": [format!("/{name}"), format!("/{name}/*")], "plugins": {kind: conf}, "upstream": node})
    };
    json!({"routes": plugins.iter().map(route).collect::<Vec<_>>()}).to_string()
}

fn send(gateway: &Gateway, text: &str) -> Message {
    gateway.client().request(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn get(gateway: &Gateway, path: &str) -> Message {
    send(gateway, &format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n"))
}

impl Fixture {
    /// What the runner saw since the last time.
    fn seen(&self) -> Vec<Seen> {
        self.runner.seen.try_iter().collect()
    }
}

fn pair(name: &str, value: &str) -> (String, Option<String>) {
    (name.to_owned(), Some(value.to_owned()))
}

#[test]
fn requests_as_a_runner_sees_them() {
    for (kind, id) in [("ext-plugin-pre-req", "pre"), ("ext-plugin-post-req", "post")] {
        let fixture = fixture(kind, &[(id, "{}")]);
        let text = format!(
            "PATCH /{id}/a%20b?x=1&x=%32&flag HTTP/1.1\r\nHost: H.test:1\r\nX-Two: a\r\nX-Two: b\r\nContent-Length: 0\r\n\r\n"
        );
        for first in [true, false] {
            assert_eq!(send(&fixture.gateway, &text).status(), 200);
            let seen = fixture.seen();
            assert_eq!(seen.len(), if first { 2 } else { 1 }, "the configuration goes once: {seen:?}");
            if let Some(Seen::Conf { key, conf }) = seen.first().filter(|_| first) {
                assert!(key.starts_with(&format!("route#{id}#{kind}#")), "{key}");
                assert_eq!(conf, &[pair(id, "{}")]);
            }
            let Some(Seen::Request { address, method, path, args, headers }) = seen.last() else {
                panic!("{seen:?}")
            };
            assert_eq!((address.as_slice(), *method), (&[127, 0, 0, 1][..], 13));
            assert_eq!(*path, format!("/{id}/a b"));
            assert_eq!(*args, [pair("x", "1"), pair("x", "2"), ("flag".to_owned(), None)]);
            let host = pair("host", "H.test:1");
            for header in [host, pair("x-two", "a"), pair("x-two", "b")] {
                assert!(headers.contains(&header), "{headers:?}");
            }
        }
        assert_eq!(fixture.runner.connections(), 1, "connections are kept");
    }
}

#[test]
fn requests_are_stopped_and_rewritten() {
    let plugins = [
        "stop",
        "stop-plain",
        "stop-page",
        "stop-continue",
        "rewrite",
        "rewrite-body",
        "rewrite-path",
        "split",
        "other",
    ];
    let plugins: Vec<(&str, &str)> = plugins
        .into_iter()
        .map(|name| (name, if name == "rewrite-path" { "no slash" } else { "new body" }))
        .collect();
    let fixture = fixture("ext-plugin-pre-req", &plugins);
    let stop = get(&fixture.gateway, "/stop");
    assert_eq!((stop.status(), stop.body_text().as_str(), stop.header("X-Resp")), (405, "cat", Some("foo")));
    let same: Vec<&String> =
        stop.headers.iter().filter(|(name, _)| name == "X-Same").map(|(_, value)| value).collect();
    assert_eq!(same, ["one", "two"]);
    let plain = get(&fixture.gateway, "/stop-plain");
    assert_eq!((plain.status(), plain.body_text().as_str()), (200, "cat"));
    let page = get(&fixture.gateway, "/stop-page");
    assert!(page.status() == 403 && page.body_text().contains("403"), "{page:?}");
    assert_eq!(get(&fixture.gateway, "/stop-continue").status(), 503);
    assert_eq!(get(&fixture.gateway, "/split").status(), 503);
    assert!(fixture.upstream.take().is_empty());

    let text = "POST /rewrite?a=1&gone=1&b=2&a=3 HTTP/1.1\r\nHost: h\r\nX-Delete: 1\r\nX_Delete: 1\r\nX-Change: old\r\n\
                Content-Length: 3\r\n\r\nold";
    let answer = send(&fixture.gateway, text);
    assert_eq!(answer.status(), 200);
    let early: Vec<&String> =
        answer.headers.iter().filter(|(name, _)| name == "X-Early").map(|(_, value)| value).collect();
    assert_eq!(early, ["1", "2"]);
    assert!(answer.headers.iter().all(|(_, value)| value != "no"), "{answer:?}");
    let seen = fixture.upstream.take()[0].text();
    assert!(seen.starts_with("POST /uri/x%20y%3F?b=2&a=one&a=two HTTP/1.1\r\n"), "{seen}");
    for line in ["Host: other.test", "X-Change: new", "X-Add: added"] {
        assert!(seen.contains(&format!("\r\n{line}\r\n")), "{line}: {seen}");
    }
    assert!(!seen.to_lowercase().contains("delete") && seen.ends_with("\r\n\r\nold"), "{seen}");

    let answer = send(
        &fixture.gateway,
        "POST /rewrite-body HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nold\r\n0\r\n\r\n",
    );
    assert_eq!(answer.status(), 200);
    let seen = fixture.upstream.take()[0].text();
    assert!(seen.contains("Content-Length: 8\r\n") && seen.ends_with("\r\n\r\nnew body"), "{seen}");
    get(&fixture.gateway, "/rewrite-path?a=1");
    assert!(fixture.upstream.take()[0].text().starts_with("GET /no%20slash?a=1 "));
    assert_eq!(get(&fixture.gateway, "/other").status(), 200);
}

#[test]
fn runners_ask_back() {
    let plugins = [("variable", "request_uri"), ("body", ""), ("response", ""), ("unknown-info", "")];
    let fixture = fixture("ext-plugin-post-req", &plugins);
    let ask = |path: &str| {
        let status = send(
            &fixture.gateway,
            &format!("POST {path} HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody"),
        )
        .status();
        let info = fixture.seen().into_iter().find_map(|seen| match seen {
            Seen::Info(info) => Some(info.map(|info| String::from_utf8(info).expect("text"))),
            _ => None,
        });
        (status, info)
    };
    let said = |text: &str| Some(Some(text.to_owned()));
    assert_eq!(ask("/variable?x"), (200, said("/variable?x")));
    assert_eq!(ask("/body"), (200, said("body")));
    assert!(fixture.upstream.take()[1].text().ends_with("\r\n\r\nbody"));
    assert_eq!(ask("/response"), (200, Some(None)));
    assert_eq!(ask("/unknown-info"), (503, None));
    fixture.gateway.wait_for_log("failed to handle RPC_EXTRA_INFO: unsupported info type: 9");
}

#[test]
fn a_runner_that_fails_closes_its_routes() {
    let names = ["error", "unexpected", "malformed", "empty", "closes", "cut"];
    let plugins: Vec<(&str, &str)> = names.iter().map(|name| (*name, "")).collect();
    for kind in ["ext-plugin-pre-req", "ext-plugin-post-req"] {
        let fixture = fixture(kind, &plugins);
        for name in names {
            assert_eq!(get(&fixture.gateway, &format!("/{name}")).status(), 503, "{name}");
        }
        assert!(fixture.upstream.take().is_empty());
        fixture.gateway.wait_for_log("failed to receive RPC_HTTP_REQ_CALL: service unavailable");
        fixture.gateway.wait_for_log("failed to receive RPC_HTTP_REQ_CALL: unexpected type 1");
        fixture.gateway.wait_for_log("failed to receive RPC_HTTP_REQ_CALL: closed");
        let open = routes(kind, &plugins, &fixture.upstream, &json!({"allow_degradation": true}));
        fixture.gateway.write_routes(&open);
        eventually("the routes may do without the runner", || {
            get(&fixture.gateway, "/error").status() == 200
        });
        for name in names {
            assert_eq!(get(&fixture.gateway, &format!("/{name}")).status(), 200, "{name}");
        }
        fixture.gateway.wait_for_log("Plugin Runner is wrong, allow degradation");
        let trace = send(&fixture.gateway, "PURGE /error HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!(trace.status(), 200, "a method that the protocol lacks");
    }
    // Nobody listens.
    let upstream = Upstream::start();
    let config = format!("{YAML_PROVIDER}ext-plugin: {{path_for_test: /nonexistent/runner.sock}}\n");
    for kind in ["ext-plugin-pre-req", "ext-plugin-post-resp"] {
        let gateway = Gateway::start(&config, Some(&routes(kind, &[("x", "")], &upstream, &json!({}))));
        assert_eq!(get(&gateway, "/x").status(), 503);
        gateway.wait_for_log("failed to connect to the unix socket unix:/nonexistent/runner.sock");
    }
}

#[test]
fn a_runner_that_has_forgotten_gets_the_configuration_again() {
    let fixture = fixture("ext-plugin-pre-req", &[("other", "")]);
    assert_eq!(get(&fixture.gateway, "/other").status(), 200);
    fixture.seen();
    fixture.runner.forget();
    assert_eq!(get(&fixture.gateway, "/other").status(), 200);
    let confs = fixture.seen().into_iter().filter(|seen| matches!(seen, Seen::Conf { .. })).count();
    assert_eq!(confs, 1);
}

#[test]
fn a_plugin_that_hangs_costs_its_own_requests_only() {
    let fixture = fixture("ext-plugin-pre-req", &[("hang", ""), ("other", "")]);
    let mut hanging: Vec<_> = (0..20)
        .map(|_| {
            let mut client = fixture.gateway.client();
            client.send(b"GET /hang HTTP/1.1\r\nHost: h\r\n\r\n").expect("sent");
            client
        })
        .collect();
    eventually("all of them are with the runner", || fixture.runner.connections() >= 20);
    for _ in 0..50 {
        assert_eq!(get(&fixture.gateway, "/other").status(), 200);
    }
    assert!(hanging.iter_mut().all(|client| client.stays_silent(std::time::Duration::from_millis(1))));
}

/// Requests that the runner never answers, all of them with it or refused.
fn hang(fixture: &Fixture, number: usize) -> Vec<tidegate_testkit::Client> {
    let mut hanging = Vec::new();
    for _ in 0..number {
        let mut client = fixture.gateway.client();
        client.send(b"GET /hang HTTP/1.1\r\nHost: h\r\n\r\n").expect("sent");
        hanging.push(client);
    }
    hanging
}

#[test]
fn a_configuration_has_its_share_of_the_calls() {
    let fixture = fixture("ext-plugin-pre-req", &[("hang", ""), ("other", "")]);
    let hanging = hang(&fixture, 1100);
    fixture
        .gateway
        .wait_for_log("too many calls to the plugin runner are under way: 1024 of this configuration");
    for _ in 0..20 {
        assert_eq!(get(&fixture.gateway, "/other").status(), 200);
    }
    drop(hanging);
}

#[test]
fn a_call_ends_with_its_client() {
    for kind in ["ext-plugin-pre-req", "ext-plugin-post-req", "ext-plugin-post-resp"] {
        let fixture = fixture(kind, &[("hang", "")]);
        let hanging = hang(&fixture, 5);
        eventually("all of them are with the runner", || fixture.runner.open() == 5);
        drop(hanging);
        eventually("the runner is left", || fixture.runner.open() == 0);
    }
}

#[test]
fn what_cannot_be_a_host_is_not_sent_as_one() {
    for host in ["a b", "a/b", "a@b", "[::1", ""] {
        let fixture = fixture("ext-plugin-pre-req", &[("host", host)]);
        assert_eq!(get(&fixture.gateway, "/host").status(), 503, "{host:?}");
        assert!(fixture.upstream.take().is_empty(), "{host:?}");
    }
}

#[test]
fn a_runner_that_cannot_be_asked_keeps_the_gateway_from_starting() {
    for (conf, reason) in [
        ("cmd: []", "ext-plugin.cmd: give the program"),
        ("cmd: ['']", "ext-plugin.cmd: give the program"),
        ("path_for_test: ''", "ext-plugin.path_for_test: \"\" is not the path"),
        ("path_for_test: runner.sock", "ext-plugin.path_for_test: \"runner.sock\" is not the path"),
        ("path_for_test: 'unix:/tmp/x'", "ext-plugin.path_for_test: \"unix:/tmp/x\" is not the path"),
    ] {
        let config = format!("{YAML_PROVIDER}ext-plugin: {{{conf}}}\n");
        let mut gateway = Gateway::start_unready(&config, Some("routes: []\n"));
        gateway.process.wait_for_output(reason);
        assert!(!gateway.process.wait_for_exit().success(), "{conf}");
    }
}

#[test]
fn responses_are_changed() {
    let plugins = [
        ("change-body", "new"),
        ("change-headers", ""),
        ("change-status", "404"),
        ("read-body", ""),
        ("error", ""),
        ("other", ""),
        ("bytes", ""),
    ];
    let fixture = fixture("ext-plugin-post-resp", &plugins);
    let answer = get(&fixture.gateway, "/other?x=1");
    assert_eq!(answer.status(), 200);
    assert!(answer.header("Content-Type").is_some(), "{answer:?}");
    let seen = fixture.seen();
    let Some(Seen::Response { status: 200, headers }) = seen.last() else { panic!("{seen:?}") };
    assert!(headers.iter().any(|(name, _)| name == "content-length"), "{headers:?}");
    let sent = fixture.upstream.take()[0].text();
    assert!(sent.starts_with("GET /other?x=1 HTTP/1.1\r\n") && sent.contains("Host: h\r\n"), "{sent}");

    let answer = get(&fixture.gateway, "/change-body");
    assert_eq!((answer.status(), answer.body_text().as_str()), (200, "new"));
    let answer = get(&fixture.gateway, "/change-headers");
    assert_eq!(
        (answer.header("X-Runner"), answer.header("Content-Type")),
        (Some("kit"), Some("application/json"))
    );
    let same = answer.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("x-same"));
    assert_eq!(same.map(|(_, value)| value.as_str()).collect::<Vec<_>>(), ["one", "two"]);
    assert_eq!(get(&fixture.gateway, "/change-status").status(), 404);
    fixture.seen();
    let answer = get(&fixture.gateway, "/read-body");
    let body = fixture.seen().into_iter().find_map(|seen| match seen {
        Seen::Info(info) => info,
        _ => None,
    });
    assert_eq!(body.expect("a body"), answer.body);
    assert_eq!(get(&fixture.gateway, "/error").status(), 503);
    let head = send(&fixture.gateway, "HEAD /other HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(head.status(), 200);
    let head = send(&fixture.gateway, "HEAD /bytes/67 HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!((head.status(), head.header("Content-Length")), (200, Some("67")));

    // Without a node.
    let away = Upstream::start();
    let routes = routes("ext-plugin-post-resp", &[("other", "")], &away, &json!({}));
    fixture.gateway.write_routes(&routes.replace(&away.address.to_string(), "127.0.0.1:1"));
    eventually("the node is another one", || get(&fixture.gateway, "/other").status() == 502);
    fixture.gateway.wait_for_log("failed to request");
}

/// `None`, and a line, where it cannot be built.
fn go_runner() -> Option<&'static Path> {
    static BUILT: OnceLock<Option<PathBuf>> = OnceLock::new();
    let built = BUILT.get_or_init(|| {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("go-runner");
        let built = Command::new("go")
            .args(["build", "-o"])
            .arg(&path)
            .arg(".")
            .current_dir(workspace_root().join("tests/runner-go"))
            .output();
        let is_built = built.as_ref().is_ok_and(|output| output.status.success());
        if !is_built {
            eprintln!("skipped: the Go runner cannot be built: {built:?}");
        }
        is_built.then_some(path)
    });
    built.as_deref()
}

fn go_routes(upstream: &Upstream) -> String {
    let node = json!({"type": "roundrobin", "nodes": {upstream.address.to_string(): 1}});
    let route = |kind: &str, wanted: &str, text: &str| {
        let value = json!({"do": wanted, "text": text}).to_string();
        let conf = json!({"conf": [{"name": "tester", "value": value}]});
        json!({"id": format!("{kind}-{wanted}"), "uri": format!("/{kind}/{wanted}"),
               "plugins": {format!("ext-plugin-{kind}"): conf}, "upstream": node})
    };
    json!({"routes": [
        route("pre-req", "stop", "no"), route("pre-req", "rewrite", "yes"), route("post-req", "variable", "host"),
        route("post-req", "body", "and: "), route("pre-req", "hang", ""), route("post-resp", "change", "changed: "),
    ]})
    .to_string()
}

#[test]
fn apaches_library_for_go_understands_the_gateway() {
    let Some(program) = go_runner() else { return };
    let upstream = Upstream::start();
    let config = format!("{YAML_PROVIDER}ext-plugin: {{cmd: [{}]}}\n", program.display());
    let mut gateway = Gateway::start(&config, Some(&go_routes(&upstream)));
    eventually("the runner listens", || get(&gateway, "/pre-req/stop").status() == 403);
    let answer = get(&gateway, "/pre-req/stop");
    assert_eq!((answer.body_text().as_str(), answer.header("X-Runner")), ("no", Some("Go")));
    let answer = get(&gateway, "/pre-req/rewrite?a=b%20c");
    assert_eq!((answer.status(), answer.header("X-From-Runner")), (200, Some("127.0.0.1")));
    let seen = upstream.take()[0].text();
    assert!(
        seen.starts_with("GET /rewritten?a=b%20c&added=b%20c HTTP/1.1\r\n")
            && seen.contains("X-Runner: yes\r\n"),
        "{seen}"
    );
    assert_eq!(get(&gateway, "/post-req/variable").body_text(), "<h>");
    let mut hanging = gateway.client();
    hanging.send(b"GET /pre-req/hang HTTP/1.1\r\nHost: h\r\n\r\n").expect("sent");
    let text = "POST /post-req/body HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody";
    assert_eq!(send(&gateway, text).body_text(), "and: body");
    let answer = get(&gateway, "/post-resp/change");
    assert!(
        answer.body_text().starts_with("changed: ") && answer.header("X-Runner") == Some("Go"),
        "{answer:?}"
    );
    // One that is killed leaves its runner behind.
    gateway.process.signal(Signal::TERM);
    gateway.process.wait_for_exit();
}

/// The numbers of the processes with this program.
fn running(program: &Path) -> Vec<Pid> {
    let processes = std::fs::read_dir("/proc").expect("processes").flatten();
    let is_it = |folder: &Path| std::fs::read_link(folder.join("exe")).is_ok_and(|exe| exe == program);
    let found = processes.filter(|entry| is_it(&entry.path()));
    found.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)).collect()
}

#[test]
fn the_runner_lives_as_long_as_the_gateway() {
    let Some(program) = go_runner() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let own = folder.path().join("own-runner");
    std::fs::copy(program, &own).expect("a copy");
    let upstream = Upstream::start();
    let config = format!("{YAML_PROVIDER}ext-plugin: {{cmd: [{}]}}\n", own.display());
    let mut gateway = Gateway::start(&config, Some(&go_routes(&upstream)));
    eventually("the runner listens", || get(&gateway, "/pre-req/stop").status() == 403);
    let [first] = running(&own)[..] else { panic!("one runner") };
    kill_process(first, Signal::KILL).expect("killed");
    gateway.wait_for_log("runner exited with reason: signal");
    gateway.wait_for_log("respawn runner 3 seconds later with cmd: [");
    eventually("another one listens", || get(&gateway, "/pre-req/stop").status() == 403);
    let [second] = running(&own)[..] else { panic!("one runner") };
    assert_ne!(first, second);
    gateway.process.signal(Signal::TERM);
    gateway.process.wait_for_exit();
    eventually("the runner has gone", || test_kill_process(second).is_err());
    let conf = std::fs::read_dir(gateway.prefix().join("conf")).expect("the folder");
    let sockets = conf.flatten().filter(|entry| entry.file_name().to_string_lossy().ends_with(".sock"));
    assert_eq!(sockets.count(), 0);

    // Neither is one started that nothing asks, nor by a trial.
    let config = format!("{YAML_PROVIDER}plugins: [mocking]\next-plugin: {{cmd: [{}]}}\n", own.display());
    let gateway = Gateway::start(&config, Some("routes: []\n"));
    assert_eq!(get(&gateway, "/").status(), 404);
    assert!(running(&own).is_empty());
}

#[test]
fn what_a_runner_says_is_logged_and_one_that_cannot_start_is_named() {
    let upstream = Upstream::start();
    let routes = routes("ext-plugin-pre-req", &[("x", "")], &upstream, &json!({}));
    let words = "sh, -c, 'echo listens at $APISIX_LISTEN_ADDRESS for $APISIX_CONF_EXPIRE_TIME; echo wrong >&2; exit 111'";
    let gateway = Gateway::start(&format!("{YAML_PROVIDER}ext-plugin: {{cmd: [{words}]}}\n"), Some(&routes));
    gateway.wait_for_log("runner: listens at unix:/");
    gateway.wait_for_log(&format!("conf/apisix-{}.sock for 3600", gateway.process.id()));
    gateway.wait_for_log("runner: wrong");
    gateway.wait_for_log("runner exited with reason: exit, status: 111");
    assert_eq!(get(&gateway, "/x").status(), 503);
    let gateway = Gateway::start(
        &format!("{YAML_PROVIDER}ext-plugin: {{cmd: [/nonexistent/runner]}}\n"),
        Some(&routes),
    );
    gateway.wait_for_log("failed to start [\"/nonexistent/runner\"]");
}
