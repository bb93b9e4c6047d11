//! What `deployment.admin.oidc` needs, and what it has in vain.

use std::time::Duration;

use super::{
    admin_keys::{label_refusals, scope_refusals},
    said::Said,
};
use crate::settings::{Access, AdminOidc, Settings};

/// Sessions end after that, whatever the file says.
const LONGEST_SESSION: Duration = Duration::from_secs(12 * 60 * 60);

fn said(name: &str, message: impl Into<String>) -> Said {
    let key = if name.is_empty() { String::new() } else { format!(".{name}") };
    (format!("deployment.admin.oidc{key}"), message.into())
}

/// A provider that is half described lets no one in, or the wrong people.
pub(super) fn refusals(settings: &Settings) -> Vec<Said> {
    let Some(oidc) = &settings.admin.oidc else { return Vec::new() };
    let mut found = Vec::new();
    let needs = [
        ("discovery", oidc.discovery.is_empty()),
        ("client_id", oidc.client_id.is_empty()),
        ("redirect_uris", oidc.redirect_uris.is_empty()),
        ("roles", oidc.roles.is_empty()),
    ];
    let missing: Vec<&str> = needs.iter().filter(|(_, missing)| *missing).map(|(name, _)| *name).collect();
    if !missing.is_empty() {
        found.push(said("", format!("oidc needs {}", missing.join(", "))));
    }
    if !oidc.discovery.is_empty() && oidc.issuer.is_empty() {
        let message = "discovery does not end in /.well-known/openid-configuration, from which the issuer follows; set issuer";
        found.push(said("discovery", message));
    }
    if !oidc.scopes.iter().any(|scope| scope == "openid") {
        found.push(said("scopes", "openid is missing from scopes: without it there is no ID token"));
    }
    for (index, role) in oidc.roles.iter().enumerate() {
        if role.value.is_empty() || role.role.is_empty() {
            found.push(said(&format!("roles[{index}]"), "an entry of roles needs value and role"));
        }
        let scope = format!("deployment.admin.oidc.roles[{index}].scope");
        let is_given = settings.places.is_set(&scope) || settings.places.is_null(&scope);
        found.extend(label_refusals(settings, &scope));
        found.extend(scope_refusals(role.role == "admin", &role.scope, is_given, scope));
    }
    if oidc.session_lifetime.is_zero() || oidc.session_lifetime > LONGEST_SESSION {
        found.push(said("session_lifetime", "session_lifetime should be above 0, at most 12h"));
    }
    found
}

/// What has no effect.
pub(super) fn warnings(settings: &Settings) -> Vec<Said> {
    let admin = &settings.admin;
    let Some(AdminOidc { .. }) = &admin.oidc else { return Vec::new() };
    let why = if admin.listen.is_none() {
        "there is no Admin API"
    } else if !crate::admin_door::serves_console(settings) {
        "the console is not served; set enable_admin_ui: true"
    } else if matches!(admin.access, Access::Open) {
        "admin_key_required: false lets everyone in without signing in"
    } else {
        return Vec::new();
    };
    vec![said("", format!("oidc has no effect: {why}"))]
}
