//! What nodes answer: broken heads, bodies that are cut, too many bytes, none where some are announced.

use serde_json::json;
use tidegate_protocol::Method;

use super::{stage::run_until_idle, *};
use crate::Settings;

const GET: &str = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";

#[test]
fn an_answer_that_can_be_read_in_two_ways_is_502_and_ends_its_connection() {
    let heads = [
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nContent-Length: 0x2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/2 200 OK\r\n\r\n",
        "ok\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA b: c\r\n\r\n",
        // The request has not asked for another protocol.
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
    ];
    play(async || {
        let stage = Stage::new().await;
        for head in heads {
            let mut client = stage.client();
            client.send(GET).await;
            let mut node = stage.accept(0).await;
            node.request().await;
            node.send(head).await;
            let answer = client.answer().await;
            assert!(answer.starts_with("HTTP/1.1 502 "), "{head:?}: {}", answer.head);
            assert_eq!(node.rest().await, "", "{head:?}: the connection ends");
        }
    });
}

/// What looks whole to the client is whole.
#[test]
fn an_answer_that_is_cut_is_cut_for_the_client() {
    play(async || {
        let stage = Stage::new().await;
        for (answer, body) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello", "hello"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", "5\r\nhello\r\n"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhello", "5\r\nhello\r\n"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n", "5\r\nhello\r\n"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nxyz\r\n", "5\r\nhello\r\n"),
        ] {
            let mut client = stage.client();
            client.send(GET).await;
            let mut node = stage.accept(0).await;
            node.request().await;
            node.send(answer).await;
            drop(node);
            let came = client.rest().await;
            let (head, rest) = came.split_once("\r\n\r\n").unwrap_or_default();
            assert!(head.starts_with("HTTP/1.1 200 OK"), "{answer:?}: {came}");
            assert_eq!(rest, body, "{answer:?}");
        }
    });
}

#[test]
fn an_answer_until_the_end_of_the_connection_is_whole() {
    play(async || {
        let stage = Stage::new().await;
        let mut client = stage.client();
        client.send(GET).await;
        let mut node = stage.accept(0).await;
        node.request().await;
        node.send("HTTP/1.1 200 OK\r\n\r\nhello").await;
        drop(node);
        assert_eq!(client.answer().await.body, "hello");
        client.send(GET).await;
        stage.accept(0).await.request().await;
    });
}

/// Bytes behind an answer would be the answer to the next request.
#[test]
fn bytes_behind_an_answer_end_its_connection() {
    const SPLIT: &str =
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil";
    play(async || {
        let stage = Stage::new().await;
        for late in [false, true] {
            let (mut client, mut other) = (stage.client(), stage.client());
            client.send(GET).await;
            let mut node = stage.accept(0).await;
            node.request().await;
            let at = if late { SPLIT.find("ok").unwrap_or_default() + 2 } else { SPLIT.len() };
            node.send(&SPLIT[..at]).await;
            assert_eq!(client.answer().await.body, "ok");
            node.send_what_fits(&SPLIT.as_bytes()[at..]).await;
            run_until_idle().await;
            other.send(GET).await;
            let mut fresh = stage.accept(0).await;
            fresh.request().await;
            fresh.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\ngood").await;
            assert_eq!(other.answer().await.body, "good", "late: {late}");
        }
    });
}

#[test]
fn answers_without_a_body_have_none_whatever_they_announce() {
    play(async || {
        let stage = Stage::new().await;
        let mut client = stage.client();
        client.send("HEAD / HTTP/1.1\r\nHost: h\r\n\r\n").await;
        let mut node = stage.accept(0).await;
        node.request().await;
        node.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n").await;
        let answer = client.answer_to(Method::Head).await;
        assert!(answer.has("Content-Length: 10"), "{}", answer.head);
        for status in ["204 No Content", "304 Not Modified"] {
            client.send(GET).await;
            node.request().await;
            node.send(format!("HTTP/1.1 {status}\r\n\r\n")).await;
            assert!(client.answer().await.starts_with(&format!("HTTP/1.1 {status}\r\n")));
        }
        // It is over for the client at once, and the connection to the node is not trusted after a framing field.
        client.send(GET).await;
        node.request().await;
        node.send("HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n").await;
        let answer = client.answer().await;
        assert!(!answer.head.to_ascii_lowercase().contains("transfer-encoding"), "{}", answer.head);
        assert_eq!(node.rest().await, "");
    });
}

#[test]
fn interim_answers_stay_with_the_gateway_and_come_to_an_end() {
    play(async || {
        let stage = Stage::with(1, json!({"retries": 0}), Settings::default()).await;
        let mut client = stage.client();
        client.send(GET).await;
        let mut node = stage.accept(0).await;
        node.request().await;
        for _ in 0..3 {
            node.send("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n").await;
        }
        assert!(client.hears_nothing().await);
        node.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await;
        assert_eq!(client.answer().await.body, "ok");

        client.send(GET).await;
        node.request().await;
        node.send("HTTP/1.1 102 Processing\r\n\r\n".repeat(101)).await;
        assert!(client.answer().await.starts_with("HTTP/1.1 502 "));
        assert_eq!(node.rest().await, "");
    });
}

#[test]
fn fields_of_one_connection_stay_on_it() {
    play(async || {
        let stage = Stage::new().await;
        let mut client = stage.client();
        client
            .send(
                "GET / HTTP/1.1\r\nHost: h\r\nConnection: x-a\r\nX-A: 1\r\nTE: gzip\r\nKeep-Alive: 5\r\n\r\n",
            )
            .await;
        let mut node = stage.accept(0).await;
        let request = node.request().await.head.to_ascii_lowercase();
        for name in ["x-a:", "keep-alive:", "gzip", "upgrade:"] {
            assert!(!request.contains(name), "{name} in {request}");
        }
        node.send("HTTP/1.1 200 OK\r\nConnection: X-B\r\nX-B: 1\r\nX-C: 1\r\nContent-Length: 0\r\n\r\n")
            .await;
        let answer = client.answer().await;
        assert!(answer.has("X-C: 1") && !answer.has("X-B: 1"), "{}", answer.head);
    });
}
