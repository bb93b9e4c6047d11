//! Hostile files: the importer ends, with a message.

use std::{
    fmt::Write as _,
    fs,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use tidegate_testkit::gateway::binary;

/// Success, what was printed, and the time that it took.
fn import(kind: &str, file: &Path) -> (bool, String, Duration) {
    let started = Instant::now();
    let output = Command::new(binary()).args(["import", kind]).arg(file).output().expect("the binary runs");
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned(), started.elapsed())
}

#[test]
fn what_is_no_file_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs");
    assert!(made.success());
    let sparse = folder.path().join("sparse");
    fs::File::create(&sparse).and_then(|file| file.set_len(3 << 30)).expect("a sparse file");
    for (file, wanted) in [
        (Path::new("/dev/zero"), "not a regular file"),
        (&pipe, "not a regular file"),
        (&sparse, "more than 64 MiB"),
    ] {
        for kind in ["nginx", "kong"] {
            let (fine, said, _) = import(kind, file);
            assert!(!fine && said.contains(wanted), "{kind} {}: {said:.300}", file.display());
        }
        let including = folder.path().join("nginx.conf");
        let text =
            format!("server {{ listen 80; include {}; location / {{ return 200; }} }}", file.display());
        fs::write(&including, text).expect("written");
        let (fine, said, _) = import("nginx", &including);
        assert!(fine && said.contains(wanted) && said.contains("closed by import"), "{said:.500}");
    }
}

#[test]
fn texts_that_double_close_their_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("nginx.conf");
    let mut text = "server { listen 80; set $v0 ab;\n".to_owned();
    for number in 0..41 {
        let _ = writeln!(text, "set $v{} $v{number}$v{number};", number + 1);
    }
    fs::write(&file, text + "location / { return 200 $v40; } location = /a { return 200 $v1; } }")
        .expect("written");
    let (fine, said, _) = import("nginx", &file);
    assert!(fine && said.contains("1 of 2 locations behave as in nginx"), "{said:.500}");
}

#[test]
fn many_locations_take_a_time_of_their_number() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("nginx.conf");
    let time = |count: u32| {
        let mut text = "server { listen 80;\n".to_owned();
        for number in 0..count {
            let _ = writeln!(text, "location /p{number}/ {{ proxy_pass http://127.0.0.1:9; }}");
        }
        fs::write(&file, text + "}").expect("written");
        let (fine, said, took) = import("nginx", &file);
        assert!(fine && said.contains(&format!("{count} of {count} locations")), "{said:.300}");
        took
    };
    let (few, many) = (time(1_000), time(8_000));
    println!("1,000: {few:?}, 8,000: {many:?}");
    assert!(many < few * 24 + Duration::from_secs(1), "1,000: {few:?}, 8,000: {many:?}");
}

/// Lines with their numbers.
fn lines(count: u32, line: impl Fn(u32) -> String) -> String {
    (0..count).map(|number| line(number) + "\n").collect()
}

fn network(number: u32) -> String {
    format!("{}.{}.{}.0/24", 20 + (number >> 16), (number >> 8) & 255, number & 255)
}

/// Kind, name, how many, the file, and what the report must say.
type Large = (&'static str, &'static str, u32, fn(u32) -> String, &'static str);

const LARGE: [Large; 13] = [
    (
        "nginx",
        "networks of a geo",
        20_000,
        |count| {
            let networks = lines(count, |number| format!("{} {};", network(number), number % 3));
            format!(
                "geo $g {{ default 0; 20.0.0.0/8 2;\n{networks} }}\n\
                 server {{ listen 80; if ($g = 1) {{ return 403; }} location / {{ return 200; }} }}"
            )
        },
        "1 of 1 locations behave as in nginx",
    ),
    (
        "nginx",
        "texts of a map",
        10_000,
        |count| {
            let texts = lines(count, |number| format!("a{number} {number};"));
            format!(
                "map $http_a $m {{\n{texts} }}\nserver {{ listen 80; location / {{ if ($m = 1) {{ return 403; }} return 200; }} }}"
            )
        },
        "too many cases",
    ),
    (
        "nginx",
        "expressions of a map",
        10_000,
        |count| {
            let texts = lines(count, |number| format!("~^a{number} {number};"));
            format!(
                "map $http_a $m {{\n{texts} }}\nserver {{ listen 80; location / {{ if ($m = 1) {{ return 403; }} return 200; }} }}"
            )
        },
        "too many cases",
    ),
    (
        "nginx",
        "servers",
        2_000,
        |count| {
            lines(count, |number| {
                format!("server {{ listen 80; server_name n{number}.example; location / {{ return 200; }} }}")
            })
        },
        "locations behave as in nginx",
    ),
    (
        "nginx",
        "servers with wildcards",
        2_000,
        |count| {
            lines(count, |number| {
                format!(
                    "server {{ listen 80; server_name .n{number}.example; location / {{ return 200; }} }}"
                )
            })
        },
        "locations behave as in nginx",
    ),
    (
        "nginx",
        "servers with expressions",
        1_000,
        |count| {
            lines(count, |number| {
                format!("server {{ listen 80; server_name ~^n{number}; location / {{ return 200; }} }}")
            })
        },
        "too many servers have expressions",
    ),
    (
        "nginx",
        "ports",
        2_000,
        |count| {
            lines(count, |number| {
                format!("server {{ listen {}; location / {{ return 200; }} }}", 1000 + number)
            })
        },
        "closed",
    ),
    (
        "nginx",
        "servers of an upstream",
        5_000,
        |count| {
            let nodes = lines(count, |number| format!("server 10.0.{}.{};", number >> 8, number & 255));
            format!(
                "upstream u {{\n{nodes} }}\nserver {{ listen 80; location / {{ proxy_pass http://u; }} }}"
            )
        },
        "1 of 1 locations behave as in nginx",
    ),
    (
        "nginx",
        "upstreams",
        2_000,
        |count| {
            let groups = lines(count, |number| format!("upstream u{number} {{ server 127.0.0.1; }}"));
            let places =
                lines(count, |number| format!("location /p{number}/ {{ proxy_pass http://u{number}; }}"));
            format!("{groups}server {{ listen 80;\n{places} }}")
        },
        "2000 of 2000 locations behave as in nginx",
    ),
    (
        "nginx",
        "expressions of locations",
        2_000,
        |count| {
            let places = lines(count, |number| format!("location ~ ^/p{number}/ {{ return 200; }}"));
            format!("server {{ listen 80;\n{places} }}")
        },
        "2000 of 2000 locations behave as in nginx",
    ),
    (
        "nginx",
        "referers",
        10_000,
        |count| {
            let names = lines(count, |number| format!("n{number}.example"));
            format!(
                "server {{ listen 80; location / {{ valid_referers none {names}; if ($invalid_referer) {{ return 403; }} return 200; }} }}"
            )
        },
        "1 locations behave as in nginx",
    ),
    (
        "kong",
        "entities that refer to others",
        4_000,
        |count| {
            let services = lines(count, |number| format!("- {{name: s{number}, host: h}}"));
            let routes = lines(count, |number| {
                format!("- {{name: r{number}, service: s{number}, paths: [/r{number}]}}")
            });
            let plugins = lines(count, |number| format!("- {{name: key-auth, route: r{number}}}"));
            let consumers = lines(count, |number| format!("- {{username: c{number}}}"));
            let keys = lines(count, |number| format!("- {{key: k{number}, consumer: c{number}}}"));
            let members = lines(count, |number| format!("- {{consumer_group: g, consumer: c{number}}}"));
            format!(
                "_format_version: '3.0'\nservices:\n{services}routes:\n{routes}plugins:\n{plugins}consumers:\n{consumers}\
                 keyauth_credentials:\n{keys}consumer_groups: [{{name: g}}]\nconsumer_group_consumers:\n{members}"
            )
        },
        "4000 of 4000 routes behave as in Kong",
    ),
    (
        "kong",
        "targets and paths",
        4_000,
        |count| {
            let targets = lines(count, |number| format!("- {{target: 'a{number}:80', upstream: u}}"));
            let paths = lines(count, |number| format!("  - /p{number}/"));
            format!(
                "_format_version: '3.0'\nupstreams: [{{name: u}}]\nservices: [{{name: s, host: u}}]\ntargets:\n{targets}\
                 routes:\n- name: r\n  service: s\n  paths:\n{paths}"
            )
        },
        "1 of 1 routes behave as in Kong",
    ),
];

#[test]
fn large_files_take_a_time_of_their_size() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("large.conf");
    let mut slow = Vec::new();
    for (kind, name, count, text, wanted) in LARGE {
        let time = |count: u32| {
            fs::write(&file, text(count)).expect("written");
            let (fine, said, took) = import(kind, &file);
            let end: String = said.chars().rev().take(600).collect::<Vec<char>>().into_iter().rev().collect();
            assert!(fine, "{name}: {said:.300}");
            (said, end, took)
        };
        let (few, (said, end, many)) = (time(count / 8).2, time(count));
        assert!(said.contains(wanted), "{name}: {end}");
        let line = format!("{name}: {} in {few:?}, {count} in {many:?}", count / 8);
        println!("{line}");
        if many > few * 24 + Duration::from_secs(1) {
            slow.push(line);
        }
    }
    assert!(slow.is_empty(), "{}", slow.join("\n"));
}
