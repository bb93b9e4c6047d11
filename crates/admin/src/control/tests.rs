use std::sync::Arc;

use serde_json::{Value, json};
use tidegate_model::{Object, Objects, Rejected};
use tidegate_store::{BoxFuture, Memory, Operation, Store};

use super::*;
use crate::{
    Compiled, Inspect, NoControlHooks, NoProfile, ProfileForm,
    testing::{Catalog, body, finish, request},
};

struct Refused;

impl Compiled for Refused {
    fn try_out(&self, _: &[Object], _: &dyn Objects, _: &dyn Objects) -> Vec<Rejected> {
        Vec::new()
    }

    fn rejected(&self) -> Arc<[Rejected]> {
        let reason = "no secret".to_owned();
        Arc::new([Rejected { kind: Kind::GlobalRule, id: "1".into(), reason, is_placeless: false }])
    }
}

struct Checked;

impl HealthView for Checked {
    fn nodes(&self, _: Kind, _: &str) -> Vec<NodeHealth> {
        vec![NodeHealth {
            ip: "127.0.0.1".into(),
            port: 1980,
            hostname: "127.0.0.1".into(),
            status: "unhealthy",
            successes: 0,
            tcp_failures: 2,
            http_failures: 0,
            timeout_failures: 0,
        }]
    }
}

fn api(objects: &[(Kind, &str, Value)]) -> ControlApi {
    api_that_shows(objects, None)
}

fn api_that_shows(objects: &[(Kind, &str, Value)], inspect: Option<Arc<dyn Inspect>>) -> ControlApi {
    let store = Memory::new();
    for (kind, id, value) in objects {
        let (id, value) = ((*id).into(), Arc::new(value.clone()));
        let put = Operation::Put { kind: *kind, id, value, expected: None, ttl_seconds: None };
        finish(store.write(vec![put].into())).expect("written");
    }
    ControlApi::new(ControlParts {
        key_prefix: String::new(),
        server: "APISIX/3.18.0",
        store: Arc::new(store),
        plugins: Arc::new(Catalog::default()),
        stream_plugins: None,
        health: Arc::new(Checked),
        hooks: Arc::new(NoControlHooks),
        audit: None,
        compiled: Arc::new(Refused),
        hosts: crate::Hosts::default(),
        inspect,
    })
}

fn get(api: &ControlApi, path: &str) -> Response {
    handle(api, request("GET", path, "").head)
}

/// Documents are made on threads for blocking work.
fn handle(api: &ControlApi, head: Head) -> Response {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(api.handle(head))
}

#[test]
fn rejected_objects_are_listed() {
    let api = api(&[]);
    let expected = json!({"total": 1, "list": [{"kind": "global_rules", "id": "1", "reason": "no secret",
        "effect": "every request is answered 503"}]});
    assert_eq!(body(&get(&api, "/v1/rejected")), expected);
}

#[test]
fn objects_have_their_defaults() {
    let service = json!({"id": 5, "plugins": {"limit-count": {"count": 2}}, "upstream": {"nodes": {"127.0.0.1:1980": 1}}});
    let api = api(&[(Kind::Service, "5", service)]);
    let value = body(&get(&api, "/v1/service/5"))["value"].clone();
    assert_eq!(value["id"], "5");
    assert_eq!(value["plugins"]["limit-count"], json!({"count": 2, "policy": "local", "_meta": {}}));
    let upstream = json!({"nodes": [{"host": "127.0.0.1", "port": 1980, "weight": 1}], "hash_on": "vars",
        "pass_host": "pass", "scheme": "http", "type": "roundrobin"});
    assert_eq!(value["upstream"], upstream);
    assert_eq!(body(&get(&api, "/v1/services"))[0]["key"], "/services/5");
    assert_eq!(get(&api, "/v1/routes").body, "{}\n");
    assert_eq!(get(&api, "/v1/service/6").status, 404);
}

#[test]
fn checked_nodes_are_shown() {
    let checked = json!({"nodes": {"127.0.0.1:1980": 1}, "checks": {"active": {}}});
    let api = api(&[(Kind::Upstream, "1", checked), (Kind::Upstream, "2", json!({"nodes": {"a": 1}}))]);
    let checker = json!({"name": "/upstreams/1", "type": "http", "nodes": [{
        "ip": "127.0.0.1", "port": 1980, "hostname": "127.0.0.1", "status": "unhealthy",
        "counter": {"success": 0, "tcp_failure": 2, "http_failure": 0, "timeout_failure": 0},
    }]});
    assert_eq!(body(&get(&api, "/v1/healthcheck")), json!([checker]));
    assert_eq!(body(&get(&api, "/v1/healthcheck/upstreams/1")), checker);
    for (path, status, message) in [
        ("/v1/healthcheck/upstreams/2", 404, "no checker for upstreams[2]"),
        ("/v1/healthcheck/routes/1", 404, "routes[1] not found"),
        ("/v1/healthcheck/route/1", 400, "invalid src type route"),
        ("/v1/plugin_metadata/x", 404, "plugin metadata[x] not found"),
    ] {
        let response = get(&api, path);
        assert_eq!((response.status, &body(&response)["error_msg"]), (status, &json!(message)));
    }
    let mut page = request("GET", "/v1/healthcheck", "").head;
    page.headers.push(("Accept".into(), "text/html".into()));
    let page = String::from_utf8_lossy(&handle(&api, page).body).into_owned();
    assert!(page.contains("<td>127.0.0.1:1980</td><td>unhealthy</td>"), "{page}");
}

/// Says what it was asked for; cannot be asked for 2 or 3 seconds.
struct Asked;

impl Inspect for Asked {
    fn profile(&self, seconds: u64, form: ProfileForm) -> BoxFuture<'_, Result<Vec<u8>, NoProfile>> {
        Box::pin(async move {
            match seconds {
                2 => Err(NoProfile::Busy),
                3 => Err(NoProfile::Failed("no timers".to_owned())),
                _ => Ok(format!("{seconds} {form:?}").into_bytes()),
            }
        })
    }

    fn heap(&self) -> Value {
        json!({"allocator": "mimalloc"})
    }
}

#[test]
fn profiles_are_for_clients_on_this_machine_where_they_are_on() {
    let ask = |api: &ControlApi, target: &str, peer: &str| {
        let mut head = request("GET", target, "").head;
        head.peer = peer.parse().expect("an address");
        let response = handle(api, head);
        (response.status, String::from_utf8_lossy(&response.body).into_owned())
    };
    let off = api(&[]);
    for path in ["/v1/profile", "/v1/heap"] {
        let (status, body) = ask(&off, path, "127.0.0.1");
        assert!(status == 403 && body.contains("apisix.control.profiling: true"), "{status} {body}");
    }
    let on = api_that_shows(&[], Some(Arc::new(Asked)));
    for (target, peer, status, part) in [
        ("/v1/profile", "127.0.0.1", 200, "10 Pprof"),
        ("/v1/profile?seconds=60&format=folded", "::1", 200, "60 Folded"),
        ("/v1/profile?format=pprof", "::ffff:127.0.0.1", 200, "10 Pprof"),
        ("/v1/profile", "10.0.0.1", 403, "127.0.0.1"),
        ("/v1/heap", "::ffff:10.0.0.1", 403, "127.0.0.1"),
        ("/v1/heap", "127.0.0.1", 200, "mimalloc"),
        ("/v1/profile?seconds=0", "127.0.0.1", 400, "from 1 to 60"),
        ("/v1/profile?seconds=61", "127.0.0.1", 400, "from 1 to 60"),
        ("/v1/profile?seconds=1.5", "127.0.0.1", 400, "from 1 to 60"),
        ("/v1/profile?format=svg", "127.0.0.1", 400, "pprof or folded"),
        ("/v1/profile?seconds=2", "127.0.0.1", 409, "one is taken at a time"),
        ("/v1/profile?seconds=3", "127.0.0.1", 503, "no timers"),
    ] {
        let (found, body) = ask(&on, target, peer);
        assert!(found == status && body.contains(part), "{target} {peer}: {found} {body}");
    }
}
