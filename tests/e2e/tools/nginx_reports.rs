//! What the import of an nginx.conf says of parts that are converted nearly, or not.

use std::{fs, process::Command};

use tidegate_testkit::{Gateway, Upstream, gateway::binary, servers};

/// Whether `--strict` takes the file, and the report.
fn import(text: &str) -> (bool, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("nginx.conf");
    fs::write(&file, text).expect("written");
    let to = folder.path().join("apisix.yaml");
    let mut command = Command::new(binary());
    let output = command.args(["import", "nginx", "--strict", "--to"]).arg(to).arg(&file).output();
    let output = output.expect("the binary runs");
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// A path leads to the address that was asked. nginx says so too with `absolute_redirect off`.
#[test]
fn redirects_to_a_path_are_judged_by_absolute_redirect() {
    let file = |http: &str, target: &str| {
        format!(
            "http {{ {http} server {{ listen 80; location = /x {{ return 301 {target}; }} location / {{ return 404; }} }} }}"
        )
    };
    let general =
        "approximated: redirects: Location is a path where nginx puts the address that was asked before it";
    for (http, target, strict, said, unsaid) in [
        ("absolute_redirect off;", "/y", true, "2 of 2 locations behave as in nginx", general),
        ("", "/y", true, general, ": not supported: "),
        ("", "https://a.example/y", true, "2 of 2 locations behave as in nginx", general),
        ("absolute_redirect off; server_name_in_redirect on;", "/y", true, "2 of 2", ": not supported: "),
        ("server_name_in_redirect on;", "/y", false, "not supported: server_name_in_redirect", "2 of 2"),
        ("port_in_redirect on;", "/y", true, general, ": not supported: "),
    ] {
        let (done, report) = import(&file(http, target));
        assert_eq!(done, strict, "{http}: {report}");
        assert!(report.contains(said) && !report.contains(unsaid), "{http} {target}: {report}");
    }
}

#[test]
fn all_lines_of_a_field_are_sent() {
    let upstream = Upstream::start();
    let text = format!(
        "server {{ listen 80; location / {{ proxy_set_header X-A 1; proxy_set_header x-a \"\"; proxy_set_header x-a $arg_b;
           proxy_set_header X-User $remote_user; proxy_pass http://{}; }} }}",
        upstream.address
    );
    let gateway = Gateway::start_from("nginx", &text);
    let request = "GET /?b=2 HTTP/1.1\r\nHost: h\r\nX-A: 0\r\nAuthorization: Basic YWRtOng=\r\nConnection: close\r\n\r\n";
    gateway.client().request(request).expect("an answer");
    let seen = upstream.wait_for(1);
    let text = seen.first().expect("a request").text();
    let lines: Vec<&str> = text.lines().filter(|line| line.to_lowercase().starts_with("x-a: ")).collect();
    assert_eq!(lines.iter().map(|line| &line[5..]).collect::<Vec<_>>(), ["1", "2"], "{text}");
    assert!(text.to_lowercase().contains("x-user: adm"), "{text}");
}

/// The steps of a server are no reason to close what none of its locations takes.
#[test]
fn what_no_location_takes_is_served_behind_the_steps_of_the_server() {
    let text = "map $http_user_agent $bad_bot { default 0; ~*(sqlmap|nikto) 1; }
        server { listen 80; root /usr/share; set $x 1; if ($bad_bot) { return 403; } location /a/ { return 200 a; } }";
    let (_, report) = import(text);
    assert!(!report.contains(": closed: "), "{report}");
    let gateway = Gateway::start_from("nginx", text);
    let status = |agent: &str| {
        let request =
            format!("GET /other HTTP/1.1\r\nHost: h\r\nUser-Agent: {agent}\r\nConnection: close\r\n\r\n");
        gateway.client().request(&request).expect("an answer").status()
    };
    assert_eq!((status("sqlmap/1"), status("firefox")), (403, 404));
}

/// With the name that nginx sends: the service may decide by it.
#[test]
fn a_group_of_one_server_can_be_asked() {
    let origin = servers::nginx("location / { return 200 served; }");
    let service = Upstream::service(|request| {
        let allowed = request.header("host") == Some("authsvc") && request.header("x-key") == Some("good");
        (if allowed { 200 } else { 401 }, String::new())
    });
    let text = |more: &str| {
        format!(
            "upstream authsvc {{ server {} {more}; keepalive 8; }}
             server {{ listen 80;
               location = /_auth {{ internal; proxy_set_header X-Key $http_x_key; proxy_pass http://authsvc/check; }}
               location / {{ auth_request /_auth; proxy_pass http://{}; }} }}",
            service.address, origin.address
        )
    };
    let gateway = Gateway::start_from("nginx", &text("max_fails=2"));
    let status = |key: &str| {
        let request = format!("GET / HTTP/1.1\r\nHost: h\r\nX-Key: {key}\r\nConnection: close\r\n\r\n");
        gateway.client().request(&request).expect("an answer").status()
    };
    assert_eq!((status("good"), status("bad")), (200, 401));
    let (_, report) = import(&text("; server 127.0.0.1:9"));
    assert!(
        report.contains("its upstream is a group of several servers; write the address of one"),
        "{report}"
    );
}

/// nginx's defaults change nothing where they are written out.
#[test]
fn defaults_that_are_written_out_close_nothing() {
    let file =
        |http: &str| format!("http {{ {http} server {{ listen 80; location /a {{ return 404; }} }} }}");
    for (http, closed) in [
        ("underscores_in_headers off; ignore_invalid_headers on; merge_slashes on;", false),
        ("underscores_in_headers on;", true),
        ("ignore_invalid_headers off;", true),
        ("merge_slashes off;", true),
    ] {
        let (_, report) = import(&file(http));
        assert_eq!(report.contains("closed: location /a"), closed, "{http}: {report}");
    }
}

/// What an expression with look-around may match is known well enough for paths that it cannot.
#[test]
fn look_around_counts_for_its_own_paths_only() {
    let file = |locations: &str| {
        format!("server {{ listen 80; root /srv; location ~ ^/re2/(?!open) {{ return 403; }} {locations} }}")
    };
    let index = "location /files/ { index index.html; }";
    let (_, report) = import(&file(index));
    assert!(!report.contains("in `location /files/`") && !report.contains(": closed: "), "{report}");
    // Its directories are taken before an index is looked for.
    let (_, report) = import(&file("location /re2/files/ { index index.html; }"));
    assert!(!report.contains("in `location /re2/files/`"), "{report}");
    let ahead = "server { listen 80; root /srv; location ~ ^/re2/(?=.*html) { return 403; }
        location /re2/files/ { index index.html; } }";
    let (_, report) = import(ahead);
    let of_it = "in `location /re2/files/` the file `index.html` is served by `location ~ ^/re2/(?=.*html)`";
    assert!(report.contains(of_it), "{report}");
    let rewrite = "location /priv/ { return 204; } location /x { rewrite ^ /priv/z last; }";
    let (_, report) = import(&file(rewrite));
    assert!(!report.contains("cannot be read") && !report.contains("closed: location /x"), "{report}");
    let text = file(rewrite);
    let gateway = Gateway::start_from("nginx", &text);
    let status = |path: &str| gateway.client().get("h", path).expect("an answer").status();
    assert_eq!([status("/x"), status("/re2/a"), status("/re2/open")], [204, 403, 404]);
    // A path that is known has its location by the expression itself.
    let to = |path: &str| {
        file(&format!("location /re2/ {{ return 204; }} location /x {{ rewrite ^ {path} last; }}"))
    };
    for (path, expected) in [("/re2/z", 403), ("/re2/open/z", 204)] {
        let (_, report) = import(&to(path));
        assert!(!report.contains("is unknown") && !report.contains("closed: location /x"), "{report}");
        let gateway = Gateway::start_from("nginx", &to(path));
        let answer = gateway.client().get("h", "/x").expect("an answer");
        assert_eq!(answer.status(), expected, "{path}");
    }
    // A nested location elsewhere takes no part of these paths.
    let nested = "server { listen 80; root /srv; location /api/ { location /api/admin/ { return 403; } }
        location /role/ { proxy_pass http://127.0.0.1:9; } location /old/ { rewrite ^/old/(.*)$ /role/$1 last; } }";
    let (_, report) = import(nested);
    assert!(!report.contains("may take a part") && !report.contains("closed: location /old/"), "{report}");
    let within = nested.replace("/role/$1", "/api/$1");
    let (_, report) = import(&within);
    assert!(report.contains("`location /api/admin/` of line 1 may take a part of such paths"), "{report}");
}
