//! A relying party of a configuration that was checked.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use serde_json::Value;
use tidegate_clients::{
    http::{ClientOptions, TlsWanted},
    jws_sign::SigningKey,
};

use super::{
    bearer,
    client::{self, Client},
    conf::{self, Conf},
    dpop::Dpop,
    provider::Provider,
    relying_party::OpenidConnect,
    session,
};
use crate::common::{conf::typed, schemas, token_cache};

pub(super) fn relying_party(value: &Value) -> Result<OpenidConnect, String> {
    let conf: Conf = typed(value)?;
    // Some configurations hold milliseconds already.
    let milliseconds = conf.timeout >= 1000 && conf.timeout.is_multiple_of(1000);
    let timeout =
        if milliseconds { Duration::from_millis(conf.timeout) } else { Duration::from_secs(conf.timeout) };
    let options = ClientOptions {
        timeout,
        tls: TlsWanted { verify: conf.ssl_verify, client: None },
        proxies: conf.proxy_opts.as_ref().map(conf::ProxyOpts::proxies).transpose()?.map(Arc::new),
        ..ClientOptions::default()
    };
    let algorithm = |hmac| client::assertion_algorithm(conf.client_jwt_assertion_alg.as_deref(), hmac);
    let id = || conf.client_rsa_private_key_id.clone();
    let private_key = conf.client_rsa_private_key.as_ref();
    let client = Client {
        id: conf.client_id.clone(),
        secret: conf.client_secret.clone(),
        // An unusable key only matters where something is signed with it.
        private_key: private_key.and_then(|key| SigningKey::from_pem(algorithm(false), key, id()).ok()),
        secret_key: conf
            .client_secret
            .as_ref()
            .and_then(|secret| SigningKey::from_secret(algorithm(true), secret).ok()),
        assertion_lifetime_seconds: conf.client_jwt_assertion_expires_in,
        assertion_audience: conf.client_jwt_assertion_audience.clone(),
    };
    let claim_schema = |schema| schemas::compile("claim_schema", schema);
    let store = |session: &conf::SessionConf| session::Store::new(session, &conf.discovery, &conf.client_id);
    Ok(OpenidConnect {
        provider: Provider {
            discovery_url: conf.discovery.clone(),
            options,
            keys_lifetime: Duration::from_secs(u64::try_from(conf.jwk_expires_in).unwrap_or_default()),
        },
        client,
        dpop: conf.dpop.as_ref().filter(|dpop| dpop.enabled).map(Dpop::new).transpose()?,
        sessions: conf.session.as_ref().filter(|_| !conf.bearer_only).map(store).transpose()?,
        claim_schema: conf.claim_schema.as_ref().map(claim_schema).transpose()?,
        public_keys: conf.public_key.as_deref().map(bearer::public_keys).unwrap_or_default(),
        serial: token_cache::next_serial(),
        introspections: Mutex::default(),
        conf,
    })
}
