//! `tidegate echo`: something to proxy to.

use std::{fs, net::SocketAddr, time::Duration};

use anyhow::{Context, bail};
use clap::Args;
use tidegate_echo::{Identity, Options, Server, server_config};
use tokio::signal::unix::{SignalKind, signal};

use super::{
    place::SharedOptions,
    self_signed,
    usage::{self, local_address},
};

#[derive(Args)]
#[command(after_help = "Paths that ask for something else:\n  \
    /status/404       another status\n  \
    /delay/500ms      a delay, at most 60s\n  \
    /bytes/100000     a body of so many letters\n  \
    /events           server-sent events, as with Accept: text/event-stream\n\
    A WebSocket gets its frames back, and a gRPC call its messages.")]
pub(super) struct Arguments {
    /// Port on 127.0.0.1; use --listen ADDR:PORT for another address
    #[arg(short, long, default_value_t = 1980)]
    port: u16,
    /// Delay before each response
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = delay)]
    delay: Duration,
    /// Status of each response
    #[arg(long, value_name = "STATUS", default_value_t = 200, value_parser = clap::value_parser!(u16).range(200..=599))]
    status: u16,
    /// Answer with this many letters instead of the request
    #[arg(long, value_name = "SIZE", value_parser = usage::size)]
    size: Option<u64>,
    /// Number of events in a stream of server-sent events
    #[arg(long, value_name = "NUMBER", default_value_t = 10)]
    events: u32,
    /// Time between two server-sent events
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = usage::duration)]
    event_interval: Duration,
    /// Status of gRPC calls, 0 to 16
    #[arg(long, value_name = "STATUS", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=16))]
    grpc_status: u8,
    /// Serve TLS: `self-signed`, or a certificate file and its key file, CERT,KEY
    #[arg(long, value_name = "HOW")]
    tls: Option<String>,
}

pub(super) fn run(place: &SharedOptions, arguments: &Arguments) -> anyhow::Result<()> {
    let address = match &place.listen {
        Some(listen) => local_address(listen)?,
        None => SocketAddr::from(([127, 0, 0, 1], arguments.port)),
    };
    let identity = arguments.tls.as_deref().map(|how| identity(how, address)).transpose()?;
    let tls = identity.as_ref().map(server_config).transpose();
    let tls = tls.map_err(|reason| {
        usage::Unusable(format!("--tls {}: {reason}", arguments.tls.as_deref().unwrap_or_default()))
    })?;
    let options = Options {
        delay: arguments.delay,
        status: arguments.status,
        size: arguments.size,
        events: arguments.events,
        event_interval: arguments.event_interval,
        grpc_status: arguments.grpc_status,
        tls,
    };
    let scheme = if options.tls.is_some() { "https" } else { "http" };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let bound = Server::bind(address, options).await;
        let explained = |error| tidegate_proxy::port_owner::explained(address, error);
        let server = bound.map_err(explained).with_context(|| format!("cannot listen on {address}"))?;
        let (mut stop, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        crate::say::complain!("tidegate: echo on {scheme}://{}", server.address()?);
        tokio::select! {
            () = server.run() => {}
            _ = stop.recv() => {}
            _ = interrupt.recv() => {}
        }
        Ok(())
    })
}

/// As a path may ask for it.
fn delay(text: &str) -> Result<Duration, String> {
    let delay = usage::duration(text)?;
    let most = tidegate_echo::MAX_DELAY;
    match delay <= most {
        true => Ok(delay),
        false => Err(format!("give a time up to {}s", most.as_secs())),
    }
}

fn identity(how: &str, address: SocketAddr) -> anyhow::Result<Identity> {
    if how == "self-signed" {
        return self_signed::make(&self_signed::names(address));
    }
    let Some((certificate, key)) = how.split_once(',') else {
        bail!(usage::Unusable(format!("--tls {how}: give self-signed, or two files: CERT,KEY")));
    };
    let read = |path: &str| {
        fs::read_to_string(path)
            .map_err(|error| usage::Unusable(format!("--tls {how}: cannot read {path}: {error}")))
    };
    Ok(Identity { certificate: read(certificate)?, key: read(key)? })
}
