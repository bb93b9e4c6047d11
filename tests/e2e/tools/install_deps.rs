//! `scripts/install-deps.sh` with a package manager that only notes what it is asked for, in a place where `/usr/sbin` is
//! a folder of the test: by root, and by a user with sudo.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;
use tidegate_testkit::gateway::workspace_root;

/// Programs in place of the system's: what they are called with goes to `calls`. `apt-get install` notes what the policy
/// says about services at that time.
const PROGRAMS: &[(&str, &str)] = &[
    ("dpkg-query", r#"grep -qx "$3" "$STUBS/installed" 2>/dev/null && echo 'install ok installed'"#),
    (
        "apt-get",
        r#"for word; do [ "$word" = install ] || continue
    /usr/sbin/policy-rc.d; echo "policy says $?" >> "$STUBS/calls"
    for name; do case $name in nginx|redis-server) echo "$name" >> "$STUBS/installed" ;; esac; done
    exit "${APT_STATUS:-0}"
done"#,
    ),
    ("systemctl", ""),
    ("sudo", r#"exec "$@""#),
];

struct Place(TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().expect("a folder"));
        for name in ["bin", "sbin"] {
            let folder = place.path(name);
            fs::create_dir(&folder).expect("created");
            fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).expect("for every user");
        }
        fs::set_permissions(place.0.path(), fs::Permissions::from_mode(0o777)).expect("for every user");
        for (name, body) in PROGRAMS {
            let file = place.path("bin").join(name);
            let note = r#"[ "$0" = "${0%dpkg-query}" ] && echo "${0##*/} $*" >> "$STUBS/calls""#;
            fs::write(&file, format!("#!/bin/sh\n{note}\n{body}\n")).expect("written");
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("may be run");
        }
        place
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    /// What the script printed, and whether it was content. `None` where this system allows no such place.
    fn run(&self, by: By, apt_status: u8, words: &str) -> Option<(bool, String)> {
        let user = match by {
            By::Root => "",
            By::UserWithSudo => "setpriv --reuid=65534 --regid=65534 --clear-groups",
        };
        let inner = format!(
            "mount --bind {} /usr/sbin && exec {user} bash {} {words}",
            self.path("sbin").display(),
            workspace_root().join("scripts/install-deps.sh").display()
        );
        let mut command = Command::new("unshare");
        // A user who is not root becomes one in a namespace, and cannot be another user there.
        if !rustix::process::geteuid().is_root() {
            if matches!(by, By::UserWithSudo) {
                return None;
            }
            command.arg("--map-root-user");
        }
        command.args(["--mount", "bash", "-c", &inner]);
        let path = format!("{}:/usr/bin:/bin", self.path("bin").display());
        command.env("PATH", path).env("STUBS", self.0.path()).env("APT_STATUS", apt_status.to_string());
        let output = command.output().expect("unshare runs");
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        let is_forbidden = text.contains("unshare failed") || text.starts_with("mount:");
        (!is_forbidden).then(|| (output.status.success(), text))
    }

    fn calls(&self) -> String {
        fs::read_to_string(self.path("calls")).unwrap_or_default()
    }

    fn policy(&self) -> bool {
        Path::new(&self.path("sbin/policy-rc.d")).exists()
    }
}

#[derive(Clone, Copy, Debug)]
enum By {
    Root,
    UserWithSudo,
}

#[test]
fn packages_are_named_with_reasons_and_no_service_starts() {
    for by in [By::Root, By::UserWithSudo] {
        let place = Place::new();
        let Some((success, text)) = place.run(by, 0, "") else {
            eprintln!("skipped for {by:?}: this system allows no mounts of one's own");
            continue;
        };
        assert!(success, "{by:?}: {text}");
        for line in
            ["redis-server     limit plugins with policy redis", "nginx            a real upstream in tests"]
        {
            assert!(text.contains(&format!("install-deps: {line}")), "{by:?}: {line}\n{text}");
        }
        let calls = place.calls();
        assert!(calls.contains("policy says 101"), "{by:?}: {calls}");
        assert!(calls.contains("systemctl --quiet disable nginx.service"), "{by:?}: {calls}");
        assert!(calls.contains("systemctl --quiet disable redis-server.service"), "{by:?}: {calls}");
        assert_eq!(calls.contains("sudo "), matches!(by, By::UserWithSudo), "{calls}");
        assert!(!place.policy(), "{by:?}: the policy stayed");
    }
}

#[test]
fn an_installation_that_fails_leaves_no_service_and_no_policy() {
    let place = Place::new();
    let Some((success, text)) = place.run(By::Root, 100, "") else { return };
    assert!(!success, "{text}");
    let calls = place.calls();
    assert!(calls.contains("systemctl --quiet disable nginx.service"), "{calls}");
    // What was not installed has no service.
    assert!(!calls.contains("disable haproxy"), "{calls}");
    assert!(!place.policy(), "the policy stayed");
}

#[test]
fn a_dry_run_names_packages_and_calls_nothing() {
    let place = Place::new();
    let Some((success, text)) = place.run(By::Root, 0, "--dry-run") else { return };
    assert!(success && text.contains("install-deps: etcd-server      configuration from etcd"), "{text}");
    assert_eq!(place.calls(), "");
}
