//! `tidegate run --from KIND:FILE`: the settings under which a converted file is served.

use std::{collections::BTreeSet, net::IpAddr};

use tidegate_config::{
    Loaded, Provider, Role, Settings,
    settings::{HttpRouter, Listener},
};
use tidegate_import::{Listeners, Placement};

use super::{Reading, prepare::prepare};
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
    let imported = prepare(from, &target, reading, strict, placement)?;
    settings.files.resources_yaml = target;
    settings.provider = Provider::Yaml;
    settings.admin.listen = None;
    // Without a config.yaml HTTPS was not requested, and another gateway may be at its port.
    let asked = settings.files.config.exists() || imported.output.has("ssls");
    settings.apisix.tls.enable &= asked;
    if from.starts_with("kong:") {
        // Its `trusted_ips` are empty unless kong.conf says otherwise, and an escaped slash is not one.
        believe_as_written(settings);
        settings.apisix.match_uri_encoded_slash = true;
    }
    if let Some(listeners) = imported.listeners {
        as_in_nginx(placement, &listeners, settings);
        if !settings.nginx.real_ip_from.is_empty() {
            let what = "holds besides the `set_real_ip_from` of the nginx file";
            warnings.push(settings.places.message(REAL_IP_FROM, &format!("{REAL_IP_FROM} {what}")));
        }
    }
    // The other gateway has no list to switch plugins on: what its configuration names is on.
    for plugin in tidegate_plugins::registry::PLUGINS {
        if !settings.plugins.iter().any(|name| name == plugin.name) {
            settings.plugins.push(plugin.name.to_owned());
        }
    }
    settings.role = Role::DataPlane;
    std::fs::create_dir_all(&settings.files.logs)?;
    Ok(())
}

const REAL_IP_FROM: &str = "nginx_config.http.real_ip_from";

/// Peers say who the client is only where the configuration says that they may: the defaults are those of APISIX.
fn believe_as_written(settings: &mut Settings) {
    if !settings.places.is_set(REAL_IP_FROM) {
        settings.nginx.real_ip_from.clear();
    }
}

const EVERYBODY: [&str; 2] = ["0.0.0.0/0", "::/0"];

/// nginx selects by host before path, and believes only the peers that its configuration, or config.yaml, names.
fn as_in_nginx(placement: Placement, listeners: &Listeners, settings: &mut Settings) {
    settings.apisix.router = HttpRouter::HostUri;
    believe_as_written(settings);
    // A file with another word for it is not served: the directive closes its block.
    settings.nginx.underscores_in_headers = false;
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
