//! Where requests and answers begin and end, however they arrive.

use super::*;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

#[test]
fn a_request_is_the_same_wherever_it_is_split() {
    const REQUEST: &str = "POST /a?b HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n\
        4;ext=\"a\"\r\nwiki\r\n00A\r\n0123456789\r\n0\r\nX: 1\r\n\r\n";
    play(async || {
        let stage = Stage::new().await;
        let mut node = None;
        for at in 1..REQUEST.len() {
            let mut client = stage.client();
            client.send(&REQUEST[..at]).await;
            client.send(&REQUEST[at..]).await;
            // The connection of the request before is used again.
            let mut kept = match node.take() {
                Some(node) => node,
                None => stage.accept(0).await,
            };
            let request = kept.request().await;
            assert!(request.starts_with("POST /a?b HTTP/1.1\r\n"), "split at {at}: {}", request.head);
            assert_eq!(request.body, "wiki0123456789", "split at {at}");
            kept.send(OK).await;
            assert_eq!(client.answer().await.body, "ok", "split at {at}");
            node = Some(kept);
        }
    });
}

#[test]
fn an_answer_is_the_same_wherever_it_is_split() {
    const ANSWER: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-A: 1\r\n\r\n\
        5\r\nhello\r\n0b;x\r\n to you all\r\n0\r\nX-Sum: 7\r\nContent-Length: 9\r\n\r\n";
    play(async || {
        let stage = Stage::new().await;
        let mut client = stage.client();
        let mut node = None;
        for at in 1..ANSWER.len() {
            client.send("GET /a HTTP/1.1\r\nHost: h\r\nTE: trailers\r\n\r\n").await;
            let mut kept = match node.take() {
                Some(node) => node,
                None => stage.accept(0).await,
            };
            kept.request().await;
            kept.send(&ANSWER[..at]).await;
            kept.send(&ANSWER[at..]).await;
            let answer = client.answer().await;
            assert_eq!(answer.body, "hello to you all", "split at {at}");
            // A length behind the body would be believed by those who merge trailers into the head.
            assert_eq!(answer.trailers, ["X-Sum: 7"], "split at {at}");
            assert!(answer.has("X-A: 1"), "split at {at}: {}", answer.head);
            node = Some(kept);
        }
    });
}

#[test]
fn requests_that_come_together_are_answered_in_their_order() {
    play(async || {
        let stage = Stage::new().await;
        let mut client = stage.client();
        let requests = "GET /1 HTTP/1.1\r\nHost: h\r\n\r\n\
            POST /2 HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc\
            GET /3 HTTP/1.1\r\nHost: h\r\n\r\n";
        client.send(requests).await;
        let mut node = stage.accept(0).await;
        for (start, body) in [("GET /1 ", ""), ("POST /2 ", "abc"), ("GET /3 ", "")] {
            let request = node.request().await;
            assert!(request.starts_with(start), "{}", request.head);
            assert_eq!(request.body, body);
            assert!(node.hears_nothing().await, "the next one waits for the answer to {start}");
            node.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{start}", start.len())).await;
        }
        for start in ["GET /1 ", "POST /2 ", "GET /3 "] {
            assert_eq!(client.answer().await.body, start);
        }
        assert!(client.hears_nothing().await, "three answers");
    });
}

#[test]
fn what_cannot_be_a_request_is_refused_and_reaches_no_node() {
    let cases = [
        ("GET / HTTP/1.1\r\n\r\n", "400"),
        ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "400"),
        ("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", "400"),
        ("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\n", "400"),
        ("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: +3\r\n\r\nabc", "400"),
        ("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "501"),
        ("POST / HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", "400"),
        ("GET / HTTP/1.1\r\nHost : h\r\n\r\n", "400"),
        ("GET / HTTP/1.1\r\nHost: h\r\nA: b\r\n c\r\n\r\n", "400"),
        ("GET / HTTP/9.9\r\nHost: h\r\n\r\n", "505"),
    ];
    play(async || {
        let stage = Stage::new().await;
        for (request, status) in cases {
            let mut client = stage.client();
            client.send(request).await;
            let answer = client.answer().await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request:?}: {}", answer.head);
            assert!(answer.has("Connection: close"), "{request:?}: {}", answer.head);
            assert_eq!(client.rest().await, "", "{request:?}");
        }
        assert!(stage.is_left_alone(0).await);
    });
}

#[test]
fn a_chunk_that_cannot_be_read_ends_the_request() {
    play(async || {
        let stage = Stage::new().await;
        for chunk in ["x\r\n", "-1\r\n", "4\r\nwikiXX", "ffffffffffffffffff\r\n", "4 4\r\n"] {
            let mut client = stage.client();
            client
                .send("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nwiki\r\n")
                .await;
            client.send(chunk).await;
            let answer = client.answer().await;
            assert!(answer.starts_with("HTTP/1.1 400 "), "{chunk:?}: {}", answer.head);
            assert_eq!(client.rest().await, "", "{chunk:?}");
        }
    });
}
