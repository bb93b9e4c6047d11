//! `tidegate health`: whether the gateway serves, for containers without another program to ask it with.

use std::time::Duration;

use anyhow::bail;
use tidegate_clients::verbatim::Excess;

use super::{
    exchange::{Bounds, get},
    place::{SharedOptions, not_of_this_folder},
};

/// What docker waits by default is 30 seconds; a gateway that needs as long as this is not well.
const BOUNDS: Bounds = Bounds { wait: Duration::from_secs(3), body_bytes: 64 << 10, excess: Excess::Cut };

pub(super) fn run(place: &SharedOptions) -> anyhow::Result<()> {
    let settings = place.load_to_ask()?.settings;
    let apisix = &settings.apisix;
    if let Some(status) = &apisix.status {
        get(status, "status page", "/status/ready", BOUNDS)?.text()?;
    } else if let Some(control) = &apisix.control {
        // It is served by the workers' own process; which upstreams are well is another question.
        get(control, "Control API", "/v1/healthcheck", BOUNDS)?.text()?;
    } else {
        bail!("there is nothing to ask; set apisix.status or apisix.enable_control: true");
    }
    match not_of_this_folder(place, &settings) {
        Some(text) => bail!("{text}"),
        None => Ok(()),
    }
}
