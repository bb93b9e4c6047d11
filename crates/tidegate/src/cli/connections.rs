//! `tidegate connections`: the open sessions of TCP and UDP, and how to end them.

use std::{net::IpAddr, time::Duration};

use clap::Args;

use super::{daemon, place::SharedOptions, stdout, usage::Unusable};
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
    /// With --drain or --close: every session
    #[arg(long, conflicts_with_all = ["id", "route", "client"])]
    all: bool,
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
    if end.is_some() && !arguments.names_some() {
        let verb = if arguments.close { "--close" } else { "--drain" };
        let text =
            format!("{verb}: name the sessions with an ID, --route or --client; --all is every session");
        return Err(Unusable(text).into());
    }
    let (id, route, client) = (arguments.id, arguments.route.clone(), arguments.client);
    stdout::print(&daemon::ask(place, &Command::Connections { id, route, client, end }, LIMIT)?);
    Ok(())
}

impl Arguments {
    /// Whether it is said which sessions end.
    fn names_some(&self) -> bool {
        self.all || self.id.is_some() || self.route.is_some() || self.client.is_some()
    }
}
