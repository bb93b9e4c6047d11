//! `plugin_attr.prometheus.metrics.*.extra_labels`: labels of the configuration beside those that every series has.

use tidegate_config::Settings;
use tidegate_plugin_api::variables::Variable;
use tidegate_telemetry::metrics::HTTP_FAMILIES;

use super::pem::Fault;

/// A label, its variable, and where it is.
struct Label<'a> {
    name: &'a str,
    variable: &'a str,
    key: String,
    is_reserved: bool,
}

fn labels(settings: &Settings) -> Vec<Label<'_>> {
    let families = settings.plugin_attribute("prometheus").get("metrics");
    let mut labels = Vec::new();
    for (family, built_in) in HTTP_FAMILIES {
        let list = families.and_then(|families| families.get(family)?.get("extra_labels")?.as_array());
        for (index, entry) in list.into_iter().flatten().enumerate() {
            labels.extend(entry.as_object().into_iter().flatten().map(|(name, value)| Label {
                name,
                variable: value.as_str().unwrap_or_default().trim_start_matches('$'),
                key: format!("plugin_attr.prometheus.metrics.{family}.extra_labels[{index}].{name}"),
                is_reserved: built_in.contains(&name.as_str()) || name == "type" || name == "le",
            }));
        }
    }
    labels
}

/// A series would have two labels of one name.
pub(super) fn reserved(settings: &Settings) -> Result<(), Fault> {
    match labels(settings).into_iter().find(|label| label.is_reserved) {
        Some(Label { name, key, .. }) => {
            Err((key.into(), format!("label {name:?} is reserved; choose another name")))
        }
        None => Ok(()),
    }
}

/// A label of a misspelt variable is empty for ever.
pub(super) fn unknown_variables(settings: &Settings) -> Vec<String> {
    if !settings.plugins.iter().any(|name| name == "prometheus") {
        return Vec::new();
    }
    let remarked = labels(settings).into_iter().filter_map(|label| {
        let remark = Variable::remark(label.variable)?;
        Some(settings.places.message(&label.key, &format!("{}: {remark}", label.key)))
    });
    remarked.collect()
}
