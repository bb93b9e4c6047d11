//! Plugins whose `group` shares one quota among all objects that name it: a group of others is not for a caller with a scope.

use serde_json::Value;
use tidegate_model::{Kind, Object};
use tidegate_store::State;

use super::scope::{Lookup, Rights};

/// They have their groups in common.
const PLUGINS: [&str; 2] = ["limit-count", "graphql-limit-count"];

/// Refuses a group that `before` does not have and that an object outside of the scope has.
pub(crate) fn check(
    rights: &Rights,
    before: Option<&Value>,
    after: &Value,
    state: &State,
) -> Result<(), String> {
    let known = before.map(groups).unwrap_or_default();
    let wanted: Vec<(&str, &str)> =
        groups(after).into_iter().filter(|group| !known.contains(group)).collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let others = |kind: Kind, id: &str| state.get(kind, id).map(Object::value);
    let with_groups = state.all().filter(|object| object.document.may_have("group"));
    for object in with_groups {
        let value = object.value();
        let taken = groups(&value);
        let clash = wanted.iter().find(|(_, group)| taken.iter().any(|(_, name)| name == group));
        if let Some((plugin, group)) = clash.filter(|_| !is_own(rights, object, &value, &others)) {
            return Err(format!(
                "plugins.{plugin}.group {group} is used outside of your scope, and would count into the quota there; choose \
                 another name"
            ));
        }
    }
    Ok(())
}

fn is_own(rights: &Rights, object: &Object, value: &Value, others: Lookup<'_>) -> bool {
    rights.see(object.kind, &object.id, value, others)
}

/// The groups of an object, each with its plugin.
fn groups(value: &Value) -> Vec<(&'static str, &str)> {
    let of = |plugin: &'static str| {
        let group = value.get("plugins")?.get(plugin)?.get("group")?.as_str()?;
        Some((plugin, group))
    };
    PLUGINS.into_iter().filter_map(of).collect()
}
