//! The one place that decides what a role may do: roles are enforced here, whatever a page offers.

pub(crate) mod groups;
pub(crate) mod objects;
pub(crate) mod own_ports;
pub(crate) mod published;
pub(crate) mod scope;

use serde_json::json;

use crate::{caller::Caller, message::Response, role::Role};

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

/// Whether someone may send a request; the response where they may not.
pub(crate) fn check(caller: &Caller, method: &str, segments: &[&str]) -> Result<(), Response> {
    let role = caller.role;
    if role >= least(method, segments) {
        return match &caller.scope {
            Some(scope) if !scope::reaches(method, segments) => {
                let message = format!(
                    "this is of the whole gateway, and you have the objects with the labels {}",
                    scope.in_words()
                );
                Err(Response::error(403, &message))
            }
            _ => Ok(()),
        };
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
                "remedy": match least(method, segments) {
                    Role::Admin => "this needs role admin",
                    _ => "a change needs role editor or admin",
                },
            }),
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::caller::Origin;

    fn caller(role: Role, scope: Option<scope::Scope>) -> Caller {
        Caller {
            name: String::new(),
            role,
            origin: Origin::User,
            sees_consumers: false,
            scope: scope.map(Arc::new),
            session: None,
        }
    }

    #[test]
    fn a_scope_reaches_nothing_that_is_not_named() {
        let scope = scope::Scope::read(&json!({"team": "a"}));
        let may = |method, path: &str| {
            let segments: Vec<&str> = path.split('/').collect();
            check(&caller(Role::Editor, scope.clone()), method, &segments).is_ok()
        };
        for (method, path, expected) in [
            ("GET", "routes", true),
            ("PATCH", "routes/1/plugins", true),
            ("POST", "transactions", true),
            ("POST", "rollback", true),
            ("GET", "history/3", true),
            ("GET", "stats", true),
            ("DELETE", "sessions/current", true),
            ("PUT", "import", false),
            ("POST", "explain", false),
            ("GET", "checkpoints", false),
            ("PUT", "checkpoints/a", false),
            ("PUT", "plugins/reload", false),
            ("POST", "configs/validate", false),
            ("POST", "stats", false),
            ("GET", "something-new", false),
            ("GET", "export", false),
            ("GET", "users", false),
        ] {
            assert_eq!(may(method, path), expected, "{method} {path}");
        }
    }

    #[test]
    fn each_role_may_what_it_is_for() {
        let may = |role, method, path: &str| {
            let segments: Vec<&str> = path.split('/').collect();
            check(&caller(role, None), method, &segments).is_ok()
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
