//! `tidegate import KIND FILE`, and what `tidegate run --from KIND:FILE` does before it serves.

mod answer;
mod apply;
mod beside;
mod check_against;
mod listening;
mod needs;
mod objects;
mod prepare;
mod served;

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
pub(super) use beside::Reading;
pub(super) use served::serve;
use tidegate_config::{
    Settings,
    settings::{Access, AdminKey},
};
use tidegate_import::{Imported, Placement};

use self::{
    apply::Earlier,
    needs::Needs,
    objects::Config,
    prepare::{named, read, write},
};
use super::{admin_api, place::SharedOptions, printable::printable_lines, stdout};
use crate::say::complain;

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
    /// With --apply: remove what an earlier import of this format wrote and this file does not have, and overwrite what was
    /// changed by hand since, in the same step
    #[arg(long, requires = "apply", conflicts_with = "keep")]
    replace: bool,
    /// With --apply: leave what an earlier import of this format wrote and this file does not have, and what was changed by
    /// hand since; refused where that would open what the file closes
    #[arg(long, requires = "apply")]
    keep: bool,
    /// Address of the Admin API for --apply [default: that of the gateway at --prefix]
    #[arg(long, value_name = "HOST:PORT")]
    admin: Option<String>,
    /// Key of the Admin API [default: that of the gateway at --prefix]
    #[arg(long, value_name = "KEY", env = "ADMIN_KEY", hide_env_values = true)]
    admin_key: Option<String>,
    /// Fail if some responses would differ from those of the other gateway
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    reading: Reading,
    /// nginx: send GET and HEAD requests for each location to the real nginx at http://HOST:PORT or https://HOST:PORT and to
    /// the conversion, and show differences; may be given for several ports. Not with --to or --apply
    #[arg(long, value_name = "URL", conflicts_with_all = ["to", "apply"])]
    check_against: Vec<String>,
    /// For --check-against https://: PEM file with the CA certificates to trust instead of the public ones
    #[arg(long, value_name = "FILE", requires = "check_against", conflicts_with = "insecure")]
    cacert: Option<PathBuf>,
    /// For --check-against https://: accept any certificate
    #[arg(short = 'k', long, requires = "check_against")]
    insecure: bool,
}

pub(super) fn run(place: &SharedOptions, arguments: &Arguments) -> anyhow::Result<()> {
    let Arguments { kind, file, reading, strict, .. } = arguments;
    let source = named(kind)?;
    only_with_apply(arguments)?;
    only_with_check_against(arguments)?;
    if !arguments.check_against.is_empty() {
        let targets = check_against::targets(&arguments.check_against)?;
        let accepted =
            check_against::Accepted { ca_file: arguments.cacert.as_deref(), insecure: arguments.insecure };
        // The servers of all ports, as `run --from` has them.
        read(source, file, reading, *strict, Placement::Written, None)?;
        return check_against::run(&targets, &accepted, source, file, reading);
    }
    let (admin, own) = if arguments.apply { applied_to(place, arguments)? } else { (String::new(), None) };
    let known = match &own {
        Some(_) => None,
        None => known_settings(place, arguments)?,
    };
    let settings = own.as_ref().or(known.as_ref());
    let placement = if arguments.apply { Placement::Running } else { Placement::Elsewhere };
    let config = settings.map(Config::of);
    let imported = read(source, file, reading, *strict, placement, config.as_ref())?;
    say_needs(arguments, needs::missing(source, file, settings))?;
    if arguments.apply {
        return apply(arguments, (&admin, own.as_ref()), settings, &imported);
    }
    say_missing(file, listening::missing(&imported.needed, None));
    let text = imported.output.yaml().map_err(anyhow::Error::msg)?;
    match &arguments.to {
        Some(path) => write(path, &text),
        None => {
            stdout::print(&text);
            Ok(())
        }
    }
}

/// Of the Admin API, where neither an address nor a gateway's folder is given.
const ADMIN: &str = "127.0.0.1:9180";

/// What asks for nothing where nothing is applied. `requires` of the parser does not see it beside `--to`.
fn only_with_apply(arguments: &Arguments) -> anyhow::Result<()> {
    let given = [
        ("--replace", arguments.replace),
        ("--keep", arguments.keep),
        ("--admin", arguments.admin.is_some()),
        // The variable may be there for other commands.
        (
            "--admin-key",
            arguments.admin_key.is_some() && arguments.admin_key != std::env::var("ADMIN_KEY").ok(),
        ),
    ];
    match given.into_iter().find(|(_, is_given)| *is_given && !arguments.apply) {
        Some((option, _)) => {
            Err(super::usage::Unusable(format!("{option} has no effect without --apply; leave it out"))
                .into())
        }
        None => Ok(()),
    }
}

/// The same of what asks for nothing where nothing is compared.
fn only_with_check_against(arguments: &Arguments) -> anyhow::Result<()> {
    let given = [("--cacert", arguments.cacert.is_some()), ("--insecure", arguments.insecure)];
    match given.into_iter().find(|(_, is_given)| *is_given && arguments.check_against.is_empty()) {
        Some((option, _)) => {
            let reason = format!("{option} has no effect without --check-against; leave it out");
            Err(super::usage::Unusable(reason).into())
        }
        None => Ok(()),
    }
}

/// The address that is applied to, and the settings of the gateway there, where it is the one of this folder.
fn applied_to(place: &SharedOptions, arguments: &Arguments) -> anyhow::Result<(String, Option<Settings>)> {
    let settings = place.load_with_key();
    let settings = match &arguments.admin_key {
        Some(_) => settings.ok(),
        None => {
            let what = "--apply needs --admin-key, ADMIN_KEY, or the --prefix of the gateway";
            Some(settings.context(what)?)
        }
    };
    let admin = match (&arguments.admin, &settings) {
        (Some(admin), _) => admin.clone(),
        // The key of one gateway is not for another.
        (None, Some(settings)) => admin_api::place_of(settings, &apply::QUESTION)?,
        (None, None) => ADMIN.to_owned(),
    };
    let own = match &arguments.admin_key {
        Some(key) => settings.filter(|settings| is_applied_to(settings, key, &admin)),
        None => settings,
    };
    Ok((admin, own))
}

/// Whether the gateway of these settings is at this address and takes this key.
fn is_applied_to(settings: &Settings, key: &str, admin: &str) -> bool {
    let takes = match &settings.admin.access {
        Access::Open => true,
        Access::Keys(keys) => keys.iter().any(|own| own.value() == Some(key)),
    };
    let Some((listen, (host, port))) = settings.admin.listen.as_ref().zip(admin.rsplit_once(':')) else {
        return false;
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let is_local = host == "localhost" || host.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback());
    takes && port.parse() == Ok(listen.port) && (host == listen.ip || is_local)
}

/// Of the gateway that gets the file, where it is known. With a config.yaml that cannot be read it is not.
fn known_settings(place: &SharedOptions, arguments: &Arguments) -> anyhow::Result<Option<Settings>> {
    needs::settings(place, arguments.to.as_deref()).or_else(|error| match arguments.strict {
        true => Err(error),
        false => {
            complain!("{}", printable_lines(&format!("{error:#}")));
            Ok(None)
        }
    })
}

/// `known`: the settings under which the routes are served, where these are known.
fn apply(
    arguments: &Arguments,
    (admin, own): (&str, Option<&Settings>),
    known: Option<&Settings>,
    imported: &Imported,
) -> anyhow::Result<()> {
    let key = match (&arguments.admin_key, own) {
        (Some(key), _) => key.clone(),
        (None, Some(settings)) => own_key(settings)?,
        (None, None) => String::new(),
    };
    let earlier = match (arguments.replace, arguments.keep) {
        (true, _) => Earlier::Replace,
        (_, true) => Earlier::Keep,
        _ => Earlier::Refuse,
    };
    let gateway = apply::Gateway { admin, key: &key };
    apply::apply(&imported.output, &arguments.kind, &gateway, earlier)?;
    let own = known.map(|settings| {
        let tls = &settings.apisix.tls;
        let tls = if tls.enable { tls.listen.as_slice() } else { &[] };
        listening::Own { plain: &settings.apisix.node_listen, tls }
    });
    say_missing(&arguments.file, listening::missing(&imported.needed, own.as_ref()));
    Ok(())
}

/// Before anything is written, so that `--strict` writes nothing.
fn say_needs(arguments: &Arguments, needs: Needs) -> anyhow::Result<()> {
    for line in &needs.lines {
        complain!("{}", printable_lines(line));
    }
    if needs.differ && arguments.strict {
        bail!(
            "{}: with this config.yaml some answers would differ, and --strict was given",
            arguments.file.display()
        );
    }
    Ok(())
}

fn say_missing(file: &Path, missing: Option<String>) {
    if let Some(text) = missing {
        complain!("{}: {text}", printable_lines(&file.display().to_string()));
    }
}

/// The key of a gateway; empty where it asks for none.
fn own_key(settings: &Settings) -> anyhow::Result<String> {
    match &settings.admin.access {
        Access::Open => Ok(String::new()),
        keys => {
            let key = keys.admin_key().and_then(AdminKey::value).map(str::to_owned);
            key.context("--apply needs --admin-key: the gateway at --prefix has no admin key")
        }
    }
}
