//! `plugin_attr.prometheus.metrics.*.extra_labels`: labels of the configuration beside those that every series has.

use tidegate_config::Settings;
use tidegate_plugin_api::Variable;
use tidegate_telemetry::metrics::HTTP_FAMILIES;

use super::pem::Fault;

/// The first label that is taken already.
pub(super) fn check(settings: &Settings) -> Result<(), Fault> {
    let all = all(settings).into_iter();
    let mut taken = all.filter(|label| {
        let name = label.name.as_str();
        label.built_in.contains(&name) || name == "type" || name == "le"
    });
    match taken.next() {
        None => Ok(()),
        Some(Label { key, name, .. }) => {
            Err((key.into(), format!("label {name:?} is reserved; choose another name")))
        }
    }
}

/// A label of a misspelt variable is empty for ever.
pub(super) fn unknown_variables(settings: &Settings) -> Vec<String> {
    if !settings.plugins.iter().any(|name| name == "prometheus") {
        return Vec::new();
    }
    let remark = |label: Label| {
        let remark = Variable::remark(label.value.strip_prefix('$')?)?;
        Some(settings.places.message(&label.key, &format!("{}: {remark}", label.key)))
    };
    all(settings).into_iter().filter_map(remark).collect()
}

struct Label {
    /// Its place.
    key: String,
    name: String,
    value: String,
    built_in: &'static [&'static str],
}

fn all(settings: &Settings) -> Vec<Label> {
    let families = settings.plugin_attribute("prometheus").get("metrics");
    let mut found = Vec::new();
    for (family, built_in) in HTTP_FAMILIES {
        let list = families.and_then(|families| families.get(family)?.get("extra_labels")?.as_array());
        for (index, entry) in list.into_iter().flatten().enumerate() {
            for (name, value) in entry.as_object().into_iter().flatten() {
                found.push(Label {
                    key: format!("plugin_attr.prometheus.metrics.{family}.extra_labels[{index}].{name}"),
                    name: name.clone(),
                    value: value.as_str().map(str::to_owned).unwrap_or_default(),
                    built_in,
                });
            }
        }
    }
    found
}
