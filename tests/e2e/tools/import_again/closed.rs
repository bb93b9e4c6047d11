//! What was closed by hand or by the file stays closed, whatever objects are called.

use tidegate_testkit::servers;

use super::{Scene, scene};

impl Scene {
    /// The id of the route that takes these paths.
    pub(super) fn route_of(&self, uri: &str) -> String {
        let list = self.gateway.admin("GET", "/apisix/admin/routes", "").1;
        let list: serde_json::Value = serde_json::from_str(&list).expect("JSON");
        let takes = |value: &serde_json::Value| {
            value["uris"].as_array().is_some_and(|uris| uris.iter().any(|one| one == uri))
                || value["uri"] == uri
        };
        let mut all = list["list"].as_array().expect("a list").iter().map(|item| &item["value"]);
        let found = all.find(|value| takes(value)).unwrap_or_else(|| panic!("no route for {uri} in {list}"));
        found["id"].as_str().expect("an id").to_owned()
    }

    pub(super) fn credentials(&self, consumer: &str) -> Vec<String> {
        let list =
            self.gateway.admin("GET", &format!("/apisix/admin/consumers/{consumer}/credentials"), "").1;
        let list: serde_json::Value = serde_json::from_str(&list).expect("JSON");
        let ids = list["list"].as_array().expect("a list").iter();
        ids.map(|item| item["value"]["id"].as_str().expect("an id").to_owned()).collect()
    }

    /// As an earlier import that named objects otherwise.
    fn imported_as(&self, kind: &str, objects: &str) {
        self.change("PUT", &format!("import?source={kind}"), objects);
    }

    fn refused_with(&self, kind: &str, text: &str, more: &[&str], named: &[&str]) {
        let before = self.revision();
        let (done, said) = self.apply(kind, text, more);
        assert!(!done && said.contains("nothing was written"), "{said}");
        for named in named {
            assert!(said.contains(named), "{named} in {said}");
        }
        assert_eq!(self.revision(), before);
    }

    fn keys(&self, path: &str) -> [u16; 2] {
        ["k-one-11111", "k-two-22222"].map(|key| self.with_key(path, key))
    }
}

const TWO_KEYS: &str = r#"
_format_version: "3.0"
services: [{name: s, url: "http://@UPSTREAM@", routes: [{name: g, paths: [/g], plugins: [{name: key-auth}]}]}]
consumers:
- username: anna
  keyauth_credentials:
  - {key: k-one-11111}
  - {key: k-two-22222}
"#;

/// The file of a server with these locations.
fn nginx(scene: &Scene, locations: &str) -> String {
    let port = scene.gateway.http.port();
    format!("events {{}}\nhttp {{\nserver {{\nlisten 127.0.0.1:{port};\n{locations}}}\n}}\n")
}

#[test]
fn a_key_that_was_revoked_by_hand_is_not_valid_again() {
    let upstream = servers::nginx("location / { return 200 ok; }");
    let file = TWO_KEYS.replace("@UPSTREAM@", &upstream.address.to_string());
    let without_first = file.replace("  - {key: k-one-11111}\n", "");
    let scene = scene();
    scene.applied("kong", &file, &[]);
    let names = scene.credentials("anna");
    assert!(
        names.iter().all(|name| !name.contains("11111") && name.len() == "key-auth-123".len()),
        "{names:?}"
    );
    let revoked = names.iter().find(|name| {
        scene.change("DELETE", &format!("consumers/anna/credentials/{name}"), "");
        let is_second = scene.keys("/g") == [200, 401];
        if !is_second {
            scene.applied("kong", &file, &["--replace"]);
        }
        is_second
    });
    let revoked = format!("consumers/anna/credentials/{}", revoked.expect("the second key"));
    // The first goes, so that the second stands where the first stood.
    scene.refused("kong", &without_first, &[&revoked, "deleted since the last import: DELETE"]);
    assert_eq!(scene.keys("/g"), [200, 401]);
    let said = scene.applied("kong", &without_first, &["--keep"]);
    assert!(said.contains(&format!("kept as it was changed by hand: {revoked}")), "{said}");
    assert!(said.contains("kept, and not in the file: consumers/anna/credentials/"), "{said}");
    assert_eq!(scene.keys("/g"), [200, 401]);
    // Another consumer has it now.
    let moved = file
        .replace("  - {key: k-two-22222}", "- {username: bob, keyauth_credentials: [{key: k-two-22222}]}");
    let taken = format!("the key-auth that it has was taken from {revoked} since: DELETE");
    scene.refused("kong", &moved, &["consumers/bob/credentials/key-auth-", &taken]);
    scene.applied("kong", &moved, &["--keep"]);
    assert_eq!(scene.keys("/g"), [200, 401]);
    scene.applied("kong", &without_first, &["--replace"]);
    assert_eq!(scene.keys("/g"), [401, 200]);
}

/// Credentials were named by their positions once.
#[test]
fn a_revoked_key_is_known_under_its_older_name() {
    let upstream = servers::nginx("location / { return 200 ok; }");
    let file = TWO_KEYS.replace("@UPSTREAM@", &upstream.address.to_string());
    let scene = scene();
    scene.imported_as(
        "kong",
        r#"{"consumers":[{"username":"anna"},
            {"id":"anna/credentials/key-auth-1","plugins":{"key-auth":{"key":"k-one-11111"}}},
            {"id":"anna/credentials/key-auth-2","plugins":{"key-auth":{"key":"k-two-22222"}}}]}"#,
    );
    scene.change("DELETE", "consumers/anna/credentials/key-auth-2", "");
    let taken = "was taken from consumers/anna/credentials/key-auth-2 since: DELETE";
    scene.refused("kong", &file, &[taken, "consumers/anna/credentials/key-auth-"]);
    // The name of the other one changes without asking.
    scene.applied("kong", &file, &["--keep"]);
    assert_eq!((scene.keys("/g"), scene.credentials("anna").len()), ([200, 401], 1));
    assert_ne!(scene.credentials("anna"), ["key-auth-1"]);
}

#[test]
fn a_key_that_was_exchanged_by_hand_does_not_come_back_with_another_client() {
    let upstream = servers::nginx("location / { return 200 ok; }");
    let scene = scene();
    let file = format!(
        "services:\n- {{service_id: a, path: a, auth: AppKey, upstreams: [{{target: 'http://{}'}}], sla: [{{name: gold}}]}}\n\
         clients:\n- {{client_id: anna, app_key: k-one-11111, services: {{a: gold}}}}\n",
        upstream.address
    );
    scene.applied("hyperapi", &file, &[]);
    scene.change("PUT", "consumers/anna", r#"{"username":"anna","plugins":{"app-key":{"key":"by-hand"}}}"#);
    let renamed = file.replace("client_id: anna", "client_id: anna2");
    scene.refused(
        "hyperapi",
        &renamed,
        &["consumers/anna2 (the app-key that it has was taken from consumers/anna since"],
    );
    scene.refused("hyperapi", &file, &["consumers/anna (not written by an earlier import"]);
}

#[test]
fn a_location_that_was_deleted_by_hand_does_not_come_back_when_lines_move() {
    let upstream = servers::nginx("location / { return 200 ok; }");
    let scene = scene();
    let debug = format!("location /debug/ {{ proxy_pass http://{}; }}\n", upstream.address);
    let file = nginx(&scene, &format!("# a comment\n{debug}"));
    scene.applied("nginx", &file, &[]);
    assert_eq!(scene.status("/debug/x"), 200);
    for id in scene.ids("routes") {
        scene.change("DELETE", &format!("routes/{id}"), "");
    }
    assert_eq!(scene.status("/debug/x"), 404);
    let moved = nginx(&scene, &debug);
    scene.refused("nginx", &moved, &["deleted since the last import: DELETE"]);
    scene.applied("nginx", &moved, &["--keep"]);
    assert_eq!(scene.status("/debug/x"), 404);
    // Under the name that it had from its line.
    let port = scene.gateway.http.port();
    let older = super::scene();
    let other = moved.replace(&port.to_string(), &older.gateway.http.port().to_string());
    older.applied("nginx", &other, &[]);
    let (route, slash) = (older.route_of("/debug/*"), older.route_of("/debug"));
    let objects = [(&route, "default-5"), (&slash, "default-5-slash-1")].map(|(id, older_name)| {
        let text = older.gateway.admin("GET", &format!("/apisix/admin/routes/{id}"), "").1;
        let mut value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let mut value = value["value"].take();
        value["id"] = older_name.into();
        let fields = value.as_object_mut().expect("an object");
        fields.retain(|name, _| !name.ends_with("_time") && name != "labels");
        value
    });
    let scene = super::scene();
    let mut objects = serde_json::json!({ "routes": objects });
    // The port is a condition.
    let text = objects
        .to_string()
        .replace(&older.gateway.http.port().to_string(), &scene.gateway.http.port().to_string());
    objects = serde_json::from_str(&text).expect("JSON");
    scene.imported_as("nginx", &objects.to_string());
    assert_eq!(scene.status("/debug/x"), 200);
    let file = moved.replace(&port.to_string(), &scene.gateway.http.port().to_string());
    // Untouched, it only changes its name.
    scene.applied("nginx", &file, &[]);
    assert!(scene.ids("routes").iter().all(|id| !id.starts_with("default-5")), "{:?}", scene.ids("routes"));
    assert_eq!((scene.ids("routes").len(), scene.status("/debug/x")), (older.ids("routes").len(), 200));
    let again = super::scene();
    let text = objects
        .to_string()
        .replace(&scene.gateway.http.port().to_string(), &again.gateway.http.port().to_string());
    again.imported_as("nginx", &text);
    again.change("DELETE", "routes/default-5", "");
    again.change("DELETE", "routes/default-5-slash-1", "");
    let file = moved.replace(&port.to_string(), &again.gateway.http.port().to_string());
    again.refused(
        "nginx",
        &file,
        &["it takes the requests of routes/default-5, which was deleted since: DELETE"],
    );
    again.applied("nginx", &file, &["--keep"]);
    assert_eq!(again.status("/debug/x"), 404);
}

#[test]
fn keep_leaves_the_guard_of_a_new_location() {
    let upstream = servers::nginx("location / { return 200 ok; }");
    let scene = scene();
    let proxy = format!("proxy_pass http://{};", upstream.address);
    let root = format!("location / {{ {proxy} }}\n");
    let x = format!("location /x/ {{ deny all; {proxy} }}\n");
    let secret = format!("location /secret/ {{ deny all; {proxy} }}\n");
    scene.applied("nginx", &nginx(&scene, &format!("{root}{x}")), &[]);
    let changed = format!("routes/{}", scene.route_of("/x/*"));
    scene.change("PATCH", &changed, r#"{"desc":"changed by hand for ticket 4711"}"#);
    let file = nginx(&scene, &format!("{root}{secret}{x}"));
    scene.refused("nginx", &file, &[&changed]);
    assert!(scene.applied("nginx", &file, &["--keep"]).contains(&changed));
    assert_eq!((scene.status("/secret/a"), scene.status("/x/a"), scene.status("/a")), (403, 403, 200));
    // Objects of the time when lines named them: what has the name of a line is another location now.
    let older = super::scene();
    let port = older.gateway.http.port();
    let route = |id: &str, uri: &str, plugins: &str| {
        format!(
            r#"{{"id":"{id}","uris":["{uri}"],"vars":[["server_port","==",{port}]],"priority":3,"plugins":{plugins},"upstream":{{"nodes":{{"{}":1}}}}}}"#,
            upstream.address
        )
    };
    let (open, shut) = ("{}", r#"{"fault-injection":{"abort":{"http_status":403}}}"#);
    older.imported_as(
        "nginx",
        &format!(r#"{{"routes":[{},{}]}}"#, route("default-4", "/*", open), route("default-5", "/x/*", shut)),
    );
    older.change("PATCH", "routes/default-5", r#"{"desc":"by hand"}"#);
    let (name, new) = (
        format!(
            r#"{{"routes":[{},{},{}]}}"#,
            route("default-4", "/*", open),
            route("default-5", "/secret/*", shut),
            route("default-6", "/x/*", shut)
        ),
        "routes/default-5",
    );
    let (status, said) = older.gateway.admin("PUT", "/apisix/admin/import?source=nginx&earlier=keep", &name);
    assert!(
        status == 409
            && said.contains(new)
            && said.contains("it takes /x/*")
            && said.contains("takes /secret/*"),
        "{said}"
    );
}

#[test]
fn keep_leaves_the_guards_of_kong_routes_without_names() {
    let upstream = servers::nginx("location / { return 200 ok; }");
    let scene = scene();
    let file = |middle: &str| {
        format!(
            "_format_version: '3.0'\nservices:\n- name: s\n  url: http://{}\n  routes:\n  - paths: [/k]\n{middle}  - paths: [/k/x]\n    plugins: [{{name: key-auth}}]\n",
            upstream.address
        )
    };
    scene.applied("kong", &file(""), &[]);
    let changed = format!("routes/{}", scene.route_of("/k/x*"));
    scene.change("PATCH", &changed, r#"{"desc":"by hand"}"#);
    let more = file("  - paths: [/k/secret]\n    plugins: [{name: key-auth}]\n");
    assert!(scene.applied("kong", &more, &["--keep"]).contains(&changed));
    assert_eq!((scene.status("/k/secret"), scene.status("/k/x"), scene.status("/k/a")), (401, 401, 200));
    // A name that means other requests by now.
    let named = |path: &str| {
        format!(
            "_format_version: '3.0'\nservices:\n- name: s\n  url: http://{}\n  routes:\n  - {{name: all, paths: [/]}}\n  - {{name: g, paths: [{path}], plugins: [{{name: key-auth}}]}}\n",
            upstream.address
        )
    };
    let scene = super::scene();
    scene.applied("kong", &named("/x"), &[]);
    scene.change("PATCH", "routes/g", r#"{"desc":"by hand"}"#);
    let reasons = ["routes/g (it takes /x*, and what the file calls routes/g takes /secret*)", "--replace"];
    scene.refused_with("kong", &named("/secret"), &["--keep"], &reasons);
    scene.change("DELETE", "routes/g", "");
    scene.refused_with("kong", &named("/secret"), &["--keep"], &reasons);
    scene.applied("kong", &named("/secret"), &["--replace"]);
    assert_eq!(scene.status("/secret"), 401);
}

#[test]
fn what_is_kept_has_the_place_in_the_order_that_the_file_gives_it() {
    let upstream = servers::nginx("location / { return 200 ok; }");
    let scene = scene();
    let proxy = format!("proxy_pass http://{};", upstream.address);
    let start = format!("location / {{ {proxy} }}\nlocation ~ ^/adm {{ deny all; {proxy} }}\n");
    scene.applied("nginx", &nginx(&scene, &start), &[]);
    let adm = scene.ids("routes").into_iter().find(|id| id.contains("adm")).expect("a route");
    scene.change("PATCH", &format!("routes/{adm}"), r#"{"desc":"4711"}"#);
    assert_eq!(scene.status("/adm/x.png"), 403);
    let more = format!(
        "{start}location ~ ^/z1 {{ {proxy} }}\nlocation ~ \\.png$ {{ {proxy} }}\nlocation ~ ^/z2 {{ return 404; }}\n"
    );
    scene.applied("nginx", &nginx(&scene, &more), &["--keep"]);
    assert_eq!((scene.status("/adm/x.png"), scene.status("/b.png"), scene.status("/z2")), (403, 200, 404));
    // Once more: what was changed by hand is still known as that.
    scene.refused("nginx", &nginx(&scene, &more), &[&adm]);
    scene.applied("nginx", &nginx(&scene, &more), &["--keep"]);
    scene.applied("nginx", &nginx(&scene, &start), &["--replace"]);
    assert_eq!((scene.status("/adm/x.png"), scene.ids("routes").len()), (403, 2));

    let kong = |more: &str| {
        format!(
            "_format_version: '3.0'\nservices:\n- name: s\n  url: http://{}\n  routes:\n  - {{name: adm, paths: ['~/[a-z]+/secret[.]png$'], regex_priority: 10, strip_path: false, plugins: [{{name: key-auth}}]}}\n  \
             - {{name: low, paths: ['~/zzz$'], regex_priority: 1, strip_path: false, plugins: [{{name: key-auth}}]}}\n{more}consumers:\n- {{username: guest}}\n",
            upstream.address
        )
    };
    let guest = "plugins: [{name: key-auth, config: {anonymous: guest}}]";
    let more = format!(
        "  - {{name: png, paths: ['~/[a-z]+/[a-z]+[.]png$'], regex_priority: 5, strip_path: false, {guest}}}\n  - {{name: low2, paths: ['~/zzz2$'], regex_priority: 1, strip_path: false, {guest}}}\n  - {{name: low3, paths: ['~/zzz3$'], regex_priority: 1, strip_path: false, {guest}}}\n"
    );
    let scene = super::scene();
    scene.applied("kong", &kong(""), &[]);
    scene.change("PATCH", "routes/adm", r#"{"desc":"4711"}"#);
    assert_eq!(scene.status("/adm/secret.png"), 401);
    scene.applied("kong", &kong(&more), &["--keep"]);
    assert_eq!((scene.status("/adm/secret.png"), scene.status("/adm/b.png")), (401, 200));
    // One that was moved in the order by hand stays there while the file leaves it alone, and else is refused.
    scene.change("PATCH", "routes/adm", r#"{"priority":99999}"#);
    scene.applied("kong", &kong(&more), &["--keep"]);
    scene.refused_with(
        "kong",
        &kong(""),
        &["--keep"],
        &["routes/adm (the file has another priority by now)"],
    );
}

#[test]
fn what_the_file_and_a_person_have_changed_is_kept_once_it_has_both() {
    let upstream = servers::nginx("location / { return 200 ok; }");
    let scene = scene();
    let file = |plugins: &str| {
        format!(
            "_format_version: '3.0'\nservices: [{{name: s, url: 'http://{}', routes: [{{name: r, paths: [/r]{plugins}}}]}}]\n",
            upstream.address
        )
    };
    scene.applied("kong", &file(""), &[]);
    scene.change("PATCH", "routes/r", r#"{"plugins":{"ua-restriction":{"denylist":["bad"]}}}"#);
    let guarded = file(", plugins: [{name: key-auth}]");
    let reason = "routes/r (the file has another plugins.key-auth by now)";
    scene.refused_with("kong", &guarded, &["--keep"], &[reason, "Write into them what the file has"]);
    let fresh = super::scene();
    fresh.applied("kong", &guarded, &[]);
    let text = fresh.gateway.admin("GET", "/apisix/admin/routes/r", "").1;
    let wanted: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let plugins = serde_json::json!({ "plugins": wanted["value"]["plugins"] });
    scene.change("PATCH", "routes/r", &plugins.to_string());
    scene.applied("kong", &guarded, &["--keep"]);
    assert_eq!(scene.status("/r"), 401);
    // The next file is compared with this one.
    scene.refused_with(
        "kong",
        &file(""),
        &["--keep"],
        &["routes/r (the file has another plugins.proxy-rewrite by now)"],
    );
}
