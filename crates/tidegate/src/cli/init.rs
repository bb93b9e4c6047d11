//! `tidegate init`: a config.yaml to start from.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use anyhow::{Context, bail};
use tidegate_config::reference::{Starter, starter, starter_resources};
use tidegate_plugins::registry::on_by_default;

use super::{place::SharedOptions, stdout};
use crate::boot::welcome::shown;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Read routes from conf/apisix.yaml, without an Admin API
    #[arg(long, conflicts_with = "etcd")]
    standalone: bool,
    /// Keep the configuration in an etcd cluster
    #[arg(long)]
    etcd: bool,
}

pub(super) fn run(place: &SharedOptions, arguments: &Arguments) -> anyhow::Result<()> {
    let source = place.source()?;
    if source.file.is_some() || source.listen.is_some() {
        bail!("init writes conf/config.yaml below --prefix; it takes neither --config nor --listen");
    }
    let kind = match (arguments.standalone, arguments.etcd) {
        (true, _) => Starter::Standalone,
        (_, true) => Starter::Etcd,
        _ => Starter::Embedded,
    };
    let conf = source.prefix.join("conf");
    fs::create_dir_all(&conf).with_context(|| format!("cannot create {}", conf.display()))?;
    let key = (kind != Starter::Standalone).then(tidegate_config::random_key).transpose();
    let key = key.context("cannot read random numbers")?;
    // A store that is there already was written without this file: with the key that is the default.
    let is_new = kind == Starter::Etcd || !source.prefix.join("data/tidegate.redb").exists();
    let published = tidegate_config::PUBLISHED_KEYS.into_iter().filter(|_| key.is_some() && !is_new);
    let keyring: Vec<&str> = key.as_deref().into_iter().chain(published).collect();
    write_new(&conf.join("config.yaml"), &starter(kind, &keyring, &on_by_default()))?;
    if !is_new {
        stdout::line(
            "data/ already has a store: the default keys are kept after the new one so that it can be read",
        );
    }
    if kind == Starter::Etcd {
        stdout::line(
            "gateways that share the etcd need one keyring: take over theirs, or give them that of conf/config.yaml",
        );
    }
    if let Some(resources) = starter_resources(kind) {
        write_new(&conf.join("apisix.yaml"), resources)?;
    }
    let prefix = match shown(&source.prefix) {
        here if here.is_empty() => String::new(),
        prefix => format!(" --prefix {prefix}"),
    };
    stdout::line(&format!("start it with: tidegate start{prefix}"));
    Ok(())
}

/// Never over something that is there.
fn write_new(path: &Path, text: &str) -> anyhow::Result<()> {
    // It may come to hold keys and passwords.
    let file = OpenOptions::new().write(true).create_new(true).mode(0o640).open(path);
    match file.and_then(|mut file| file.write_all(text.as_bytes())) {
        Ok(()) => {
            stdout::line(&format!("wrote {}", shown(path)));
            Ok(())
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            bail!("{} already exists; remove it, or give another --prefix", shown(path))
        }
        Err(error) => Err(error).with_context(|| format!("cannot write {}", path.display())),
    }
}
