//! `tidegate bench` and how it reaches a server: other addresses, Unix sockets, client certificates, sessions.

use serde_json::json;
use tidegate_testkit::{Upstream, free_port, servers};

use super::bench::{bench, outcome};

#[test]
fn names_lead_where_the_flags_say() {
    let upstream = Upstream::start();
    let port = upstream.address.port();
    let url = format!("http://bench.invalid:{port}/bytes/1");
    let resolve = format!("bench.invalid:{port}:127.0.0.1");
    let found = outcome(&[&url, "-n", "20", "-c", "2", "--resolve", &resolve]);
    assert_eq!(found["statuses"], json!([[200, 20]]));
    let host = format!("Host: bench.invalid:{port}\r\n");
    let asked = upstream.take();
    assert!(asked.len() == 20 && asked.iter().all(|seen| seen.text().contains(&host)));
    let other = "http://bench.invalid/bytes/1";
    for connect in [format!("bench.invalid:80:127.0.0.1:{port}"), format!("::127.0.0.1:{port}")] {
        let found = outcome(&[other, "-n", "20", "-c", "2", "--connect-to", &connect]);
        assert_eq!(found["statuses"], json!([[200, 20]]), "{connect}");
        let asked = upstream.take();
        assert!(asked.iter().all(|seen| seen.text().contains("Host: bench.invalid\r\n")), "{connect}");
    }
    let connect = format!("::next.invalid:{port}");
    let resolve = format!("next.invalid:{port}:127.0.0.1,127.0.0.1");
    let found = outcome(&[other, "-n", "20", "-c", "2", "--connect-to", &connect, "--resolve", &resolve]);
    assert_eq!(found["statuses"], json!([[200, 20]]));
    let check = |words: &[&str], reason: &str| {
        let run = bench(&[&[other, "-n", "1", "-c", "1"], words].concat());
        assert_eq!((run.code, run.err.contains(reason)), (Some(2), true), "{words:?}: {}", run.err);
    };
    check(&["--resolve", "bench.invalid:81:127.0.0.1"], "--resolve bench.invalid:81:127.0.0.1 would not");
    check(&["--resolve", "bench.invalid:80"], "HOST:PORT:ADDRESS");
    check(&["--resolve", "bench.invalid:80:localhost"], "HOST:PORT:ADDRESS");
    check(&["--connect-to", "a:80:127.0.0.1:81"], "--connect-to a:80:127.0.0.1:81 would not");
    check(&["--connect-to", "a:80"], "HOST1:PORT1:HOST2:PORT2");
}

#[test]
fn unix_sockets_carry_every_form_of_http() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("web.sock").display().to_string();
    let h2 = folder.path().join("h2.sock").display().to_string();
    let tls = folder.path().join("tls.sock").display().to_string();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).expect("a certificate");
    let (cert, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    std::fs::write(&cert, made.cert.pem()).expect("written");
    std::fs::write(&key, made.signing_key.serialize_pem()).expect("written");
    let text = format!(
        "listen unix:{path}; listen unix:{h2} http2; listen unix:{tls} ssl;\n\
         ssl_certificate {}; ssl_certificate_key {}; location / {{ return 200 $host; }}",
        cert.display(),
        key.display()
    );
    let _nginx = servers::nginx(&text);
    let check = |url: &str, words: &[&str]| {
        let found = outcome(&[&[url, "-n", "200", "-c", "20", "-t", "1"], words].concat());
        assert_eq!(
            (&found["statuses"], &found["failures"]),
            (&json!([[200, 200]]), &json!([])),
            "{words:?}: {found}"
        );
        // What nginx took for the host.
        assert_eq!(found["body_bytes"], 200 * "bench.invalid".len(), "{words:?}");
    };
    check("http://bench.invalid/", &["--unix", &path]);
    check("http://bench.invalid/", &["--unix", &path, "--no-keepalive"]);
    check("http://bench.invalid/", &["--unix", &path, "-R", "1000"]);
    check("http://bench.invalid/", &["--unix", &h2, "--http2"]);
    check("https://bench.invalid/", &["--unix", &tls, "-k"]);
    let missing = folder.path().join("missing").display().to_string();
    let run = bench(&["http://bench.invalid/", "-n", "1", "-c", "1", "--unix", &missing]);
    assert!(
        run.code == Some(1) && run.err.contains(&format!("socket {missing}: no such file")),
        "{}",
        run.err
    );
    let run = bench(&["https://bench.invalid/", "-n", "1", "-c", "1", "--unix", &tls, "--http2"]);
    assert!(run.code == Some(2) && run.err.contains("without TLS"), "{}", run.err);
    let long = "x".repeat(200);
    let run = bench(&["http://bench.invalid/", "-n", "1", "-c", "1", "--unix", &long]);
    assert!(run.code == Some(2) && run.err.contains("it is not a valid socket path"), "{}", run.err);
}

#[test]
fn client_certificates_and_sessions() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("written");
        path.display().to_string()
    };
    let server = rcgen::generate_simple_self_signed(vec!["localhost".into()]).expect("a certificate");
    let client = rcgen::generate_simple_self_signed(vec!["client".into()]).expect("a certificate");
    let (cert, key) = (server.cert.pem(), server.signing_key.serialize_pem());
    let (cert, key) = (write("server.pem", &cert), write("server.key", &key));
    let (own, own_key) = (client.cert.pem(), client.signing_key.serialize_pem());
    let (own, own_key, both) =
        (write("own.pem", &own), write("own.key", &own_key), write("both.pem", &format!("{own}{own_key}")));
    let port = free_port();
    // nginx answers 400 where no certificate came, and here 201 where a session was taken up again.
    let _nginx = servers::nginx(&format!(
        "listen 127.0.0.1:{port} ssl; ssl_certificate {cert}; ssl_certificate_key {key};\n\
         ssl_client_certificate {own}; ssl_verify_client on; ssl_session_cache shared:a:1m;\n\
         if ($ssl_session_reused = r) {{ return 201; }} location / {{ return 200; }}"
    ));
    let url = format!("https://localhost:{port}/");
    let common = [url.as_str(), "--insecure", "-n", "20", "-c", "1", "--no-keepalive"];
    let found = outcome(&common);
    assert_eq!(found["statuses"], json!([[400, 20]]), "{found}");
    let whole =
        outcome(&[&common[..], &["--cert", &own, "--key", &own_key, "--no-session-resumption"]].concat());
    assert_eq!(whole["statuses"], json!([[200, 20]]), "{whole}");
    let again = outcome(&[&common[..], &["--cert", &both]].concat());
    assert_eq!(again["statuses"], json!([[201, 20]]), "{again}");
    let check = |words: &[&str], reason: &str| {
        let run = bench(&[&common[..], words].concat());
        assert_eq!((run.code, run.err.contains(reason)), (Some(2), true), "{words:?}: {}", run.err);
    };
    check(&["--cert", "/no/file"], "--cert /no/file: No such file");
    check(&["--cert", &own], "key: ");
    check(&["--cert", &own, "--key", &key], "the key does not match the certificate");
    check(&["--key", &own_key], "--cert");
    let run = bench(&["http://127.0.0.1:1/", "--cert", &both]);
    assert!(run.code == Some(2) && run.err.contains("for https:// URLs"), "{}", run.err);
}

/// Frames of HTTP/2 to a server that does not know them come back as errors that say nothing, and a run of them as a cause.
#[test]
fn servers_without_http2_are_named_before_the_run() {
    let nginx = servers::nginx("location / { return 200 x; }");
    let old = format!("http://{}/", nginx.address);
    let closing = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = closing.local_addr().expect("an address");
    let thread = std::thread::spawn(move || drop(closing.accept()));
    for (url, reason) in [
        (old, "answers with HTTP/1 to the start of HTTP/2"),
        (format!("http://{address}/"), "closes connections that begin with HTTP/2"),
    ] {
        let run = bench(&[&url, "--http2", "-d", "1s", "-c", "2"]);
        assert!(run.err.contains(reason) && run.err.contains("leave out --http2"), "{url}: {}", run.err);
        assert!(!run.out.contains("client-bound"), "{url}: {}", run.out);
        assert_ne!(run.code, Some(0), "{url}");
    }
    thread.join().expect("one connection");
}
