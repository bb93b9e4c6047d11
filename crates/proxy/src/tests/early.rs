//! Answers before the request has come as a whole, and bodies that wait to be asked for.

use super::{stage::run_until_idle, *};

#[test]
fn an_answer_before_the_end_of_the_body_ends_both_connections() {
    play(async || {
        let stage = Stage::new().await;
        let mut client = stage.client();
        client.send("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 20000\r\n\r\n").await;
        client.send("x".repeat(9000)).await;
        let mut node = stage.accept(0).await;
        assert!(node.request_head().await.starts_with("PUT / "));
        node.send("HTTP/1.1 413 Payload Too Large\r\nContent-Length: 5\r\n\r\nlarge").await;
        let answer = client.answer().await;
        assert!(answer.starts_with("HTTP/1.1 413 ") && answer.has("Connection: close"), "{}", answer.head);
        assert_eq!(answer.body, "large");
        // What the client had sent by then is read, so that no reset overtakes the answer.
        assert!(client.send_what_fits(&[b'x'; 11_000]).await > 0);
        assert_eq!(client.rest().await, "");
        let mut other = stage.client();
        other.send("GET /other HTTP/1.1\r\nHost: h\r\n\r\n").await;
        assert!(stage.accept(0).await.request().await.starts_with("GET /other "));
        assert!(!node.rest().await.contains("GET /other"));
    });
}

#[test]
fn a_node_that_answers_and_stops_reading_has_answered() {
    play(async || {
        let stage = Stage::new().await;
        let mut client = stage.client();
        client.send("PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n").await;
        client.send(format!("5000\r\n{}\r\n", "x".repeat(0x5000))).await;
        let mut node = stage.accept(0).await;
        node.request_head().await;
        node.send("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno").await;
        drop(node);
        run_until_idle().await;
        client.send_what_fits(b"5\r\nworld\r\n").await;
        let answer = client.answer().await;
        assert!(answer.starts_with("HTTP/1.1 403 "), "{}", answer.head);
        assert_eq!(answer.body, "no");
    });
}

#[test]
fn a_body_is_asked_for_once_a_node_is_there() {
    play(async || {
        let stage = Stage::new().await;
        let mut client = stage.client();
        client.send("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n").await;
        client.expect("HTTP/1.1 100 Continue\r\n\r\n").await;
        client.send("hello").await;
        let mut node = stage.accept(0).await;
        let request = node.request().await;
        assert_eq!(request.body, "hello");
        assert!(!request.head.to_ascii_lowercase().contains("expect:"), "{}", request.head);
        node.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
        assert!(client.answer().await.starts_with("HTTP/1.1 200 "));
        // The body came with the head after all.
        client.send("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\nok").await;
        assert_eq!(node.request().await.body, "ok");
        node.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
        assert!(client.answer().await.starts_with("HTTP/1.1 200 "));
    });
}

#[test]
fn a_client_that_leaves_ends_its_request() {
    play(async || {
        let stage = Stage::new().await;
        let get = "GET / HTTP/1.1\r\nHost: h\r\n\r\n".to_owned();
        let part = "x".repeat(8_000);
        let put = format!("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 20000\r\n\r\n{part}");
        // While the node works, in the middle of the body, and in the middle of the answer.
        for (request, answer) in
            [(&get, ""), (&put, ""), (&get, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhel")]
        {
            let mut client = stage.client();
            client.send(request).await;
            let mut node = stage.accept(0).await;
            node.request_head().await;
            node.send(answer).await;
            drop(client);
            run_until_idle().await;
            node.send_what_fits(b"lo").await;
            let rest = node.rest().await;
            assert!(rest.is_empty() || rest == part, "{} bytes", rest.len());
            assert_eq!(stage.worker.connections.get(), 0);
        }
    });
}
