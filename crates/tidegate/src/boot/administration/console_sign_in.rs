//! `deployment.admin.oidc`: the identity provider as the Admin API asks it.

use std::sync::Arc;

use serde_json::{Map, Value};
use tidegate_admin::{ClaimRole, IdentityProvider, Login, Oidc, Role, Scope};
use tidegate_clients::secrets::fetch;
use tidegate_config::settings::{AdminOidc, OidcRole};
use tidegate_model::{Kind, schema::is_secret_reference};
use tidegate_plugins::{Begun, SignIn, SignInSettings};
use tidegate_store::{BoxFuture, Store};

use super::super::secrets::parts;

/// The error keeps the gateway from starting.
pub(super) fn oidc(settings: &AdminOidc, store: &Arc<dyn Store>) -> anyhow::Result<Oidc> {
    let sign_in = SignIn::new(SignInSettings {
        discovery: settings.discovery.clone(),
        issuer: settings.issuer.clone(),
        client_id: settings.client_id.clone(),
        scopes: settings.scopes.clone(),
        clock_skew: settings.clock_skew,
    });
    let sign_in = sign_in.map_err(|reason| anyhow::anyhow!("deployment.admin.oidc: {reason}"))?;
    Ok(Oidc {
        provider: Arc::new(Provider {
            sign_in,
            secret: settings.client_secret.clone(),
            store: store.clone(),
        }),
        display_name: settings.display_name.clone(),
        redirect_uris: settings.redirect_uris.clone(),
        name_claim: settings.name_claim.clone(),
        roles: settings.roles.iter().map(role).collect(),
        session_lifetime: settings.session_lifetime,
        sign_out_at_provider: settings.sign_out_at_provider,
    })
}

fn role(entry: &OidcRole) -> ClaimRole {
    ClaimRole {
        claim: entry.claim.clone(),
        value: entry.value.clone(),
        role: match entry.role.as_str() {
            "admin" => Role::Admin,
            "editor" => Role::Editor,
            _ => Role::Viewer,
        },
        scope: Scope::new(entry.scope.clone()),
    }
}

struct Provider {
    sign_in: SignIn,
    /// Or a reference to it.
    secret: Option<String>,
    store: Arc<dyn Store>,
}

impl Provider {
    /// Looked up each time: a secret that was replaced counts at once.
    async fn secret(&self) -> Result<Option<String>, String> {
        let Some(secret) = self.secret.as_ref().filter(|secret| is_secret_reference(secret)) else {
            return Ok(self.secret.clone());
        };
        let failed = |reason: &str| format!("client_secret {secret}: {reason}");
        let Some(reference) = secret.strip_prefix("$secret://") else {
            let mut value = Value::String(secret.clone());
            tidegate_compiler::resolve_environment(&mut value);
            let found = value.as_str().filter(|found| *found != secret).map(str::to_owned);
            return found.map(Some).ok_or_else(|| failed("no such variable in the gateway's environment"));
        };
        let (id, manager, path) = parts(reference).map_err(failed)?;
        let conf = self.store.get(Kind::Secret, id).map(|object| object.value());
        let mut conf = conf.ok_or_else(|| failed("no such secret manager"))?.as_ref().clone();
        tidegate_compiler::resolve_environment(&mut conf);
        fetch(manager, &conf, path).await.map(Some).map_err(|failure| failed(&failure.to_string()))
    }
}

impl IdentityProvider for Provider {
    fn begin(&self, redirect_uri: String) -> BoxFuture<'_, Result<(String, Login), String>> {
        Box::pin(async {
            let (location, begun) = self.sign_in.begin(redirect_uri).await?;
            let Begun { state, redirect_uri, nonce, verifier } = begun;
            Ok((location, Login { state, redirect_uri, nonce, verifier }))
        })
    }

    fn finish(
        &self,
        login: Login,
        code: String,
        issuer: Option<String>,
    ) -> BoxFuture<'_, Result<Map<String, Value>, String>> {
        Box::pin(async move {
            let secret = self.secret().await?;
            let Login { state, redirect_uri, nonce, verifier } = login;
            let begun = Begun { state, redirect_uri, nonce, verifier };
            self.sign_in.finish(begun, &code, issuer.as_deref(), secret.as_deref()).await
        })
    }

    fn sign_out(&self) -> BoxFuture<'_, Result<Option<String>, String>> {
        Box::pin(self.sign_in.sign_out())
    }
}
