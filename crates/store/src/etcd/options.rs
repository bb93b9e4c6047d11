//! Which etcd, and what the rest of the process brings.

use std::{path::PathBuf, time::Duration};

use serde_json::Value;
use tidegate_model::Kind;

use crate::collections::Check;

/// Changes a value on its way to and from etcd, in place: kind, id, value.
pub type Seal = Box<dyn Fn(Kind, &str, &mut Value) + Send + Sync>;
/// The same from etcd. The result: fields that look encrypted and stay unchanged.
pub type Unseal = Box<dyn Fn(Kind, &str, &mut Value) -> Vec<String> + Send + Sync>;

/// `deployment.etcd`, and what the rest of the process brings.
pub struct Options {
    /// URLs of the members, `http` or `https`.
    pub hosts: Vec<String>,
    /// What all keys begin with, without a slash at the end.
    pub prefix: String,
    /// For one read or write.
    pub timeout: Duration,
    /// The longest pause between attempts to connect.
    pub resync_delay: Duration,
    /// Rounds over all members before a start without a snapshot fails.
    pub startup_retry: u64,
    /// Name and password.
    pub user: Option<(String, String)>,
    /// Toward members with `https`.
    pub tls: TlsOptions,
    /// The last good configuration, for starts without etcd.
    pub snapshot: PathBuf,
    /// Write the placeholders that APISIX expects in its directories.
    pub placeholders: bool,
    /// For each object that is read; what does not pass is kept out and reported.
    pub check: Check,
    /// What `encrypt` writes, `decrypt` must read.
    pub encrypt: Option<Seal>,
    /// See [`Options::encrypt`].
    pub decrypt: Unseal,
}

/// `deployment.etcd.tls`, with paths that can be opened.
#[derive(Clone, Debug, Default)]
pub struct TlsOptions {
    /// Files with the client's certificate and its key.
    pub client: Option<(PathBuf, PathBuf)>,
    /// Otherwise any server is trusted that holds the key of the certificate it shows.
    pub verify: bool,
    /// The name to ask for and to check, in place of the host.
    pub sni: Option<String>,
    /// Files with authorities; empty: the system's.
    pub authorities: Vec<PathBuf>,
}
