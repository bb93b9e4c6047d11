//! Objects whose key would go with a changed keyring: named before, since afterwards their places are shut.

use std::sync::Arc;

use serde_json::Value;
use tidegate_config::Settings;
use tidegate_model::Kind;
use tidegate_plugin_api::Catalog;

use super::{commands::Lost, encryption::decryption, provider::Provider};

/// Objects in use that a gateway with this keyring could not decrypt.
pub(super) fn lost(
    provider: &Provider,
    keyring: &[String],
    catalog: &Arc<Catalog>,
) -> Result<Vec<Lost>, String> {
    let hooks = decryption(keyring, catalog)?;
    let lost = provider.undecryptable(&hooks).map_err(|error| error.to_string())?;
    let named = |(kind, id, reason): (Kind, String, String)| Lost {
        object: format!("{}/{id}", kind.directory()),
        reason,
    };
    Ok(lost.into_iter().map(named).collect())
}

/// Why a changed keyring is not used. `None`: it can be.
pub(super) fn refusal(
    provider: &Provider,
    running: &Value,
    settings: &Settings,
    catalog: &Arc<Catalog>,
) -> Option<String> {
    const SHOWN: usize = 3;
    let keys = |config: &Value| config.pointer("/apisix/data_encryption/keyring").cloned();
    if keys(running) == keys(&settings.raw) {
        return None;
    }
    let lost = match lost(provider, &settings.apisix.data_encryption.keyring, catalog) {
        Ok(lost) if lost.is_empty() => return None,
        Ok(lost) => lost,
        Err(reason) => {
            let text = format!(
                "whether the changed keyring decrypts what is in use is unknown: {reason}; --force uses it"
            );
            return Some(settings.places.message(KEY, &text));
        }
    };
    let objects = match lost.len() {
        1 => "1 object".to_owned(),
        count => format!("{count} objects"),
    };
    let named: Vec<&str> = lost.iter().take(SHOWN).map(|lost| lost.object.as_str()).collect();
    let more = if lost.len() > SHOWN { ", …" } else { "" };
    let text = format!(
        "{KEY}: no key decrypts {objects} that can be used now: {}{more}; put the old key back, or write what `tidegate test` names again with its \
         secrets first; --force goes on without",
        named.join(", ")
    );
    Some(settings.places.message(KEY, &text))
}

const KEY: &str = "apisix.data_encryption.keyring";
