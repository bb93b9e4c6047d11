//! Namespaces: the documented ports are free in them, and what was started ends with them.

use std::process::{Command, Stdio};
use std::sync::OnceLock;

const NETWORK: [&str; 2] = ["--map-root-user", "--net"];
/// Processes and mounts as well.
const ALL: [&str; 7] =
    ["--map-root-user", "--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child"];

/// Whether this user may have a network.
pub(crate) fn own_network() -> bool {
    static ALLOWED: OnceLock<bool> = OnceLock::new();
    *ALLOWED.get_or_init(|| allows(&NETWORK))
}

/// Whether this user may have a network, mounts and processes.
pub(crate) fn own_everything() -> bool {
    static ALLOWED: OnceLock<bool> = OnceLock::new();
    *ALLOWED.get_or_init(|| allows(&ALL))
}

fn allows(what: &[&str]) -> bool {
    let mut command = Command::new("unshare");
    command.args(what).args(["ip", "link", "set", "lo", "up"]);
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// A script in a network of its own, which ends after so many seconds.
pub(crate) fn in_own_network(script: &str, seconds: u32) -> Command {
    unshare(&NETWORK, script, seconds)
}

/// A script with a network, mounts and processes of its own, which all end after so many seconds.
pub(crate) fn alone(script: &str, seconds: u32) -> Command {
    unshare(&ALL, script, seconds)
}

fn unshare(what: &[&str], script: &str, seconds: u32) -> Command {
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", &seconds.to_string(), "unshare"]).args(what);
    command.args(["bash", "-c", &format!("set -e\nip link set lo up\n{script}")]);
    command.stdin(Stdio::null());
    command
}
