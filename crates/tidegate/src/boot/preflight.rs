//! What config.yaml names and the settings alone cannot show: plugins, files with certificates, cipher suites. Each
//! fault has the file, the line and the key.

use std::{env, fs, os::unix::fs::PermissionsExt, path::PathBuf};

use anyhow::anyhow;
use serde_json::Value;
use tidegate_config::{Loaded, Places, Provider, Settings};
use tidegate_model::{
    catalog::built_without,
    nearest::{hint, nearest},
};

use super::{
    access_log, labels,
    pem::{Fault, pair},
    stream_log,
};

const STREAM_LOG_FORMAT: &str = "nginx_config.stream.access_log_format";
const LOG_FORMAT: &str = "nginx_config.http.access_log_format";

/// The first fault that keeps the gateway from starting.
pub(crate) fn check(loaded: &Loaded) -> anyhow::Result<()> {
    let (settings, places) = (&loaded.settings, &loaded.settings.places);
    let fault = |(key, reason): Fault| anyhow!("{}", places.message(&key, &format!("{key}: {reason}")));
    for (kind, conf) in settings.discovery.as_object().into_iter().flatten() {
        let one = serde_json::Map::from_iter([(kind.clone(), conf.clone())]);
        tidegate_discovery::check(&one.into())
            .map_err(|reason| anyhow!("{}", places.message(&format!("discovery.{kind}"), &reason)))?;
    }
    provider(settings).map_err(fault)?;
    ciphers(settings).map_err(fault)?;
    authorities(settings).map_err(fault)?;
    etcd_pair(settings).map_err(fault)?;
    super::admin_tls::check(settings).map_err(fault)?;
    super::plugin_files::path(settings)?;
    super::plugin_files::wasm(settings)?;
    runner(settings).map_err(fault)?;
    labels::check(settings).map_err(fault)?;
    zones(settings).map_err(fault)?;
    access_log::unknown_variables(&settings.nginx.access_log.format)
        .map_err(|error| fault((LOG_FORMAT.into(), error.to_string())))?;
    stream_log::unknown_variables(&settings.nginx.stream_log.format)
        .map(|_| ())
        .map_err(|error| fault((STREAM_LOG_FORMAT.into(), error.to_string())))
}

/// As [`check`], for a start: a running gateway has the settings that a file has lost.
pub(crate) fn check_start(loaded: &Loaded) -> anyhow::Result<()> {
    match super::lost_config::emptied(&loaded.settings) {
        Some(why) => Err(anyhow!("{why}")),
        None => check(loaded),
    }
}

/// What starts nevertheless, ready to print.
pub(crate) fn warnings(loaded: &Loaded) -> Vec<String> {
    let settings = &loaded.settings;
    let absent = absent_plugins(settings, &settings.places);
    absent
        .into_iter()
        .chain(absent_stream_plugins(settings))
        .chain(unknown_variables(settings))
        .chain(unknown_in_stream_log(settings))
        .chain(labels::unknown_variables(settings))
        .chain(admin_key(settings))
        .chain(socket(settings))
        .chain(unread_resources(settings))
        .chain(absent_runner(settings))
        .chain(idle_ciphers(settings))
        .collect()
}

/// As [`warnings`], with those that a start says while it loads plugins from files: for a command that starts nothing itself.
pub(crate) fn warnings_of_files_too(loaded: &Loaded) -> Vec<String> {
    warnings(loaded).into_iter().chain(super::plugin_files::warnings(&loaded.settings)).collect()
}

/// A log of a misspelt variable shows `-` for ever.
fn unknown_variables(settings: &Settings) -> Option<String> {
    let log = &settings.nginx.access_log;
    let unknown = access_log::unknown_variables(&log.format).unwrap_or_default();
    if !log.enable || unknown.is_empty() {
        return None;
    }
    let text = format!(
        "{LOG_FORMAT}: unknown variable ${}; - is logged unless a Lua function sets it",
        unknown.join(" and $")
    );
    Some(settings.places.message(LOG_FORMAT, &text))
}

/// The same in the log of sessions.
fn unknown_in_stream_log(settings: &Settings) -> Option<String> {
    let log = &settings.nginx.stream_log;
    let unknown = stream_log::unknown_variables(&log.format).unwrap_or_default();
    if !settings.stream.enable || !log.enable || unknown.is_empty() {
        return None;
    }
    let text = format!("{STREAM_LOG_FORMAT}: unknown variable ${}; - is logged", unknown.join(" and $"));
    Some(settings.places.message(STREAM_LOG_FORMAT, &text))
}

/// A key file that cannot be used; one that is not there is made.
fn admin_key(settings: &Settings) -> Option<String> {
    settings
        .clone()
        .check_admin_keys()
        .err()
        .map(|problem| format!("{problem}; until then every request to the Admin API is answered 401"))
}

/// What is in the way of the socket that `upgrade` and `reload` ask.
fn socket(settings: &Settings) -> Option<String> {
    let path = super::commands::path(&settings.files.pid);
    path.is_dir().then(|| {
        format!(
            "{} is a folder: the verbs upgrade and reload do not work; remove it, and restart",
            path.display()
        )
    })
}

/// A program that cannot be started is tried again and again, and meanwhile its plugins refuse requests or do nothing.
fn absent_runner(settings: &Settings) -> Option<String> {
    let program = settings.raw.pointer("/ext-plugin/cmd/0")?.as_str()?;
    let candidates: Vec<PathBuf> = match program.contains('/') {
        true => vec![program.into()],
        false => env::split_paths(&env::var_os("PATH")?).map(|folder| folder.join(program)).collect(),
    };
    let is_program = |path: &PathBuf| {
        let mode =
            fs::metadata(path).ok().filter(fs::Metadata::is_file).map(|file| file.permissions().mode());
        mode.is_some_and(|mode| mode & 0o111 != 0)
    };
    if candidates.iter().any(is_program) {
        return None;
    }
    let place = if program.contains('/') { "" } else { " in any folder of PATH" };
    let text = format!(
        "ext-plugin.cmd: there is no program {program}{place}: no plugin runner starts until it is there and executable"
    );
    Some(settings.places.message("ext-plugin.cmd[0]", &text))
}

/// How the plugin runner is started, and where it is asked.
fn runner(settings: &Settings) -> Result<(), Fault> {
    let written = |name: &str| settings.raw.pointer("/ext-plugin")?.get(name);
    let command = written("cmd").and_then(Value::as_array);
    if command.is_some_and(|words| words.first().and_then(Value::as_str).is_none_or(str::is_empty)) {
        return Err((
            "ext-plugin.cmd".into(),
            "give the program and its arguments, or leave it out".to_owned(),
        ));
    }
    match written("path_for_test").and_then(Value::as_str) {
        Some(path) if !path.starts_with('/') => {
            let reason = format!("{path:?} is not the path of a socket; give one such as /tmp/runner.sock");
            Err(("ext-plugin.path_for_test".into(), reason))
        }
        _ => Ok(()),
    }
}

/// Caches on disk that config.yaml names need a folder that can be made and written; the default one is made when it is used.
fn zones(settings: &Settings) -> Result<(), Fault> {
    let asked_for = settings.places.has("apisix.proxy_cache.zones");
    if !asked_for || !settings.plugins.iter().any(|name| name == "proxy-cache") {
        return Ok(());
    }
    for (index, zone) in settings.apisix.cache_zones.iter().enumerate() {
        let Some(path) = &zone.disk_path else { continue };
        super::folders::writable_folder(&settings.below_prefix(path)).map_err(|error| {
            let key = format!("apisix.proxy_cache.zones[{index}].disk_path");
            let reason = format!(
                "zone {:?} cannot keep its responses in {path}: {error:#}; give it a folder",
                zone.name
            );
            (key.into(), reason)
        })?;
    }
    Ok(())
}

/// In API-driven mode a file with resources is easily taken for what is served.
fn unread_resources(settings: &Settings) -> Option<String> {
    if settings.provider != Provider::ApiDriven {
        return None;
    }
    let files = [&settings.files.resources_yaml, &settings.files.resources_json];
    let file = files.into_iter().find(|file| file.exists())?;
    let format = file.extension().map(|format| format.display().to_string()).unwrap_or_default();
    let text = format!(
        "{} is not read: with role traditional the configuration comes with PUT /apisix/admin/configs; to serve the file \
         set deployment.role: data_plane and deployment.role_data_plane.config_provider: {format}",
        file.display()
    );
    Some(settings.places.message("deployment.role_traditional.config_provider", &text))
}

/// One line for all names of the user's list that are not here: routes that use them are refused.
fn absent_plugins(settings: &Settings, places: &Places) -> Option<String> {
    let feature = |name: &str| {
        let mut missing = tidegate_plugins::registry::MISSING.iter();
        missing.find(|(plugin, _)| *plugin == name).map(|(_, feature)| *feature)
    };
    let absent: Vec<String> = absent_names(settings)
        .map(|name| match feature(name) {
            Some(feature) => format!("{name} (this build does not include feature {feature})"),
            None => match name {
                "gm" => "gm (the TLS library has neither SM2 nor NTLS)".to_owned(),
                "inspect" => "inspect (there is no Lua code of APISIX to set breakpoints in)".to_owned(),
                name => {
                    let known = tidegate_plugins::registry::PLUGINS.iter().map(|plugin| plugin.name);
                    nearest(name, known)
                        .map_or_else(|| name.to_owned(), |known| format!("{name} (did you mean {known}?)"))
                }
            },
        })
        .collect();
    if absent.is_empty() {
        return None;
    }
    let text = format!(
        "plugins: {} of {} are not available, and objects that use them are rejected: {}",
        absent.len(),
        settings.plugins.len(),
        absent.join(", ")
    );
    Some(places.message("plugins", &text))
}

/// Names of the list of plugins that no plugin has.
fn absent_names(settings: &Settings) -> impl Iterator<Item = &str> {
    let here = |name: &str| tidegate_plugins::registry::PLUGINS.iter().any(|plugin| plugin.name == name);
    let names = settings.plugins.iter().map(String::as_str);
    names.filter(move |name| !here(name) && !super::plugin_files::is_there(settings, name))
}

/// As [`absent_names`], of `stream_plugins`.
fn absent_stream_names(settings: &Settings) -> impl Iterator<Item = &str> {
    let here =
        |name: &&str| tidegate_plugins::registry::STREAM_PLUGINS.iter().any(|plugin| plugin.name == *name);
    let names = settings.stream.plugins.iter().filter(|_| settings.stream.enable).map(String::as_str);
    names.filter(move |name| !here(name))
}

/// The fault of a list that a running gateway reads again: a name that no plugin has, and that the list did not have before. What
/// a start warns of would shut places that are served.
pub(crate) fn new_absent_plugin(running: &Value, settings: &Settings) -> Option<String> {
    let absent = absent_names(settings).map(|name| ("plugins", name));
    let mut all = absent.chain(absent_stream_names(settings).map(|name| ("stream_plugins", name)));
    let listed = |key: &str| {
        running.get(key).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
    };
    let (key, name) = all.find(|(key, name)| !listed(key).any(|known| known == *name))?;
    let known = listed(key).chain(tidegate_plugins::registry::PLUGINS.iter().map(|plugin| plugin.name));
    let text = format!(
        "{key}: there is no plugin {name}{}; correct the list, or take it out (a restart would serve without it)",
        hint(name, known)
    );
    Some(settings.places.message(key, &text))
}

/// As [`absent_plugins`], of `stream_plugins`.
fn absent_stream_plugins(settings: &Settings) -> Option<String> {
    let meant = |name: &str| {
        let known = tidegate_plugins::registry::STREAM_PLUGINS.iter().map(|plugin| plugin.name);
        nearest(name, known)
            .map_or_else(|| name.to_owned(), |known| format!("{name} (did you mean {known}?)"))
    };
    let absent: Vec<String> = absent_stream_names(settings).map(meant).collect();
    if absent.is_empty() {
        return None;
    }
    let text = format!(
        "stream_plugins: {} of {} are not available, and stream routes that use them are rejected: {}",
        absent.len(),
        settings.stream.plugins.len(),
        absent.join(", ")
    );
    Some(settings.places.message("stream_plugins", &text))
}

fn provider(settings: &Settings) -> Result<(), Fault> {
    if settings.provider != Provider::Etcd || cfg!(feature = "etcd") {
        return Ok(());
    }
    let keys = ["role_traditional", "role_control_plane", "role_data_plane"];
    let mut keys = keys.map(|role| format!("deployment.{role}.config_provider")).into_iter();
    let key = keys.find(|key| settings.places.is_set(key)).unwrap_or_else(|| "deployment.role".to_owned());
    Err((key.into(), built_without("etcd")))
}

fn ciphers(settings: &Settings) -> Result<(), Fault> {
    let tls = &settings.apisix.tls;
    if !tls.enable || !tls.protocols.iter().any(|version| version == "TLSv1.2") {
        return Ok(());
    }
    tidegate_compiler::check_ciphers(&tls.ciphers).map_err(|reason| ("apisix.ssl.ssl_ciphers".into(), reason))
}

/// Suites that a list of the user names and no client gets.
fn idle_ciphers(settings: &Settings) -> Vec<String> {
    const KEY: &str = "apisix.ssl.ssl_ciphers";
    let tls = &settings.apisix.tls;
    let is_read = tls.enable && tls.protocols.iter().any(|version| version == "TLSv1.2");
    if !is_read || !settings.places.is_set(KEY) {
        return Vec::new();
    }
    let remarks = tidegate_compiler::cipher_remarks(&tls.ciphers).into_iter();
    remarks.map(|remark| settings.places.message(KEY, &format!("{KEY}: {remark}"))).collect()
}

fn authorities(settings: &Settings) -> Result<(), Fault> {
    let Some(setting) = &settings.apisix.tls.trusted_certificate else { return Ok(()) };
    tidegate_tls::Anchors::from_setting(setting, &settings.files.prefix)
        .map(|_| ())
        .map_err(|reason| ("apisix.ssl.ssl_trusted_certificate".into(), reason))
}

fn etcd_pair(settings: &Settings) -> Result<(), Fault> {
    let tls = &settings.etcd.tls;
    let (Some(certificate), Some(key)) = (&tls.cert, &tls.key) else { return Ok(()) };
    if settings.provider != Provider::Etcd {
        return Ok(());
    }
    pair(settings, ("deployment.etcd.tls.cert", certificate), ("deployment.etcd.tls.key", key)).map(|_| ())
}
