//! Plugins that users wrote as files: loaded at start, and looked at again by a reload.

use anyhow::anyhow;
use tidegate_config::Settings;
use tidegate_plugin_api::Catalog;
use tidegate_plugins::lua_files::{self, LuaPath};

use super::notices;

const PATH: &str = "apisix.extra_lua_path";

/// Where the configuration says that they are.
pub(crate) fn path(settings: &Settings) -> anyhow::Result<LuaPath> {
    LuaPath::parse(&settings.apisix.extra_lua_path, &settings.files.prefix)
        .map_err(|reason| anyhow!("{}", settings.places.message(PATH, &format!("{PATH}: {reason}"))))
}

/// Adds them to the catalog and returns how many of them refuse what they are configured for, because they cannot be loaded. A
/// process that is to take over does not with such a one: the process before it may have a file that works.
pub(super) fn add(settings: &Settings, catalog: &Catalog, takes_over: bool) -> anyhow::Result<usize> {
    let path = path(settings)?;
    if path.is_empty() {
        return Ok(0);
    }
    let (defs, faults) = tidegate_plugins::plugins_in_files(&path, &settings.plugins, &settings.raw);
    for (name, reason) in &faults {
        let text = format!("plugin {name} cannot be loaded, and objects that use it are rejected: {reason}");
        let text = settings.places.message("plugins", &text);
        if takes_over {
            return Err(anyhow!(text));
        }
        notices::alarm(&text);
    }
    catalog.add_files(&defs, Some(&settings.plugins)).map_err(anyhow::Error::msg)?;
    catalog.look_for_files(move |name| path.plugin(name).is_some());
    Ok(faults.len())
}

/// Whether the files are as this process has read them.
pub(super) fn unchanged(settings: &Settings) -> bool {
    path(settings).is_ok_and(|path| lua_files::unchanged(&path, &settings.plugins))
}

/// Whether a plugin of the list has a file.
pub(super) fn is_there(settings: &Settings, name: &str) -> bool {
    path(settings).is_ok_and(|path| path.plugin(name).is_some())
}
