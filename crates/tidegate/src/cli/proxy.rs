//! `tidegate proxy --to URL`: a gateway in front of one server, in one line. `--print` shows the configuration that it would
//! serve, to go on from there.

mod arguments;
mod configuration;
mod rate;
mod target;

use std::net::SocketAddr;

pub(super) use self::arguments::Arguments;
use self::configuration::Configuration;
use super::{place::SharedOptions, stdout, temporary::Home, usage::local_address};

const DEFAULT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 8080);

pub(super) fn run(place: &SharedOptions, arguments: &Arguments) -> anyhow::Result<()> {
    let listen = place.listen.as_deref().map(local_address).transpose()?.unwrap_or(DEFAULT);
    let made = Configuration::make(arguments, listen)?;
    if arguments.print {
        stdout::print(&made.printed()?);
        return Ok(());
    }
    let home = Home::create()?;
    home.write(&made.served_config(), &made.resources()?)?;
    home.run(None, made.banner())
}
