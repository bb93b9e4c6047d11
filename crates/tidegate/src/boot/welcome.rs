//! What a user sees first: where things are, and one command to try.

use std::{
    env,
    io::{self, IsTerminal},
    net::SocketAddr,
    path::{Path, PathBuf},
};

use tidegate_config::{
    Provider, Role, Settings,
    settings::{Access, AdminKey},
};
use tidegate_proxy::settings::Listen;
use tidegate_store::LastGoodState;
use tidegate_telemetry::error_log::{self, Level};

const EXAMPLE: &str = r#""uri":"/hello","plugins":{"mocking":{"content_type":"text/plain","response_example":"hello from tidegate\n"}}"#;
/// Without the plugin of the example: `tidegate echo` listens there.
const PLAIN_EXAMPLE: &str = r#""uri":"/*","upstream":{"nodes":{"127.0.0.1:1980":1}}"#;

/// What is open, and what is not.
pub(crate) struct Doors<'a> {
    pub settings: &'a Settings,
    pub listening: &'a [Listen],
    /// Why there is no HTTPS although it is on.
    pub without_tls: Option<&'a str>,
    pub control: Option<SocketAddr>,
    /// The store's file, where this start has made it.
    pub new_store: Option<&'a Path>,
    /// What is served in place of a store that is damaged.
    pub last_good: Option<&'a LastGoodState>,
    /// Whether a route of the example would work.
    pub has_mocking: bool,
    /// Key files that this start has made: their key is shown once.
    pub new_keys: &'a [PathBuf],
    /// How many routes there are.
    pub routes: usize,
    pub stream_routes: usize,
}

pub(crate) fn print(doors: &Doors) {
    crate::say::say!("tidegate {}", env!("CARGO_PKG_VERSION"));
    if doors.settings.role != Role::ControlPlane {
        crate::say::say!("  proxy       {}", urls(doors.listening));
    }
    if let Some(problem) = doors.without_tls {
        crate::say::say!("  HTTPS       not served: {problem}");
    }
    if let Some(path) = doors.new_store {
        crate::say::say!("  store       new and empty: {}", shown(path));
    }
    if let Some(state) = doors.last_good {
        crate::say::say!("  store       DAMAGED; read-only from {}: {}", shown(&state.copy), state.lag);
    }
    if let Some(base) = admin_url(doors.settings) {
        crate::say::say!("  admin API   {base}");
        crate::say::say!("  admin key   {}", key_words(doors));
    } else if let Some(file) = resource_file(doors.settings) {
        crate::say::say!("  routes      {}; changes take effect within a second", shown(file));
    }
    if is_empty(doors) {
        crate::say::say!("  routes      none: every request is answered 404");
        let (how, lines) = add_route(doors.settings, doors.has_mocking);
        // Lines of a shell command become one.
        let line = lines.join(" ").replace("\\ ", "");
        error_log::log(Level::Warn, format_args!("{NO_ROUTE}; {how} {line}"));
    }
    let calls = calls(doors);
    if !calls.is_empty() {
        crate::say::say!("\nTry it:\n  {}\n", calls.join("\n  "));
    }
}

/// What clients of an empty gateway get.
pub(crate) const NO_ROUTE: &str = "there is no route: every request is answered 404";

fn is_empty(doors: &Doors) -> bool {
    doors.routes + doors.stream_routes == 0 && doors.settings.role != Role::ControlPlane
}

/// How to add a first route, and the lines of a command or of the file for it.
pub(crate) fn add_route(settings: &Settings, has_mocking: bool) -> (String, Vec<String>) {
    let example = if has_mocking { EXAMPLE } else { PLAIN_EXAMPLE };
    if let (Some(base), Some(header)) = (admin_url(settings), header(settings)) {
        let curl = curl(settings);
        let (path, body) = match settings.provider {
            Provider::ApiDriven => (
                format!("configs{header} -H 'X-Digest: 1'"),
                format!("{{\"routes\":[{{\"id\":\"1\",{example}}}]}}"),
            ),
            _ => (format!("routes/1{header}"), format!("{{{example}}}")),
        };
        let lines = vec![format!("{curl} {base}/{path} -X PUT \\"), format!("  -d '{body}'")];
        return ("add one:".to_owned(), lines);
    }
    match resource_file(settings) {
        Some(file) => (
            format!("add one to {}, above #END:", shown(file)),
            vec![format!("routes: [{{\"id\":\"1\",{example}}}]")],
        ),
        None => ("add one".to_owned(), vec!["through the Admin API, with a key that may write".to_owned()]),
    }
}

/// With what the Admin API asks of a TLS client.
fn curl(settings: &Settings) -> String {
    let admin = &settings.admin;
    let mut curl = "curl".to_owned();
    if admin.https {
        curl.push_str(" -k");
    }
    if admin.https && admin.client_ca.is_some() {
        curl.push_str(" --cert CERTIFICATE --key KEY");
    }
    curl
}

/// Where the key is. Never the key itself, except one that was made just now, and that to a person only.
fn key_words(doors: &Doors) -> String {
    let Access::Keys(keys) = &doors.settings.admin.access else {
        return "not required".to_owned();
    };
    if keys.is_empty() {
        return "none: every request is answered 401".to_owned();
    }
    let Some(key) = doors.settings.admin.access.admin_key() else {
        return format!("in {}, read-only", shown(&doors.settings.files.config));
    };
    let path = doors.settings.files.admin_key(key.role);
    match (key.value(), key.is_generated()) {
        (_, false) => format!("in {}", shown(&doors.settings.files.config)),
        (None, true) => "none: every request is answered 401".to_owned(),
        (Some(value), true) if doors.new_keys.contains(&path) && io::stdout().is_terminal() => {
            format!("{value}  (generated, kept in {}; not shown again)", shown(&path))
        }
        (Some(_), true) => format!("in {}", shown(&path)),
    }
}

/// Commands that work in the mode that runs.
fn calls(doors: &Doors) -> Vec<String> {
    let settings = doors.settings;
    let hello = proxy_url(doors.listening).map(|url| format!("curl {url}/hello"));
    let Some(base) = admin_url(settings) else {
        return doors.control.map(|address| format!("curl http://{address}/v1/routes")).into_iter().collect();
    };
    let Some(header) = header(settings) else { return Vec::new() };
    let curl = curl(settings);
    match hello.filter(|_| doors.has_mocking && settings.role != Role::ControlPlane) {
        Some(hello) => add_route(settings, true).1.into_iter().chain([hello]).collect(),
        None if settings.provider == Provider::ApiDriven => vec![format!("{curl} {base}/configs{header}")],
        None => vec![format!("{curl} {base}/routes{header}")],
    }
}

/// ` -H ...` with a key that may write; `None` where there is none.
fn header(settings: &Settings) -> Option<String> {
    let Access::Keys(_) = &settings.admin.access else { return Some(String::new()) };
    let key: &AdminKey = settings.admin.access.admin_key().filter(|key| key.value().is_some())?;
    Some(if key.is_generated() {
        let path = quoted(&shown(&settings.files.admin_key(key.role)));
        format!(" -H \"X-API-KEY: $(cat {path})\"")
    } else {
        " -H \"X-API-KEY: $ADMIN_KEY\"".to_owned()
    })
}

fn admin_url(settings: &Settings) -> Option<String> {
    let listener = settings.admin.listen.as_ref()?;
    let scheme = if settings.admin.https { "https" } else { "http" };
    Some(format!("{scheme}://{}:{}/apisix/admin", reached_at(&listener.ip), listener.port))
}

fn resource_file(settings: &Settings) -> Option<&Path> {
    match settings.provider {
        Provider::Yaml => Some(&settings.files.resources_yaml),
        Provider::Json => Some(&settings.files.resources_json),
        Provider::Embedded | Provider::Etcd | Provider::ApiDriven => None,
    }
}

/// A port for plain HTTP that takes requests from any client.
fn proxy_url(listening: &[Listen]) -> Option<String> {
    let plain =
        listening.iter().find(|listen| listen.stream.is_none() && !listen.tls && !listen.proxy_protocol)?;
    Some(format!("http://{}:{}", reached_at(&plain.address.ip().to_string()), plain.address.port()))
}

/// An address to connect to, for one to listen on.
fn reached_at(ip: &str) -> String {
    match ip {
        "0.0.0.0" => "127.0.0.1".to_owned(),
        "::" => "[::1]".to_owned(),
        ip if ip.contains(':') => format!("[{ip}]"),
        ip => ip.to_owned(),
    }
}

/// A path as the user would write it.
pub(crate) fn shown(path: &Path) -> String {
    let here = env::current_dir().ok();
    let below = here.as_ref().and_then(|here| path.strip_prefix(here).ok());
    below.unwrap_or(path).display().to_string()
}

/// For a shell, within double quotes.
fn quoted(path: &str) -> String {
    let plain = |letter: char| letter.is_alphanumeric() || "/._-+,@:".contains(letter);
    if path.chars().all(plain) { path.to_owned() } else { format!("'{}'", path.replace('\'', r"'\''")) }
}

fn urls(listening: &[Listen]) -> String {
    let scheme = |listen: &Listen| match (listen.stream, listen.tls) {
        (None, false) => "http",
        (None, true) => "https",
        (Some(_), _) if listen.is_udp() => "udp",
        (Some(_), false) => "tcp",
        (Some(_), true) => "tls",
    };
    let urls: Vec<String> =
        listening.iter().map(|listen| format!("{}://{}", scheme(listen), listen.address)).collect();
    urls.join("  ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listen(address: &str, tls: bool) -> Listen {
        Listen {
            address: address.parse().unwrap(),
            tls,
            proxy_protocol: false,
            optional: false,
            stream: None,
        }
    }

    #[test]
    fn ports_with_tls_are_shown_as_such() {
        let listening = [listen("0.0.0.0:9080", false), listen("[::]:9443", true)];
        assert_eq!(urls(&listening), "http://0.0.0.0:9080  https://[::]:9443");
        assert_eq!(proxy_url(&listening).as_deref(), Some("http://127.0.0.1:9080"));
        assert_eq!(proxy_url(&listening[1..]), None);
        assert_eq!(proxy_url(&[listen("[::]:80", false)]).as_deref(), Some("http://[::1]:80"));
    }

    #[test]
    fn paths_survive_a_shell() {
        assert_eq!(quoted("run/data/admin.key"), "run/data/admin.key");
        assert_eq!(quoted("my run/$HOME's"), r"'my run/$HOME'\''s'");
    }
}
