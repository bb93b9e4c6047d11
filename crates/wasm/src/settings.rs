//! Section `wasm` of config.yaml.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::Value;
use tidegate_model::units;

/// When `proxy_on_request_headers` runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RequestPhase {
    /// Phase `access`, behind authentication.
    #[default]
    Access,
    /// Phase `rewrite`.
    Rewrite,
}

/// One of `wasm.plugins`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WasmPlugin {
    /// The key under `plugins` of routes.
    pub name: String,
    /// Plugins run from the highest to the lowest.
    pub priority: i64,
    /// The module; relative ones begin at the prefix.
    pub file: PathBuf,
    /// `http_request_phase`
    pub phase: RequestPhase,
    /// `process_bodies`: callbacks for bodies and trailers run without being asked for.
    pub process_bodies: bool,
}

/// All of the section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WasmSettings {
    /// By name.
    pub plugins: Vec<WasmPlugin>,
    /// How long one callback may compute.
    pub time_limit: Duration,
    /// Bytes of one instance.
    pub instance_memory: usize,
    /// Bytes of all instances.
    pub memory: usize,
}

const DEFAULT_TIME: Duration = Duration::from_millis(50);
const DEFAULT_INSTANCE: usize = 64 << 20;
const DEFAULT_ALL: usize = 512 << 20;

impl WasmSettings {
    /// Reads the section of a whole config.yaml. The error names the key.
    pub fn of(config: &Value, prefix: &Path) -> Result<WasmSettings, String> {
        let section = config.get("wasm").unwrap_or(&Value::Null);
        let number = |name: &str| section.get(name).and_then(Value::as_u64);
        let size = |name: &str| match section.get(name)? {
            Value::String(text) => units::size(text),
            number => number.as_u64(),
        };
        let bytes = |name: &str| size(name).and_then(|bytes| usize::try_from(bytes).ok());
        let list = section.get("plugins").and_then(Value::as_array);
        let mut plugins: Vec<WasmPlugin> = Vec::new();
        for (at, entry) in list.into_iter().flatten().enumerate() {
            let plugin = plugin(entry, prefix).map_err(|reason| format!("wasm.plugins[{at}]: {reason}"))?;
            if plugins.iter().any(|other| other.name == plugin.name) {
                return Err(format!(
                    "wasm.plugins[{at}]: the name {} is taken by another plugin",
                    plugin.name
                ));
            }
            plugins.push(plugin);
        }
        Ok(WasmSettings {
            plugins,
            time_limit: number("time_limit_ms").map_or(DEFAULT_TIME, Duration::from_millis),
            instance_memory: bytes("instance_memory").unwrap_or(DEFAULT_INSTANCE),
            memory: bytes("memory").unwrap_or(DEFAULT_ALL),
        })
    }
}

/// The messages for what is missing are APISIX's.
fn plugin(entry: &Value, prefix: &Path) -> Result<WasmPlugin, String> {
    let text = |name: &str| -> Result<&str, String> {
        match entry.get(name) {
            None => Err(format!("property \"{name}\" is required")),
            Some(value) => value
                .as_str()
                .filter(|text| !text.is_empty())
                .ok_or_else(|| format!("property \"{name}\" should be a text")),
        }
    };
    let (name, file) = (text("name")?, text("file")?);
    let priority = match entry.get("priority") {
        None => return Err("property \"priority\" is required".to_owned()),
        Some(value) => value.as_i64().ok_or("property \"priority\" should be an integer")?,
    };
    let phase = match entry.get("http_request_phase").map(Value::as_str) {
        None | Some(Some("access")) => RequestPhase::Access,
        Some(Some("rewrite")) => RequestPhase::Rewrite,
        Some(_) => return Err("http_request_phase should be access or rewrite".to_owned()),
    };
    let process_bodies = match entry.get("process_bodies") {
        None => false,
        Some(value) => value.as_bool().ok_or("process_bodies should be true or false")?,
    };
    let known = ["name", "priority", "file", "http_request_phase", "process_bodies"];
    if let Some(other) = entry
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, _)| name)
        .find(|name| !known.contains(&name.as_str()))
    {
        return Err(format!("{other} is unknown; the keys are {}", known.join(", ")));
    }
    Ok(WasmPlugin { name: name.to_owned(), priority, file: prefix.join(file), phase, process_bodies })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_plugin_has_to_say() {
        let check = |entry: Value, fault: &str| {
            let found = WasmSettings::of(&json!({"wasm": {"plugins": [entry]}}), Path::new("/p"));
            assert_eq!(found.expect_err("a fault"), fault);
        };
        check(json!({"priority": 1, "file": "f"}), "wasm.plugins[0]: property \"name\" is required");
        check(json!({"name": "a", "file": "f"}), "wasm.plugins[0]: property \"priority\" is required");
        check(json!({"name": "a", "priority": 1}), "wasm.plugins[0]: property \"file\" is required");
        check(
            json!({"name": "a", "priority": 1, "file": "f", "http_request_phase": "log"}),
            "wasm.plugins[0]: http_request_phase should be access or rewrite",
        );
        let settings = WasmSettings::of(
            &json!({"wasm": {"time_limit_ms": 20, "plugins": [
                {"name": "a", "priority": 1, "file": "f.wasm", "http_request_phase": "rewrite"}]}}),
            Path::new("/p"),
        );
        let settings = settings.expect("settings");
        assert_eq!(settings.time_limit, Duration::from_millis(20));
        let [plugin] = &settings.plugins[..] else { panic!("one plugin") };
        assert_eq!((plugin.file.as_path(), plugin.phase), (Path::new("/p/f.wasm"), RequestPhase::Rewrite));
    }

    #[test]
    fn a_gateway_without_the_section_has_no_plugins() {
        let settings = WasmSettings::of(&json!({}), Path::new("/p")).expect("settings");
        assert!(settings.plugins.is_empty());
        assert_eq!(settings.time_limit, DEFAULT_TIME);
    }
}
