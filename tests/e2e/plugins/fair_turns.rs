//! Large bodies that conditions look into are read by a few threads: addresses take turns there, whoever came first.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc;
use std::thread;

use serde_json::json;
use tidegate_testkit::gateway::YAML_PROVIDER;
use tidegate_testkit::{Client, Gateway, Upstream};

const ATTACKERS: usize = 40;

fn multipart(parts: usize, length: usize) -> String {
    let value = "x".repeat(length);
    let part =
        |at: usize| format!("--b\r\nContent-Disposition: form-data; name=\"k{at}\"\r\n\r\n{value}\r\n");
    (0..parts).map(part).collect::<String>() + "--b--\r\n"
}

fn send(client: &mut Client, body: &str) {
    let head = format!(
        "POST /c HTTP/1.1\r\nHost: h\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    client.send(head.as_bytes()).expect("sends the head");
    client.send(body.as_bytes()).expect("sends the body");
}

#[test]
fn one_address_with_many_bodies_is_one_turn() {
    let upstream = Upstream::start();
    let target = json!({"type": "roundrobin", "nodes": {upstream.address.to_string(): 1}});
    let routes = json!({"routes": [
        {"id": "a", "uri": "/c", "vars": [["post_arg.a", "==", "1"]], "upstream": target},
        {"id": "b", "uri": "/c", "priority": -1, "plugins": {"mocking": {"response_example": "fine"}}},
    ]});
    let gateway = Gateway::start(YAML_PROVIDER, Some(&routes.to_string()));
    let connect = |from: [u8; 4]| Client::connect_from((from, 0).into(), gateway.http).expect("connects");
    let (many, done) = (Arc::new(multipart(40_000, 1)), Arc::new(AtomicUsize::new(0)));
    let (sent, all_sent) = mpsc::channel();
    let attackers: Vec<_> = (0..ATTACKERS)
        .map(|_| {
            let (many, done, sent, mut client) =
                (many.clone(), done.clone(), sent.clone(), connect([127, 0, 1, 1]));
            thread::spawn(move || {
                send(&mut client, &many);
                let _ = sent.send(());
                let status = client.response().expect("an answer").status();
                done.fetch_add(1, SeqCst);
                status
            })
        })
        .collect();
    for _ in 0..ATTACKERS {
        all_sent.recv().expect("a body is sent");
    }
    let mut honest = connect([127, 0, 0, 9]);
    let before = done.load(SeqCst);
    send(&mut honest, &multipart(1, 300_000));
    let answer = honest.response().expect("an answer");
    let after = done.load(SeqCst);
    println!(
        "{before} of {ATTACKERS} bodies were read before, {} while one of another address waited",
        after - before
    );
    assert_eq!((answer.status(), answer.body_text().trim_end()), (200, "fine"));
    assert!(before + 16 <= ATTACKERS, "the queue was too short: {before} of {ATTACKERS} were read already");
    assert!(after - before <= 8, "{} bodies came first", after - before);
    for attacker in attackers {
        assert_eq!(attacker.join().expect("no panic"), 200);
    }
}
