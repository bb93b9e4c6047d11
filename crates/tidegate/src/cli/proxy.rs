//! `tidegate proxy --to URL`: a gateway in front of one server, in one line. `--print` shows the configuration that it would
//! serve, to go on from there.

mod arguments;
mod configuration;
mod rate;
mod target;

use std::net::SocketAddr;

pub(super) use self::arguments::Arguments;
use self::configuration::Configuration;
use super::{
    place::SharedOptions,
    stdout,
    temporary::Home,
    usage::{Unusable, local_address},
};
use crate::boot::signals::Hangup;

const DEFAULT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 8080);

pub(super) fn run(place: &SharedOptions, arguments: &Arguments) -> anyhow::Result<()> {
    let listen = place.listen.as_deref().map(local_address).transpose()?.unwrap_or(DEFAULT);
    usable(arguments, listen)?;
    let made = Configuration::make(arguments, listen)?;
    if arguments.print {
        stdout::print(&made.printed()?);
        return Ok(());
    }
    let home = Home::create()?;
    home.write(&made.served_config(), &made.resources()?)?;
    home.run(None, made.banner(), Hangup::Stop)
}

/// Clients reach no port 0, and no server behind a gateway in front of itself.
fn usable(arguments: &Arguments, listen: SocketAddr) -> Result<(), Unusable> {
    if listen.port() == 0 {
        return Err(Unusable("--listen: the port is a number from 1 to 65535".to_owned()));
    }
    if arguments.to.is_at(listen) {
        return Err(Unusable(format!(
            "--to {}: it listens there itself; give the address of the server, or listen on another port with --listen",
            arguments.to
        )));
    }
    Ok(())
}
