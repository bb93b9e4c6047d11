//! The one place that decides what a role may do: roles are enforced here, whatever a page offers.

pub(crate) mod objects;

use serde_json::json;

use crate::{message::Response, role::Role};

/// The role that a request needs at least.
fn least(method: &str, segments: &[&str]) -> Role {
    match (method, segments) {
        // One's own.
        (_, ["sessions", ..]) => Role::Viewer,
        // A whole configuration has code, references and files in it.
        (_, ["users", ..]) | ("PUT" | "POST", ["configs", ..]) | ("GET", ["export" | "configs"]) => {
            Role::Admin
        }
        ("GET", _) => Role::Viewer,
        _ => Role::Editor,
    }
}

/// Whether a role may send a request; the response where it may not.
pub(crate) fn check(role: Role, method: &str, segments: &[&str]) -> Result<(), Response> {
    if role >= least(method, segments) {
        return Ok(());
    }
    match segments {
        ["export"] => Err(Response::error(403, "an export contains secrets; use a key with role admin")),
        ["configs"] if method == "GET" => {
            Err(Response::error(403, "the configuration contains secrets; use a key with role admin"))
        }
        ["users", ..] => Err(Response::error(403, "users are managed with role admin")),
        _ => Err(Response::json(
            401,
            &json!({
                "error_msg": "failed to check token",
                "description": format!("invalid method for role {}", role.name()),
                "remedy": "a change needs a key with role admin",
            }),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_role_may_what_it_is_for() {
        let may = |role, method, path: &str| {
            let segments: Vec<&str> = path.split('/').collect();
            check(role, method, &segments).is_ok()
        };
        for (method, path, viewer, editor) in [
            ("GET", "routes", true, true),
            ("GET", "history/3", true, true),
            ("PUT", "routes/1", false, true),
            ("PATCH", "routes/1/plugins", false, true),
            ("POST", "transactions", false, true),
            ("POST", "rollback", false, true),
            ("PUT", "import", false, true),
            ("POST", "explain", false, true),
            ("PUT", "plugins/reload", false, true),
            ("HEAD", "configs", false, true),
            ("GET", "export", false, false),
            ("GET", "configs", false, false),
            ("GET", "users", false, false),
            ("PUT", "users/me", false, false),
            ("DELETE", "users/x/y", false, false),
            ("DELETE", "sessions/current", true, true),
        ] {
            assert_eq!(may(Role::Viewer, method, path), viewer, "viewer {method} {path}");
            assert_eq!(may(Role::Editor, method, path), editor, "editor {method} {path}");
            assert!(may(Role::Admin, method, path), "admin {method} {path}");
        }
    }
}
