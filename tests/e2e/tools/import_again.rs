//! `tidegate import --apply` of a file that has changed: what an earlier import left must not answer before the new guards.

mod closed;
mod sequences;

use std::fs;
use std::process::Command;

use tidegate_testkit::gateway::{ADMIN_KEY, EMBEDDED, Gateway, binary};
use tidegate_testkit::servers;

const KONG: &str = r#"
_format_version: "3.0"
services:
- name: s
  url: http://@UPSTREAM@
  routes:
  - {name: kb, paths: [/kb]}
  - paths: [/unnamed]
"#;

struct Scene {
    gateway: Gateway,
}

impl Scene {
    fn apply(&self, kind: &str, text: &str, more: &[&str]) -> (bool, String) {
        let file = self.gateway.prefix().join("imported");
        fs::write(&file, text).expect("written");
        let admin = self.gateway.admin.to_string();
        let mut command = Command::new(binary());
        command.args(["import", kind, "--apply", "--admin-key", ADMIN_KEY, "--admin", &admin]).args(more);
        let output = command.arg(&file).output().expect("the binary runs");
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        (output.status.success(), said)
    }

    fn status(&self, path: &str) -> u16 {
        self.gateway.client().get("a.test", path).expect("an answer").status()
    }
}

fn scene() -> Scene {
    let mut gateway = Gateway::start(EMBEDDED, None);
    gateway.process.wait_for_port(gateway.admin);
    Scene { gateway }
}

/// The names of its routes do not depend on lines: what is left is what the file no longer has.
#[test]
fn routes_of_nginx_keep_their_names() {
    let upstream = servers::nginx("location / { return 200 ok; }");
    let scene = scene();
    let file = |comment: &str, guard: &str, old: &str| {
        let port = scene.gateway.http.port();
        format!(
            "events {{}}\nhttp {{\nserver {{\nlisten 127.0.0.1:{port};\n{comment}{old}location /admin/ {{ {guard} proxy_pass http://{}; }}\n\
             location / {{ proxy_pass http://{0}; }}\n}}\n}}\n",
            upstream.address
        )
    };
    let old = "location /old/ { return 200 old; }\nlocation /older/ { return 200 older; }\n";
    scene.applied("nginx", &file("", "", old), &[]);
    let names = scene.ids("routes");
    assert_eq!((scene.status("/admin/x"), scene.status("/old/x")), (200, 200));
    // Lines move, a guard comes: the route of before has it.
    scene.applied("nginx", &file("# moved\n# down\n", "deny all;", old), &[]);
    assert_eq!((scene.status("/admin/x"), scene.ids("routes")), (403, names.clone()));
    // Two locations go: they alone are named, the one that was changed by hand first.
    let changed = names.iter().find(|id| id.contains("older")).expect("a route");
    let other = names.iter().find(|id| id.contains("-old-")).expect("a route");
    scene.change("PATCH", &format!("routes/{changed}"), r#"{"desc":"by hand"}"#);
    let without = file("", "deny all;", "");
    let named =
        format!("does not have: routes/{changed} (changed by hand since), routes/{other}. They would stay");
    scene.refused("nginx", &without, &[&named, "--replace", "--keep"]);
    scene.applied("nginx", &without, &["--replace"]);
    assert_eq!((scene.status("/admin/x"), scene.status("/")), (403, 200));
    assert_eq!(scene.ids("routes").len(), names.len() - 2);
    assert!(scene.applied("nginx", &without, &[]).contains("0 objects changed"));
}

#[test]
fn renamed_routes_of_kong_go_and_own_objects_stay() {
    let upstream = servers::nginx("location / { return 200 ok; }");
    let scene = scene();
    let own = r#"{"uri":"/own","plugins":{"mocking":{"response_example":"own"}}}"#;
    assert_eq!(scene.gateway.admin("PUT", "/apisix/admin/routes/own", own).0, 201);
    let file = KONG.replace("@UPSTREAM@", &upstream.address.to_string());
    let (done, said) = scene.apply("kong", &file, &[]);
    assert!(done, "{said}");
    assert_eq!((scene.status("/kb"), scene.status("/unnamed")), (200, 200));
    let guarded = "{name: kb2, paths: [/kb], plugins: [{name: key-auth}]}";
    let changed = file.replace("{name: kb, paths: [/kb]}", guarded);
    // Nobody has changed it: it has another name, and what the file says.
    scene.applied("kong", &changed, &[]);
    assert_eq!((scene.status("/kb"), scene.ids("routes").contains(&"kb".to_owned())), (401, false));
    // The old one would answer in place of the new guard.
    scene.applied("kong", &file, &["--replace"]);
    let wider =
        file.replace("{name: kb, paths: [/kb]}", "{name: k, paths: [/k], plugins: [{name: key-auth}]}");
    scene.refused("kong", &wider, &["does not have: routes/kb"]);
    let (done, said) = scene.apply("kong", &wider, &["--keep"]);
    assert!(
        !done && said.contains("routes/kb (it takes /kb*, and routes/k, which this import writes, takes /k*"),
        "{said}"
    );
    scene.applied("kong", &wider, &["--replace"]);
    assert_eq!((scene.status("/kb"), scene.status("/unnamed"), scene.status("/own")), (401, 200, 200));
}

/// Two consumers with a key each; @ROUTES@ of the service are guarded or not.
const WITH_KEYS: &str = r#"
_format_version: "3.0"
services:
- name: s
  url: http://@UPSTREAM@
  routes:
  - {name: key, paths: [/key], plugins: [{name: key-auth}]}
  - {name: old, paths: [/old]}
consumers:
- {username: anna, keyauth_credentials: [{key: key-of-anna}, {key: second-key-of-anna}]}
- {username: bob, keyauth_credentials: [{key: key-of-bob}]}
"#;

impl Scene {
    fn with_key(&self, path: &str, key: &str) -> u16 {
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: a.test\r\napikey: {key}\r\nConnection: close\r\n\r\n");
        self.gateway.client().request(&request).expect("an answer").status()
    }

    fn applied(&self, kind: &str, text: &str, more: &[&str]) -> String {
        let (done, said) = self.apply(kind, text, more);
        assert!(done, "{said}");
        said
    }

    fn refused(&self, kind: &str, text: &str, named: &[&str]) {
        let before = self.gateway.admin("GET", "/apisix/admin/revision", "").1;
        let (done, said) = self.apply(kind, text, &[]);
        assert!(!done && said.contains("nothing was written"), "{said}");
        for named in named {
            assert!(said.contains(named), "{named} in {said}");
        }
        assert_eq!(self.gateway.admin("GET", "/apisix/admin/revision", "").1, before);
    }

    fn revision(&self) -> u64 {
        let said = self.gateway.admin("GET", "/apisix/admin/revision", "").1;
        let said: serde_json::Value = serde_json::from_str(&said).expect("JSON");
        said["stored"].as_u64().expect("a revision")
    }

    /// By hand.
    fn change(&self, method: &str, path: &str, body: &str) {
        let (status, said) = self.gateway.admin(method, &format!("/apisix/admin/{path}"), body);
        assert!(matches!(status, 200 | 201), "{status} {said}");
    }

    fn ids(&self, collection: &str) -> Vec<String> {
        let list = self.gateway.admin("GET", &format!("/apisix/admin/{collection}"), "").1;
        let list: serde_json::Value = serde_json::from_str(&list).expect("JSON");
        let ids = list["list"].as_array().expect("a list").iter();
        ids.map(|item| item["value"]["id"].as_str().unwrap_or_default().to_owned()).collect()
    }
}

#[test]
fn what_a_file_no_longer_has_goes_with_its_keys() {
    let upstream = servers::nginx("location / { return 200 ok; }");
    let scene = scene();
    let file = WITH_KEYS.replace("@UPSTREAM@", &upstream.address.to_string());
    scene.applied("kong", &file, &[]);
    assert_eq!(
        (scene.with_key("/key", "key-of-bob"), scene.with_key("/key", "second-key-of-anna")),
        (200, 200)
    );
    let without = file.replace("- {username: bob, keyauth_credentials: [{key: key-of-bob}]}", "");
    let revoked = without.replace(", {key: second-key-of-anna}", "");
    scene.refused("kong", &revoked, &["consumers/bob", "credentials/", "--replace", "--keep"]);
    scene.applied("kong", &revoked, &["--replace"]);
    assert_eq!(
        (scene.with_key("/key", "key-of-bob"), scene.with_key("/key", "second-key-of-anna")),
        (401, 401)
    );
    assert_eq!(scene.with_key("/key", "key-of-anna"), 200);
    assert!(scene.applied("kong", &revoked, &[]).contains("0 objects changed"));
}

#[test]
fn credentials_of_an_apisix_file_go_too() {
    let scene = scene();
    let route = "- {id: r, uri: /key, plugins: {key-auth: {}, mocking: {response_example: ok}}}";
    let file = format!(
        "routes:\n{route}\n- {{id: gone, uri: /gone, plugins: {{mocking: {{response_example: ok}}}}}}\nconsumers:\n- {{username: anna}}\n\
         - {{id: anna/credentials/c1, plugins: {{key-auth: {{key: first}}}}}}\n- {{id: anna/credentials/c2, plugins: {{key-auth: {{key: second}}}}}}\n\
         secrets:\n- {{id: vault/v, uri: 'http://127.0.0.1:1', prefix: p, token: t}}\n#END\n"
    );
    scene.applied("apisix", &file, &[]);
    assert_eq!(
        (scene.with_key("/key", "first"), scene.with_key("/key", "second"), scene.status("/gone")),
        (200, 200, 200)
    );
    let fewer: String = file
        .lines()
        .filter(|line| !line.contains("gone") && !line.contains("c2"))
        .map(|line| format!("{line}\n"))
        .collect();
    scene.refused("apisix", &fewer, &["routes/gone", "consumers/anna/credentials/c2"]);
    scene.applied("apisix", &fewer, &["--replace"]);
    assert_eq!(
        (scene.with_key("/key", "first"), scene.with_key("/key", "second"), scene.status("/gone")),
        (200, 401, 404)
    );
}

#[test]
fn a_guard_put_on_an_imported_route_by_hand_stays() {
    let upstream = servers::nginx("location / { return 200 ok; }");
    let scene = scene();
    let file = WITH_KEYS.replace("@UPSTREAM@", &upstream.address.to_string());
    scene.applied("kong", &file, &[]);
    let old = scene.ids("routes").into_iter().find(|id| id.contains("old")).expect("a route");
    let path = format!("routes/{old}");
    scene.change("PATCH", &path, r#"{"plugins":{"key-auth":{}}}"#);
    assert_eq!(scene.status("/old"), 401);
    scene.refused(
        "kong",
        &file,
        &[
            &path,
            "changed since the last import: PATCH /apisix/admin/routes/",
            "by admin from 127.0.0.1 at ",
            "--replace",
            "--keep",
        ],
    );
    let said = scene.applied("kong", &file, &["--keep"]);
    assert!(said.contains(&format!("kept as it was changed by hand: {path}")), "{said}");
    assert_eq!(scene.status("/old"), 401);
    scene.refused("kong", &file, &[&path]);
    scene.applied("kong", &file, &["--replace"]);
    assert_eq!(scene.status("/old"), 200);
    // What only the file changes goes through.
    let guarded =
        file.replace("{name: old, paths: [/old]}", "{name: old, paths: [/old], plugins: [{name: key-auth}]}");
    scene.applied("kong", &guarded, &[]);
    assert_eq!(scene.status("/old"), 401);
    // A route written anew has no label of the import.
    scene.change("PUT", &path, r#"{"uri":"/old","plugins":{"ip-restriction":{"blacklist":["0.0.0.0/0"]}},"upstream":{"nodes":{"127.0.0.1:1":1}}}"#);
    assert_eq!(scene.status("/old"), 403);
    scene.refused("kong", &guarded, &[&path, "not written by an earlier import"]);
    // What was changed by hand to what the file has is no difference.
    scene.applied("kong", &guarded, &["--replace"]);
    scene.change("PATCH", &path, r#"{"desc":"by hand"}"#);
    scene.change("PATCH", &path, r#"{"desc":null}"#);
    assert!(!scene.applied("kong", &guarded, &[]).contains("kept"));
}

#[test]
fn a_guard_put_on_an_nginx_location_by_hand_stays() {
    let upstream = servers::nginx("location / { return 200 ok; }");
    let scene = scene();
    let port = scene.gateway.http.port();
    let file = format!(
        "events {{}}\nhttp {{\nserver {{\nlisten 127.0.0.1:{port};\nlocation / {{ proxy_pass http://{}; }}\n}}\n}}\n",
        upstream.address
    );
    scene.applied("nginx", &file, &[]);
    for id in scene.ids("routes") {
        scene.change("PATCH", &format!("routes/{id}"), r#"{"plugins":{"key-auth":{}}}"#);
    }
    assert_eq!(scene.status("/a"), 401);
    scene.refused("nginx", &file, &["changed since the last import", "routes/"]);
    scene.applied("nginx", &file, &["--keep"]);
    assert_eq!(scene.status("/a"), 401);
}

#[test]
fn kinds_without_labels_and_deleted_objects_are_told_by_the_history() {
    let scene = scene();
    let rule = |status: u16| {
        format!("global_rules:\n- {{id: g, plugins: {{response-rewrite: {{status_code: {status}}}}}}}\n")
    };
    let rest = "routes:\n- {id: r, uri: /r, plugins: {mocking: {response_example: ok}}}\nconsumers:\n- {username: anna}\n\
                - {id: anna/credentials/c1, plugins: {key-auth: {key: first}}}\n#END\n";
    let file = |status| rule(status) + rest;
    scene.applied("apisix", &file(201), &[]);
    scene.applied("apisix", &file(202), &[]);
    assert_eq!(scene.status("/r"), 202);
    scene.change("PATCH", "global_rules/g", r#"{"plugins":{"response-rewrite":{"status_code":203}}}"#);
    scene.refused(
        "apisix",
        &file(202),
        &["global_rules/g (not written last by an import: PATCH /apisix/admin/global_rules/g by admin"],
    );
    scene.applied("apisix", &file(202), &["--keep"]);
    assert_eq!(scene.status("/r"), 203);
    scene.applied("apisix", &file(202), &["--replace"]);
    // Without the rule in the file.
    scene.refused("apisix", rest, &["does not have: global_rules/g"]);
    scene.applied("apisix", rest, &["--replace"]);
    assert_eq!(scene.status("/r"), 200);
    // Revoked by hand: an import does not bring it back unasked.
    scene.change("DELETE", "consumers/anna/credentials/c1", "");
    scene.change("DELETE", "routes/r", "");
    scene.refused(
        "apisix",
        rest,
        &["consumers/anna/credentials/c1 (deleted since the last import: DELETE ", "routes/r"],
    );
    scene.applied("apisix", rest, &["--keep"]);
    assert_eq!(scene.status("/r"), 404);
    scene.applied("apisix", rest, &["--replace"]);
    assert_eq!(scene.status("/r"), 200);
}

/// What a rollback or another write of everything took away was perhaps revoked: it counts as deleted by hand.
#[test]
fn what_a_rollback_deleted_does_not_come_back_unasked() {
    let scene = scene();
    let file = "routes:\n- {id: r, uri: /r, plugins: {key-auth: {}, mocking: {response_example: ok}}}\nconsumers:\n- {username: anna}\n\
                - {id: anna/credentials/c1, plugins: {key-auth: {key: first}}}\n#END\n";
    let key = "consumers/anna/credentials/c1";
    let (rolled_back, by) = (
        |body: &str| scene.change("POST", "rollback", body),
        "(deleted since the last import: POST /apisix/admin/rollback by admin from 127.0.0.1 at ",
    );
    scene.applied("apisix", file, &[]);
    scene.change("DELETE", key, "");
    let revoked = scene.revision();
    scene.applied("apisix", file, &["--replace"]);
    assert_eq!(scene.with_key("/r", "first"), 200);
    // One object, and everything.
    let one = format!(r#"{{"revision":{revoked},"key":"/{key}"}}"#);
    for body in [one, format!(r#"{{"revision":{revoked}}}"#)] {
        rolled_back(&body);
        assert_eq!(scene.with_key("/r", "first"), 401, "{body}");
        scene.refused("apisix", file, &[&format!("{key} {by}")]);
        assert!(scene.applied("apisix", file, &["--keep"]).contains(key));
        assert_eq!(scene.with_key("/r", "first"), 401, "kept");
        scene.applied("apisix", file, &["--replace"]);
        assert_eq!(scene.with_key("/r", "first"), 200, "asked for");
    }
    // To before the first import.
    rolled_back(r#"{"revision":0,"key":"/routes/r"}"#);
    scene.refused("apisix", file, &[&format!("routes/r {by}")]);
    rolled_back(r#"{"revision":0}"#);
    scene.refused("apisix", file, &["consumers/anna ", &format!("{key} {by}"), "routes/r "]);
    scene.applied("apisix", file, &["--replace"]);
    // A whole configuration without it.
    scene.change("PUT", "import?mode=replace", r#"{"consumers":[{"username":"anna"}]}"#);
    scene.refused(
        "apisix",
        file,
        &[key, "routes/r", "deleted since the last import: PUT /apisix/admin/import"],
    );
    // Of another source.
    scene.applied("apisix", file, &["--replace"]);
    scene.change("PUT", "import?mode=replace", "{}");
    scene.applied("kong", "_format_version: '3.0'\n", &[]);
    scene.refused("apisix", file, &[key, "routes/r"]);
}

#[test]
fn a_digest_tells_no_secret_and_secrets_changed_by_hand_stay() {
    let file = "consumers:\n- {username: anna}\n- {id: anna/credentials/c1, plugins: {key-auth: {key: first}}}\n#END\n";
    let path = "consumers/anna/credentials/c1";
    let digest = |scene: &Scene| {
        let stored = scene.gateway.admin("GET", &format!("/apisix/admin/{path}"), "").1;
        let stored: serde_json::Value = serde_json::from_str(&stored).expect("JSON");
        stored["value"]["labels"]["imported-digest"].as_str().expect("a label").to_owned()
    };
    let mut digests = Vec::new();
    for keyring in ["", "1111111111111111", "2222222222222222"] {
        let own = format!("apisix:\n  data_encryption: {{keyring: ['{keyring}']}}\n");
        let config =
            if keyring.is_empty() { EMBEDDED.to_owned() } else { EMBEDDED.replacen("apisix:\n", &own, 1) };
        let mut gateway = Gateway::start(&config, None);
        gateway.process.wait_for_port(gateway.admin);
        let scene = Scene { gateway };
        scene.applied("apisix", file, &[]);
        digests.push(digest(&scene));
        assert!(scene.applied("apisix", file, &[]).contains("0 objects changed"));
        let other = file.replace("first", "other");
        if keyring.is_empty() {
            scene.refused("apisix", &other, &[path, "its secrets differ"]);
            scene.applied("apisix", &other, &["--replace"]);
            assert_eq!(digest(&scene), digests[0]);
        } else {
            scene.applied("apisix", &other, &[]);
        }
        let body = scene.gateway.admin("GET", &format!("/apisix/admin/{path}"), "").1;
        let mut body: serde_json::Value = serde_json::from_str(&body).expect("JSON");
        body["value"]["plugins"]["key-auth"]["key"] = "by-hand".into();
        let body = body["value"].as_object_mut().expect("an object");
        body.retain(|name, _| !name.ends_with("_time"));
        scene.change("PUT", path, &serde_json::to_string(&body).expect("JSON"));
        scene.refused("apisix", &other, &[path]);
    }
    assert!(digests[1] != digests[0] && digests[2] != digests[1], "{digests:?}");
}
