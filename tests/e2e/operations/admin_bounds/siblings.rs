//! The Control API, the metrics page and the status page: nobody reads a body there.

use tidegate_testkit::gateway::{EMBEDDED, Gateway};
use tidegate_testkit::{Client, free_port};

use super::{forget_peak, peak_kb, upload};

#[test]
fn pages_answer_without_the_body() {
    let status = free_port();
    let config =
        EMBEDDED.replace("  control:", &format!("  status: {{ip: 127.0.0.1, port: {status}}}\n  control:"));
    let gateway = Gateway::start(&config, None);
    let status = ([127, 0, 0, 1], status).into();
    for (address, path, code) in [
        (gateway.control, "/v1/gc", 200),
        (gateway.metrics, "/apisix/prometheus/metrics", 200),
        (status, "/status", 200),
        (gateway.control, "/v1/nothing", 404),
    ] {
        let mut client = Client::connect(address).expect("connects");
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 1000000\r\n\r\n"
        );
        client.send(head.as_bytes()).expect("sent");
        let answer = client.response().expect("an answer, though no body was sent");
        assert_eq!((answer.status(), answer.header("connection")), (code, Some("close")), "{path}");
        client.to_close().expect("and the end");

        let before = forget_peak(&gateway);
        let (answer, _) = upload(
            address,
            &format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50000000\r\n\r\n"),
            50_000_000,
        );
        assert!(answer.starts_with(&format!("HTTP/1.1 {code} ")), "{path}: {answer}");
        let more = peak_kb(&gateway).saturating_sub(before);
        assert!(more <= 5 * 1024, "{path}: {more} kB");
    }
}
