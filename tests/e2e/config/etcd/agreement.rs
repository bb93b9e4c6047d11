//! A write through any gateway takes effect on all of them, soon.

use std::time::{Duration, Instant};

use tidegate_testkit::{Etcd, Gateway, eventually};

use super::{config, mock, status};

const ROUNDS: usize = 30;

#[test]
fn three_gateways_agree() {
    let etcd = Etcd::start();
    let gateways: Vec<Gateway> = (0..3).map(|_| Gateway::start(&config(&etcd.url()), None)).collect();
    let mut delays = Vec::new();
    for round in 0..ROUNDS {
        let path = format!("/round{round}");
        let writer = &gateways[round % 3];
        let start = Instant::now();
        let (code, answer) = writer.admin("PUT", &format!("/apisix/admin/routes/{round}"), &mock(&path, 202));
        assert_eq!(code, 201, "{answer}");
        assert_eq!(status(writer, &path), 202, "the writer sees its own write");
        for other in &gateways {
            eventually("the others serve it", || status(other, &path) == 202);
        }
        delays.push(start.elapsed());
    }
    delays.sort();
    let (middle, worst) = (delays[ROUNDS / 2], delays[ROUNDS - 1]);
    println!("from PUT to live on three gateways: median {middle:?}, worst {worst:?} of {ROUNDS}");
    assert!(worst < Duration::from_secs(1), "{delays:?}");

    // Changes of the same object through different gateways: the last one stands everywhere.
    for (round, writer) in gateways.iter().cycle().take(9).enumerate() {
        let body = mock("/same", 201 + (round as u16 % 3));
        assert!(writer.admin("PUT", "/apisix/admin/routes/same", &body).0 < 300);
    }
    let modified = |gateway: &Gateway| gateway.admin("GET", "/apisix/admin/routes/same", "").1;
    for gateway in &gateways {
        eventually("all serve the last one", || status(gateway, "/same") == 203);
        assert_eq!(modified(gateway), modified(&gateways[0]));
    }
    assert_eq!(gateways[1].admin("DELETE", "/apisix/admin/routes/same", "").0, 200);
    for gateway in &gateways {
        eventually("it is gone everywhere", || status(gateway, "/same") == 404);
    }
}

#[test]
fn revisions_are_told() {
    let etcd = Etcd::start();
    let gateway = Gateway::start(&config(&etcd.url()), None);
    let (code, answer) =
        gateway.admin("PUT", "/apisix/admin/routes/1?wait=applied&wait_timeout=60", &mock("/a", 202));
    assert_eq!(code, 201, "{answer}");
    assert_eq!(status(&gateway, "/a"), 202);
}

/// `{"changes": [...]}` that puts these routes.
fn routes(ids: impl Iterator<Item = usize>, uri: &str) -> String {
    let put = |id| {
        let route = mock(&format!("{uri}{id}"), 203);
        format!(r#"{{"method": "PUT", "path": "/routes/{id}", "value": {route}}}"#)
    };
    format!(r#"{{"changes": [{}]}}"#, ids.map(put).collect::<Vec<_>>().join(","))
}

#[test]
fn of_transactions_on_one_revision_one_is_done() {
    let etcd = Etcd::start();
    let gateways = [&config(&etcd.url()), &config(&etcd.url())].map(|config| Gateway::start(config, None));
    let transact = |gateway: &Gateway, body: &str| gateway.admin("POST", "/apisix/admin/transactions", body);
    let (code, answer) = transact(&gateways[0], &routes(1..129, "/first"));
    assert_eq!(code, 200, "{answer}");
    for gateway in &gateways {
        eventually("all are there", || status(gateway, "/first128") == 203);
    }
    let (code, answer) = transact(&gateways[0], &routes(1..130, "/more"));
    assert_eq!(code, 501, "{answer}");
    assert!(answer.contains("at most 128"), "{answer}");
    assert_eq!(status(&gateways[0], "/more1"), 404);

    // Read at one revision through both; each changes another half of the same thing.
    for round in 0..10 {
        let stored = |gateway: &Gateway| {
            let (_, answer) = gateway.admin("GET", "/apisix/admin/revision", "");
            let answer: serde_json::Value = serde_json::from_str(&answer).expect("JSON");
            answer["stored"].as_u64().expect("a number")
        };
        eventually("both stand at one revision", || stored(&gateways[0]) == stored(&gateways[1]));
        let revision = stored(&gateways[0]);
        let uris = [format!("/left{round}-"), format!("/right{round}-")];
        let codes: Vec<u16> = std::thread::scope(|scope| {
            let one = |(gateway, uri): (&Gateway, &String)| {
                let (admin, body) = (gateway.admin, routes(1..3, uri));
                scope.spawn(move || at_revision(admin, revision, &body))
            };
            let threads: Vec<_> = gateways.iter().zip(&uris).map(one).collect();
            threads.into_iter().map(|thread| thread.join().expect("an answer")).collect()
        });
        assert!(codes == [200, 412] || codes == [412, 200], "round {round}: {codes:?}");
    }
}

/// A transaction with `If-Match`; its status.
fn at_revision(admin: std::net::SocketAddr, revision: u64, body: &str) -> u16 {
    let mut client = tidegate_testkit::Client::connect(admin).expect("the admin port");
    let length = body.len();
    let answer = client.request(&format!(
        "POST /apisix/admin/transactions HTTP/1.1\r\nHost: admin\r\nX-API-KEY: {}\r\nIf-Match: {revision}\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n{body}",
        tidegate_testkit::gateway::ADMIN_KEY
    ));
    answer.expect("an answer").status()
}

#[test]
fn the_past_is_etcds_and_documents_are_transactions() {
    let etcd = Etcd::start();
    let gateway = Gateway::start(&config(&etcd.url()), None);
    for (method, path) in [
        ("GET", "history"),
        ("GET", "history/1"),
        ("GET", "checkpoints"),
        ("PUT", "checkpoints/a"),
        ("DELETE", "checkpoints/a"),
        ("POST", "rollback"),
    ] {
        let (code, answer) = gateway.admin(method, &format!("/apisix/admin/{path}"), r#"{"revision": 1}"#);
        assert_eq!(code, 501, "{method} {path}: {answer}");
        assert!(answer.contains("has no history"), "{answer}");
    }
    assert_eq!(gateway.admin("PUT", "/apisix/admin/routes/old", &mock("/old", 201)).0, 201);
    let document = format!(r#"{{"routes": [{}]}}"#, mock("/new", 202).replacen('{', r#"{"id": "new","#, 1));
    let (code, answer) = gateway.admin("PUT", "/apisix/admin/import?mode=replace", &document);
    assert_eq!(code, 200, "{answer}");
    assert_eq!((status(&gateway, "/new"), status(&gateway, "/old")), (202, 404));
    let (code, exported) = gateway.admin("GET", "/apisix/admin/export", "");
    assert!(code == 200 && exported.contains("/new") && exported.ends_with("#END\n"), "{exported}");
}
