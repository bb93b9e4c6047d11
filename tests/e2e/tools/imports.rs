//! Configurations of other gateways, served as they are: `tests/kong`, `tests/hyperapi`, `tests/nginx`.
//!
//! The first document of a file is the configuration; `@UPSTREAM@` in it is an upstream that echoes requests. The
//! second says what must come of it:
//!
//! ```yaml
//! report: ["approximated: plugin x"]   # what the import must say
//! exact: true                          # nothing may be approximated or left out
//! requests:
//! - send: GET /path
//!   headers: {Host: example.com}
//!   body: text
//!   status: 200
//!   seen: ["GET /other HTTP"]          # in the request that the upstream got
//!   unseen: ["X-Secret"]
//!   answer: {Header: part of its value}
//!   text: part of the answer's body
//!   times: 1                           # all of them must be answered like this
//!   theirs: 502                        # what the other gateway answered, or sent on, where it differs; not looked at
//! ```

use std::fs;
use std::process::Command;

use serde_json::Value;
use tidegate_testkit::gateway::{ADMIN_KEY, EMBEDDED, binary, workspace_root};
use tidegate_testkit::{Gateway, Upstream};

#[test]
fn kong_configurations_run_as_they_are() {
    let played = play_all("kong");
    assert!(played >= 25, "only {played} files in tests/kong");
}

/// Only our side runs: building hyperapi takes twenty minutes. Its answers are recorded in `answers-of-0.2.2.yaml`.
#[test]
fn hyperapi_configurations_of_all_three_shapes_run_as_they_are() {
    let played = play_all("hyperapi");
    assert!(played >= 3, "only {played} files in tests/hyperapi");
}

#[test]
fn nginx_configurations_run_as_they_are() {
    let played = play_all("nginx");
    assert!(played >= 2, "only {played} files in tests/nginx");
}

#[test]
fn an_apisix_file_comes_through_unchanged() {
    let upstream = Upstream::start();
    let text = format!(
        "routes:\n- id: 1\n  uri: /a\n  upstream: {{type: roundrobin, nodes: {{\"{}\": 1}}}}\n#END\n",
        upstream.address
    );
    let gateway = Gateway::start_from("apisix", &text);
    assert_eq!(gateway.client().get("h", "/a").expect("answers").status(), 200);
    assert_eq!(gateway.client().get("h", "/b").expect("answers").status(), 404);
}

const SMALL: &str = "\
_format_version: '3.0'
services:
- {name: s, url: 'http://@UPSTREAM@', routes: [{name: r, paths: [/r], plugins: [{name: key-auth}]}]}
consumers:
- {username: jack, keyauth_credentials: [{key: k}]}
";

#[test]
fn strict_refuses_what_is_not_exact_and_names_the_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("kong.yaml");
    let run = |text: &str| {
        fs::write(&file, text.replace("@UPSTREAM@", "127.0.0.1:9")).expect("written");
        let output = Command::new(binary()).args(["import", "kong", "--strict"]).arg(&file).output();
        let output = output.expect("the binary runs");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (fine, report) = run(SMALL);
    assert!(fine, "{report}");
    let (fine, report) = run(&format!("{SMALL}plugins:\n- name: no-such-plugin\n"));
    assert!(!fine, "{report}");
    let (fine, checked) =
        run(&SMALL.replace("name: key-auth", "name: ip-restriction, config: {allow: [nonsense]}"));
    assert!(!fine && checked.contains("not supported: routes r: "), "{checked}");
    assert!(report.contains("kong.yaml:7: not supported: plugin no-such-plugin"), "{report}");
}

#[test]
fn what_is_converted_is_written_where_nothing_was() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("kong.yaml"), SMALL.replace("@UPSTREAM@", "127.0.0.1:9")).expect("written");
    let output = Command::new(binary())
        .args(["import", "kong", "kong.yaml", "--to", "conf/apisix.yaml"])
        .current_dir(folder.path())
        .output()
        .expect("the binary runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = fs::read_to_string(folder.path().join("conf/apisix.yaml")).expect("it is there");
    assert!(text.contains("key-auth") && text.ends_with("#END\n"), "{text}");
}

#[test]
fn apply_puts_the_objects_into_a_running_gateway() {
    let upstream = Upstream::start();
    let mut gateway = Gateway::start(EMBEDDED, None);
    gateway.process.wait_for_port(gateway.admin);
    let file = gateway.prefix().join("kong.yaml");
    fs::write(&file, SMALL.replace("@UPSTREAM@", &upstream.address.to_string())).expect("written");
    let output = Command::new(binary())
        .args(["import", "kong", "--apply", "--admin-key", ADMIN_KEY, "--admin", &gateway.admin.to_string()])
        .arg(&file)
        .output()
        .expect("the binary runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let get = |key: &str| {
        let answer =
            gateway.client().request(&format!("GET /r HTTP/1.1\r\nHost: h\r\napikey: {key}\r\n\r\n"));
        answer.expect("answers").status()
    };
    assert_eq!((get("k"), get("other")), (200, 401));
}

/// The key of one gateway is not for another.
#[test]
fn apply_asks_the_gateway_of_the_folder_at_its_own_address() {
    let mut gateway = Gateway::start(EMBEDDED, None);
    gateway.process.wait_for_port(gateway.admin);
    let file = gateway.prefix().join("objects.yaml");
    let objects = "routes: [{id: a, uri: /a, plugins: {mocking: {response_example: '{}'}}}]\n#END\n";
    fs::write(&file, objects).expect("written");
    let mut command = Command::new(binary());
    command.args(["import", "apisix", "--apply", "--prefix"]).arg(gateway.prefix()).arg(&file);
    let output = command.env("ADMIN_KEY", ADMIN_KEY).output().expect("the binary runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(gateway.admin("GET", "/apisix/admin/routes/a", "").0, 200);
}

#[test]
fn apply_writes_all_objects_or_none() {
    let mut gateway = Gateway::start(EMBEDDED, None);
    gateway.process.wait_for_port(gateway.admin);
    let file = gateway.prefix().join("apisix.yaml");
    let apply = |text: &str| {
        fs::write(&file, text).expect("written");
        let admin = gateway.admin.to_string();
        let mut command = Command::new(binary());
        command.args(["import", "apisix", "--apply", "--admin-key", ADMIN_KEY, "--admin", &admin]).arg(&file);
        let output = command.output().expect("the binary runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.success(), text(&output.stdout), text(&output.stderr))
    };
    let (fine, _, said) =
        apply("routes: [{id: a, uri: /a}, {id: b, uri: /b, plugins: {no-such: {}}}]\n#END\n");
    assert!(!fine && said.contains("unknown plugin [no-such]"), "{said}");
    let (fine, _, said) = apply("routes: [{id: a, uri: /a, plugins: {mocking: {}}}, {uri: /b}]\n#END\n");
    assert!(!fine && said.contains("an object of routes has no id"), "{said}");
    assert_eq!(gateway.admin("GET", "/apisix/admin/routes/a", "").0, 404, "nothing was written");
    let two = "routes: [{id: a, uri: /a, plugins: {mocking: {response_example: '{}'}}}, {id: b, uri: /b, plugins: {mocking: {response_example: '{}'}}}]\n#END\n";
    let (fine, done, said) = apply(two);
    assert!(fine && done.contains("2 objects changed; the configuration is at revision 1"), "{done} {said}");
}

/// Plays all files of `tests/KIND`; returns how many there are, and reports every one that fails.
fn play_all(kind: &str) -> usize {
    let folder = workspace_root().join("tests").join(kind);
    let mut files: Vec<_> =
        fs::read_dir(&folder).expect("the folder is there").flatten().map(|entry| entry.path()).collect();
    files.sort();
    let failures: Vec<String> = files
        .iter()
        .filter_map(|file| {
            let text = fs::read_to_string(file).expect("a text");
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            play(kind, &text).err().map(|why| format!("{name}: {why}"))
        })
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    files.len()
}

fn play(kind: &str, text: &str) -> Result<(), String> {
    let upstream = Upstream::start();
    let (source, wanted) = text.split_once("\n---\n").ok_or("it has no second document")?;
    let source = source.replace("@UPSTREAM@", &upstream.address.to_string());
    let wanted = tidegate_config::yaml::to_value(wanted).map_err(|fault| fault.to_string())?;
    let gateway = Gateway::start_from(kind, &format!("{source}\n"));
    // The report's last line: what the process prints is read beside it.
    gateway.process.wait_for_output(" not supported\n");
    let report = gateway.process.output();
    for part in texts(&wanted["report"]) {
        if !report.contains(part) {
            return Err(format!("the report lacks {part:?}:\n{report}"));
        }
    }
    if wanted["exact"] == true && !report.contains(" 0 approximated, 0 closed, 0 not supported") {
        return Err(format!("the report is not clean:\n{report}"));
    }
    let requests =
        wanted["requests"].as_array().filter(|list| !list.is_empty()).ok_or("it has no requests")?;
    for request in requests {
        for _ in 0..request["times"].as_u64().unwrap_or(1) {
            answered(request, &gateway, &upstream)
                .map_err(|why| format!("{}: {why}\n{}", request["send"], gateway.error_log()))?;
        }
    }
    Ok(())
}

fn answered(request: &Value, gateway: &Gateway, upstream: &Upstream) -> Result<(), String> {
    upstream.take();
    let mut head = format!("{} HTTP/1.1\r\n", request["send"].as_str().ok_or("no `send`")?);
    let headers = request["headers"].as_object().cloned().unwrap_or_default();
    if !headers.contains_key("Host") {
        head += "Host: h\r\n";
    }
    for (name, value) in &headers {
        head += &format!("{name}: {}\r\n", value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    }
    if let Some(body) = request["body"].as_str() {
        head += &format!("Content-Length: {}\r\n\r\n{body}", body.len());
    } else {
        head += "\r\n";
    }
    let answer = gateway.client().request(&head).map_err(|error| format!("no answer: {error}"))?;
    let seen: String = upstream.take().iter().map(tidegate_testkit::Seen::text).collect();
    let shown = format!("answer {} {:?}, upstream saw {seen:?}", answer.status(), answer.body_text());
    if Some(u64::from(answer.status())) != request["status"].as_u64() {
        return Err(format!("not {}: {shown}", request["status"]));
    }
    let lower = seen.to_ascii_lowercase();
    for part in texts(&request["seen"]) {
        if !lower.contains(&part.to_ascii_lowercase()) {
            return Err(format!("upstream did not see {part:?}: {shown}"));
        }
    }
    for part in texts(&request["unseen"]) {
        if lower.contains(&part.to_ascii_lowercase()) {
            return Err(format!("upstream saw {part:?}: {shown}"));
        }
    }
    for (name, part) in request["answer"].as_object().into_iter().flatten() {
        let value = answer.header(name).unwrap_or_default();
        if !value.contains(part.as_str().unwrap_or_default()) || answer.header(name).is_none() {
            return Err(format!("header {name} is {value:?}: {shown}"));
        }
    }
    match request["text"].as_str() {
        Some(text) if !answer.body_text().contains(text) => Err(format!("no {text:?}: {shown}")),
        _ => Ok(()),
    }
}

fn texts(value: &Value) -> Vec<&str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}
