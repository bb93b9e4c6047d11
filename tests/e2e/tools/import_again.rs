//! `tidegate import --apply` of a file that has changed: what an earlier import left must not answer before the new guards.

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

    fn export(&self) -> String {
        self.gateway.admin("GET", "/apisix/admin/routes", "").1
    }
}

fn scene() -> Scene {
    let mut gateway = Gateway::start(EMBEDDED, None);
    gateway.process.wait_for_port(gateway.admin);
    Scene { gateway }
}

#[test]
fn guards_of_a_changed_nginx_file_are_not_behind_its_old_routes() {
    let upstream = servers::nginx("location / { return 200 ok; }");
    let scene = scene();
    let file = |comment: &str, guard: &str| {
        let port = scene.gateway.http.port();
        format!(
            "events {{}}\nhttp {{\nserver {{\nlisten 127.0.0.1:{port};\n{comment}location /admin/ {{ {guard} proxy_pass http://{}; }}\n\
             location / {{ proxy_pass http://{0}; }}\n}}\n}}\n",
            upstream.address
        )
    };
    let (done, said) = scene.apply("nginx", &file("", ""), &[]);
    assert!(done, "{said}");
    assert_eq!(scene.status("/admin/x"), 200);
    let changed = file("# moved\n# down\n", "deny all;");
    let before = scene.export();
    let (done, said) = scene.apply("nginx", &changed, &[]);
    assert!(!done && said.contains("an earlier import of nginx wrote objects"), "{said}");
    assert!(said.contains("--replace") && said.contains("--keep") && said.contains("routes/"), "{said}");
    assert_eq!(scene.export(), before, "nothing was written");
    let (done, said) = scene.apply("nginx", &changed, &["--replace"]);
    assert!(done, "{said}");
    assert_eq!((scene.status("/admin/x"), scene.status("/")), (403, 200));
    // The same file again changes nothing.
    let (done, said) = scene.apply("nginx", &changed, &[]);
    assert!(done && said.contains("0 objects changed"), "{said}");
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
    let (done, said) = scene.apply("kong", &changed, &[]);
    assert!(!done && said.contains("routes/"), "{said}");
    let (done, said) = scene.apply("kong", &changed, &["--keep"]);
    assert!(done, "{said}");
    let (done, said) = scene.apply("kong", &changed, &["--replace"]);
    assert!(done, "{said}");
    assert_eq!((scene.status("/kb"), scene.status("/unnamed"), scene.status("/own")), (401, 200, 200));
}
