//! The configuration of registries: their schemas, which also fill in defaults.

use serde::de::DeserializeOwned;
use serde_json::Value;
use tidegate_model::{Schema, catalog::built_without};

const KINDS: [(&str, &str); 6] = [
    ("dns", include_str!("../schemas/dns.json")),
    ("consul", include_str!("../schemas/consul.json")),
    ("consul_kv", include_str!("../schemas/consul_kv.json")),
    ("nacos", include_str!("../schemas/nacos.json")),
    ("eureka", include_str!("../schemas/eureka.json")),
    ("kubernetes", include_str!("../schemas/kubernetes.json")),
];
const CLUSTERS: &str = include_str!("../schemas/kubernetes_clusters.json");

/// Checks `discovery` of config.yaml without starting anything.
pub fn check(conf: &Value) -> Result<(), String> {
    let registries = conf.as_object().into_iter().flatten().filter(|(_, conf)| !conf.is_null());
    for (kind, conf) in registries {
        checked(kind, conf)?;
    }
    Ok(())
}

/// The configuration of one registry with its defaults.
pub(crate) fn checked(kind: &str, conf: &Value) -> Result<Value, String> {
    let known = KINDS.iter().find(|(name, _)| *name == kind && !is_missing(name));
    let Some((_, schema)) = known else { return Err(not_supported(kind)) };
    // Several clusters are a list.
    let schema = if kind == "kubernetes" && conf.is_array() { CLUSTERS } else { schema };
    let schema: Value = serde_json::from_str(schema).map_err(|error| format!("schema of {kind}: {error}"))?;
    let schema = Schema::compile(&schema).map_err(|error| format!("schema of {kind}: {error}"))?;
    let mut conf = conf.clone();
    schema.check(&mut conf).map_err(|reason| format!("invalid discovery {kind} configuration: {reason}"))?;
    Ok(conf)
}

fn is_missing(kind: &str) -> bool {
    kind == "kubernetes" && !cfg!(feature = "kubernetes")
}

/// Why a registry cannot be followed.
pub(crate) fn not_supported(kind: &str) -> String {
    if is_missing(kind) {
        return format!("discovery.{kind}: {}", built_without("kubernetes"));
    }
    let names: Vec<&str> = KINDS.iter().map(|(name, _)| *name).filter(|name| !is_missing(name)).collect();
    format!("unknown registry discovery.{kind}; expected one of: {}", names.join(", "))
}

/// Reads a configuration that has passed its schema.
pub(crate) fn typed<T: DeserializeOwned>(kind: &str, conf: &Value) -> Result<T, String> {
    T::deserialize(conf).map_err(|error| format!("discovery.{kind}: {error}"))
}
