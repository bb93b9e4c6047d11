//! `tidegate connections`: the open sessions of TCP and UDP, and how to end them.

use std::{net::IpAddr, time::Duration};

use clap::Args;

use super::{daemon, place::SharedOptions, stdout};
use crate::boot::commands::{Command, End};

const LIMIT: Duration = Duration::from_secs(10);

#[derive(Args)]
pub(super) struct Arguments {
    /// Only the session of this number
    id: Option<u64>,
    /// Only sessions of this stream route
    #[arg(long, value_name = "ID")]
    route: Option<String>,
    /// Only sessions of this client address
    #[arg(long, value_name = "ADDRESS")]
    client: Option<IpAddr>,
    /// Close each as soon as it has been silent for a second
    #[arg(long, conflicts_with = "close")]
    drain: bool,
    /// Close them at once
    #[arg(long)]
    close: bool,
}

pub(super) fn run(place: &SharedOptions, arguments: &Arguments) -> anyhow::Result<()> {
    let end = match (arguments.drain, arguments.close) {
        (_, true) => Some(End::Now),
        (true, false) => Some(End::Silent),
        (false, false) => None,
    };
    let (id, route, client) = (arguments.id, arguments.route.clone(), arguments.client);
    stdout::print(&daemon::ask(place, &Command::Connections { id, route, client, end }, LIMIT)?);
    Ok(())
}
