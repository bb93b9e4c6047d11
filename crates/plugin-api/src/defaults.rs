//! What a plugin's declaration is as far as it does not say.

use std::sync::Arc;

use serde_json::Value;
use tidegate_model::{
    SchemaKind,
    catalog::{no_nested, no_remarks, of_no_consumer},
    header_text,
};

use crate::{BuildContext, Phases, Plugin, PluginDef, StreamPlugin};

fn as_it_is(_: &Value, reason: String) -> String {
    reason
}

fn no_check(_: &Value, _: SchemaKind) -> Result<(), String> {
    Ok(())
}

fn no_build(_: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    Err("plugin has no build function".to_owned())
}

fn no_stream_build(_: &Value, _: &BuildContext) -> Result<Arc<dyn StreamPlugin>, String> {
    Err("plugin is not for stream routes".to_owned())
}

impl PluginDef {
    /// The checks of a configuration after the schema has accepted it.
    pub fn check_accepted(&self, conf: &Value, kind: SchemaKind) -> Result<(), String> {
        match self.file {
            Some(file) => file.check(conf, kind)?,
            None => (self.check)(conf, kind)?,
        }
        match kind {
            SchemaKind::Plugin => header_text::check(conf, self.headers),
            SchemaKind::Metadata => header_text::check(conf, self.metadata_headers),
            SchemaKind::Consumer => Ok(()),
        }
    }

    /// Whether it may say which consumer a request is of: authentication plugins do, and code of users may.
    pub(crate) fn may_identify(&self) -> bool {
        self.kind == Some("auth") || self.file.is_some() || self.for_admins.is_some()
    }

    /// The rest of a declaration: `..PluginDef::DEFAULT`.
    pub const DEFAULT: PluginDef = PluginDef {
        name: "",
        version: 0.1,
        priority: 0,
        kind: None,
        scope: None,
        on_by_default: true,
        schema: r#"{"type":"object"}"#,
        consumer_schema: None,
        metadata_schema: None,
        encrypt_fields: &[],
        phases: Phases::NONE,
        prefer_route: false,
        guards: true,
        answers: false,
        for_admins: None,
        explain: as_it_is,
        check: no_check,
        headers: &[],
        nested: no_nested,
        remarks: no_remarks,
        metadata_remarks: no_remarks,
        schemes: &[],
        only_tcp: false,
        of_consumer: of_no_consumer,
        metadata_headers: &[],
        build: no_build,
        build_stream: no_stream_build,
        consumer: None,
        inline_upstreams: None,
        apis: &[],
        control: &[],
        follow_metadata: None,
        start: None,
        file: None,
    };
}
