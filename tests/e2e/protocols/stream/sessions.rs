//! Which route takes a session, what of it is logged, and what becomes of it when the configuration or the program changes.

use std::{
    io::{Read, Write},
    time::Duration,
};

use tidegate_testkit::{eventually, servers};

use super::{connect, echoing, exchange, is_closed, named, read, start, start_embedded};

#[test]
fn routes_are_found_by_port_and_addresses() {
    let (first, second) = (named("first"), named("second"));
    let ports = start(
        "",
        "",
        &format!(
            "stream_routes:\n\
             - {{id: 1, server_port: @TCP@, remote_addr: 127.0.0.9, upstream: {{nodes: {{\"{second}\": 1}}}}}}\n\
             - {{id: 2, server_port: @TCP@, server_addr: 127.0.0.0/8, upstream: {{nodes: {{\"{first}\": 1}}}}}}\n"
        ),
    );
    assert_eq!(exchange(ports.tcp, "a"), "firsta");
    let mut unknown = connect(ports.other);
    assert!(is_closed(&mut unknown), "no route has this port");
    // Beside it HTTP is served.
    assert_eq!(ports.gateway.client().get("h", "/").expect("an answer").status(), 404);
}

#[test]
fn each_side_may_end_first() {
    let echo = echoing();
    let ports = start(
        "",
        "",
        &format!("stream_routes:\n- {{id: 1, server_port: @TCP@, upstream: {{nodes: {{\"{echo}\": 1}}}}}}\n"),
    );
    let large = "0123456789abcdef".repeat(100_000);
    assert_eq!(exchange(ports.tcp, &large), large);
    let mut stream = connect(ports.tcp);
    stream.write_all(b"one").expect("sent");
    assert_eq!(read(&mut stream, 3), "one");
    stream.write_all(b"two").expect("sent");
    assert_eq!(read(&mut stream, 3), "two");
}

#[test]
fn redis_is_reached_through_a_service() {
    let redis = servers::redis(&[]);
    let ports = start(
        "",
        "enable_access_log: true, access_log_format: \"[$route_id $service_id $protocol $status $bytes_received \
         $bytes_sent $upstream_addr]\"",
        &format!(
            "services:\n- {{id: s, name: redis, upstream: {{nodes: {{\"{}\": 1}}}}}}\n\
             stream_routes:\n- {{id: r, server_port: @TCP@, service_id: s}}\n",
            redis.address
        ),
    );
    assert_eq!(exchange(ports.tcp, "PING\r\n"), "+PONG\r\n");
    let expected = format!("[r s TCP 200 6 7 {}]", redis.address);
    let file = ports.gateway.prefix().join("logs/access_stream.log");
    eventually("the line", || std::fs::read_to_string(&file).is_ok_and(|text| text.trim() == expected));
}

#[test]
fn changes_are_for_new_sessions() {
    let (first, second) = (named("first"), named("second"));
    let ports = start_embedded("");
    let gateway = &ports.gateway;
    let put = |node: &str| {
        let route =
            format!(r#"{{"server_port":{},"upstream":{{"nodes":{{"{node}":1}}}}}}"#, ports.tcp.port());
        gateway.admin("PUT", "/apisix/admin/stream_routes/1", &route)
    };
    assert_eq!(put(&first.to_string()).0, 201);
    let mut old = connect(ports.tcp);
    assert_eq!(read(&mut old, 5), "first");
    assert_eq!(put(&second.to_string()).0, 200);
    assert_eq!(exchange(ports.tcp, ""), "second");
    old.write_all(b"x").expect("sent");
    assert_eq!(read(&mut old, 1), "x");
    assert_eq!(gateway.admin("DELETE", "/apisix/admin/stream_routes/1", "").0, 200);
    assert!(is_closed(&mut connect(ports.tcp)));
    for (body, status, said) in [
        (r#"{"remote_addr":"x","upstream":{"nodes":{"127.0.0.1:1":1}}}"#, 400, "remote_addr"),
        (r#"{"plugins":{"key-auth":{}}}"#, 400, "unknown plugin [key-auth]"),
        (
            r#"{"plugins":{"mqtt-proxy":{}}}"#,
            400,
            "failed to check the configuration of stream plugin [mqtt-proxy]",
        ),
        (
            r#"{"protocol":{"name":"pingpong"},"upstream":{"nodes":{"127.0.0.1:1":1}}}"#,
            400,
            "unknown protocol [pingpong]",
        ),
        (
            r#"{"protocol":{"name":"redis","conf":{"faults":[{"commands":["get"]}]}},"upstream":{"nodes":{"127.0.0.1:1":1}}}"#,
            400,
            r#"property \"delay\" is required"#,
        ),
    ] {
        let (found, text) = gateway.admin("PUT", "/apisix/admin/stream_routes/2", body);
        assert_eq!((found, text.contains(said)), (status, true), "{text}");
    }
}

#[test]
fn an_upgrade_keeps_sessions_and_loses_none() {
    let echo = echoing();
    let ports = start_embedded("");
    let route = format!(r#"{{"server_port":{},"upstream":{{"nodes":{{"{echo}":1}}}}}}"#, ports.tcp.port());
    assert_eq!(ports.gateway.admin("PUT", "/apisix/admin/stream_routes/1", &route).0, 201);
    let mut old = connect(ports.tcp);
    old.write_all(b"before").expect("sent");
    assert_eq!(read(&mut old, 6), "before");
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let (address, stopped) = (ports.tcp, stop.clone());
    let hammer = std::thread::spawn(move || {
        let mut count = 0;
        while !stopped.load(std::sync::atomic::Ordering::SeqCst) {
            assert_eq!(exchange(address, "ping"), "ping");
            count += 1;
        }
        count
    });
    let (done, said) = ports.gateway.verb("upgrade");
    assert!(done, "{said}");
    old.write_all(b"after").expect("sent");
    assert_eq!(read(&mut old, 5), "after");
    stop.store(true, std::sync::atomic::Ordering::SeqCst);
    assert!(hammer.join().expect("no session was lost") > 0);
}

#[test]
fn a_broken_route_closes_what_it_was_for() {
    let (first, second) = (named("first"), named("second"));
    let ports = start(
        "",
        "",
        &format!(
            "stream_routes:\n\
             - {{id: 1, server_port: @TCP@, plugins: {{ip-restriction: {{whitelist: [x]}}}}, upstream: {{nodes: {{\"{first}\": 1}}}}}}\n\
             - {{id: 2, upstream: {{nodes: {{\"{second}\": 1}}}}}}\n\
             - {{id: 3, server_port: @OTHER@, upstream_id: missing}}\n"
        ),
    );
    assert!(is_closed(&mut connect(ports.tcp)), "its guard cannot be built");
    assert_eq!(exchange(ports.other, ""), "second", "the first route that is for it");
}

#[test]
fn the_operator_lists_drains_and_closes_sessions() {
    let echo = echoing();
    let ports = start(
        "",
        "",
        &format!(
            "stream_routes:\n- {{id: one, server_port: @TCP@, upstream: {{nodes: {{\"{echo}\": 1}}}}}}\n\
             - {{id: other, server_port: @OTHER@, upstream: {{nodes: {{\"{echo}\": 1}}}}}}\n"
        ),
    );
    let mut open: Vec<_> = [ports.tcp, ports.tcp, ports.other].map(connect).into();
    for stream in &mut open {
        stream.write_all(b"a").expect("sent");
        assert_eq!(read(stream, 1), "a");
    }
    let verb = |words: &[&str]| {
        let (done, said) = ports.gateway.verb_with(&[&["connections"], words].concat());
        assert!(done, "{said}");
        said
    };
    let listed = verb(&[]);
    assert_eq!(listed.lines().count(), 4, "{listed}");
    let listed = verb(&["--route", "one"]);
    let rows: Vec<Vec<&str>> = listed.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["ID", "PROTOCOL", "CLIENT", "SERVER", "ROUTE", "NODE", "OPEN"]);
    assert_eq!((rows.len(), rows[1][1], rows[1][4]), (3, "TCP", "one"), "{listed}");
    assert!(verb(&["--close", rows[1][0]]).contains("closed 1 session"));
    let mut closed = 0;
    for stream in &mut open[..2] {
        stream.set_nonblocking(true).expect("set");
    }
    eventually("one of them is closed", || {
        closed = open[..2].iter_mut().filter(|stream| matches!(stream.peek(&mut [0; 1]), Ok(0))).count();
        closed == 1
    });
    assert!(verb(&["--drain", "--route", "other"]).contains("1 session will close once silent"));
    assert!(is_closed(&mut open[2]), "it was silent");
    assert_eq!(verb(&["--client", "127.0.0.1"]).lines().count(), 2);
    for (words, reason) in [
        (&["--route", "nosuch"][..], "there is no stream route nosuch"),
        (&["--route", "nosuch", "--close"], "there is no stream route nosuch"),
        (&["99999999", "--close"], "there is no open session 99999999"),
        (&["--drain"], "--drain: name the sessions with an ID, --route or --client; --all is every session"),
        (&["--all", "--client", "127.0.0.1", "--close"], "cannot be used with"),
    ] {
        let (done, said) = ports.gateway.verb_with(&[&["connections"], words].concat());
        assert!(!done && said.contains(reason), "{words:?}: {said}");
    }
    assert_eq!(verb(&["--route", "other", "--close"]), "closed 0 sessions\n");
    assert_eq!(verb(&[]).lines().count(), 2, "nobody else's session ended");
    assert!(verb(&["--all", "--close"]).contains("closed 1 session"));
}

#[test]
fn sessions_that_are_cut_leave_their_lines() {
    let echo = echoing();
    let mut ports = start(
        "",
        "enable_access_log: true, access_log_format: \"$protocol $status $bytes_received\"",
        &format!("stream_routes:\n- {{id: 1, server_port: @TCP@, upstream: {{nodes: {{\"{echo}\": 1}}}}}}\n"),
    );
    let mut open = connect(ports.tcp);
    open.write_all(b"abc").expect("sent");
    assert_eq!(read(&mut open, 3), "abc");
    assert!(ports.gateway.process.stop().success());
    let text = std::fs::read_to_string(ports.gateway.prefix().join("logs/access_stream.log")).expect("a log");
    assert_eq!(text, "TCP 200 3\n");
}

#[test]
fn silence_ends_a_session() {
    let echo = echoing();
    let timeout = "{connect: 1, send: 1, read: 1}";
    let ports = start(
        "",
        "",
        &format!(
            "stream_routes:\n- {{id: 1, server_port: @TCP@, upstream: {{timeout: {timeout}, nodes: {{\"{echo}\": 1}}}}}}\n"
        ),
    );
    let mut stream = connect(ports.tcp);
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a limit");
    stream.write_all(b"a").expect("sent");
    assert_eq!(read(&mut stream, 1), "a");
    assert!(matches!(stream.read(&mut [0; 1]), Ok(0)));
}
