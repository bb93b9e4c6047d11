//! Makes the registry out of the list of plugins in src/lib.rs, so that a plugin has one line there and nowhere else.

use std::{env, fmt::Write, fs, path::Path};

const LIST: &str = "src/lib.rs";

/// A `pub(crate) mod` inside of a group.
#[derive(Debug, PartialEq)]
struct Entry<'a> {
    group: &'a str,
    module: &'a str,
    /// The feature that its attributes name.
    feature: Option<&'a str>,
}

fn main() {
    println!("cargo::rerun-if-changed={LIST}");
    let text = fs::read_to_string(LIST).expect("the list is beside this script");
    let entries = entries(&text).unwrap_or_else(|reason| panic!("{reason}"));
    let folder = env::var_os("OUT_DIR").expect("cargo says where to write");
    fs::write(Path::new(&folder).join("registry.rs"), tables(&entries)).expect("the folder is writable");
}

/// In the order of the list. A group is a `mod NAME {` at the start of a line, up to the next `}` there.
fn entries(text: &str) -> Result<Vec<Entry<'_>>, String> {
    let mut found = Vec::new();
    let (mut group, mut feature) = (None, None);
    for (number, line) in text.lines().enumerate() {
        let Some(name) = group else {
            group = line.strip_prefix("mod ").and_then(|rest| rest.strip_suffix(" {"));
            continue;
        };
        let inner = line.trim();
        let module = inner.strip_suffix(';').and_then(|item| item.strip_prefix("pub(crate) mod "));
        if line == "}" {
            group = None;
        } else if inner.starts_with("#[") {
            feature = inner.split("feature = \"").nth(1).and_then(|rest| rest.split('"').next());
        } else if let Some(module) = module {
            found.push(Entry { group: name, module, feature: feature.take() });
        } else if inner.starts_with("mod ") {
            // What plugins of the group share.
            feature = None;
        } else if !inner.is_empty() && !inner.starts_with("//") {
            return Err(format!("{LIST}:{}: a group has lines `pub(crate) mod NAME;` only", number + 1));
        }
    }
    Ok(found)
}

fn tables(entries: &[Entry<'_>]) -> String {
    let mut by_name: Vec<&Entry> = entries.iter().collect();
    by_name.sort_by_key(|entry| entry.module);
    let mut text =
        String::from("/// Every plugin of this build, by name.\npub static PLUGINS: &[&PluginDef] = &[\n");
    by_name.iter().for_each(|entry| text += &definition(entry));
    text += "];\n\n/// Plugins that this build is without, and the feature that each needs.\n\
             pub static MISSING: &[(&str, &str)] = &[\n";
    for entry in by_name {
        if let Some(feature) = entry.feature {
            let name = entry.module.replace('_', "-");
            let _ = writeln!(text, "#[cfg(not(feature = {feature:?}))]\n({name:?}, {feature:?}),");
        }
    }
    text += "];\n\n/// The plugins of each group, in the order of the list.\n\
             pub static GROUPS: &[(&str, &[&PluginDef])] = &[\n";
    for group in entries.chunk_by(|one, next| one.group == next.group) {
        let name = group.first().map_or("", |entry| entry.group);
        let _ = writeln!(text, "({name:?}, &[");
        group.iter().for_each(|entry| text += &definition(entry));
        text += "]),\n";
    }
    text + "];\n"
}

fn definition(Entry { group, module, feature }: &Entry<'_>) -> String {
    let condition = feature.map(|feature| format!("#[cfg(feature = {feature:?})]\n")).unwrap_or_default();
    format!("{condition}&crate::{group}::{module}::PLUGIN,\n")
}
