//! What stands once and is used in several places: `partials`, settings of plugins, and the workspace that an entity is of.

use std::collections::BTreeSet;

use tidegate_config::yaml::{Content, Entry, Node};

use crate::fields;

/// Where the settings of a partial go unless the plugin says otherwise.
const PLACE: &str = "config.redis";

/// Puts the settings of partials where plugins name them. A partial that is missing stays named, which closes the plugin.
pub(super) fn apply(root: &mut Node) {
    let partials = root.get("partials").map(|node| fields::list(node).to_vec()).unwrap_or_default();
    if !partials.is_empty() {
        walk(root, &partials);
    }
}

fn walk(node: &mut Node, partials: &[Node]) {
    match &mut node.content {
        Content::List(items) => items.iter_mut().for_each(|item| walk(item, partials)),
        Content::Map(children) => {
            for entry in &mut *children {
                if let (true, Content::List(plugins)) = (entry.key == "plugins", &mut entry.value.content) {
                    plugins.iter_mut().for_each(|plugin| fill(plugin, partials));
                } else {
                    walk(&mut entry.value, partials);
                }
            }
        }
        Content::Scalar { .. } => {}
    }
}

fn fill(plugin: &mut Node, partials: &[Node]) {
    let wanted = super::node::children(plugin, "partials").to_vec();
    let found: Option<Vec<(String, &Node)>> = wanted
        .iter()
        .map(|link| {
            let is_meant = |partial: &&Node| {
                ["id", "name"].iter().any(|key| {
                    let given = super::node::key_text(link, key);
                    given.is_some() && given == super::node::key_text(partial, key)
                })
            };
            let settings = partials.iter().find(is_meant)?.get("config")?;
            Some((super::node::key_text(link, "path").unwrap_or_else(|| PLACE.to_owned()), settings))
        })
        .collect();
    let Some(found) = found else { return };
    for (place, settings) in found {
        let keys: Vec<&str> = place.split('.').collect();
        put(plugin, &keys, settings);
    }
    if let Content::Map(children) = &mut plugin.content {
        children.retain(|entry| entry.key != "partials");
    }
}

fn put(node: &mut Node, place: &[&str], settings: &Node) {
    let Some((key, deeper)) = place.split_first() else {
        *node = settings.clone();
        return;
    };
    if !matches!(node.content, Content::Map(_)) {
        node.content = Content::Map(Vec::new());
    }
    let (line, column) = (node.line, node.column);
    let Content::Map(children) = &mut node.content else { return };
    if !children.iter().any(|entry| entry.key == *key) {
        let value = Node { content: Content::Map(Vec::new()), ..settings.clone() };
        children.push(Entry { key: (*key).to_owned(), line, column, value });
    }
    if let Some(entry) = children.iter_mut().find(|entry| entry.key == *key) {
        put(&mut entry.value, deeper, settings);
    }
}

/// Takes out what says only where an entity is from. Plugins and consumers of one workspace do not reach the routes of another: one at a time.
pub(crate) fn one_workspace(root: &mut Node) -> Result<(), String> {
    let mut found = BTreeSet::new();
    take_workspaces(root, &mut found);
    let listed = super::node::children(root, "workspaces").len();
    if found.len() > 1 || listed > 1 {
        return Err("the file has several workspaces, and what guards one must not guard another: \
                    export each by itself, as `deck gateway dump --workspace NAME` does"
            .to_owned());
    }
    Ok(())
}

fn take_workspaces(node: &mut Node, found: &mut BTreeSet<String>) {
    match &mut node.content {
        Content::List(items) => items.iter_mut().for_each(|item| take_workspaces(item, found)),
        Content::Map(children) => {
            children.retain_mut(|entry| {
                match entry.key.as_str() {
                    "ws_id" => found.extend(fields::text(&entry.value)),
                    "_comment" | "_ignore" => {}
                    _ => return keep(entry, found),
                }
                false
            });
        }
        Content::Scalar { .. } => {}
    }
}

/// Looks for workspaces in it, too.
fn keep(entry: &mut Entry, found: &mut BTreeSet<String>) -> bool {
    // A setting of a plugin may have such a name.
    if entry.key != "config" {
        take_workspaces(&mut entry.value, found);
    }
    true
}
