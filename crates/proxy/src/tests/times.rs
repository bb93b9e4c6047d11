//! Time limits: each ends its own wait, at its time and not before.

use serde_json::json;

use super::*;
use crate::{Settings, timers::TICK_MS};

const GET: &str = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const TIMEOUT: &str = r#"{"timeout": {"connect": 1, "send": 2, "read": 3}, "retries": 0}"#;

async fn stage() -> Stage {
    let upstream = serde_json::from_str(TIMEOUT).unwrap_or_default();
    Stage::with(1, upstream, Settings::default()).await
}

#[test]
fn a_node_that_is_silent_is_504_after_its_time() {
    play(async || {
        let stage = stage().await;
        let mut client = stage.client();
        client.send(GET).await;
        let mut node = stage.accept(0).await;
        node.request().await;
        stage.pass(3_000).await;
        assert!(client.hears_nothing().await);
        stage.pass(TICK_MS).await;
        assert!(client.answer().await.starts_with("HTTP/1.1 504 "));
        assert_eq!(node.rest().await, "", "the late answer reaches no client");
    });
}

/// Part of a head does not count: a node could go on for ever.
#[test]
fn a_node_that_trickles_its_head_is_504_after_its_time() {
    play(async || {
        let stage = stage().await;
        let mut client = stage.client();
        client.send(GET).await;
        let mut node = stage.accept(0).await;
        node.request().await;
        node.send("HTTP/1.1 200 OK\r\nX-").await;
        for _ in 0..3 {
            stage.pass(1_000).await;
            node.send("a").await;
        }
        stage.pass(TICK_MS).await;
        assert!(client.answer().await.starts_with("HTTP/1.1 504 "));
    });
}

#[test]
fn a_body_may_take_any_time_as_long_as_it_moves() {
    play(async || {
        let stage = stage().await;
        let mut client = stage.client();
        client.send(GET).await;
        let mut node = stage.accept(0).await;
        node.request().await;
        node.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").await;
        for _ in 0..5 {
            stage.pass(2_900).await;
            node.send("1\r\nx\r\n").await;
        }
        stage.pass(3_000).await;
        assert_eq!(stage.worker.connections.get(), 1);
        stage.pass(TICK_MS).await;
        let came = client.rest().await;
        assert!(came.ends_with("1\r\nx\r\n"), "cut, not ended: {came}");
        assert_eq!(node.rest().await, "");
    });
}

#[test]
fn a_client_has_a_time_for_its_whole_head() {
    play(async || {
        let settings = Settings { client_header_timeout_ms: 10_000, ..Settings::default() };
        let stage = Stage::with(1, json!({}), settings).await;
        let mut client = stage.client();
        client.send("GET / HTTP/1.1\r\nHost: h\r\nX: ").await;
        for _ in 0..5 {
            stage.pass(2_000).await;
            client.send("x").await;
        }
        assert!(client.hears_nothing().await);
        stage.pass(TICK_MS).await;
        assert!(client.answer().await.starts_with("HTTP/1.1 408 "));
        // One that has sent nothing gets nothing.
        let mut silent = stage.client();
        stage.pass(10_000).await;
        assert!(silent.hears_nothing().await);
        stage.pass(2 * TICK_MS).await;
        assert_eq!(silent.rest().await, "");
    });
}

#[test]
fn a_client_that_stops_sending_its_body_is_408_and_leaves_the_node() {
    play(async || {
        let stage = stage().await;
        let mut client = stage.client();
        client.send("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 20000\r\n\r\n").await;
        client.send("x".repeat(9_000)).await;
        let mut node = stage.accept(0).await;
        node.request_head().await;
        // The limits of the node are for what the node does.
        stage.pass(59_000).await;
        client.send("x").await;
        stage.pass(60_000).await;
        assert!(client.hears_nothing().await);
        stage.pass(TICK_MS).await;
        let answer = client.answer().await;
        assert!(answer.starts_with("HTTP/1.1 408 "), "{}", answer.head);
        assert_eq!(node.rest().await.len(), 9_001);
    });
}

/// The node's time to answer begins when it has all.
#[test]
fn a_node_has_its_time_from_the_end_of_the_request() {
    play(async || {
        let stage = stage().await;
        let mut client = stage.client();
        client.send("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 20000\r\n\r\n").await;
        client.send("x".repeat(10_000)).await;
        let mut node = stage.accept(0).await;
        stage.pass(50_000).await;
        client.send("x".repeat(10_000)).await;
        assert_eq!(node.request().await.body.len(), 20_000);
        stage.pass(2_900).await;
        node.send(OK).await;
        assert_eq!(client.answer().await.body, "ok");
    });
}

#[test]
fn a_node_that_does_not_take_the_request_is_504_after_its_time() {
    play(async || {
        let stage = stage().await;
        let mut client = stage.client();
        client.send(format!("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n", 64 << 20)).await;
        let piece = vec![b'x'; 1 << 20];
        while client.send_what_fits(&piece).await == piece.len() {}
        let node = stage.accept(0).await;
        // The kernel's buffers grow while bytes move: the time begins when none do.
        let (mut passed_ms, mut quiet_ms) = (0, 0);
        loop {
            stage.pass(TICK_MS).await;
            passed_ms += TICK_MS;
            quiet_ms += TICK_MS;
            if !client.hears_nothing().await {
                break;
            }
            assert!(quiet_ms <= 2_000 + TICK_MS, "{quiet_ms} ms");
            if client.send_what_fits(&piece).await > 0 {
                quiet_ms = 0;
            }
        }
        assert!(passed_ms >= 2_000, "{passed_ms} ms");
        assert!(client.answer().await.starts_with("HTTP/1.1 504 "));
        drop(node);
    });
}

#[test]
fn a_node_without_room_for_connections_is_504_after_its_time() {
    play(async || {
        let upstream = serde_json::from_str(TIMEOUT).unwrap_or_default();
        let (stage, waiting) = Stage::with_full_node(upstream).await;
        let mut client = stage.client();
        client.send(GET).await;
        stage.pass(1_000).await;
        assert!(client.hears_nothing().await);
        stage.pass(TICK_MS).await;
        assert!(client.answer().await.starts_with("HTTP/1.1 504 "));
        drop(waiting);
    });
}

#[test]
fn an_idle_connection_ends_after_its_time() {
    play(async || {
        let settings = Settings { keepalive_timeout_ms: 5_000, ..Settings::default() };
        let stage = Stage::with(1, json!({}), settings).await;
        let mut client = stage.client();
        client.send(GET).await;
        let mut node = stage.accept(0).await;
        node.request().await;
        // Time in which it serves a request does not count.
        stage.pass(20_000).await;
        node.send(OK).await;
        assert_eq!(client.answer().await.body, "ok");
        stage.pass(5_000).await;
        assert!(client.hears_nothing().await);
        stage.pass(2 * TICK_MS).await;
        assert_eq!(client.rest().await, "");
    });
}

#[test]
fn a_client_that_does_not_take_its_answer_ends_after_its_time() {
    play(async || {
        let stage = stage().await;
        let mut client = stage.client();
        client.send(GET).await;
        let mut node = stage.accept(0).await;
        node.request().await;
        node.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", 64 << 20)).await;
        let piece = vec![b'x'; 1 << 20];
        while node.send_what_fits(&piece).await == piece.len() {}
        let limit_ms = stage.worker.settings.send_timeout_ms;
        stage.pass(limit_ms).await;
        assert_eq!(stage.worker.connections.get(), 1);
        stage.pass(TICK_MS).await;
        let came = client.rest().await;
        assert!(came.starts_with("HTTP/1.1 200 OK") && came.len() < 64 << 20);
        node.rest().await;
        assert_eq!(stage.worker.connections.get(), 0);
    });
}
