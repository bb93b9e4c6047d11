//! Connections that change their protocol.

use super::{stage::run_until_idle, *};
use crate::{Settings, timers::TICK_MS};

const UPGRADE: &str = "GET /ws/a HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
const SWITCH: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";

#[test]
fn bytes_around_the_switch_are_not_lost() {
    play(async || {
        let stage = Stage::new().await;
        let mut client = stage.client();
        // A client that does not wait, and a node that has something to say at once.
        client.send(format!("{UPGRADE}early")).await;
        let mut node = stage.accept(0).await;
        let request = node.request_head().await.to_ascii_lowercase();
        assert!(request.contains("\r\nupgrade: websocket\r\n"), "{request}");
        assert!(node.hears_nothing().await, "the node has not agreed yet");
        node.send(format!("{SWITCH}hello")).await;
        let head = client.request_head().await;
        assert!(head.starts_with("HTTP/1.1 101 Switching Protocols\r\n"), "{head}");
        client.expect("hello").await;
        node.expect("early").await;
        for turn in 0..3 {
            client.send(format!("up {turn}")).await;
            node.expect(&format!("up {turn}")).await;
            node.send(format!("down {turn}")).await;
            client.expect(&format!("down {turn}")).await;
        }
        // Each direction ends for itself.
        client.end().await;
        assert_eq!(node.rest().await, "");
        node.send("bye").await;
        client.expect("bye").await;
        node.end().await;
        assert_eq!(client.rest().await, "");
        run_until_idle().await;
        assert_eq!(stage.worker.connections.get(), 0);
    });
}

#[test]
fn a_tunnel_in_which_nothing_moves_ends_after_the_time_of_the_node() {
    play(async || {
        let upstream = serde_json::json!({"timeout": {"connect": 1, "send": 1, "read": 3}});
        let stage = Stage::with(1, upstream, Settings::default()).await;
        let mut client = stage.client();
        client.send(UPGRADE).await;
        let mut node = stage.accept(0).await;
        node.request_head().await;
        node.send(SWITCH).await;
        client.request_head().await;
        for turn in 0..4 {
            stage.pass(2_900).await;
            // Either direction keeps it alive.
            if turn % 2 == 0 {
                client.send("x").await;
                node.expect("x").await;
            } else {
                node.send("y").await;
                client.expect("y").await;
            }
        }
        stage.pass(3_000).await;
        assert!(client.hears_nothing().await && node.hears_nothing().await);
        stage.pass(TICK_MS).await;
        assert_eq!((client.rest().await, node.rest().await), (String::new(), String::new()));
    });
}

#[test]
fn a_node_may_decline_to_switch() {
    play(async || {
        let stage = Stage::new().await;
        let mut client = stage.client();
        client.send(UPGRADE).await;
        let mut node = stage.accept(0).await;
        node.request_head().await;
        node.send("HTTP/1.1 426 Upgrade Required\r\nContent-Length: 2\r\n\r\nno").await;
        assert_eq!(client.answer().await.body, "no");
        client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n").await;
        assert!(node.request().await.starts_with("GET / "));
    });
}

/// RFC 9110 section 7.8; and a node that believed in a switch would read the next request as its bytes.
#[test]
fn a_switch_is_asked_for_only_where_the_route_permits_it() {
    let of = |line: &str, more: &str| {
        format!("{line} HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: {more}\r\n\r\n")
    };
    play(async || {
        let stage = Stage::new().await;
        let mut client = stage.client();
        let mut node = None;
        for request in [
            of("GET /other", "websocket"),
            of("GET /ws/a", "h2c"),
            of("POST /ws/a", "websocket"),
            of("GET /ws/a", "websocket\r\nContent-Length: 2").replace("\r\n\r\n", "\r\n\r\nok"),
        ] {
            client.send(&request).await;
            let mut kept = match node.take() {
                Some(node) => node,
                None => stage.accept(0).await,
            };
            let received = kept.request().await;
            assert!(!received.head.to_ascii_lowercase().contains("upgrade"), "{request}: {}", received.head);
            kept.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await;
            assert_eq!(client.answer().await.body, "ok", "{request}");
            node = Some(kept);
        }
    });
}
