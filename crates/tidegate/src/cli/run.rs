//! `tidegate run`: serve in the foreground.

use std::{collections::BTreeSet, net::IpAddr};

use ::tidegate_import::{Listeners, Placement};
use tidegate_config::{
    Loaded, Provider, Role, Settings,
    settings::{HttpRouter, Listener},
};

use super::{Place, daemon, import};
use crate::boot::{
    self, RunOptions, handover::predecessor::Predecessor, pid_file::PidFile, preflight, serving::Origin,
};

#[derive(clap::Args)]
pub struct Arguments {
    /// Serve the configuration of another gateway: kong, hyperapi, nginx or apisix, a colon and the file
    #[arg(long, value_name = "KIND:FILE")]
    from: Option<String>,
    /// Refuse a configuration of --from some of whose answers differ
    #[arg(long, requires = "from")]
    strict: bool,
    #[command(flatten)]
    reading: import::Reading,
    /// After an upgrade stay until the new process ends: for supervisors that watch this one. Process 1 always does
    #[arg(long)]
    stay: bool,
    /// Where the store is damaged, serve its last good copy read-only even if newer changes are not in it
    #[arg(long)]
    serve_last_good: bool,
}

pub fn run(place: &Place, arguments: &Arguments) -> anyhow::Result<()> {
    let Some(predecessor) = Predecessor::connect()? else { return serve(place, arguments, None) };
    let messenger = predecessor.messenger()?;
    // Told here as everywhere, and to whoever asked the old process for an upgrade.
    serve(place, arguments, Some(predecessor)).inspect_err(|error| messenger.failed(&format!("{error:#}")))
}

fn serve(place: &Place, arguments: &Arguments, mut predecessor: Option<Predecessor>) -> anyhow::Result<()> {
    let mut loaded = match &arguments.from {
        Some(_) => place.load_anywhere()?,
        None => place.load()?,
    };
    if let Some(from) = &arguments.from {
        serve_imported(from, place, arguments, &mut loaded)?;
    }
    preflight::check(&loaded)?;
    let more = preflight::warnings(&loaded);
    let Loaded { mut settings, mut warnings, .. } = loaded;
    settings.serve_last_good = arguments.serve_last_good;
    warnings.extend(more);
    let path = &settings.files.pid;
    // Held until the end; a second gateway with the same prefix stops here.
    let pid_file = match predecessor.as_mut().and_then(|old| old.pid_file.take()) {
        Some(file) => PidFile::inherited(file, path),
        None => PidFile::create(path)?,
    };
    // A file that cannot be used is among the warnings; one that cannot be made is not known before.
    let new_keys = settings.make_admin_keys().unwrap_or_else(|problem| {
        let problem = format!("{problem}; until then every request to the Admin API is answered 401");
        if !warnings.contains(&problem) {
            warnings.push(problem);
        }
        Vec::new()
    });
    let again = place.clone();
    let origin = Origin {
        program: daemon::own_program()?,
        arguments: std::env::args_os().skip(1).collect(),
        load: Box::new(move || {
            let loaded = again.load_anywhere()?;
            preflight::check(&loaded)?;
            Ok(loaded.settings)
        }),
    };
    let config = settings.raw.clone();
    let stay = predecessor.is_none() && (arguments.stay || std::process::id() == 1);
    boot::run(
        settings,
        RunOptions { origin, config, pid_file, stay, predecessor, says: None, warnings, new_keys },
    )
}

/// The file that was converted takes the place of apisix.yaml; there is no Admin API to change it behind its back.
fn serve_imported(
    from: &str,
    place: &Place,
    arguments: &Arguments,
    loaded: &mut Loaded,
) -> anyhow::Result<()> {
    let Loaded { settings, warnings, .. } = loaded;
    let target = settings.files.prefix.join("data").join("imported.yaml");
    let is_set = place.listen.is_some() || settings.places.has("apisix.node_listen");
    let placement =
        if is_set { Placement::Replaced(arguments.reading.stands_for()) } else { Placement::Written };
    let imported = import::prepare(from, &target, &arguments.reading, arguments.strict, placement)?;
    settings.files.resources_yaml = target;
    settings.provider = Provider::Yaml;
    settings.admin.listen = None;
    // Without a config.yaml nobody asked for HTTPS, and another gateway may be at its port.
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

/// Peers say who the client is only where somebody wrote down that they may: the defaults are those of APISIX.
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
    for trusted in [&mut settings.apisix.trusted_addresses, &mut settings.apisix.trusted_gateways] {
        trusted.get_or_insert_with(|| EVERYBODY.map(str::to_owned).to_vec());
    }
    if placement == Placement::Written {
        let all = |sockets: &BTreeSet<(IpAddr, u16)>| -> Vec<Listener> {
            // A socket for all addresses takes those of each, which conditions tell apart.
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
