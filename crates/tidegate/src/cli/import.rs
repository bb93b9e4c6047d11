//! `tidegate import KIND FILE`, and what `tidegate run --from KIND:FILE` does before it serves.

mod answer;
mod apply;
mod beside;
mod check_against;
mod prepare;
mod served;

use std::path::PathBuf;

use anyhow::Context;
pub(super) use beside::Reading;
pub(super) use served::serve;
use tidegate_config::settings::{Access, AdminKey};
use tidegate_import::Placement;

use self::prepare::{read, write};
use super::{place::SharedOptions, stdout};

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Format of the file: kong, hyperapi, nginx or apisix
    kind: String,
    /// The file to read
    file: PathBuf,
    /// Write the objects to this file in the format of apisix.yaml [default: standard output]
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
    /// Send the objects to a running gateway through its Admin API
    #[arg(long, conflicts_with = "to")]
    apply: bool,
    /// Address of the Admin API for --apply
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9180")]
    admin: String,
    /// Key of the Admin API [default: that of the gateway at --prefix]
    #[arg(long, value_name = "KEY", env = "ADMIN_KEY", hide_env_values = true)]
    admin_key: Option<String>,
    /// Fail if some responses would differ from those of the other gateway
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    reading: Reading,
    /// nginx: send GET and HEAD requests for each location to the real nginx and to the conversion, and show differences
    #[arg(long, value_name = "URL", conflicts_with_all = ["to", "apply"])]
    check_against: Option<String>,
}

pub(super) fn run(place: &SharedOptions, arguments: &Arguments) -> anyhow::Result<()> {
    let reading = &arguments.reading;
    if let Some(url) = &arguments.check_against {
        let target = check_against::Target::parse(url)?;
        let placement = Placement::Replaced(Some(target.port()));
        let imported = read(&arguments.kind, &arguments.file, reading, arguments.strict, placement)?;
        return check_against::run(&target, &arguments.file, reading, &imported);
    }
    let placement = if arguments.apply { Placement::Running } else { Placement::Elsewhere };
    let imported = read(&arguments.kind, &arguments.file, reading, arguments.strict, placement)?;
    if arguments.apply {
        let key = match &arguments.admin_key {
            Some(key) => key.clone(),
            None => own_key(place)
                .context("--apply needs --admin-key, ADMIN_KEY, or the --prefix of the gateway")?,
        };
        return apply::apply(&imported.output, &arguments.admin, &key);
    }
    let text = imported.output.yaml().map_err(anyhow::Error::msg)?;
    match &arguments.to {
        Some(path) => write(path, &text),
        None => {
            stdout::print(&text);
            Ok(())
        }
    }
}

/// The key of the gateway at --prefix; empty where it asks for none.
fn own_key(place: &SharedOptions) -> anyhow::Result<String> {
    match place.load_with_key()?.admin.access {
        Access::Open => Ok(String::new()),
        keys => keys.admin_key().and_then(AdminKey::value).map(str::to_owned).context("it has no admin key"),
    }
}
