//! The next node: when it is asked, and when it must not be.

use serde_json::json;

use super::{stage::run_until_idle, *};
use crate::Settings;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

fn request(method: &str, body: &str) -> String {
    format!("{method} / HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// As nginx's `proxy_next_upstream error timeout`: what may have been done is done again only where that is harmless.
#[test]
fn a_node_that_leaves_is_followed_by_the_next_unless_that_could_do_something_twice() {
    play(async || {
        for (method, body, again) in [
            ("GET", "", true),
            ("PUT", "hello", true),
            ("DELETE", "", true),
            ("POST", "hello", false),
            ("PATCH", "", false),
        ] {
            let stage = Stage::with(2, json!({}), Settings::default()).await;
            let mut client = stage.client();
            client.send(request(method, body)).await;
            let mut first = stage.accept(0).await;
            assert_eq!(first.request().await.body, body);
            drop(first);
            if again {
                let mut second = stage.accept(1).await;
                assert_eq!(second.request().await.body, body, "{method}");
                second.send(OK).await;
                assert_eq!(client.answer().await.body, "ok", "{method}");
            } else {
                assert!(client.answer().await.starts_with("HTTP/1.1 502 "), "{method}");
                assert!(stage.is_left_alone(1).await, "{method}");
            }
        }
    });
}

#[test]
fn a_body_that_is_gone_is_not_sent_again() {
    play(async || {
        let stage = Stage::with(2, json!({}), Settings::default()).await;
        let mut client = stage.client();
        // More than is gathered before a node is chosen.
        client.send(format!("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n", 4 << 20)).await;
        client.send_what_fits(&vec![b'x'; 1 << 20]).await;
        let mut first = stage.accept(0).await;
        first.request_head().await;
        drop(first);
        run_until_idle().await;
        assert!(client.answer().await.starts_with("HTTP/1.1 502 "));
        assert!(stage.is_left_alone(1).await);
    });
}

#[test]
fn a_part_of_an_answer_is_not_followed_by_another_node() {
    play(async || {
        let stage = Stage::with(2, json!({}), Settings::default()).await;
        for (part, status) in [
            ("HTTP/1.1 200 OK\r\nContent-Le", "HTTP/1.1 200 OK\r\nContent-Length: 2"),
            ("garbage\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 2"),
        ] {
            let mut client = stage.client();
            client.send(request("GET", "")).await;
            let mut first = stage.accept(0).await;
            first.request().await;
            first.send(part).await;
            drop(first);
            // Nothing of it has reached the client: the next node may answer a request that is harmless.
            let mut second = stage.accept(1).await;
            second.request().await;
            second.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok").await;
            assert!(client.answer().await.starts_with(status), "{part:?}");
        }
        let mut client = stage.client();
        client.send(request("GET", "")).await;
        let mut first = stage.accept(0).await;
        first.request().await;
        first.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel").await;
        drop(first);
        assert!(client.rest().await.ends_with("\r\n\r\nhel"));
        assert!(stage.is_left_alone(1).await);
    });
}

#[test]
fn retries_are_as_many_as_the_upstream_says() {
    play(async || {
        let stage = Stage::with(3, json!({"retries": 1}), Settings::default()).await;
        let mut client = stage.client();
        client.send(request("GET", "")).await;
        for node in 0..2 {
            let mut leaving = stage.accept(node).await;
            leaving.request().await;
            drop(leaving);
        }
        assert!(client.answer().await.starts_with("HTTP/1.1 502 "));
        assert!(stage.is_left_alone(2).await);
    });
}

#[test]
fn a_node_that_refuses_connections_is_followed_by_the_next_for_every_method() {
    play(async || {
        let mut stage = Stage::with(2, json!({}), Settings::default()).await;
        stage.close_node(0);
        let mut client = stage.client();
        client.send(request("POST", "hello")).await;
        // The second one is the only one left.
        let mut node = stage.accept(0).await;
        assert_eq!(node.request().await.body, "hello");
        node.send(OK).await;
        assert_eq!(client.answer().await.body, "ok");
    });
}

/// The node closes an idle connection in the moment in which a request takes it.
#[test]
fn a_kept_connection_that_ends_as_it_is_taken_counts_for_nothing() {
    play(async || {
        for (method, again) in [("GET", true), ("POST", false)] {
            let stage = Stage::with(2, json!({}), Settings::default()).await;
            let mut client = stage.client();
            client.send(request("GET", "")).await;
            let mut node = stage.accept(0).await;
            node.request().await;
            node.send(OK).await;
            assert_eq!(client.answer().await.body, "ok");
            client.send(request(method, "")).await;
            node.request().await;
            drop(node);
            if again {
                // The same node again, not the next one.
                let mut fresh = stage.accept(0).await;
                fresh.request().await;
                fresh.send(OK).await;
                assert_eq!(client.answer().await.body, "ok", "{method}");
            } else {
                assert!(client.answer().await.starts_with("HTTP/1.1 502 "), "{method}");
                assert!(stage.is_left_alone(0).await, "{method}");
            }
            assert!(stage.is_left_alone(1).await, "{method}");
        }
    });
}

#[test]
fn a_kept_connection_that_has_ended_is_not_taken() {
    play(async || {
        let stage = Stage::new().await;
        let mut client = stage.client();
        client.send(request("GET", "")).await;
        let mut node = stage.accept(0).await;
        node.request().await;
        node.send(OK).await;
        assert_eq!(client.answer().await.body, "ok");
        node.end().await;
        client.send(request("POST", "hello")).await;
        let mut fresh = stage.accept(0).await;
        assert_eq!(fresh.request().await.body, "hello");
        fresh.send(OK).await;
        assert_eq!(client.answer().await.body, "ok");
    });
}
