//! `deployment.admin.oidc`: signing in to the console with an identity provider.

use std::{collections::BTreeMap, time::Duration};

use serde_json::Value;

use super::{Reader, access::labels};

/// What the path of each redirect URI is: the page of the console that takes the answer.
pub const REDIRECT_PATH: &str = "/ui/oidc";

/// The end of the URL of a discovery document; what stands before it is the issuer.
const WELL_KNOWN: &str = "/.well-known/openid-configuration";

/// The identity provider of the console.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminOidc {
    /// URL of the discovery document.
    pub discovery: String,
    /// What the document and the tokens must name as their issuer.
    pub issuer: String,
    /// As the provider knows the console.
    pub client_id: String,
    /// The secret, or a reference to it; `None`: a public client.
    pub client_secret: Option<String>,
    /// What is requested of it.
    pub scopes: Vec<String>,
    /// Where the provider may send browsers back to.
    pub redirect_uris: Vec<String>,
    /// On the button of the console.
    pub display_name: String,
    /// The claim that names the person.
    pub name_claim: String,
    /// The first that fits counts.
    pub roles: Vec<OidcRole>,
    /// How far the clocks of provider and gateway may differ, in seconds.
    pub clock_skew: u32,
    /// Sessions end so long after signing in.
    pub session_lifetime: Duration,
    /// Whether signing out of the console leads to the provider's own sign-out.
    pub sign_out_at_provider: bool,
}

/// What a value of a claim makes of a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OidcRole {
    /// Its name, or a path with dots.
    pub claim: String,
    /// What it is, or has in its list.
    pub value: String,
    /// `admin`, `editor` or `viewer`.
    pub role: String,
    /// Labels of the objects that it is for; empty: all objects.
    pub scope: BTreeMap<String, String>,
}

impl AdminOidc {
    pub(super) fn read(reader: &Reader) -> Option<Self> {
        reader.value("deployment.admin.oidc")?;
        let at = |name: &str| format!("deployment.admin.oidc.{name}");
        let text = |name: &str| reader.text(&at(name)).unwrap_or_default();
        let or = |name: &str, fallback: &str| reader.text(&at(name)).unwrap_or_else(|| fallback.to_owned());
        let discovery = text("discovery");
        let of_discovery = discovery.strip_suffix(WELL_KNOWN).unwrap_or_default().to_owned();
        let scopes = reader.texts(&at("scopes"));
        Some(Self {
            issuer: reader.text(&at("issuer")).unwrap_or(of_discovery),
            discovery,
            client_id: text("client_id"),
            client_secret: reader.text(&at("client_secret")),
            scopes: match scopes.is_empty() {
                true => ["openid", "profile", "email"].map(str::to_owned).to_vec(),
                false => scopes,
            },
            redirect_uris: reader.texts(&at("redirect_uris")),
            display_name: or("display_name", "OpenID Connect"),
            name_claim: or("name_claim", "email"),
            roles: reader.list(&at("roles")).iter().map(OidcRole::read).collect(),
            clock_skew: reader
                .unsigned(&at("clock_skew"))
                .and_then(|skew| u32::try_from(skew).ok())
                .unwrap_or(60),
            session_lifetime: reader
                .duration(&at("session_lifetime"))
                .unwrap_or(Duration::from_secs(8 * 60 * 60)),
            sign_out_at_provider: reader.bool(&at("sign_out_at_provider")),
        })
    }
}

impl OidcRole {
    fn read(item: &Value) -> Self {
        let reader = Reader::new(item);
        Self {
            claim: reader.text("claim").unwrap_or_else(|| "groups".to_owned()),
            value: reader.text("value").unwrap_or_default(),
            role: reader.text("role").unwrap_or_default(),
            scope: labels(reader.value("scope")),
        }
    }
}
