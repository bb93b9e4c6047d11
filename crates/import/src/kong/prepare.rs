//! What decK does to a file before Kong sees it: variables of the environment, defaults, and shared plugin configurations.

use serde_json::Value;
use tidegate_config::yaml::{Content, Entry, Node};

use crate::{Report, fields, input::Files, literal};

const OPEN: &str = "${{";
const CLOSE: &str = "}}";
const VAULT: &str = "{vault://";

pub(crate) fn prepare(root: &mut Node, files: &dyn Files, report: &mut Report) -> Result<(), String> {
    let vaults = environments(root);
    resolve(root, &vaults, files)?;
    defaults(root);
    shared_configurations(root, report);
    super::unique::check(root)?;
    super::partials::apply(root);
    Ok(())
}

/// decK puts variables in before the YAML is read, so their quotes may stand within quotes. Without them the text can
/// be read.
pub(crate) fn readable(text: &str) -> String {
    let mut whole = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(OPEN) {
        whole.push_str(before);
        whole.push_str(OPEN);
        rest = after;
        let Some((inside, behind)) = after.split_once(CLOSE) else { break };
        if inside.trim_start().starts_with("env") && !inside.contains('\n') {
            whole.push_str(&inside.replace("\\\"", "").replace('"', ""));
            whole.push_str(CLOSE);
            rest = behind;
        }
    }
    whole.push_str(rest);
    whole
}

/// `${{ env "DECK_NAME" }}` in any scalar.
fn resolve(node: &mut Node, vaults: &[(String, String)], files: &dyn Files) -> Result<(), String> {
    let (line, column) = (node.line, node.column);
    match &mut node.content {
        Content::List(items) => items.iter_mut().try_for_each(|item| resolve(item, vaults, files)),
        Content::Map(entries) => {
            entries.iter_mut().try_for_each(|entry| resolve(&mut entry.value, vaults, files))
        }
        Content::Scalar { value, text } if text.starts_with(VAULT) => {
            if let Some(ours) = of_environment(text, vaults) {
                *text = ours;
                *value = Value::String(text.clone());
            }
            Ok(())
        }
        Content::Scalar { value, text } if text.contains(OPEN) => {
            *text = resolved(text, files).map_err(|why| format!("{line}:{column}: {why}"))?;
            literal::require_plain(text, line, column)?;
            *value = match text.as_str() {
                "true" => Value::Bool(true),
                "false" => Value::Bool(false),
                text => Value::String(text.to_owned()),
            };
            Ok(())
        }
        Content::Scalar { text, .. } => literal::require_plain(text, line, column),
    }
}

/// Vaults that are the environment: how references name them, and what variables of theirs begin with.
fn environments(root: &Node) -> Vec<(String, String)> {
    // Every Kong has this one.
    let mut all = vec![("env".to_owned(), String::new())];
    for vault in super::node::children(root, "vaults") {
        let text = |node: &Node, key: &str| super::node::key_text(node, key);
        if let (Some("env"), Some(prefix)) = (text(vault, "name").as_deref(), text(vault, "prefix")) {
            let begin = vault.get("config").and_then(|conf| text(conf, "prefix")).unwrap_or_default();
            all.push((prefix, begin));
        }
    }
    all
}

/// `{vault://env/my-key}` and `{vault://env/my-key/field}`, a field of a JSON text, as references of ours.
fn of_environment(text: &str, vaults: &[(String, String)]) -> Option<String> {
    let inside = text.strip_prefix(VAULT)?.strip_suffix('}')?;
    let (vault, name) = inside.split_once('/')?;
    let (_, begin) = vaults.iter().find(|(prefix, _)| prefix == vault)?;
    let (name, field) = name.split_once('/').map_or((name, None), |(name, field)| (name, Some(field)));
    // As Kong names the variable.
    let name = format!("{begin}{name}").to_uppercase().replace('-', "_");
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return None;
    }
    Some(field.map_or_else(|| format!("$ENV://{name}"), |field| format!("$ENV://{name}/{field}")))
}

/// `"NAME" | toInt`: numbers and flags are read from texts as well.
fn without_filter(text: &str) -> &str {
    match text.split_once('|') {
        Some((name, filter)) if ["toInt", "toFloat", "toBool"].contains(&filter.trim()) => name,
        _ => text,
    }
}

fn resolved(text: &str, files: &dyn Files) -> Result<String, String> {
    let mut whole = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(OPEN) {
        whole.push_str(before);
        let (inside, behind) =
            after.split_once(CLOSE).ok_or_else(|| format!("`{OPEN}` without `{CLOSE}`"))?;
        let quoted = inside.trim().strip_prefix("env").map(without_filter);
        let name = quoted.map(|name| name.trim().trim_matches(['"', '\'']));
        let name = name.filter(|name| name.starts_with("DECK_")).ok_or_else(|| {
            format!("`{OPEN}{inside}{CLOSE}` is not understood; write `${{{{ env \"DECK_NAME\" }}}}`")
        })?;
        let value = files
            .variable(name)
            .ok_or_else(|| format!("{name} is not set; set it in the environment or give --env-file"))?;
        whole.push_str(&value);
        rest = behind;
    }
    whole.push_str(rest);
    Ok(whole)
}

/// `_info.defaults`: fields for every entity of a kind that lacks them.
fn defaults(root: &mut Node) {
    let Some(given) = root.get("_info").and_then(|info| info.get("defaults")).cloned() else { return };
    let of = |kind: &str| given.get(kind).map(|node| fields::entries(node).to_vec()).unwrap_or_default();
    let kinds = [
        ("services", of("service")),
        ("routes", of("route")),
        ("upstreams", of("upstream")),
        ("targets", of("target")),
    ];
    fill_lists(root, &kinds);
}

fn fill_lists(node: &mut Node, kinds: &[(&str, Vec<Entry>)]) {
    let Content::Map(entries) = &mut node.content else { return };
    for entry in entries {
        let Some((_, given)) = kinds.iter().find(|(list, _)| *list == entry.key) else { continue };
        let Content::List(items) = &mut entry.value.content else { continue };
        for item in items {
            fill(item, given);
            fill_lists(item, kinds);
        }
    }
}

/// Entries that the node does not have.
fn fill(node: &mut Node, given: &[Entry]) {
    let Content::Map(entries) = &mut node.content else { return };
    for entry in given {
        if !entries.iter().any(|own| own.key == entry.key) {
            entries.push(entry.clone());
        }
    }
}

/// `_plugin_configs`, and `_config` of the plugins that use one.
fn shared_configurations(root: &mut Node, report: &mut Report) {
    let shared = root.get("_plugin_configs").map(|node| fields::entries(node).to_vec()).unwrap_or_default();
    share(root, &shared, report);
}

fn share(node: &mut Node, shared: &[Entry], report: &mut Report) {
    match &mut node.content {
        Content::List(items) => items.iter_mut().for_each(|item| share(item, shared, report)),
        Content::Map(entries) => {
            for entry in &mut *entries {
                if let (true, Content::List(plugins)) = (entry.key == "plugins", &mut entry.value.content) {
                    plugins.iter_mut().for_each(|plugin| share_one(plugin, shared, report));
                } else {
                    share(&mut entry.value, shared, report);
                }
            }
        }
        Content::Scalar { .. } => {}
    }
}

fn share_one(plugin: &mut Node, shared: &[Entry], report: &mut Report) {
    let (line, column) = (plugin.line, plugin.column);
    let Some(wanted) = plugin.get("_config").and_then(fields::text) else { return };
    let Some(base) = shared.iter().find(|entry| entry.key == wanted) else {
        // Without its configuration its effect is unknown; the name says so, and closes its routes.
        report.unsupported(
            line,
            &format!("plugin with _config {wanted}"),
            "`_plugin_configs` does not have it",
        );
        if let Content::Map(entries) = &mut plugin.content {
            entries.retain(|entry| entry.key != "name");
        }
        return;
    };
    let Content::Map(entries) = &mut plugin.content else { return };
    match entries.iter_mut().find(|entry| entry.key == "config") {
        Some(own) if !own.value.is_null() => fill(&mut own.value, fields::entries(&base.value)),
        Some(own) => own.value = base.value.clone(),
        None => entries.push(Entry { key: "config".to_owned(), line, column, value: base.value.clone() }),
    }
}
