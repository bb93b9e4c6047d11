//! What one configuration makes of the gateway: a relying party of its provider.

use std::{sync::Arc, time::Instant};

use ahash::AHashMap;
use parking_lot::Mutex;
use serde_json::Value;
use tidegate_backtrack::SearchTime;
use tidegate_clients::jws::{Algorithm, VerifyingKey};
use tidegate_model::schema::{Failure, MOST_STEPS, Schema};
use tidegate_plugin_api::Request;

use super::{client::Client, conf::Conf, dpop::Dpop, provider::Provider, session};

pub(super) struct OpenidConnect {
    pub(super) conf: Conf,
    pub(super) provider: Provider,
    pub(super) client: Client,
    pub(super) dpop: Option<Dpop>,
    pub(super) sessions: Option<session::Store>,
    pub(super) claim_schema: Option<Schema>,
    pub(super) public_keys: Vec<(Algorithm, VerifyingKey)>,
    /// Names `public_keys` in the cache of verified tokens.
    pub(super) serial: u64,
    pub(super) introspections: Mutex<AHashMap<[u8; 32], (Arc<Value>, Instant)>>,
}

impl OpenidConnect {
    pub(super) fn pass_access_token(&self, request: &mut Request, token: &str) {
        if !self.conf.set_access_token_header {
            return;
        }
        if self.conf.access_token_in_authorization_header {
            request.head.headers.set("Authorization", format!("Bearer {token}"));
        } else {
            request.head.headers.set("X-Access-Token", token);
        }
    }

    pub(super) fn check_claim_schema(&self, mut claims: Value, searches: &SearchTime) -> Result<(), String> {
        let Some(schema) = &self.claim_schema else { return Ok(()) };
        let checked = schema.check_within(&mut claims, MOST_STEPS, searches);
        checked.map_err(Failure::into_message)
    }
}
