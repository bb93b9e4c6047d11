//! Reading values from secret managers: `$secret://MANAGER/ID/...`, one file per manager.
//!
//! For the control side only. The caller decides who asks, how often, and what is kept.

mod aws;
mod gcp;
mod manager;
mod vault;

use serde_json::Value;

pub use self::manager::Failure;

/// The value at `path`, the part after the manager's ID in a reference. `conf` is the `secrets` resource.
pub async fn fetch(manager: &str, conf: &Value, path: &str) -> Result<String, Failure> {
    let value = match manager {
        "vault" => vault::fetch(conf, path).await,
        "aws" => aws::fetch(conf, path).await,
        "gcp" => gcp::fetch(conf, path).await,
        other => Err(Failure::Missing(format!("no secret manager: {other}"))),
    }?;
    tidegate_model::secret_text(&Value::String(value))
        .ok_or_else(|| Failure::Missing("the value is empty".to_owned()))
}
