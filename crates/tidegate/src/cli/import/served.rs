//! `tidegate run --from KIND:FILE`: the settings under which a converted file is served.

use std::{collections::BTreeSet, net::IpAddr, path::Path};

use anyhow::{Context, bail};
use tidegate_config::{Loaded, Provider, Role, Settings, settings::Listener, standing_warnings};
use tidegate_import::{Listeners, Placement};

use super::{
    Reading, needs,
    objects::Config,
    prepare::{named, read, write},
};
use crate::cli::place::SharedOptions;

/// The file that was converted takes the place of apisix.yaml; there is no Admin API to change it behind its back.
pub(crate) fn serve(
    from: &str,
    place: &SharedOptions,
    reading: &Reading,
    strict: bool,
    loaded: &mut Loaded,
) -> anyhow::Result<()> {
    let Loaded { settings, warnings, .. } = loaded;
    let target = settings.files.prefix.join("data").join("imported.yaml");
    let is_set = place.listen.is_some() || settings.places.has("apisix.node_listen");
    let placement = if is_set { Placement::Replaced(reading.stands_for()) } else { Placement::Written };
    let (kind, file) = from
        .split_once(':')
        .with_context(|| format!("--from {from}: give KIND:FILE, like kong:kong.yaml"))?;
    let source = named(kind)?;
    let config = Config::with_all_plugins(settings);
    let imported = read(source, Path::new(file), reading, strict, placement, Some(&config))?;
    write(&target, &imported.output.yaml().map_err(anyhow::Error::msg)?)?;
    settings.files.resources_yaml = target;
    settings.provider = Provider::Yaml;
    settings.admin.listen = None;
    // Without a config.yaml HTTPS was not requested, and another gateway may be at its port.
    let asked = settings.files.config.exists() || imported.output.has("ssls");
    settings.apisix.tls.enable &= asked;
    let of_the_file = standing_warnings(settings);
    let besides = needs::meet(source, settings);
    if strict && !besides.is_empty() {
        bail!("{}; --strict was given", besides.join("\n"));
    }
    warnings.extend(besides);
    if let Some(listeners) = imported.listeners {
        as_in_nginx(placement, &listeners, settings);
    }
    // The other gateway has no list to switch plugins on: what its configuration names is on.
    for plugin in tidegate_plugins::registry::PLUGINS {
        if !settings.plugins.iter().any(|name| name == plugin.name) {
            settings.plugins.push(plugin.name.to_owned());
        }
    }
    settings.role = Role::DataPlane;
    // Nothing is stored, and there is no Admin API: what config.yaml, or its absence, says of them does not count.
    let still = standing_warnings(settings);
    warnings.retain(|warning| !of_the_file.contains(warning) || still.contains(warning));
    std::fs::create_dir_all(&settings.files.logs)?;
    Ok(())
}

const EVERYBODY: [&str; 2] = ["0.0.0.0/0", "::/0"];

/// What no config.yaml can say besides.
fn as_in_nginx(placement: Placement, listeners: &Listeners, settings: &mut Settings) {
    // It passes on, and compares, what came.
    settings.apisix.claims_as_written = true;
    for trusted in [&mut settings.apisix.trusted_addresses, &mut settings.apisix.trusted_gateways] {
        trusted.get_or_insert_with(|| EVERYBODY.map(str::to_owned).to_vec());
    }
    if placement == Placement::Written {
        let all = |sockets: &BTreeSet<(IpAddr, u16)>| -> Vec<Listener> {
            // A socket for all addresses takes those of each, which conditions distinguish.
            let is_covered = |address: &IpAddr, port: u16| {
                let any: IpAddr = if address.is_ipv4() { [0, 0, 0, 0].into() } else { [0_u16; 8].into() };
                *address != any
                    && (listeners.plain.contains(&(any, port)) || listeners.tls.contains(&(any, port)))
            };
            let own = sockets.iter().filter(|(address, port)| !is_covered(address, *port));
            own.map(|(address, port)| Listener::new(&address.to_string(), *port)).collect()
        };
        settings.apisix.node_listen = all(&listeners.plain);
        settings.apisix.tls.listen = all(&listeners.tls);
        settings.apisix.tls.enable = !listeners.tls.is_empty();
        settings.apisix.tls.listen_is_set = true;
    }
}
