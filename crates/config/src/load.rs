//! From config.yaml to `Settings`.
//!
//! Order: read, put old keys in their new places, put variables in, check, merge over the defaults, apply what the
//! environment overrides, type, check what concerns several keys.

use std::{
    fmt, io,
    path::{Path, PathBuf},
    thread,
};

use serde_json::Value;

use crate::{
    admin_door, bounded,
    check::{self, Findings},
    environment::{self, Lookup},
    keys, legacy, merge,
    places::Places,
    rules,
    settings::{Files, Settings},
    yaml::{
        self,
        node::{Content, Fault, Node},
    },
};

/// Which configuration to load.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// The folder with conf/, logs/ and data/.
    pub prefix: PathBuf,
    /// In place of conf/config.yaml below the prefix.
    pub file: Option<PathBuf>,
    /// In place of `apisix.node_listen`: `9080` or `127.0.0.1:9080`.
    pub listen: Option<String>,
    /// The plugins that are on when the configuration has no list. Those of the program: this crate knows none.
    pub plugins: Vec<&'static str>,
}

/// A configuration that passed all checks.
#[derive(Debug)]
pub struct Loaded {
    /// The typed settings.
    pub settings: Settings,
    /// Ready to print: `conf/config.yaml:3:5: ...`.
    pub warnings: Vec<String>,
}

/// Why the configuration cannot be used: all reasons, ready to print.
#[derive(Debug)]
pub struct LoadError(pub Vec<String>);

impl std::error::Error for LoadError {}

impl fmt::Display for LoadError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0.join("\n"))
    }
}

/// What is to be known of settings as they are, also after changes; ready to print.
pub fn standing_warnings(settings: &Settings) -> Vec<String> {
    let all = rules::warnings(settings).into_iter().chain(admin_door::warnings(settings));
    all.map(|(key, message)| settings.places.message(&key, &message)).collect()
}

/// Loads with the environment of this process.
pub fn load(source: &Source) -> Result<Loaded, LoadError> {
    load_with(source, &environment::process)
}

/// As [`load`], with another environment.
pub fn load_with(source: &Source, lookup: Lookup) -> Result<Loaded, LoadError> {
    let files = files(source, lookup);
    let shown = files.config.display().to_string();
    let mut is_absent = false;
    let text = match bounded::read_text(&files.config) {
        Ok(text) => text,
        // Without a file all defaults hold; but a file that was asked for must be there.
        Err(error) if error.kind() == io::ErrorKind::NotFound && source.file.is_none() => {
            is_absent = files.config.symlink_metadata().is_err();
            String::new()
        }
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            return Err(LoadError(vec![no_utf8(&files.config, &shown)]));
        }
        Err(error) => return Err(LoadError(vec![format!("cannot read {shown}: {error}")])),
    };
    let at = |fault: &Fault| format!("{shown}:{fault}");
    let (root, found, holds_nothing) = parse(&text, lookup).map_err(|fault| LoadError(vec![at(&fault)]))?;
    let mut warnings: Vec<String> = found.warnings.iter().map(at).collect();
    if is_absent {
        warnings
            .push(format!("{shown} does not exist: the defaults take effect; `tidegate init` writes one"));
    }
    if !found.errors.is_empty() {
        return Err(LoadError(found.errors.iter().map(at).collect()));
    }
    let places = Places::of(&root, &shown).emptied(holds_nothing && !is_absent);
    let mut raw = keys::defaults();
    keys::set(&mut raw, "plugins", source.plugins.as_slice().into());
    if places.is_emptied() {
        warnings.push(format!(
            "{shown} is empty: the defaults take effect; write {{}} into it to say so, else a start is refused once the gateway has been in use"
        ));
    }
    merge::merge(&mut raw, root.into_value());
    override_by_environment(&mut raw, &places, lookup).map_err(|message| LoadError(vec![message]))?;
    if let Some(listen) = &source.listen {
        keys::set(
            &mut raw,
            "apisix.node_listen",
            listen_value(listen).map_err(|message| LoadError(vec![message]))?,
        );
    }
    choose_etcd(&mut raw, &places, lookup);
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let mut settings = Settings::new(raw, files, cores);
    settings.apisix.tls.listen_is_set = places.has("apisix.ssl.listen");
    settings.places = places;
    let told = |(key, message): (String, String)| settings.places.message(&key, &message);
    let refusals: Vec<String> = rules::refusals(&settings).into_iter().map(told).collect();
    if !refusals.is_empty() {
        return Err(LoadError(refusals));
    }
    warnings.extend(standing_warnings(&settings));
    Ok(Loaded { settings, warnings })
}

/// The message about the first byte that is not UTF-8.
fn no_utf8(path: &Path, shown: &str) -> String {
    let bytes = bounded::read(path).unwrap_or_default();
    let good = bytes.utf8_chunks().next().map(|chunk| chunk.valid()).unwrap_or_default();
    let line = good.matches('\n').count() + 1;
    let column = good.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    format!("{shown}:{line}:{column}: this is not UTF-8; save the file in UTF-8")
}

/// The checked tree, and whether the file holds nothing, which is an empty table.
fn parse(text: &str, lookup: Lookup) -> Result<(Node, Findings, bool), Fault> {
    let mut root = yaml::parse(text)?;
    let holds_nothing = root.is_null();
    if holds_nothing {
        root.content = Content::Map(Vec::new());
    }
    let mut found = Findings::default();
    environment::substitute_node(&mut root, lookup)?;
    legacy::modernise(&mut root, &mut found.warnings);
    check::document(&mut root, &mut found);
    Ok((root, found, holds_nothing))
}

fn files(source: &Source, lookup: Lookup) -> Files {
    let profile =
        lookup("TIDEGATE_PROFILE").or_else(|| lookup("APISIX_PROFILE")).filter(|name| !name.is_empty());
    let suffix = profile.map(|name| format!("-{name}")).unwrap_or_default();
    let prefix = &source.prefix;
    let conf = prefix.join("conf");
    Files {
        config: source.file.clone().unwrap_or_else(|| conf.join(format!("config{suffix}.yaml"))),
        resources_yaml: conf.join(format!("apisix{suffix}.yaml")),
        resources_json: conf.join(format!("apisix{suffix}.json")),
        database: prefix.join("data").join("tidegate.redb"),
        logs: prefix.join("logs"),
        pid: prefix.join("logs").join("tidegate.pid"),
        prefix: prefix.clone(),
    }
}

/// Variables that override keys, as in APISIX and its container image.
fn override_by_environment(raw: &mut Value, places: &Places, lookup: Lookup) -> Result<(), String> {
    if let Some(hosts) = lookup("APISIX_DEPLOYMENT_ETCD_HOST") {
        // The error of the parser would quote an address, which may carry a password.
        let hosts: Vec<String> = serde_json::from_str(&hosts).map_err(|_| {
            "environment variable APISIX_DEPLOYMENT_ETCD_HOST should be a JSON list of addresses, like \
             [\"http://127.0.0.1:2379\"]"
                .to_owned()
        })?;
        keys::set(raw, "deployment.etcd.host", hosts.into());
    }
    if let Some(workers) = lookup("APISIX_WORKER_PROCESSES") {
        let value = match workers.parse::<u64>() {
            Ok(workers) if workers > 0 => workers.into(),
            _ if workers == "auto" => "auto".into(),
            _ => {
                return Err("environment variable APISIX_WORKER_PROCESSES should be auto or a number from 1"
                    .to_owned());
            }
        };
        keys::set(raw, "nginx_config.worker_processes", value);
    }
    if let Some(spans) = lookup("OTEL_BSP_MAX_EXPORT_BATCH_SIZE").and_then(|spans| spans.parse::<u64>().ok())
        && !places.has("plugin_attr.opentelemetry.batch_span_processor.max_export_batch_size")
    {
        keys::set(raw, "plugin_attr.opentelemetry.batch_span_processor.max_export_batch_size", spans.into());
    }
    // The container image then writes such a config.yaml itself, unless there is one.
    if lookup("APISIX_STAND_ALONE").as_deref() == Some("true") && !places.has("deployment.role") {
        keys::set(raw, "deployment.role", "data_plane".into());
        if !places.has("deployment.role_data_plane.config_provider") {
            keys::set(raw, "deployment.role_data_plane.config_provider", "yaml".into());
        }
    }
    Ok(())
}

/// A configuration that names an etcd and no provider means that etcd, as in APISIX; without either, nothing
/// but this process is needed.
fn choose_etcd(raw: &mut Value, places: &Places, lookup: Lookup) {
    let named = places.has("deployment.etcd.host") || lookup("APISIX_DEPLOYMENT_ETCD_HOST").is_some();
    let role = raw.pointer("/deployment/role").and_then(Value::as_str).unwrap_or("traditional");
    let section = match role {
        "traditional" | "control_plane" | "data_plane" => format!("deployment.role_{role}.config_provider"),
        _ => return,
    };
    if named && !places.has(&section) {
        keys::set(raw, &section, "etcd".into());
    }
}

fn listen_value(listen: &str) -> Result<Value, String> {
    let (ip, port) = match listen.rsplit_once(':') {
        Some((ip, port)) => (Some(ip), port),
        None => (None, listen),
    };
    match (port.parse::<u16>(), ip) {
        (Ok(port), Some(ip)) if port > 0 && keys::forms::listen_ip(ip).is_some() => {
            Ok(serde_json::json!([{"ip": ip, "port": port}]))
        }
        (Ok(port), None) if port > 0 => Ok(serde_json::json!([port])),
        _ => Err(format!("invalid listen address {listen:?}; give a port or an address like 127.0.0.1:9080")),
    }
}

#[cfg(test)]
#[path = "load/tests.rs"]
mod tests;
