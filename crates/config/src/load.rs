//! From config.yaml to `Settings`.
//!
//! Order: read, put old keys in their new places, put variables in, check, merge over the defaults, apply what the
//! environment overrides, type, check what concerns several keys.

use std::{collections::HashMap, fmt, fs, io, path::PathBuf, thread};

use serde_json::Value;

use crate::{
    admin_door,
    check::{self, Findings},
    environment::{self, Lookup},
    keys, legacy, merge, ports,
    settings::{AdminKey, AdminRole, Files, Provider, Role, Settings},
    yaml::{self, Content, Fault, Node},
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
}

#[derive(Debug)]
pub struct Loaded {
    pub settings: Settings,
    /// Ready to print: `conf/config.yaml:3:5: ...`.
    pub warnings: Vec<String>,
    /// Where the file has what, for messages of whoever finds more faults in it.
    pub places: Places,
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

/// Loads with the environment of this process.
pub fn load(source: &Source) -> Result<Loaded, LoadError> {
    load_with(source, &environment::process)
}

pub fn load_with(source: &Source, lookup: Lookup) -> Result<Loaded, LoadError> {
    let files = files(source, lookup);
    let shown = files.config.display().to_string();
    let text = match fs::read_to_string(&files.config) {
        Ok(text) => text,
        // Without a file all defaults hold; but a file that was asked for must be there.
        Err(error) if error.kind() == io::ErrorKind::NotFound && source.file.is_none() => String::new(),
        Err(error) => return Err(LoadError(vec![format!("cannot read {shown}: {error}")])),
    };
    let at = |fault: &Fault| format!("{shown}:{fault}");
    let (root, found) = parse(&text, lookup).map_err(|fault| LoadError(vec![at(&fault)]))?;
    let mut warnings: Vec<String> = found.warnings.iter().map(at).collect();
    if !found.errors.is_empty() {
        return Err(LoadError(found.errors.iter().map(at).collect()));
    }
    let places = Places::of(&root, &shown);
    let mut raw = keys::defaults();
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
    let faults = across(&settings, &places);
    if !faults.is_empty() {
        return Err(LoadError(faults.iter().map(at).collect()));
    }
    let doors = admin_door::warnings(&settings);
    warnings.extend(doors.into_iter().map(|(key, message)| at(&places.fault(&key, message))));
    Ok(Loaded { settings, warnings, places })
}

/// The checked tree; an empty file is an empty table.
fn parse(text: &str, lookup: Lookup) -> Result<(Node, Findings), Fault> {
    let mut document = yaml::parse(text)?;
    if document.root.is_null() {
        document.root.content = Content::Map(Vec::new());
    }
    let mut found = Findings { warnings: document.notes, ..Findings::default() };
    environment::substitute_node(&mut document.root, lookup)?;
    legacy::modernise(&mut document.root, &mut found.warnings);
    check::document(&mut document.root, &mut found);
    Ok((document.root, found))
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
        let hosts: Vec<String> = serde_json::from_str(&hosts).map_err(|error| {
            format!(
                "environment variable APISIX_DEPLOYMENT_ETCD_HOST should be a JSON list of addresses: {error}"
            )
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

/// Who names an etcd and no provider wants that etcd, as APISIX would take it; without either nothing but this
/// process is needed.
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
        (Ok(port), Some(ip)) if port > 0 => Ok(serde_json::json!([{"ip": ip, "port": port}])),
        (Ok(port), None) if port > 0 => Ok(serde_json::json!([port])),
        _ => Err(format!("cannot listen at {listen:?}; give a port or an address like 127.0.0.1:9080")),
    }
}

/// What concerns several keys at once.
fn across(settings: &Settings, places: &Places) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut fault = |key: &str, message: String| faults.push(places.fault(key, message));
    for (key, message) in ports::conflicts(settings) {
        fault(key, message);
    }
    if settings.role == Role::DataPlane && settings.provider == Provider::Embedded {
        let key = "deployment.role_data_plane.config_provider";
        if settings.raw.pointer("/deployment/role_data_plane/config_provider").is_none() {
            fault("deployment.role", format!("role data_plane needs {key}; name etcd, yaml or json"));
        }
    }
    let admin = &settings.admin;
    if admin.listen.is_some()
        && admin.https
        && (admin.certificate.is_none() || admin.certificate_key.is_none())
    {
        let message = "https_admin needs admin_api_mtls.admin_ssl_cert and admin_api_mtls.admin_ssl_cert_key";
        fault("deployment.admin.https_admin", message.to_owned());
    }
    for role in [AdminRole::Admin, AdminRole::Viewer] {
        let generated = |key: &&AdminKey| key.role == role && key.is_generated();
        if admin.access.keys().iter().filter(generated).count() > 1 {
            let message = "one key of each role can be generated; give the other entries a key";
            fault("deployment.admin.admin_key", message.to_owned());
        }
    }
    if settings.apisix.data_encryption.keyring.iter().any(|key| !matches!(key.len(), 16 | 32)) {
        fault("apisix.data_encryption.keyring", "each key should have 16 or 32 letters".to_owned());
    }
    if settings.provider == Provider::Etcd {
        let hosts = &settings.etcd.hosts;
        if hosts.is_empty()
            || !hosts.iter().all(|host| host.starts_with("http://") || host.starts_with("https://"))
        {
            let message = "each address should begin with http:// or https://, and one at least is needed";
            fault("deployment.etcd.host", message.to_owned());
        }
    }
    faults
}

/// Where the user wrote what: `apisix.node_listen[0].port` to line and column of the value.
#[derive(Debug)]
pub struct Places {
    file: String,
    places: HashMap<String, (usize, usize)>,
}

impl Places {
    fn of(root: &Node, file: &str) -> Self {
        let mut places = Self { file: file.to_owned(), places: HashMap::new() };
        places.walk(root, "");
        places
    }

    fn walk(&mut self, node: &Node, path: &str) {
        self.places.insert(path.to_owned(), (node.line, node.column));
        match &node.content {
            Content::Scalar { .. } => {}
            Content::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.walk(item, &format!("{path}[{index}]"));
                }
            }
            Content::Map(entries) => {
                for entry in entries {
                    let separator = if path.is_empty() { "" } else { "." };
                    self.walk(&entry.value, &format!("{path}{separator}{}", entry.key));
                }
            }
        }
    }

    /// `conf/config.yaml:3:5: MESSAGE`, for a key that is wrong in a way only others can see.
    pub fn message(&self, key: &str, message: &str) -> String {
        match self.fault(key, message.to_owned()) {
            // The root: the file has nothing of it.
            fault if (fault.line, fault.column) == (1, 1) => format!("{}: {message}", self.file),
            fault => format!("{}:{fault}", self.file),
        }
    }

    /// Whether the file has this key.
    pub fn has(&self, path: &str) -> bool {
        self.places.contains_key(path)
    }

    fn get(&self, path: &str) -> Option<(usize, usize)> {
        self.places.get(path).copied()
    }

    /// At the key, or at the nearest table above it that the file has.
    fn fault(&self, path: &str, message: String) -> Fault {
        let mut above = path;
        loop {
            if let Some((line, column)) = self.get(above) {
                return Fault { line, column, message };
            }
            above = above.rsplit_once('.').map_or("", |(above, _)| above);
        }
    }
}

#[cfg(test)]
#[path = "load/tests.rs"]
mod tests;
