//! apisix.yaml of APISIX 2.x and 3.x: the format is ours, so its lists are taken unchanged.

use serde_json::Value;
use tidegate_config::yaml::{Content, Node};

use crate::imported::Imported;

const LISTS: [&str; 13] = [
    "routes",
    "services",
    "upstreams",
    "plugins",
    "consumers",
    "consumer_groups",
    "plugin_configs",
    "global_rules",
    "plugin_metadata",
    "ssls",
    "secrets",
    "protos",
    "stream_routes",
];

/// An item of the list of plugins that are on.
fn is_plugin(item: &Value) -> bool {
    item.is_string() || item.get("name").is_some_and(Value::is_string)
}

fn is_empty(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(serde_json::Map::is_empty)
}

pub(crate) fn convert(root: Node, imported: &mut Imported) -> Result<(), String> {
    let Content::Map(entries) = root.content else {
        return Err(format!(
            "{}:{}: an apisix.yaml is a mapping with lists like routes",
            root.line, root.column
        ));
    };
    let Imported { output, report, .. } = imported;
    for entry in entries {
        // 2.x had it in the singular.
        let name = if entry.key == "ssl" { "ssls".to_owned() } else { entry.key };
        let list = entry.value.into_value();
        match list {
            Value::Null => {}
            Value::Array(items)
                if LISTS.contains(&name.as_str()) && (name != "plugins" || items.iter().all(is_plugin)) =>
            {
                let list = Value::Array(items);
                report.converted(entry.line, &name);
                output.put(&name, list);
            }
            // A place for the anchors of YAML.
            _ if name.ends_with("_conf_version") || name.starts_with("x-") => {}
            list if is_empty(&list) => {
                report.unsupported(entry.line, &name, "no list that apisix.yaml has; left out")
            }
            // It may guard a route, and have slipped out of it.
            _ => {
                return Err(format!(
                    "line {}: [{name}] is not a list that apisix.yaml has; indent it below its object, or remove it",
                    entry.line
                ));
            }
        }
    }
    Ok(())
}
