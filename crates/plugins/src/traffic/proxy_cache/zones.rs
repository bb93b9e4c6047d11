//! The zones of config.yaml (`apisix.proxy_cache`), made when first asked for.

use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use rustc_hash::FxHashMap;
use serde_json::Value;
use tidegate_model::units;
use tidegate_plugin_api::host;

use super::{disk::Disk, entry::Stored, memory::Memory};

pub(super) struct Zones {
    zones: FxHashMap<String, Zone>,
    /// Of answers on disk that say nothing about how long they are fresh.
    pub(crate) default_ttl_seconds: f64,
}

#[derive(Clone)]
pub(crate) enum Zone {
    Memory(Arc<Memory>),
    Disk(Arc<Disk>),
}

/// `None` before the process is set up, and when config.yaml has no zones at all.
pub(super) fn zones() -> Option<&'static Zones> {
    static ZONES: OnceLock<Option<Zones>> = OnceLock::new();
    let host = host()?;
    let made = ZONES.get_or_init(|| {
        let settings = host.settings.pointer("/apisix/proxy_cache")?;
        Some(Zones::new(settings, &host.prefix))
    });
    made.as_ref()
}

impl Zones {
    fn new(settings: &Value, prefix: &std::path::Path) -> Zones {
        let mut zones = FxHashMap::default();
        for zone in settings.get("zones").and_then(Value::as_array).into_iter().flatten() {
            let text = |name: &str| zone.get(name).and_then(Value::as_str);
            let Some(name) = text("name") else { continue };
            let size = |name: &str, default: u64| zone.get(name).and_then(bytes).unwrap_or(default);
            let made = match text("disk_path") {
                Some(path) => {
                    let path: PathBuf = prefix.join(path);
                    let levels = text("cache_levels").unwrap_or("1:2");
                    Zone::Disk(Arc::new(Disk::new(path, levels, size("disk_size", 1 << 30))))
                }
                None => {
                    let capacity = usize::try_from(size("memory_size", 50 << 20)).unwrap_or(usize::MAX);
                    Zone::Memory(Arc::new(Memory::new(capacity)))
                }
            };
            zones.insert(name.to_owned(), made);
        }
        let ttl = settings.get("cache_ttl").and_then(seconds).unwrap_or(10.0);
        Zones { zones, default_ttl_seconds: ttl }
    }

    /// Name, capacity and free bytes of the zones in memory.
    pub(super) fn memory(&self) -> Vec<(String, usize, usize)> {
        let memory = |(name, zone): (&String, &Zone)| match zone {
            Zone::Memory(memory) => Some((name.clone(), memory.capacity(), memory.free())),
            Zone::Disk(_) => None,
        };
        let mut zones: Vec<_> = self.zones.iter().filter_map(memory).collect();
        zones.sort();
        zones
    }

    pub(super) fn get(&self, name: &str) -> Option<&Zone> {
        self.zones.get(name)
    }
}

/// As config.yaml's checks have taken it.
fn bytes(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| units::size(value.as_str()?))
}

fn seconds(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| units::duration(value.as_str()?).map(|time| time.as_secs_f64()))
}

impl Zone {
    pub(crate) fn is_memory(&self) -> bool {
        matches!(self, Zone::Memory(_))
    }

    /// As [`Zone::with_disk`], also when much waits.
    pub(crate) async fn surely_with_disk<T: Send + 'static>(
        disk: &Arc<Disk>,
        work: impl FnOnce(&Disk) -> T + Send + 'static,
    ) -> Option<T> {
        let disk = disk.clone();
        host()?.background.spawn_blocking(move || work(&disk)).await.ok()
    }

    /// Runs `work` with the disk on a thread that may block. `None` if too much waits for these threads.
    pub(crate) async fn with_disk<T: Send + 'static>(
        disk: &Arc<Disk>,
        work: impl FnOnce(&Disk) -> T + Send + 'static,
    ) -> Option<T> {
        let disk = disk.clone();
        tidegate_plugin_api::disk::run(move || work(&disk)).ok()?.await
    }
}

/// What both kinds of zones can do, for work that may block if the zone does.
pub(super) trait Store {
    fn load(&self, key: &[u8]) -> Option<Stored>;
    fn save(&self, key: &[u8], stored: Stored) -> Result<(), String>;
    fn delete(&self, key: &[u8]) -> bool;
}

impl Store for Memory {
    fn load(&self, key: &[u8]) -> Option<Stored> {
        self.get(key)
    }
    fn save(&self, key: &[u8], stored: Stored) -> Result<(), String> {
        if self.put(key, stored) { Ok(()) } else { Err("the response is larger than the zone".to_owned()) }
    }
    fn delete(&self, key: &[u8]) -> bool {
        self.remove(key)
    }
}

impl Store for Disk {
    fn load(&self, key: &[u8]) -> Option<Stored> {
        self.get(key)
    }
    fn save(&self, key: &[u8], stored: Stored) -> Result<(), String> {
        self.put(key, &stored).map_err(|error| error.to_string())
    }
    fn delete(&self, key: &[u8]) -> bool {
        self.remove(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn sizes_and_times_as_nginx_writes_them() {
        let sizes = [
            (json!("50m"), Some(50 << 20)),
            (json!("1G"), Some(1 << 30)),
            (json!(7), Some(7)),
            (json!("x"), None),
        ];
        for (value, expected) in sizes {
            assert_eq!(bytes(&value), expected, "{value}");
        }
        let times = [
            (json!("10s"), Some(10.0)),
            (json!("2m"), Some(120.0)),
            (json!(3), Some(3.0)),
            (json!("?"), None),
        ];
        for (value, expected) in times {
            assert_eq!(seconds(&value), expected, "{value}");
        }
    }

    #[test]
    fn zones_with_a_path_are_on_disk() {
        let settings = json!({ "zones": [{ "name": "d", "disk_path": "d" }, { "name": "m" }] });
        let zones = Zones::new(&settings, std::path::Path::new("/nowhere"));
        assert!(zones.get("m").is_some_and(Zone::is_memory));
        assert!(zones.get("d").is_some_and(|zone| !zone.is_memory()));
        assert!(zones.get("x").is_none());
    }
}
