//! What fields of plugins do, one table per group of plugins: routes, what is sent to them, and what is to come of it. Each field has
//! a value that is not its default, so that `scripts/schema-fields` sees these tests fail without it.
//!
//! A table is `fields/NAME.yaml`:
//!
//! ```text
//! config:   added to config.yaml
//! objects:  other resources: consumers, plugin_metadata
//! servers:  programs that run meanwhile: name, command, files of their folder, commands to send them
//! answers:  of the upstream, by path: STATUS|FIELD: VALUE|...||BODY, perhaps behind wait=MILLISECONDS|; it echoes other requests,
//!           and those with X-Answer say themselves what is answered
//! routes:   the plugins of /NAME and /NAME/*, or a whole route
//! steps:    send: [METHOD] TARGET, fields and body; within: seconds in which it is sent again; times, {n} in what is sent is the number of the time, and the responses count together; fill: so many bytes more; background; to, from
//!           expect: status, or texts in the response; together: statuses of requests at once; least_ms, most_ms
//!           seen: texts that arrive at the upstream, `TLS for NAME, with a certificate` (or `no`) of a handshake; opened: so many connections to it are; log: texts of the error log
//! ```
//!
//! `{cookies}` and `{state}` in what is sent are those that the responses before have brought. A text behind `!` must not be there. `@UPSTREAM@`, `@TLS@` (the same with TLS and a certificate that nobody vouches for), `@SILENT@`
//! (accepts, and says nothing), `@FULL@` (does not even accept), `@NAME@` of a server and `@NOBODY@` are addresses, with `_PORT` their ports, `@FOLDER@` that of servers, `@CERT@` and `@KEY@` its certificate
//! and key, in quotes.

mod places;
mod steps;
mod upstream;

use std::{fs, io::Write, net::TcpStream, process::Command};

use serde_json::{Map, Value, json};
use tidegate_config::yaml;
use tidegate_testkit::gateway::{YAML_PROVIDER, workspace_root};
use tidegate_testkit::{Client, Gateway, process::Process, servers};

use places::Places;
pub(super) use places::full;
use upstream::Upstream;

#[test]
fn who_may_pass() {
    run("access");
}

#[test]
fn what_becomes_of_messages() {
    run("shaping");
}

#[test]
fn limits_keys_and_windows() {
    run("limits");
}

#[test]
fn counts_in_redis() {
    run("redis");
}

#[test]
fn services_that_are_asked() {
    run("services");
}

#[test]
fn functions_elsewhere() {
    run("functions");
}

#[test]
fn stored_and_compressed_responses() {
    run("storing");
}

#[test]
fn other_upstreams() {
    run("upstreams");
}

#[test]
fn users_of_providers() {
    run("sign_in");
}

#[test]
fn what_is_reported() {
    run("telemetry");
}

#[test]
fn credentials_and_services_that_vouch() {
    run("credentials");
}

#[test]
fn receivers_of_entries() {
    run("receivers");
}

#[test]
fn parts_of_split_upstreams() {
    run("splits");
}

#[test]
fn health_of_split_upstreams() {
    run("checks");
}

#[test]
fn connections_that_are_kept() {
    run("pools");
}

#[test]
fn batches_and_levels() {
    run("batches");
}

/// What the gateway's own kit fills in, as numbers.
const PORTS: [&str; 3] = ["@HTTP@", "@CONTROL@", "@METRICS@"];

/// A gateway with what is around it.
struct Scene {
    gateway: Gateway,
    /// Without TLS, and with it.
    upstreams: [Upstream; 2],
    _servers: Vec<Process>,
    /// Whose responses nobody waits for.
    background: Vec<Client>,
    /// Of the responses so far.
    state: String,
    cookies: String,
}

fn run(name: &str) {
    let path = workspace_root().join(format!("tests/e2e/plugins/fields/{name}.yaml"));
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let places = Places::new();
    let upstreams = [Upstream::start(None), Upstream::start(Some(places.tls()))];
    let text = places.fill(&text, &upstreams);
    let table = yaml::to_value(&text).unwrap_or_else(|fault| panic!("{}: {fault:?}", path.display()));
    upstreams.iter().for_each(|upstream| upstream.answer_with(&table["answers"]));
    let servers = list(&table["servers"]).iter().filter_map(|server| start(server, &places)).collect();
    let quoted =
        PORTS.iter().fold(YAML_PROVIDER.to_owned(), |text, port| text.replace(port, &format!("\"{port}\"")));
    let mut config = yaml::to_value(&quoted).expect("YAML");
    merge(&mut config, &table["config"]);
    let bare = |text: String, port: &&str| text.replace(&format!("\"{port}\""), port);
    let config = PORTS.iter().fold(config.to_string(), bare);
    let objects = objects(&table, &upstreams[0]).to_string();
    let gateway = Gateway::start(&config, Some(&objects));
    let mut scene = Scene {
        gateway,
        upstreams,
        _servers: servers,
        background: Vec::new(),
        state: String::new(),
        cookies: String::new(),
    };
    for (number, step) in list(&table["steps"]).iter().enumerate() {
        let wrong = scene.wrong(step);
        assert!(wrong.is_empty(), "{name}, step {}: {step}\n{}", number + 1, wrong.join("\n"));
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn fields(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn merge(into: &mut Value, more: &Value) {
    for (name, value) in fields(more) {
        match &mut into[name.as_str()] {
            known @ Value::Object(_) if value.is_object() => merge(known, value),
            known => *known = value.clone(),
        }
    }
}

fn objects(table: &Value, upstream: &Upstream) -> Value {
    let target = json!({"type": "roundrobin", "nodes": {upstream.address.to_string(): 1}});
    let mut objects = table["objects"].clone();
    let routes = fields(&table["routes"]).map(|(name, route)| {
        let is_route = ["plugins", "upstream", "uri"].iter().any(|member| !route[*member].is_null());
        let mut route = if is_route { route.clone() } else { json!({"plugins": route}) };
        route["id"] = json!(name);
        if route["uri"].is_null() {
            route["uris"] = json!([format!("/{name}"), format!("/{name}/*")]);
        }
        if route["upstream"].is_null() {
            route["upstream"] = target.clone();
        }
        route
    });
    let routes: Vec<Value> = routes.collect();
    if objects.is_null() {
        objects = Value::Object(Map::new());
    }
    objects["routes"] = json!(routes);
    objects
}

/// `None` for a name without a program: another port of the one before.
fn start(server: &Value, places: &Places) -> Option<Process> {
    let name = server["name"].as_str().expect("a name");
    for (file, text) in fields(&server["files"]) {
        fs::write(places.folder().join(file), text.as_str().expect("a text")).expect("a file");
    }
    let mut words = list(&server["command"]).iter().map(|word| word.as_str().expect("a text"));
    let mut command = Command::new(servers::find(words.next()?));
    let mut process = Process::start(name, command.args(words).current_dir(places.folder()));
    let address = places.of(name);
    process.wait_for_port(address);
    for command in list(&server["commands"]) {
        let mut socket = TcpStream::connect(address).expect("it listens");
        let text = command.as_str().expect("a text").replace('\n', "\r\n") + "\r\nQUIT\r\n";
        socket.write_all(text.as_bytes()).expect("it reads");
        // It closes when it has done all.
        let _ = std::io::copy(&mut socket, &mut std::io::sink());
    }
    Some(process)
}
