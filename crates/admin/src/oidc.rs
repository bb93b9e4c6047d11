//! Signing in to the console with an identity provider: what it may do, and what its claims make of a person. How it is asked is
//! its own affair ([`IdentityProvider`]).

use std::{sync::Arc, time::Duration};

use serde_json::{Map, Value};
use tidegate_store::BoxFuture;

use crate::{
    caller::{Caller, Origin},
    permission::scope::Scope,
    role::Role,
};

const LONGEST_NAME: usize = 128;

/// Before the name of a person whom the provider names, so that it is neither that of a key nor of a user.
const PREFIX: &str = "oidc:";

/// What is known of a person.
pub type Claims = Map<String, Value>;

/// The claims that the provider vouches for, or the reason why it vouches for none.
pub type Answered<'a, T> = BoxFuture<'a, Result<T, String>>;

/// A provider that says who people are.
pub trait IdentityProvider: Send + Sync {
    /// Where a browser is to be sent, and what its answer must fit.
    fn begin(&self, redirect_uri: String) -> Answered<'_, (String, Login)>;
    /// The claims of who came back with this code; the error says why they count for nothing.
    fn finish(&self, login: Login, code: String, issuer: Option<String>) -> Answered<'_, Claims>;
    /// Where its own session ends, if it says so.
    fn sign_out(&self) -> Answered<'_, Option<String>>;
}

/// A login that a browser was sent away for.
#[derive(Clone, Debug)]
pub struct Login {
    /// For the answer to repeat.
    pub state: String,
    /// Where the browser comes back to.
    pub redirect_uri: String,
    /// For the ID token to repeat.
    pub nonce: Option<String>,
    /// For the provider to compare with what it was sent at first.
    pub verifier: Option<String>,
}

/// `deployment.admin.oidc`
#[derive(Clone)]
pub struct Oidc {
    /// How it is asked.
    pub provider: Arc<dyn IdentityProvider>,
    /// On the button of the sign-in page.
    pub display_name: String,
    /// Where browsers may come back to.
    pub redirect_uris: Vec<String>,
    /// The claim that names a person.
    pub name_claim: String,
    /// The first that fits counts.
    pub roles: Vec<ClaimRole>,
    /// From signing in.
    pub session_lifetime: Duration,
    /// Whether signing out leads to the provider.
    pub sign_out_at_provider: bool,
}

/// What a value of a claim makes of a person.
#[derive(Clone, Debug)]
pub struct ClaimRole {
    /// Its name, or a path with dots.
    pub claim: String,
    /// What it is, or has in its list.
    pub value: String,
    /// What such a person may do.
    pub role: Role,
    /// For which objects; `None`: for all.
    pub scope: Option<Scope>,
}

impl Oidc {
    /// The caller that a person's claims make, or the reason why the person may not sign in.
    pub(crate) fn caller(&self, claims: &Map<String, Value>) -> Result<Caller, String> {
        let name = self.name(claims)?;
        let fits =
            |entry: &&ClaimRole| claim(claims, &entry.claim).is_some_and(|found| has(found, &entry.value));
        let entry = self.roles.iter().find(fits).ok_or_else(|| {
            let mut asked: Vec<&str> = self.roles.iter().map(|entry| entry.claim.as_str()).collect();
            asked.dedup();
            format!(
                "no entry of deployment.admin.oidc.roles fits the claims ({}) of {name}",
                asked.join(", ")
            )
        })?;
        Ok(Caller {
            name: format!("{PREFIX}{name}"),
            role: entry.role,
            origin: Origin::Provider,
            sees_consumers: entry.role > Role::Viewer && entry.scope.is_none(),
            scope: entry.scope.clone().map(Arc::new),
            session: None,
        })
    }

    fn name<'a>(&self, claims: &'a Map<String, Value>) -> Result<&'a str, String> {
        let wanted = &self.name_claim;
        let name = claim(claims, wanted).and_then(Value::as_str).unwrap_or_default();
        let is_plain = name.len() <= LONGEST_NAME && !name.chars().any(is_invisible);
        if name.trim().is_empty() || !is_plain {
            return Err(format!(
                "the claim {wanted} (deployment.admin.oidc.name_claim) does not name the person"
            ));
        }
        // Anyone could give the provider another's address. Some providers write the word as a text.
        let verified = [None, Some(&Value::Bool(true)), Some(&Value::from("true"))];
        if wanted == "email" && !verified.contains(&claims.get("email_verified")) {
            return Err(format!("the provider has not verified the email {name}"));
        }
        Ok(name)
    }
}

/// What a log or a page would not show, or show elsewhere.
fn is_invisible(letter: char) -> bool {
    letter.is_control()
        || matches!(letter,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Of this very name, else at the path that it is.
fn claim<'a>(claims: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    claims.get(name).or_else(|| {
        let mut parts = name.split('.');
        let first = claims.get(parts.next()?)?;
        parts.try_fold(first, |place, part| place.get(part))
    })
}

fn has(claim: &Value, wanted: &str) -> bool {
    match claim {
        Value::String(text) => text == wanted,
        Value::Array(items) => items.iter().any(|item| item.as_str() == Some(wanted)),
        Value::Bool(flag) => flag.to_string() == wanted,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    struct Nobody;

    impl IdentityProvider for Nobody {
        fn begin(&self, _: String) -> BoxFuture<'_, Result<(String, Login), String>> {
            Box::pin(async { Err("nobody".to_owned()) })
        }
        fn finish(
            &self,
            _: Login,
            _: String,
            _: Option<String>,
        ) -> BoxFuture<'_, Result<Map<String, Value>, String>> {
            Box::pin(async { Err("nobody".to_owned()) })
        }
        fn sign_out(&self) -> BoxFuture<'_, Result<Option<String>, String>> {
            Box::pin(async { Ok(None) })
        }
    }

    #[test]
    fn claims_make_roles() {
        let entry = |claim: &str, value: &str, role| ClaimRole {
            claim: claim.to_owned(),
            value: value.to_owned(),
            role,
            scope: None,
        };
        let oidc = Oidc {
            provider: Arc::new(Nobody),
            display_name: String::new(),
            redirect_uris: Vec::new(),
            name_claim: "email".to_owned(),
            roles: vec![
                entry("groups", "admins", Role::Admin),
                entry("realm_access.roles", "edit", Role::Editor),
                entry("https://example.com/role", "look", Role::Viewer),
            ],
            session_lifetime: Duration::from_secs(1),
            sign_out_at_provider: false,
        };
        let email = "a@example.com";
        for (claims, expected) in [
            (json!({"email": email, "groups": ["x", "admins"]}), Some(Role::Admin)),
            (json!({"email": email, "groups": "admins"}), Some(Role::Admin)),
            (json!({"email": email, "email_verified": true, "groups": "admins"}), Some(Role::Admin)),
            (json!({"email": email, "realm_access": {"roles": ["edit"]}}), Some(Role::Editor)),
            (json!({"email": email, "https://example.com/role": "look"}), Some(Role::Viewer)),
            (
                json!({"email": email, "https://example.com/role": "look", "groups": ["admins"]}),
                Some(Role::Admin),
            ),
            (json!({"email": email}), None),
            (json!({"email": email, "groups": []}), None),
            (json!({"email": email, "groups": ["admin"]}), None),
            (json!({"email": email, "groups": "admins "}), None),
            (json!({"email": email, "groups": "x,admins"}), None),
            (json!({"email": email, "groups": [["admins"]]}), None),
            (json!({"email": email, "groups": {"admins": true}}), None),
            (json!({"email": email, "email_verified": false, "groups": "admins"}), None),
            (json!({"email": email, "email_verified": "false", "groups": "admins"}), None),
            (json!({"email": email, "email_verified": 0, "groups": "admins"}), None),
            (json!({"email": email, "email_verified": null, "groups": "admins"}), None),
            (json!({"email": email, "email_verified": "true", "groups": "admins"}), Some(Role::Admin)),
            (json!({"email": "a@example.com\u{202e}", "groups": "admins"}), None),
            (json!({"email": "a\u{200b}@example.com", "groups": "admins"}), None),
            (json!({"groups": "admins"}), None),
            (json!({"email": "", "groups": "admins"}), None),
            (json!({"email": 7, "groups": "admins"}), None),
            (json!({"email": "a\nb", "groups": "admins"}), None),
            (json!({"email": "a".repeat(129), "groups": "admins"}), None),
        ] {
            let found = oidc.caller(claims.as_object().expect("an object"));
            assert_eq!(found.as_ref().ok().map(|caller| caller.role), expected, "{claims} {found:?}");
            assert!(found.is_err() || found.is_ok_and(|caller| caller.name == "oidc:a@example.com"));
        }
    }
}
