//! Sends entries about sessions as syslog messages. Without a `log_format` there is nothing to send.

use std::sync::Arc;

use serde_json::Value;
use tidegate_clients::batch::Batch;
use tidegate_plugin_api::{BuildContext, PluginDef, Session, StreamPlugin};
use tidegate_telemetry::{
    error_log::{self, Level},
    limiter::Limiter,
};

use crate::{
    common::log_format::Format,
    observability::syslog::{line, sending},
};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "syslog",
    version: 0.1,
    priority: 401,
    guards: false,
    schema: include_str!("syslog.json"),
    metadata_schema: Some(include_str!("syslog.metadata.json")),
    build_stream: build,
    ..PluginDef::DEFAULT
};

struct Syslog {
    format: Option<Format>,
    batch: Batch<String>,
}

/// The format of the configuration wins over the metadata's, and an empty one of the metadata counts as none.
fn build(conf: &Value, context: &BuildContext) -> Result<Arc<dyn StreamPlugin>, String> {
    let of_metadata = || context.metadata?.get("log_format").and_then(Format::new);
    let format = match conf.get("log_format") {
        Some(own) => Format::new(own),
        None => of_metadata().filter(|format| !format.is_empty()),
    };
    Ok(Arc::new(Syslog { format, batch: Batch::new(PLUGIN.name, conf, context.metadata, sending(conf)?)? }))
}

impl StreamPlugin for Syslog {
    fn log(&self, session: &mut Session) {
        static LIMITER: Limiter = Limiter::new(1, 1_000);
        let Some(format) = &self.format else {
            if LIMITER.pass().is_some() {
                error_log::log(Level::Error, format_args!("syslog's log_format is not set"));
            }
            return;
        };
        let mut entry = format.render_session(session);
        if let Some(owner) = &session.owner {
            entry.insert("route_id".to_owned(), Value::from(&*owner.id));
            if let Some(service) = &owner.service_id {
                entry.insert("service_id".to_owned(), Value::from(&**service));
            }
        }
        self.batch.push_plain(line("", entry));
    }
}
