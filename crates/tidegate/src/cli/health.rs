//! `tidegate health`: whether the gateway serves, for containers without another program to ask it with.

use std::{io, time::Duration};

use anyhow::bail;
use tidegate_clients::verbatim::Excess;

use super::{
    daemon,
    exchange::{Bounds, get},
    place::{SharedOptions, not_of_this_folder},
};
use crate::boot::notices;

/// What docker waits by default is 30 seconds; a gateway that needs as long as this is not well.
const BOUNDS: Bounds = Bounds { wait: Duration::from_secs(3), body_bytes: 64 << 10, excess: Excess::Cut };

/// An edit of config.yaml that no reload has taken over, and perhaps none can, says nothing of the gateway that runs: it answers at
/// its command socket, too.
pub(super) fn run(place: &SharedOptions) -> anyhow::Result<()> {
    let Err(error) = by_its_pages(place) else { return Ok(()) };
    let is_refused = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    let may_be_of_the_file = match error.downcast_ref::<tidegate_config::LoadError>() {
        Some(_) => true,
        None => error.root_cause().downcast_ref().is_some_and(is_refused),
    };
    if !may_be_of_the_file || !daemon::answers(place, BOUNDS.wait) {
        return Err(error);
    }
    notices::print(&format!("{error:#}; the gateway runs with the settings of before and answers"));
    Ok(())
}

fn by_its_pages(place: &SharedOptions) -> anyhow::Result<()> {
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
