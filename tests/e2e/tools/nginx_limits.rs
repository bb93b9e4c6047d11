//! `limit_req` and `limit_conn` of nginx count by what the gateway has, or their locations are closed.

use tidegate_testkit::Gateway;
use tidegate_testkit::servers;

/// Zone, and its key.
const ZONES: [(&str, &str); 10] = [
    ("map", "$by_map"),
    ("geo", "$by_geo"),
    ("set", "$by_set"),
    ("group", "$by_group"),
    ("question", "$by_question"),
    ("split", "$by_split"),
    ("none", "$by_nothing"),
    ("address", "$binary_remote_addr"),
    ("field", "$http_x_key"),
    ("copy", "$by_copy"),
];

fn file(upstream: &str) -> String {
    let mut text = "events {}\nhttp {\nmap $http_x_key $by_map { default all; vip ''; }\ngeo $by_geo { default one; 127.0.0.2 two; }\n\
                    split_clients $remote_addr $by_split { 50% a; * b; }\n"
        .to_owned();
    for (zone, key) in ZONES {
        text += &format!(
            "limit_req_zone {key} zone=r{zone}:1m rate=1r/m;\nlimit_conn_zone {key} zone=c{zone}:1m;\n"
        );
    }
    text += "server {\nlisten 80;\n";
    text += &format!("location = /ask {{ internal; proxy_pass http://{upstream}; }}\n");
    for (zone, _) in ZONES {
        let more = match zone {
            "set" => "set $by_set text;",
            "copy" => "set $by_copy $remote_addr;",
            "question" => "auth_request /ask; auth_request_set $by_question $upstream_http_x;",
            _ => "",
        };
        let after = if zone == "group" { "(?<by_group>.)" } else { "" };
        for (limit, rule) in
            [("r", format!("limit_req zone=r{zone};")), ("c", format!("limit_conn c{zone} 1;"))]
        {
            let path = if after.is_empty() {
                format!("/{limit}/{zone}")
            } else {
                format!("~ ^/{limit}/{zone}{after}")
            };
            text += &format!("location {path} {{ {more} {rule} proxy_pass http://{upstream}; }}\n");
        }
    }
    text + "}\n}\n"
}

#[test]
fn a_key_that_the_file_makes_closes_its_location() {
    let upstream = servers::nginx("location / { return 200 ok; }");
    let gateway = Gateway::start_from("nginx", &file(&upstream.address.to_string()));
    let get = |path: &str| gateway.client().get("a.test", path).expect("an answer").status();
    for (zone, _) in ZONES {
        let expected = if matches!(zone, "address" | "field" | "copy") { [200, 503, 200] } else { [501; 3] };
        let path = |limit: &str| format!("/{limit}/{zone}x");
        assert_eq!([get(&path("r")), get(&path("r")), get(&path("c"))], expected, "{zone}");
    }
}

#[test]
fn the_report_names_the_variable() {
    let folder = tempfile::tempdir().expect("a folder");
    let (from, to) = (folder.path().join("nginx.conf"), folder.path().join("apisix.yaml"));
    std::fs::write(&from, file("127.0.0.1:1")).expect("written");
    let mut command = std::process::Command::new(tidegate_testkit::gateway::binary());
    let output =
        command.args(["import", "nginx", "--to"]).arg(&to).arg(&from).output().expect("tidegate runs");
    let said = String::from_utf8_lossy(&output.stderr);
    for name in ["by_map", "by_geo", "by_set", "by_group", "by_question", "by_split", "by_nothing"] {
        for limit in ["limit_req", "limit_conn"] {
            let named = |line: &str| {
                line.contains("closed")
                    && line.contains(limit)
                    && line.contains(&format!("counts by `${name}`: "))
            };
            assert!(said.lines().any(named), "{limit} {name}: {said}");
        }
    }
    assert!(
        said.contains("requests without `$http_x_key` are limited too, by the client's address"),
        "{said}"
    );
    let written = std::fs::read_to_string(&to).expect("a file");
    assert!(!written.contains("key: by_"), "{written}");
}
