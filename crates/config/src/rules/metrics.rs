//! `plugin_attr.prometheus`: what is exported has to be what Prometheus reads.

use std::collections::HashSet;

use serde_json::Value;

use super::said::Said;
use crate::{keys::forms, settings::Settings};

const AT: &str = "plugin_attr.prometheus";

pub(super) fn refusals(settings: &Settings) -> Vec<Said> {
    let attribute = settings.plugin_attribute("prometheus");
    let mut said = Vec::new();
    if let Some(bounds) = attribute.get("default_buckets").and_then(Value::as_array) {
        let bounds: Vec<i64> = bounds.iter().filter_map(Value::as_i64).collect();
        if bounds.is_empty() || !bounds.is_sorted_by(|a, b| a < b) {
            let message =
                "default_buckets should be numbers of milliseconds, one at least, each above the one before";
            said.push((format!("{AT}.default_buckets"), message.to_owned()));
        }
    }
    for family in ["http_status", "http_latency", "bandwidth"] {
        let labels = attribute.get("metrics").and_then(|families| families.get(family)?.get("extra_labels"));
        if let Some(labels) = labels.and_then(Value::as_array) {
            said.extend(extra_labels(&format!("{AT}.metrics.{family}.extra_labels"), labels));
        }
    }
    said
}

fn extra_labels(at: &str, labels: &[Value]) -> Vec<Said> {
    let mut names = HashSet::new();
    let mut said = Vec::new();
    for (index, entry) in labels.iter().enumerate() {
        let at = format!("{at}[{index}]");
        let Some(entry) = entry.as_object().filter(|entry| !entry.is_empty()) else {
            said.push((at, "a label should be a name and a variable, like host: $host".to_owned()));
            continue;
        };
        for (name, variable) in entry {
            let problem = if !forms::is_label(name) {
                "is not a valid label name; use letters, digits and _, starting with a letter or a single _"
            } else if !names.insert(name.as_str()) {
                "is given twice; remove one"
            } else if !variable.as_str().is_some_and(|text| text.len() > 1 && text.starts_with('$')) {
                "should have a variable as its value, like $host"
            } else {
                continue;
            };
            said.push((format!("{at}.{name}"), format!("label {name:?} {problem}")));
        }
    }
    said
}
