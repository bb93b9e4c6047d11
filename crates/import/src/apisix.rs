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
            Value::Array(_) if LISTS.contains(&name.as_str()) => {
                report.converted(entry.line, &name);
                output.put(&name, list);
            }
            _ if name.ends_with("_conf_version") => {}
            _ => report.unsupported(entry.line, &name, "no list that apisix.yaml has; left out"),
        }
    }
    Ok(())
}
