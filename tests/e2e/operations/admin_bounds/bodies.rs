//! Bodies: read when the head was let in, within their time, and so many large ones at once.

use std::thread;
use std::time::{Duration, Instant};

use tidegate_testkit::Client;
use tidegate_testkit::gateway::{ADMIN_KEY, EMBEDDED, Gateway};

use super::{ROUTE, ask, forget_peak, head, peak_kb, start, upload};

const LARGE: usize = 118 * 1024 * 1024;
const IMPORT_END: &str = "\n#END\n";

/// Eight strangers at once; how much memory they took, in kilobytes.
fn eight_strangers(gateway: &Gateway, address: std::net::SocketAddr, path: &str) -> u64 {
    // The first of each kind brings in code and buffers.
    upload(address, &head("PUT", path, "wrong", 1 << 20, ""), 1 << 20);
    let before = forget_peak(gateway);
    let strangers: Vec<_> = (0..8)
        .map(|stranger| {
            let key = ["", "wrong"][stranger % 2];
            let head = head("PUT", path, key, LARGE, "");
            thread::spawn(move || upload(address, &head, LARGE))
        })
        .collect();
    for stranger in strangers {
        let (answer, _) = stranger.join().expect("no panic");
        assert!(answer.starts_with("HTTP/1.1 401 ") && answer.contains("failed to check token"), "{answer}");
    }
    peak_kb(gateway).saturating_sub(before)
}

#[test]
fn strangers_see_their_401_and_take_no_memory() {
    let gateway = start("audit_log: logs/audit.log");
    let more = eight_strangers(&gateway, gateway.admin, "import");
    println!("8 strangers took {more} kB");
    assert!(more <= 5 * 1024, "8 strangers took {more} kB");
    let log = std::fs::read_to_string(gateway.prefix().join("logs/audit.log")).expect("a log");
    assert_eq!(log.lines().filter(|line| line.contains(r#""status":401"#)).count(), 9, "{log}");
}

#[test]
fn so_do_they_where_the_admin_api_is_on_a_data_port() {
    let config = EMBEDDED.replace("port: @ADMIN@", "port: @HTTP@");
    let gateway = Gateway::start(&config, None);
    let more = eight_strangers(&gateway, gateway.http, "routes/1");
    assert!(more <= 5 * 1024, "8 strangers took {more} kB");
    let mut client = gateway.client();
    client
        .send(head("PUT", "routes/1", "", ROUTE.len(), "Expect: 100-continue\r\n").as_bytes())
        .expect("sent");
    assert_eq!(client.response().expect("an answer").status(), 401);
    let mut client = gateway.client();
    client.send((head("PUT", "routes/1", ADMIN_KEY, ROUTE.len(), "") + ROUTE).as_bytes()).expect("sent");
    assert_eq!(client.response().expect("an answer").status(), 201);
    let (answer, _) = upload(gateway.http, &head("PUT", "routes/1", ADMIN_KEY, 4 << 20, ""), 4 << 20);
    assert!(
        answer.starts_with("HTTP/1.1 400 ") && answer.contains("is greater than the maximum size"),
        "{answer}"
    );
}

#[test]
fn a_client_is_told_to_go_on_when_its_key_is_right() {
    let gateway = start("");
    let ask = |key: &str| {
        let mut client = Client::connect(gateway.admin).expect("connects");
        let head = head("PUT", "routes/1", key, ROUTE.len(), "Expect: 100-continue\r\n");
        client.send(head.as_bytes()).expect("sent");
        (client.response().expect("an answer").status(), client)
    };
    assert_eq!(ask("wrong").0, 401);
    let (status, mut client) = ask(ADMIN_KEY);
    assert_eq!(status, 100);
    client.send(ROUTE.as_bytes()).expect("sent");
    assert_eq!(client.response().expect("an answer").status(), 201);
    // Nor is one whose body is too large.
    let mut client = Client::connect(gateway.admin).expect("connects");
    client
        .send(head("PUT", "routes/1", ADMIN_KEY, 4 << 20, "Expect: 100-continue\r\n").as_bytes())
        .expect("sent");
    assert_eq!(client.response().expect("an answer").status(), 400);
}

#[test]
fn a_body_that_is_too_large_gets_its_answer() {
    let gateway = start("");
    for length in [1_600_000, 20 << 20] {
        let head_of_large = head("PUT", "routes/1", ADMIN_KEY, length, "");
        let (answer, all) = upload(gateway.admin, &head_of_large, length);
        assert!(all, "{length} bytes are taken off: no broken pipe");
        let wanted = format!("request size {length} is greater than the maximum size 1572864 allowed");
        assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains(&wanted), "{answer}");
        // In chunks, of which the sum is not known before.
        let head = head("PUT", "routes/1", ADMIN_KEY, 0, "")
            .replace("Content-Length: 0", &format!("Transfer-Encoding: chunked\r\n\r\n{length:x}"));
        let head = head.trim_end_matches("\r\n").to_owned() + "\r\n";
        let (answer, all) = upload(gateway.admin, &head, length);
        assert!(all, "{length} bytes are taken off in chunks, too");
        assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("is greater than"), "{answer}");
    }
}

#[test]
fn a_body_has_its_time_and_more_while_it_makes_progress() {
    let gateway = start("limits: {body_timeout: 2}");
    let mut silent = Client::connect(gateway.admin).expect("connects");
    let started = Instant::now();
    silent.send((head("PUT", "routes/1", ADMIN_KEY, 100, "") + "{").as_bytes()).expect("sent");
    let slow = thread::spawn({
        let address = gateway.admin;
        // 65 KiB each half second: more than two seconds in all.
        let pieces: Vec<String> = (0..6).map(|_| format!("# {}\n", "x".repeat(65 * 1024))).collect();
        move || {
            let mut client = Client::connect(address).expect("connects");
            let length = pieces.iter().map(String::len).sum::<usize>() + IMPORT_END.len();
            client.send(head("PUT", "import", ADMIN_KEY, length, "").as_bytes()).expect("sent");
            for piece in pieces {
                // The pause is what is tested.
                thread::sleep(Duration::from_millis(500));
                client.send(piece.as_bytes()).expect("sent");
            }
            client.send(IMPORT_END.as_bytes()).expect("sent");
            client.response().expect("an answer").status()
        }
    });
    assert_eq!(silent.response().expect("an answer").status(), 408);
    assert!(started.elapsed() >= Duration::from_secs(2));
    assert_eq!(slow.join().expect("no panic"), 200);
    let log = std::fs::read_to_string(gateway.prefix().join("logs/audit.log")).expect("a log");
    assert!(log.contains(r#""path":"/apisix/admin/routes/1","status":408"#), "{log}");
}

#[test]
fn few_large_bodies_are_taken_at_a_time() {
    let gateway = start("limits: {large_bodies: 1}");
    let length = 2 << 20;
    let text = "#".repeat(length - IMPORT_END.len()) + IMPORT_END;
    let import = || {
        let mut client = Client::connect(gateway.admin).expect("connects");
        let head = head("PUT", "import", ADMIN_KEY, length, "Expect: 100-continue\r\n");
        client.send(head.as_bytes()).expect("sent");
        (client.response().expect("an answer").status(), client)
    };
    let (status, mut first) = import();
    assert_eq!(status, 100);
    let (status, _) = import();
    assert_eq!(status, 503, "the first has the only place");
    // Small bodies need none.
    let mut small = Client::connect(gateway.admin).expect("connects");
    small.send((head("PUT", "routes/1", ADMIN_KEY, ROUTE.len(), "") + ROUTE).as_bytes()).expect("sent");
    assert_eq!(small.response().expect("an answer").status(), 201);
    first.send(text.as_bytes()).expect("sent");
    assert_eq!(first.response().expect("an answer").status(), 200);
    let (status, mut third) = import();
    assert_eq!(status, 100, "its place is free");
    third.send(text.as_bytes()).expect("sent");
    assert_eq!(third.response().expect("an answer").status(), 200);
    assert_eq!(ask(&mut third), Some(200), "the connection goes on");
}

#[test]
fn our_own_commands_show_why_a_large_body_was_refused() {
    let gateway = start("");
    let file = gateway.prefix().join("large.yaml");
    std::fs::write(&file, format!("# {}{IMPORT_END}", "x".repeat(20 << 20))).expect("a file");
    let import = || gateway.verb_with(&["config", "import", file.to_str().expect("a path")]);
    assert!(import().0, "with the key of the file");
    let config = gateway.prefix().join("conf/config.yaml");
    let text = std::fs::read_to_string(&config).expect("config.yaml");
    std::fs::write(&config, text.replace(ADMIN_KEY, "another-key")).expect("config.yaml");
    let (good, said) = import();
    assert!(!good && said.contains("answered 401: failed to check token"), "{said}");
}
