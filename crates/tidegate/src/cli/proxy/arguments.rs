//! What `tidegate proxy` takes.

use clap::{Args, ValueEnum};

use super::{
    rate::{self, Rate},
    target::{self, Target},
};

#[derive(Args)]
pub(crate) struct Arguments {
    /// The server: http://HOST:PORT or https://HOST:PORT
    #[arg(long, value_name = "URL", value_parser = target::parse)]
    pub(super) to: Target,
    /// Speak TLS to clients, with a certificate made now
    #[arg(long, value_name = "HOW")]
    pub(super) tls: Option<Tls>,
    /// Ask clients for a key or a password, which is made now and shown
    #[arg(long, value_name = "HOW")]
    pub(super) auth: Option<Auth>,
    /// Answer 429 to more than so many requests of one client address: 100/s, 1000/m or 5000/h
    #[arg(long, value_name = "RATE", value_parser = rate::parse)]
    pub(super) rate: Option<Rate>,
    /// Let pages of every origin ask, and answer their preflight requests
    #[arg(long)]
    pub(super) cors: bool,
    /// Print the configuration as an apisix.yaml, and end
    #[arg(long)]
    pub(super) print: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Tls {
    SelfSigned,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Auth {
    Key,
    Basic,
}
