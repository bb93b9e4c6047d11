//! Import, a change by hand, another file: what comes of it is held against that file alone with the change made again. A request
//! that this denies must be denied.

use tidegate_testkit::servers;

use super::{Scene, scene};

/// A change by hand; `@PATH@` in the place of the object is the route for these paths.
type Hand = (&'static str, &'static str, &'static str);

struct Sequence {
    name: &'static str,
    kind: &'static str,
    first: &'static str,
    hand: &'static [Hand],
    second: &'static str,
    /// What becomes of it without a flag and with `--keep`: whether it is done.
    done: (bool, bool),
}

const REQUESTS: [&str; 12] = [
    "/",
    "/a",
    "/a/b",
    "/adm/x",
    "/adm/x.png",
    "/x.png",
    "/secret",
    "/secret/x",
    "/old/x",
    "/x",
    "/s/x",
    "/t/x",
];

const KEYS: [&str; 5] = ["", "one", "two", "three", "by-hand"];

const KONG: &str = "_format_version: '3.0'\nservices:\n- name: s\n  url: http://@UPSTREAM@\n  routes:\n";
const KEY: &str = "plugins: [{name: key-auth}]";
const ANNA: &str = "consumers:\n- {username: anna, keyauth_credentials: [{key: one}, {key: two}]}\n";
const HYPER: &str = "services:\n- {service_id: s, path: s, auth: AppKey, upstreams: [{target: 'http://@UPSTREAM@'}], sla: [{name: gold}]}\n";

const DENY: &str = r#"{"plugins":{"ip-restriction":{"blacklist":["127.0.0.0/8"]}}}"#;
const NOTE: &str = r#"{"desc":"by hand"}"#;
const OFF: &str = r#"{"status":0}"#;

const SEQUENCES: [Sequence; 18] = [
    Sequence {
        name: "a guard by hand, a new location before it",
        kind: "nginx",
        first: "location / { @PROXY@ }\nlocation /a/ { @PROXY@ }\n",
        hand: &[("PATCH", "routes/@/a/*@", DENY)],
        second: "location / { @PROXY@ }\nlocation /secret/ { deny all; @PROXY@ }\nlocation /a/ { @PROXY@ }\n",
        done: (false, true),
    },
    Sequence {
        name: "a note by hand on a guard, new expressions behind it",
        kind: "nginx",
        first: "location / { @PROXY@ }\nlocation ~ ^/adm { deny all; @PROXY@ }\n",
        hand: &[("PATCH", "routes/@~adm@", NOTE)],
        second: "location / { @PROXY@ }\nlocation ~ ^/adm { deny all; @PROXY@ }\nlocation ~ \\.png$ { @PROXY@ }\nlocation ~ ^/q { return 404; }\n",
        done: (false, true),
    },
    Sequence {
        name: "a note by hand, and the file closes the location",
        kind: "nginx",
        first: "location / { @PROXY@ }\nlocation /a/ { @PROXY@ }\n",
        hand: &[("PATCH", "routes/@/a/*@", NOTE)],
        second: "location / { @PROXY@ }\nlocation /a/ { deny all; @PROXY@ }\n",
        done: (false, false),
    },
    Sequence {
        name: "a location switched off by hand, others are closed",
        kind: "nginx",
        first: "location / { @PROXY@ }\nlocation /old/ { @PROXY@ }\n",
        hand: &[("PATCH", "routes/@/old/*@", OFF)],
        second: "location / { deny all; @PROXY@ }\nlocation /old/ { @PROXY@ }\n",
        done: (false, true),
    },
    Sequence {
        name: "a location deleted by hand, lines move",
        kind: "nginx",
        first: "location /a/ { @PROXY@ }\n",
        hand: &[("DELETE", "routes/@/a/*@", ""), ("DELETE", "routes/@/a@", "")],
        second: "# moved\n\nlocation /secret/ { deny all; @PROXY@ }\nlocation /a/ { @PROXY@ }\n",
        done: (false, true),
    },
    Sequence {
        name: "a location leaves the file, what is around it closes",
        kind: "nginx",
        first: "location / { @PROXY@ }\nlocation /old/ { @PROXY@ }\n",
        hand: &[],
        second: "location / { deny all; @PROXY@ }\n",
        done: (false, false),
    },
    Sequence {
        name: "the place of a location changed by hand",
        kind: "nginx",
        first: "location / { deny all; @PROXY@ }\nlocation /a/ { @PROXY@ }\n",
        hand: &[("PATCH", "routes/@/a/*@", r#"{"methods":["PUT"]}"#)],
        second: "location / { deny all; @PROXY@ }\nlocation /x { @PROXY@ }\nlocation /a/ { @PROXY@ }\n",
        done: (false, false),
    },
    Sequence {
        name: "a note by hand, a route of that name for other paths",
        kind: "kong",
        first: "@KONG@  - {name: all, paths: [/]}\n  - {name: g, paths: [/x], @KEY@}\n",
        hand: &[("PATCH", "routes/g", NOTE)],
        second: "@KONG@  - {name: all, paths: [/]}\n  - {name: g, paths: [/secret], @KEY@}\n",
        done: (false, false),
    },
    Sequence {
        name: "a guard by hand on a route without a name",
        kind: "kong",
        first: "@KONG@  - {paths: [/]}\n  - {paths: [/a]}\n",
        hand: &[("PATCH", "routes/@/a*@", DENY)],
        second: "@KONG@  - {paths: [/secret], @KEY@}\n  - {paths: [/]}\n  - {paths: [/a]}\n",
        done: (false, true),
    },
    Sequence {
        name: "a guard by hand, and another one in the file",
        kind: "kong",
        first: "@KONG@  - {name: r, paths: [/a]}\n",
        hand: &[("PATCH", "routes/r", r#"{"plugins":{"ua-restriction":{"denylist":["x"]}}}"#)],
        second: "@KONG@  - {name: r, paths: [/a], @KEY@}\n",
        done: (false, false),
    },
    Sequence {
        name: "plugins moved into a configuration of their own",
        kind: "kong",
        first: "@KONG@  - {name: r, paths: [/a], @KEY@}\n@ANNA@",
        hand: &[("PUT", "plugin_configs/own", DENY), ("PATCH", "routes/r", r#"{"plugin_config_id":"own"}"#)],
        second: "@KONG@  - {name: r, paths: [/a], @KEY@}\n  - {name: t, paths: [/a/b], @KEY@}\n@ANNA@",
        done: (false, true),
    },
    Sequence {
        name: "a key revoked by hand, the one before it goes",
        kind: "kong",
        first: "@KONG@  - {name: r, paths: [/a], @KEY@}\n@ANNA@",
        hand: &[("DELETE", "consumers/anna/credentials/@two@", "")],
        second: "@KONG@  - {name: r, paths: [/a], @KEY@}\nconsumers:\n- {username: anna, keyauth_credentials: [{key: two}, {key: one}, {key: three}]}\n",
        done: (false, true),
    },
    Sequence {
        name: "a key revoked by hand, given to another consumer",
        kind: "kong",
        first: "@KONG@  - {name: r, paths: [/a], @KEY@}\n@ANNA@",
        hand: &[("DELETE", "consumers/anna/credentials/@two@", "")],
        second: "@KONG@  - {name: r, paths: [/a], @KEY@}\nconsumers:\n- {username: anna, keyauth_credentials: [{key: one}]}\n- {username: bob, keyauth_credentials: [{key: two}]}\n",
        done: (false, true),
    },
    Sequence {
        name: "a key exchanged by hand, another consumer before it",
        kind: "kong",
        first: "@KONG@  - {name: r, paths: [/a], @KEY@}\n@ANNA@",
        hand: &[("PUT", "consumers/anna/credentials/@two@", r#"{"plugins":{"key-auth":{"key":"by-hand"}}}"#)],
        second: "@KONG@  - {name: r, paths: [/a], @KEY@}\nconsumers:\n- {username: bob, keyauth_credentials: [{key: three}]}\n- {username: anna, keyauth_credentials: [{key: one}, {key: two}]}\n",
        done: (false, true),
    },
    Sequence {
        name: "the order of expressions",
        kind: "kong",
        first: "@KONG@  - {name: adm, paths: ['~/adm/[a-z]+[.]png$'], regex_priority: 10, strip_path: false, @KEY@}\n",
        hand: &[("PATCH", "routes/adm", NOTE)],
        second: "@KONG@  - {name: adm, paths: ['~/adm/[a-z]+[.]png$'], regex_priority: 10, strip_path: false, @KEY@}\n  - {name: png, paths: ['~/[a-z]+/[a-z]+[.]png$'], regex_priority: 5, strip_path: false}\n",
        done: (false, true),
    },
    Sequence {
        name: "a guard by hand, a service before it",
        kind: "hyperapi",
        first: "@HYPER@clients:\n- {client_id: anna, app_key: one, services: {s: gold}}\n",
        hand: &[("PATCH", "routes/s", DENY)],
        second: "services:\n- {service_id: t, path: t, auth: AppKey, upstreams: [{target: 'http://@UPSTREAM@'}], sla: [{name: gold}]}\n- {service_id: s, path: s, auth: AppKey, upstreams: [{target: 'http://@UPSTREAM@'}], sla: [{name: gold}]}\nclients:\n- {client_id: anna, app_key: one, services: {s: gold, t: gold}}\n",
        done: (false, true),
    },
    Sequence {
        name: "a key exchanged by hand, another client may no more",
        kind: "hyperapi",
        first: "@HYPER@clients:\n- {client_id: anna, app_key: one, services: {s: gold}}\n- {client_id: bob, app_key: two, services: {s: gold}}\n",
        hand: &[("PUT", "consumers/anna", r#"{"username":"anna","plugins":{"app-key":{"key":"by-hand"}}}"#)],
        second: "@HYPER@clients:\n- {client_id: anna, app_key: one, services: {s: gold}}\n- {client_id: bob, app_key: two, services: {}}\n",
        done: (false, true),
    },
    Sequence {
        name: "a note by hand on a route whose clients change",
        kind: "hyperapi",
        first: "@HYPER@clients:\n- {client_id: anna, app_key: one, services: {s: gold}}\n- {client_id: bob, app_key: two, services: {s: gold}}\n",
        hand: &[("PATCH", "routes/s", NOTE)],
        second: "@HYPER@clients:\n- {client_id: anna, app_key: one, services: {s: gold}}\n- {client_id: bob, app_key: two, services: {}}\n",
        done: (false, false),
    },
];

impl Scene {
    fn file(&self, kind: &str, text: &str, upstream: &str) -> String {
        let proxy = format!("proxy_pass http://{upstream};");
        let text = text.replace("@KONG@", KONG).replace("@ANNA@", ANNA).replace("@HYPER@", HYPER);
        let text = text.replace("@KEY@", KEY).replace("@PROXY@", &proxy).replace("@UPSTREAM@", upstream);
        match kind {
            "nginx" => format!(
                "events {{}}\nhttp {{\nserver {{\nlisten 127.0.0.1:{};\n{text}}}\n}}\n",
                self.gateway.http.port()
            ),
            _ => text,
        }
    }

    /// What of it there is here.
    fn by_hand(&self, hand: &[Hand]) {
        for (method, place, body) in hand {
            let place = match place.split('@').collect::<Vec<_>>().as_slice() {
                ["consumers/anna/credentials/", key, ""] => match self.credential_of(key) {
                    Some(id) => format!("consumers/anna/credentials/{id}"),
                    None => continue,
                },
                ["routes/", part, ""] if part.starts_with('~') => {
                    let part = part.trim_start_matches('~');
                    let id = self.ids("routes").into_iter().find(|id| id.contains(part));
                    format!("routes/{}", id.expect("a route"))
                }
                ["routes/", uri, ""] => format!("routes/{}", self.route_of(uri)),
                _ => (*place).to_owned(),
            };
            self.change(method, &place, body);
        }
    }

    /// By its name, which is made of consumer and key.
    fn credential_of(&self, key: &str) -> Option<String> {
        let file = self.gateway.prefix().join("keys.yaml");
        let text = format!(
            "_format_version: '3.0'\nconsumers:\n- {{username: anna, keyauth_credentials: [{{key: {key}}}]}}\n"
        );
        std::fs::write(&file, text).expect("written");
        let mut command = std::process::Command::new(super::binary());
        let output = command.args(["import", "kong"]).arg(&file).output().expect("the binary runs");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let id = said.split("anna/credentials/").nth(1)?.lines().next()?.trim_matches(['"', '\'']).to_owned();
        self.credentials("anna").contains(&id).then_some(id)
    }

    fn denied(&self) -> Vec<String> {
        let mut denied = Vec::new();
        for path in REQUESTS {
            for key in KEYS {
                let headers = if key.is_empty() {
                    String::new()
                } else {
                    format!("apikey: {key}\r\nX-APP-KEY: {key}\r\n")
                };
                let request =
                    format!("GET {path} HTTP/1.1\r\nHost: a.test\r\n{headers}Connection: close\r\n\r\n");
                let status = self.gateway.client().request(&request).expect("an answer").status();
                if status >= 400 {
                    denied.push(format!("GET {path} with key {key:?}"));
                }
            }
        }
        denied
    }
}

#[test]
fn what_the_new_file_or_a_person_denies_is_denied() {
    let upstream = servers::nginx("location / { return 200 ok; }");
    let upstream = upstream.address.to_string();
    for Sequence { name, kind, first, hand, second, done } in &SEQUENCES {
        let (own, fresh) = (scene(), scene());
        own.applied(kind, &own.file(kind, first, &upstream), &[]);
        own.by_hand(hand);
        let before = own.denied();
        fresh.applied(kind, &fresh.file(kind, second, &upstream), &[]);
        fresh.by_hand(hand);
        let wanted = fresh.denied();
        let file = own.file(kind, second, &upstream);
        let mut was_done = Vec::new();
        for more in [&[][..], &["--keep"]] {
            let (is_done, said) = own.apply(kind, &file, more);
            was_done.push(is_done);
            let denied = own.denied();
            let must = if is_done { &wanted } else { &before };
            let open: Vec<&String> = must.iter().filter(|one| !denied.contains(one)).collect();
            assert!(open.is_empty(), "{name}, {more:?}: open: {open:?}\n{said}");
        }
        assert_eq!((was_done[0], was_done[1]), *done, "{name}: {:?}", own.apply(kind, &file, &["--keep"]).1);
    }
}
