//! Many writes of one object at the same moment: each is made on what the one before it left, and none is lost.

use std::thread;

use serde_json::{Value, json};
use tidegate_testkit::gateway::{ADMIN_KEY, EMBEDDED};
use tidegate_testkit::{Client, Gateway};

const WRITERS: usize = 24;

const TEAM_KEY: &str = "key-of-team-a";

fn start() -> Gateway {
    let keys = format!("role: admin}}, {{name: a, key: {TEAM_KEY}, role: editor, scope: {{team: a}}}}]");
    let mut gateway = Gateway::start(&EMBEDDED.replace("role: admin}]", &keys), None);
    gateway.process.wait_for_port(gateway.admin);
    gateway
}

fn send(gateway: &Gateway, key: &str, method: &str, path: &str, body: &str) -> (u16, Value) {
    let mut client = Client::connect(gateway.admin).expect("connected");
    let length = body.len();
    let request = format!(
        "{method} /apisix/admin{path} HTTP/1.1\r\nHost: a\r\nX-API-KEY: {key}\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    let answer = client.request(&request).expect("an answer");
    (answer.status(), serde_json::from_slice(&answer.body).unwrap_or_default())
}

/// What each of the writers gets.
fn at_once(write: impl Fn(usize) -> (u16, Value) + Sync) -> Vec<(u16, Value)> {
    thread::scope(|scope| {
        let write = &write;
        let writers: Vec<_> = (0..WRITERS).map(|number| scope.spawn(move || write(number))).collect();
        writers.into_iter().map(|writer| writer.join().expect("no panic")).collect()
    })
}

#[test]
fn writes_of_one_object_at_the_same_moment_are_all_made() {
    let gateway = start();
    let route = json!({"uri": "/c", "plugins": {}, "labels": {"team": "a"}}).to_string();
    assert_eq!(send(&gateway, ADMIN_KEY, "PUT", "/routes/c", &route).0, 201);
    for key in [ADMIN_KEY, TEAM_KEY] {
        let answers = at_once(|number| {
            let change = json!({"labels": {format!("{key}-{number}"): "x"}}).to_string();
            send(&gateway, key, "PATCH", "/routes/c", &change)
        });
        assert!(answers.iter().all(|(status, _)| *status == 200), "{answers:?}");
    }
    let (_, stored) = send(&gateway, ADMIN_KEY, "GET", "/routes/c", "");
    let labels = stored["value"]["labels"].as_object().expect("labels");
    assert_eq!(labels.len(), 1 + 2 * WRITERS, "{labels:?}");
    // What only some may write is written on the state that was looked at; a PUT replaces whatever that is.
    let answers = at_once(|_| send(&gateway, TEAM_KEY, "PUT", "/routes/c", &route));
    assert!(answers.iter().all(|(status, _)| *status == 200), "{answers:?}");
    let answers = at_once(|_| send(&gateway, TEAM_KEY, "DELETE", "/routes/c", ""));
    let count = |wanted: u16| answers.iter().filter(|(status, _)| *status == wanted).count();
    assert_eq!((count(200), count(404)), (1, WRITERS - 1), "{answers:?}");
    let answers = at_once(|_| send(&gateway, TEAM_KEY, "PUT", "/routes/c", &route));
    let created = answers.iter().filter(|(status, _)| *status == 201).count();
    assert!(created == 1 && answers.iter().all(|(status, _)| matches!(status, 200 | 201)), "{answers:?}");
}
