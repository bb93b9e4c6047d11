//! Records for the log collector of SkyWalking (OAP), over HTTP.

use serde_json::Value;
use tidegate_clients::http::{ClientOptions, Endpoint, Outgoing};
use tidegate_plugin_api::host;

use super::deliver::deliver;

/// The name of this instance: `$hostname` stands for that of the machine.
pub(crate) fn instance(name: &str) -> String {
    match name {
        "$hostname" => host().map_or("localhost", |host| &host.hostname).to_owned(),
        name => name.to_owned(),
    }
}

pub(crate) async fn collect(
    records: &[Value],
    endpoint: Endpoint,
    options: &ClientOptions,
) -> Result<(), String> {
    let body = serde_json::to_vec(records).map_err(|error| error.to_string())?;
    deliver(Outgoing::post(endpoint, "application/json", body), options).await
}
