//! What config.yaml has to say for converted routes to answer as the other gateway does: the defaults are APISIX's, which believe
//! more than nginx and Kong. `run --from` sets it by itself, `import` says what is missing.

use std::path::Path;

use tidegate_config::{
    Settings,
    settings::{HttpRouter, Nginx},
};
use tidegate_import::Source;

use crate::cli::place::SharedOptions;

/// A key of config.yaml on which the answers of converted routes depend.
struct Need {
    key: &'static str,
    /// As config.yaml has it.
    value: &'static str,
    without: &'static str,
    is_default: bool,
    is_met: fn(&Settings) -> bool,
    meet: fn(&mut Settings),
}

const REAL_IP_FROM: &str = "nginx_config.http.real_ip_from";

const ADDRESSES: Need = Need {
    key: REAL_IP_FROM,
    value: "[]",
    without: "a peer that it names, by default every one on this machine, chooses the client address that conditions, limits and logs see",
    is_default: false,
    is_met: |settings| believed(&settings.nginx).next().is_none(),
    // The operator may know a proxy in front.
    meet: |settings| {
        if !settings.places.is_set(REAL_IP_FROM) {
            settings.nginx.real_ip_from.clear();
        }
    },
};

const UNDERSCORES: Need = Need {
    key: "nginx_config.http.underscores_in_headers",
    value: "\"off\"",
    without: "names of headers with `_`, which nginx drops, count in conditions and reach upstreams",
    is_default: false,
    is_met: |settings| !settings.nginx.underscores_in_headers,
    // A file with another word for it is not served: the directive closes its block.
    meet: |settings| settings.nginx.underscores_in_headers = false,
};

const HOSTS_FIRST: Need = Need {
    key: "apisix.router.http",
    value: "radixtree_host_uri",
    without: "a longer path of another server counts before the host",
    is_default: true,
    is_met: |settings| settings.apisix.router == HttpRouter::HostUri,
    meet: |settings| settings.apisix.router = HttpRouter::HostUri,
};

const SLASHES: Need = Need {
    key: "apisix.match_uri_encoded_slash",
    value: "true",
    without: "`%2F` in a path is a slash, and may lead to a route with other plugins",
    is_default: false,
    is_met: |settings| settings.apisix.match_uri_encoded_slash,
    meet: |settings| settings.apisix.match_uri_encoded_slash = true,
};

fn of(source: Source) -> &'static [Need] {
    match source {
        Source::Nginx => &[ADDRESSES, UNDERSCORES, HOSTS_FIRST],
        Source::Kong => &[ADDRESSES, SLASHES, HOSTS_FIRST],
        Source::Hyperapi => &[ADDRESSES],
        Source::Apisix => &[],
    }
}

/// Networks whose word on the client's address is taken; `unix:` stands for no listener here.
fn believed(nginx: &Nginx) -> impl Iterator<Item = &str> {
    nginx.real_ip_from.iter().map(String::as_str).filter(|network| !network.starts_with("unix:"))
}

/// Whether config.yaml names the peers itself: nginx has `set_real_ip_from` in its file, the `trusted_ips` of Kong are elsewhere.
fn is_own_list(need: &Need, source: Source, settings: &Settings) -> bool {
    need.key == REAL_IP_FROM && source != Source::Nginx && settings.places.is_set(need.key)
}

/// As `run --from` serves; the lines say what config.yaml has besides the file.
pub(super) fn meet(source: Source, settings: &mut Settings) -> Vec<String> {
    for need in of(source) {
        (need.meet)(settings);
    }
    unmet(source, settings)
}

/// What this config.yaml has otherwise, a line for each.
fn unmet(source: Source, settings: &Settings) -> Vec<String> {
    let is_open = |need: &&Need| !(need.is_met)(settings) && !is_own_list(need, source, settings);
    let line = |need: &Need| {
        let Need { key, value, without, .. } = need;
        let message = match *key == REAL_IP_FROM {
            true => addresses(source, settings),
            false => format!("set {key}: {value}; else {without}"),
        };
        settings.places.message(key, &message)
    };
    of(source).iter().filter(is_open).map(line).collect()
}

fn addresses(source: Source, settings: &Settings) -> String {
    let Need { key, value, .. } = ADDRESSES;
    let peers = believed(&settings.nginx).collect::<Vec<_>>().join(", ");
    let is_set = settings.places.is_set(key);
    let what = match (is_set, source) {
        (true, _) => format!("{key} holds besides the `set_real_ip_from` of the nginx file"),
        (false, Source::Nginx) => format!("{key} is not set, and nginx believes only `set_real_ip_from`"),
        (false, _) => format!("{key} is not set, and the other gateway believes no peer"),
    };
    let header = &settings.nginx.real_ip_header;
    format!(
        "{what}: a request from {peers} names its client in {header}, and passes allow, deny and limits as anybody; set it to {value}"
    )
}

/// What the config.yaml of the gateway that gets the routes has to say.
pub(super) struct Needs {
    /// To print.
    pub(super) lines: Vec<String>,
    /// Whether that config.yaml is known, and has it otherwise.
    pub(super) differ: bool,
}

/// `settings`: those of the gateway, where it is known which one it is.
pub(super) fn missing(source: Source, file: &Path, settings: Option<&Settings>) -> Needs {
    if let Some(settings) = settings {
        let lines = unmet(source, settings);
        return Needs { differ: !lines.is_empty(), lines };
    }
    let line = |need: &Need| {
        let Need { key, value, without, .. } = need;
        format!("{}: set {key}: {value} in config.yaml of the gateway; else {without}", file.display())
    };
    let needed = of(source).iter().filter(|need| !need.is_default);
    Needs { lines: needed.map(line).collect(), differ: false }
}

/// The settings under which the routes will be served: of the gateway that is named, or whose conf/ they are written to.
pub(super) fn settings(place: &SharedOptions, to: Option<&Path>) -> anyhow::Result<Option<Settings>> {
    if place.is_named() {
        return Ok(Some(place.load_anywhere()?.settings));
    }
    let Some(folder) = to.map(std::path::absolute).transpose()?.and_then(|to| Some(to.parent()?.to_owned()))
    else {
        return Ok(None);
    };
    let beside = folder.join("config.yaml");
    match beside.is_file() {
        true => Ok(Some(place.load_of(folder.parent().unwrap_or(&folder), beside)?.settings)),
        false => Ok(None),
    }
}
