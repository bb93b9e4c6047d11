//! Sessions and users.

use serde_json::{Value, json};

use super::{
    build::{Operation, Paths},
    fragments::object,
};

const TAG: &str = "People";

fn operation(id: &str, summary: &str) -> Operation {
    Operation::admin(id, TAG, summary).refusals(&[(501, "NotImplemented")])
}

fn role() -> Value {
    json!({"enum": ["admin", "editor", "viewer"]})
}

pub(super) fn add_sessions(paths: &mut Paths) {
    let text = || json!({"type": "string"});
    let nullable = || json!({"type": ["string", "null"]});
    let session = object(&[
        ("name", nullable()),
        ("role", role()),
        ("user", json!({"type": "boolean"})),
        ("csrf", nullable()),
        ("expires", json!({"type": ["integer", "null"]})),
        ("scopes", json!({"type": "array", "items": text()})),
    ]);
    let answer = json!({"type": "object", "additionalProperties": false, "required": ["code", "state"],
        "properties": {"code": text(), "state": text(), "iss": text()}});
    let shown = json!({"oneOf": [
        {"type": "object", "additionalProperties": false, "required": ["key"], "properties": {"key": text()}},
        {"type": "object", "additionalProperties": false, "required": ["user", "password"],
            "properties": {"user": text(), "password": text()}},
        {"type": "object", "additionalProperties": false, "required": ["oidc"], "properties": {"oidc": answer}},
    ]});
    let path = "/apisix/admin/sessions";
    let sign_in = operation(
        "signIn",
        "Sign in with a key, as a user with a password, or with the answer of the identity provider; needs neither key nor session",
    )
    .description("The session is a cookie. Its requests need the token `csrf` in the header X-CSRF-Token.")
    .body(shown)
    .json(201, "Signed in", session.clone())
    .json(429, "Too many failed attempts", json!({"type": "object"}));
    let password = json!({"type": "string", "minLength": 12, "maxLength": 1024, "writeOnly": true});
    let passwords = json!({"type": "object", "additionalProperties": false, "required": ["current", "new"],
        "properties": {"current": text(), "new": password}});
    let change = operation("changePassword", "Change one's own password; other sessions of the user end")
        .body(passwords)
        .json(200, "Changed, with a new cookie and token", session.clone())
        .json(429, "Too many wrong passwords", json!({"type": "object"}));
    paths.add("/apisix/admin/sessions/current/password", "put", change);
    paths.add(path, "post", sign_in.without_key());
    let provider = json!({"type": ["object", "null"], "properties": {"name": text()}});
    let ways = object(&[("users", json!({"type": "boolean"})), ("oidc", provider)]);
    let ways_in = operation("getWaysIn", "How people may sign in; needs neither key nor session");
    paths.add(path, "get", ways_in.json(200, "The ways", ways).without_key());
    let uri = json!({"type": "object", "additionalProperties": false, "required": ["redirect_uri"],
        "properties": {"redirect_uri": text()}});
    let leave =
        operation("beginOidc", "Where the identity provider signs people in; needs neither key nor session")
            .description("The browser goes to `location`. A cookie binds the provider's answer to it.")
            .body(uri)
            .json(201, "Where to go", object(&[("location", text())]))
            .json(503, "The provider cannot be used", json!({"type": "object"}));
    paths.add("/apisix/admin/sessions/oidc", "post", leave.without_key());
    let way_out = || object(&[("location", text())]);
    let everywhere = operation("signOutEverywhere", "End all sessions of who asks")
        .json(200, "Ended; the provider ends its own there", way_out())
        .empty(204, "Ended");
    paths.add(path, "delete", everywhere);
    let path = "/apisix/admin/sessions/current";
    let current = operation("getSession", "Who asks, and with which role").json(200, "The session", session);
    paths.add(path, "get", current);
    let sign_out = operation("signOut", "End this session")
        .json(200, "Ended; the provider ends its own there", way_out())
        .empty(204, "Ended");
    paths.add(path, "delete", sign_out);
}

pub(super) fn add_users(paths: &mut Paths) {
    let text = || json!({"type": "string"});
    let user = object(&[
        ("name", text()),
        ("role", role()),
        ("consumer_names", json!({"type": "boolean"})),
        ("scope", json!({"type": ["object", "null"], "additionalProperties": text()})),
        ("created", text()),
        ("updated", text()),
    ]);
    let list =
        object(&[("total", json!({"type": "integer"})), ("list", json!({"type": "array", "items": user}))]);
    let of_admins = |id: &str, summary: &str| operation(id, &format!("{summary}; needs role admin"));
    let all = of_admins("listUsers", "The users, without their passwords").json(200, "The users", list);
    paths.add("/apisix/admin/users", "get", all);
    let path = "/apisix/admin/users/{user}";
    paths.add(path, "get", of_admins("getUser", "One user").json(200, "The user", user.clone()));
    let wanted = json!({"type": "object", "required": ["role"], "additionalProperties": false, "properties": {
        "role": role(),
        "consumer_names": {"type": "boolean", "default": false,
            "description": "Of a viewer: whether the figures name consumers"},
        "scope": {"type": ["object", "null"], "minProperties": 1, "additionalProperties": text(),
            "description": "Labels of the objects that an editor or viewer is for; null: all objects; without it, as before"},
        "password": {"type": "string", "minLength": 12, "maxLength": 1024, "writeOnly": true},
    }});
    let put = of_admins("putUser", "Add or change a user, whose sessions end")
        .body(wanted)
        .json(200, "Changed", user.clone())
        .json(201, "Added", user);
    paths.add(path, "put", put);
    let gone = object(&[("deleted", json!({"const": "1"})), ("key", text())]);
    paths.add(path, "delete", of_admins("deleteUser", "Delete a user").json(200, "Deleted", gone));
}
