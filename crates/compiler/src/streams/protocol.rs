//! The protocol on top of TCP of a stream route, with the loggers of its calls.

use serde_json::{Map, Value, json};
use tidegate_model::{Object, PluginCatalog, resources::StreamProtocol, schemas};
use tidegate_plugin_api::{
    Catalog, Owner,
    protocol::ProtocolRoute,
    stream_route::{RouteProtocol, StreamInstance},
};

use crate::{Compiler, object::Key};

impl Compiler {
    pub(super) fn protocol(
        &mut self,
        key: &Key,
        object: &Object,
        conf: &StreamProtocol,
        catalog: &Catalog,
    ) -> Result<RouteProtocol, String> {
        let def = self.options.protocols.iter().find(|def| def.name == conf.name);
        let def =
            *def.ok_or("not in the list of protocols; add its name to `xrpc.protocols` of config.yaml")?;
        let mut settings = conf.conf.clone().unwrap_or_else(|| Value::Object(Map::new()));
        if let Some(schema) = schemas::protocol(def.name) {
            schema.check(&mut settings)?;
        }
        let loggers = self.loggers(key, object, conf, catalog)?;
        let route = ProtocolRoute {
            id: &key.1,
            counts: conf.metric.as_ref().is_some_and(|metric| metric.enable)
                && catalog.is_enabled("prometheus"),
            logs: !loggers.is_empty(),
        };
        Ok(RouteProtocol { protocol: (def.build)(&settings, &route)?, loggers })
    }

    /// `filter` is what `_meta.filter` is to other plugins.
    fn loggers(
        &mut self,
        key: &Key,
        object: &Object,
        conf: &StreamProtocol,
        catalog: &Catalog,
    ) -> Result<Vec<StreamInstance>, String> {
        let owner = Owner { kind: key.0, id: key.1.clone(), version: object.modified };
        let mut loggers = Vec::new();
        for logger in &conf.logger {
            let Some(name) = &logger.name else { continue };
            let mut settings = logger.conf.clone().unwrap_or_else(|| json!({}));
            if let (Some(settings), false) = (settings.as_object_mut(), logger.filter.is_empty()) {
                settings.insert("_meta".to_owned(), json!({"filter": logger.filter}));
            }
            let built = self.stream_instance(key, &owner, (name, &settings), catalog, &[]);
            loggers.extend(built.map_err(|reason| format!("logger {name}: {reason}"))?);
        }
        Ok(loggers)
    }
}
