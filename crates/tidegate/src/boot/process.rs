//! What a process has once.

use std::sync::Arc;

use tidegate_config::{Provider, Settings};
use tidegate_plugin_api::{Catalog, Host};

use super::{body_memory, control, data_plane, logs, metrics};

/// A start that fails ends the compiler, too, before the runtime that it waits on.
pub(super) struct StopCompiler(pub(super) Arc<control::Control>);

impl Drop for StopCompiler {
    fn drop(&mut self) {
        self.0.stop();
    }
}

pub(super) fn install_host(
    settings: &Settings,
    runtime: &tokio::runtime::Runtime,
    catalog: &Arc<Catalog>,
    metrics: &Arc<metrics::Metrics>,
    logs: &logs::Logs,
) {
    body_memory::install(settings);
    tidegate_clients::batch::memory::set_limit(
        usize::try_from(settings.apisix.log_memory_bytes).unwrap_or(usize::MAX),
    );
    metrics.set_logs(logs);
    let (text, counts) = (metrics.clone(), metrics.clone());
    Host {
        background: runtime.handle().clone(),
        catalog: catalog.clone(),
        metrics: metrics.registry.clone(),
        log_writer: logs.writer.clone(),
        metrics_page: Box::new(move |form| text.page(form)),
        connections: Box::new(move || counts.connections()),
        server_token: data_plane::server_token(settings),
        hostname: metrics::hostname(),
        plugin_attributes: settings.plugin_attr.clone(),
        settings: settings.raw.clone(),
        graphql_max_bytes: usize::try_from(settings.graphql_max_bytes).unwrap_or(usize::MAX),
        condition_body_bytes: match settings.apisix.max_post_args_readable_bytes {
            0 => usize::MAX,
            limit => usize::try_from(limit).unwrap_or(usize::MAX),
        },
        parsed_body_bytes: usize::try_from(settings.apisix.body_memory.parsed_bytes).unwrap_or(usize::MAX),
        workers: settings.nginx.workers,
        prefix: settings.files.prefix.clone(),
        resource_prefix: resource_prefix(settings),
        started: std::time::SystemTime::now(),
    }
    .install();
}

/// APISIX names resources by their keys in etcd, or in its files. What is in the embedded store was in etcd before.
fn resource_prefix(settings: &Settings) -> String {
    match settings.provider {
        Provider::Embedded | Provider::Etcd => settings.etcd.prefix.clone(),
        Provider::Yaml | Provider::Json | Provider::ApiDriven => String::new(),
    }
}

pub(super) fn start_plugins(settings: &Settings, catalog: &Catalog) -> anyhow::Result<()> {
    for def in catalog.defs() {
        if let Some(start) = def.start {
            start(settings.plugin_attribute(def.name)).map_err(|reason| {
                let key = format!("plugin_attr.{}", def.name);
                anyhow::anyhow!("{}", settings.places.message(&key, &format!("{key}: {reason}")))
            })?;
        }
    }
    Ok(())
}
