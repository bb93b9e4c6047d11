//! "Can I move?": what of a configuration of Apache APISIX would not work here.

use std::path::Path;

use anyhow::Context;
use serde_json::Value;
use tidegate_config::{Source, bounded};
use tidegate_plugins::registry::on_by_default;

use super::{check::Check, gateway, objects, reach};

/// Keys that only a config.yaml has.
const OF_CONFIGURATIONS: [&str; 4] = ["apisix", "deployment", "nginx_config", "plugin_attr"];
/// An apisix.yaml with the config.yaml beside it, or a config.yaml. What they name is not asked: they may be read on
/// another machine.
pub(super) fn of_file(file: &Path) -> anyhow::Result<Vec<Check>> {
    let shown = file.display();
    let text = bounded::read_text(file).with_context(|| format!("cannot read {shown}"))?;
    let document = match tidegate_config::yaml::to_value(&text) {
        Ok(document @ Value::Object(_)) => document,
        Ok(_) => {
            return Ok(vec![Check::bad(
                "file",
                format!("{shown} has no lists such as routes"),
                "give an apisix.yaml",
            )]);
        }
        Err(fault) => {
            return Ok(vec![Check::of_message(
                "file",
                &format!("{shown}:{fault}"),
                "correct the place that it names",
            )]);
        }
    };
    if OF_CONFIGURATIONS.iter().any(|key| document.get(key).is_some()) {
        return configuration(file);
    }
    let beside = file.with_file_name("config.yaml");
    let settings = bounded::read_text(&beside).ok();
    let settings = settings.and_then(|text| tidegate_config::yaml::to_value(&text).ok());
    let mut checks = objects::of_file(file, &text, &document, settings.as_ref())?;
    if settings.is_some() {
        checks.extend(configuration(&beside)?);
    }
    Ok(checks)
}

/// A config.yaml of APISIX: which of its keys mean nothing here, or keep a gateway from starting.
fn configuration(file: &Path) -> anyhow::Result<Vec<Check>> {
    let file = std::path::absolute(file)?;
    let folder = file.parent().unwrap_or(&file);
    let prefix = folder.parent().filter(|_| folder.ends_with("conf")).unwrap_or(folder).to_owned();
    let source = Source { prefix, file: Some(file), listen: None, plugins: on_by_default() };
    Ok(match tidegate_config::load(&source) {
        Ok(loaded) => gateway::configuration(&loaded),
        Err(error) => gateway::refused(&error.into()),
    })
}

/// What is in etcd, read as a gateway would and left alone.
pub(super) fn of_etcd(url: &str, prefix: &str) -> anyhow::Result<Vec<Check>> {
    let mut checks = vec![reach::etcd(url)];
    if !checks.iter().any(Check::keeps_from_starting) {
        checks.extend(objects::of_etcd(url, prefix)?);
    }
    Ok(checks)
}
