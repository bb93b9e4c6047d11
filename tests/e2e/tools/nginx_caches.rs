//! `proxy_cache` and `max_conns` of imported nginx configurations.

use tidegate_testkit::{Behaviour, Gateway, Step, Upstream, gateway::binary};

/// An answer that nginx keeps: caches may, and it is somebody's.
fn origin() -> Upstream {
    Upstream::with(|request| {
        let user = request.header("authorization").unwrap_or("nobody").to_owned();
        let text = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{user}", user.len());
        Behaviour { read_body: true, steps: vec![Step::Send(text.into_bytes())] }
    })
}

#[test]
fn no_answer_is_kept_for_others() {
    let upstream = origin();
    let text = format!(
        "proxy_cache_path /var/cache/x keys_zone=all:1m;
         server {{ listen 80; add_header X-Cache $upstream_cache_status;
           location / {{ proxy_cache all; proxy_cache_valid any 10m; proxy_cache_key $uri; proxy_pass http://{0}; }}
           location /off/ {{ proxy_cache off; proxy_cache_valid any 10m; proxy_no_cache $http_x; proxy_pass http://{0}; }}
           location /purge/ {{ proxy_cache_purge all $uri; proxy_pass http://{0}; }}
           location /files/ {{ root /srv; proxy_cache all; }}
         }}",
        upstream.address
    );
    let gateway = Gateway::start_from("nginx", &text);
    for user in ["one", "two"] {
        let request = format!("GET /x HTTP/1.1\r\nHost: h\r\nAuthorization: {user}\r\n\r\n");
        let answer = gateway.client().request(&request).expect("an answer");
        assert_eq!((answer.body_text().as_str(), answer.header("x-cache")), (user, None));
    }
    assert_eq!(upstream.take().len(), 2);
    assert_eq!(gateway.client().get("h", "/purge/x").expect("an answer").status(), 501);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("nginx.conf");
    std::fs::write(&file, &text).expect("written");
    let output = std::process::Command::new(binary()).args(["import", "nginx"]).arg(&file).output();
    let report = String::from_utf8_lossy(&output.expect("it runs").stderr).into_owned();
    let remarks: Vec<&str> = report.lines().filter(|line| line.contains(": not supported: ")).collect();
    assert_eq!(remarks.len(), 1, "{report}");
    assert!(remarks[0].contains("proxy_cache: answers are not kept"), "{report}");
}

#[test]
fn a_full_server_gets_nothing_more() {
    let upstream = Upstream::with(|request| {
        let step = if request.target() == "/hold" { Step::Silence } else { Step::Echo };
        Behaviour { read_body: true, steps: vec![step] }
    });
    let text = format!(
        "upstream app {{ zone app 64k; server {0} max_conns=1; }}
         server {{ listen 80; location / {{ proxy_pass http://app; }} }}",
        upstream.address
    );
    let gateway = Gateway::start_from("nginx", &text);
    let mut first = gateway.client();
    first.send(b"GET /hold HTTP/1.1\r\nHost: h\r\n\r\n").expect("sent");
    upstream.wait_for(1);
    assert_eq!(gateway.client().get("h", "/free").expect("an answer").status(), 502);
    assert_eq!(upstream.seen().len(), 1);
}
