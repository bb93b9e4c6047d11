//! `GET /apisix/admin/stats`: figures that are those of the requests, whatever happens to the process and its disk.

use std::{
    fs,
    os::unix::fs::symlink,
    time::{Duration, SystemTime},
};

use serde_json::{Value, json};
use tidegate_testkit::gateway::{ADMIN_KEY, EMBEDDED};
use tidegate_testkit::{Client, Gateway, eventually, eventually_within};

/// All requests are counted.
const COUNTED: &str = r#"{"plugins":{"prometheus":{}}}"#;

fn start() -> Gateway {
    let keys = "role: admin}, {name: guest, key: test-viewer-key, role: viewer}]";
    let mut gateway = Gateway::start(&EMBEDDED.replace("role: admin}]", keys), None);
    gateway.process.wait_for_port(gateway.admin);
    put(&gateway, "global_rules/1", COUNTED);
    gateway
}

fn put(gateway: &Gateway, path: &str, body: &str) {
    let (status, answer) = gateway.admin("PUT", &format!("/apisix/admin/{path}"), body);
    assert!(status < 300, "{path}: {answer}");
}

fn mocked(path: &str, status: u16) -> String {
    json!({"uri": path, "plugins": {"mocking": {"response_status": status, "response_example": "x"}}})
        .to_string()
}

fn figures(gateway: &Gateway, arguments: &str) -> Value {
    let (status, answer) = gateway.admin("GET", &format!("/apisix/admin/stats?{arguments}"), "");
    assert_eq!(status, 200, "{answer}");
    serde_json::from_str(&answer).expect("JSON")
}

/// Those of a range once they have so many requests.
fn figures_of(gateway: &Gateway, range: &str, counted: u64) -> Value {
    let mut last = Value::Null;
    eventually(format!("{counted} requests in {range}"), || {
        last = figures(gateway, &format!("range={range}"));
        last["totals"]["counted"] == counted
    });
    last
}

fn ask(client: &mut Client, path: &str, times: usize) {
    for _ in 0..times {
        client.get("h", path).expect("an answer");
    }
}

fn sum(list: &Value) -> u64 {
    list.as_array().expect("a list").iter().filter_map(Value::as_u64).sum()
}

#[test]
fn they_are_those_of_the_requests() {
    let gateway = start();
    put(&gateway, "routes/fine", &mocked("/fine", 200));
    put(&gateway, "routes/broken", &mocked("/broken", 503));
    let mut client = gateway.client();
    ask(&mut client, "/fine", 30);
    ask(&mut client, "/broken", 7);
    ask(&mut client, "/nowhere", 4);
    for (range, step) in [("10m", 1), ("1h", 60), ("6h", 60), ("24h", 60), ("7d", 600)] {
        let shown = figures_of(&gateway, range, 41);
        let totals = &shown["totals"];
        assert_eq!((&totals["requests"], &shown["step"]), (&json!(41), &json!(step)), "{range}");
        let status = json!({"1xx": 0, "2xx": 30, "3xx": 0, "4xx": 4, "5xx": 7});
        assert_eq!(totals["status"], status, "{range}");
        assert_eq!((sum(&shown["requests"]), sum(&shown["status"]["5xx"])), (41, 7), "{range}");
        let latencies = shown["latency"]["counts"].as_array().expect("a list").iter();
        assert_eq!(latencies.filter(|bin| bin.is_array()).map(sum).sum::<u64>(), 41, "{range}");
        assert!(totals["mean_ms"].as_f64().expect("a mean") > 0.0 && totals["p99_ms"].is_u64());
        let times = (shown["to"].as_u64().expect("an end") - shown["from"].as_u64().expect("a time")) / step;
        assert_eq!(shown["requests"].as_array().map(Vec::len), usize::try_from(times).ok(), "{range}");
        let routes: Vec<(&str, u64, u64)> = shown["routes"]
            .as_array()
            .expect("routes")
            .iter()
            .map(|one| {
                let number = |name: &str| one[name].as_u64().expect("a number");
                (one["id"].as_str().expect("an id"), number("requests"), number("status_5xx"))
            })
            .collect();
        assert_eq!(routes, [("fine", 30, 0), ("broken", 7, 7), ("", 4, 0)], "{range}");
        let one = figures(&gateway, &format!("range={range}&top=1"));
        assert_eq!(one["other_routes"]["requests"], 11);
        assert_eq!(one["kept"]["problem"], Value::Null);
    }
    for wrong in ["range=2h", "top=0", "top=1001", "top=x"] {
        let (status, answer) = gateway.admin("GET", &format!("/apisix/admin/stats?{wrong}"), "");
        assert_eq!(status, 400, "{answer}");
    }
}

/// Requests that plugin prometheus does not see are counted, and nothing is made up about them.
#[test]
fn without_the_plugin_there_is_their_number() {
    let gateway = start();
    assert!(gateway.admin("DELETE", "/apisix/admin/global_rules/1", "").0 < 300);
    put(&gateway, "routes/1", &mocked("/a", 200));
    ask(&mut gateway.client(), "/a", 9);
    eventually("9 requests", || figures(&gateway, "range=10m")["totals"]["requests"] == 9);
    let shown = figures(&gateway, "range=10m");
    assert_eq!((&shown["totals"]["counted"], &shown["totals"]["p50_ms"]), (&json!(0), &Value::Null));
    assert_eq!(shown["routes"], json!([]));
}

#[test]
fn viewers_see_who_consumes_where_it_is_granted() {
    let gateway = start();
    put(&gateway, "consumers/jo", r#"{"username":"jo","plugins":{"key-auth":{"key":"jo-key"}}}"#);
    put(&gateway, "routes/1", &mocked("/a", 200).replace("\"plugins\":{", "\"plugins\":{\"key-auth\":{},"));
    let mut client = gateway.client();
    let request = "GET /a HTTP/1.1\r\nHost: h\r\napikey: jo-key\r\n\r\n";
    assert_eq!(client.request(request).expect("an answer").status(), 200);
    let shown = figures_of(&gateway, "10m", 1);
    assert_eq!(shown["consumers"][0]["id"], "jo");
    for (name, granted) in [("anna", false), ("ben", true)] {
        let user = json!({"role": "viewer", "password": "correct horse battery", "consumer_names": granted});
        put(&gateway, &format!("users/{name}"), &user.to_string());
    }
    let as_user = |name: &str| {
        let mut client = Client::connect(gateway.admin).expect("connected");
        let body = json!({"user": name, "password": "correct horse battery"}).to_string();
        let sign_in = format!(
            "POST /apisix/admin/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let response = client.request(&sign_in).expect("a response");
        let cookie = response.header("set-cookie").and_then(|set| set.split(';').next()).expect("a cookie");
        let shown: Value = serde_json::from_slice(&response.body).expect("JSON");
        format!("Cookie: {cookie}\r\nX-CSRF-Token: {}\r\n", shown["csrf"].as_str().expect("a token"))
    };
    for (fields, expected) in [
        ("X-API-KEY: test-viewer-key\r\n".to_owned(), Value::Null),
        (as_user("anna"), Value::Null),
        (as_user("ben"), json!("jo")),
        (format!("X-API-KEY: {ADMIN_KEY}\r\n"), json!("jo")),
    ] {
        let mut client = Client::connect(gateway.admin).expect("connected");
        let request =
            format!("GET /apisix/admin/stats?range=10m HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n");
        let response = client.request(&request).expect("a response");
        assert_eq!(response.status(), 200, "{fields}");
        let shown: Value = serde_json::from_slice(&response.body).expect("JSON");
        assert_eq!(shown["consumers"][0]["id"], expected, "{fields}");
        assert_eq!(response.body_text().contains("\"jo\""), expected != Value::Null, "{fields}");
        assert_eq!(shown["totals"]["counted"], 1, "{fields}");
    }
    let mut stranger = Client::connect(gateway.admin).expect("connected");
    assert_eq!(stranger.get("localhost", "/apisix/admin/stats").expect("a response").status(), 401);
}

/// What is on the disk is at most five seconds old; a machine under load may take longer to write it.
#[test]
fn they_survive_a_kill_and_a_restart() {
    let mut gateway = start();
    put(&gateway, "routes/1", &mocked("/a", 200));
    ask(&mut gateway.client(), "/a", 20);
    let asked = SystemTime::now();
    figures_of(&gateway, "10m", 20);
    let now = gateway.prefix().join("data/stats/now");
    let saved = || fs::metadata(&now).and_then(|found| found.modified()).is_ok_and(|at| at >= asked);
    eventually_within(Duration::from_secs(15), "saved", saved);
    gateway.process.signal_kill();
    gateway.process.wait_for_exit();
    gateway.restart();
    gateway.process.wait_for_port(gateway.admin);
    for range in ["10m", "1h", "7d"] {
        let shown = figures_of(&gateway, range, 20);
        assert_eq!(shown["routes"][0]["requests"], 20, "{range}");
    }
    ask(&mut gateway.client(), "/a", 3);
    figures_of(&gateway, "1h", 23);
    assert!(gateway.process.stop().success());
    gateway.restart();
    gateway.process.wait_for_port(gateway.admin);
    assert_eq!(figures_of(&gateway, "7d", 23)["routes"][0]["requests"], 23, "an orderly end loses nothing");
}

#[test]
fn a_damaged_file_is_set_aside() {
    let mut gateway = start();
    put(&gateway, "routes/1", &mocked("/a", 200));
    ask(&mut gateway.client(), "/a", 5);
    figures_of(&gateway, "10m", 5);
    assert!(gateway.process.stop().success());
    let folder = gateway.prefix().join("data/stats");
    let mut bytes = fs::read(folder.join("now")).expect("saved");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x20;
    fs::write(folder.join("now"), bytes).expect("written");
    fs::write(folder.join("minutes-1700002800"), "tidegate stats 1 but not really").expect("written");
    gateway.restart();
    gateway.wait_for_log("now: its checksum is wrong; it is set aside as ");
    gateway.wait_for_log("minutes-1700002800: ");
    assert!(folder.join("damaged").exists());
    ask(&mut gateway.client(), "/a", 2);
    figures_of(&gateway, "10m", 2);
}

/// `/dev/full` takes no byte, as a disk that is full.
#[test]
fn a_full_disk_costs_the_figures_of_before_only() {
    let gateway = start();
    put(&gateway, "routes/1", &mocked("/a", 200));
    let folder = gateway.prefix().join("data/stats");
    eventually("a folder", || folder.join("lock").exists());
    // While a file is saved it has that name.
    eventually("a link", || symlink("/dev/full", folder.join("now.new")).is_ok());
    let mut client = gateway.client();
    ask(&mut client, "/a", 5);
    gateway.wait_for_log("figures of the console cannot be kept, and end with this process: ");
    ask(&mut client, "/a", 5);
    let shown = figures_of(&gateway, "10m", 10);
    assert!(
        shown["kept"]["problem"].as_str().is_some_and(|problem| problem.contains("No space left")),
        "{shown}"
    );
    fs::remove_file(folder.join("now.new")).expect("removed");
    ask(&mut client, "/a", 1);
    eventually("saved", || figures(&gateway, "range=10m")["kept"]["problem"].is_null());
    assert!(folder.join("now").exists());
}

#[test]
fn five_thousand_routes_are_bounded() {
    const ROUTES: usize = 5_000;
    let gateway = start();
    let changes: Vec<Value> = (0..ROUTES)
        .map(|route| {
            let value: Value = serde_json::from_str(&mocked(&format!("/r{route}"), 200)).expect("JSON");
            json!({"method": "PUT", "path": format!("/routes/r{route}"), "value": value})
        })
        .collect();
    let (status, answer) =
        gateway.admin("POST", "/apisix/admin/transactions", &json!({"changes": changes}).to_string());
    assert_eq!(status, 200, "{answer}");
    let mut client = gateway.client();
    for route in 0..ROUTES {
        assert_eq!(client.get("h", &format!("/r{route}")).expect("an answer").status(), 200);
    }
    ask(&mut client, "/r4999", 2);
    let counted = ROUTES as u64 + 2;
    figures_of(&gateway, "1h", counted);
    let shown = figures(&gateway, "range=1h&top=1000");
    let routes = shown["routes"].as_array().expect("routes");
    assert_eq!((routes.len(), &routes[0]["id"]), (1000, &json!("r4999")));
    let named: u64 = routes.iter().filter_map(|one| one["requests"].as_u64()).sum();
    assert_eq!(named + shown["other_routes"]["requests"].as_u64().expect("a number"), counted);
    let folder = gateway.prefix().join("data/stats");
    eventually("saved", || folder.join("now").exists());
    let bytes: u64 = fs::read_dir(&folder)
        .expect("a folder")
        .flatten()
        .filter_map(|one| Some(one.metadata().ok()?.len()))
        .sum();
    assert!(bytes < 200_000, "a thousand routes of a minute and of ten: {bytes}");
}
