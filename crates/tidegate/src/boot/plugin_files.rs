//! Plugins that users wrote as files, in Lua or WebAssembly: loaded at start, and looked at again by a reload.

use anyhow::anyhow;
use tidegate_config::Settings;
use tidegate_plugin_api::{Catalog, PluginDef};
use tidegate_plugins::{
    lua_files::{self, LuaPath},
    registry,
};
use tidegate_wasm::WasmSettings;

use super::notices;

const PATH: &str = "apisix.extra_lua_path";
const WASM: &str = "wasm.plugins";

/// Where the configuration says that those in Lua are.
pub(crate) fn path(settings: &Settings) -> anyhow::Result<LuaPath> {
    LuaPath::parse(&settings.apisix.extra_lua_path, &settings.files.prefix)
        .map_err(|reason| anyhow!("{}", settings.places.message(PATH, &format!("{PATH}: {reason}"))))
}

/// The plugins in WebAssembly. The error names what is wrong with their section.
pub(crate) fn wasm(settings: &Settings) -> anyhow::Result<WasmSettings> {
    let found = WasmSettings::of(&settings.raw, &settings.files.prefix).and_then(|found| {
        let is_taken = |name: &str| {
            registry::PLUGINS.iter().any(|plugin| plugin.name == name)
                || path(settings).is_ok_and(|path| path.plugin(name).is_some())
        };
        match found.plugins.iter().find(|plugin| is_taken(&plugin.name)) {
            Some(plugin) => {
                Err(format!("{WASM}: the name {} is taken by another plugin; choose another", plugin.name))
            }
            None => Ok(found),
        }
    });
    found.map_err(|reason| anyhow!("{}", settings.places.message(WASM, &reason)))
}

/// Adds them to the catalog and returns how many of them refuse what they are configured for, because they cannot be loaded. A
/// process that is to take over does not with such a one: the process before it may have a file that works.
pub(super) fn add(settings: &Settings, catalog: &Catalog, takes_over: bool) -> anyhow::Result<usize> {
    let (path, wasm) = (path(settings)?, wasm(settings)?);
    if path.is_empty() && wasm.plugins.is_empty() {
        return Ok(0);
    }
    let (mut defs, mut faults) = (Vec::new(), Vec::new());
    if !path.is_empty() {
        let (in_lua, wrong) = tidegate_plugins::plugins_in_files(&path, &settings.plugins, &settings.raw);
        defs.extend(in_lua);
        faults.extend(wrong.into_iter().map(|(name, reason)| ("plugins", name, reason)));
    }
    let (in_wasm, wrong) = load_wasm(&wasm);
    defs.extend(in_wasm);
    faults.extend(wrong.into_iter().map(|(name, reason)| (WASM, name, reason)));
    for (place, name, reason) in &faults {
        let text = format!(
            "plugin {name} cannot be loaded, and objects that use it are rejected: {reason}; put a file there that can be \
             loaded, or take the plugin out of {place}"
        );
        let text = settings.places.message(place, &text);
        if takes_over {
            return Err(anyhow!(text));
        }
        notices::alarm(&text);
    }
    defs.iter().flat_map(|def| remarks(def)).for_each(|text| notices::warn(&text));
    catalog.add_files(&defs, Some(&settings.plugins)).map_err(anyhow::Error::msg)?;
    if !path.is_empty() {
        catalog.look_for_files(move |name| path.plugin(name).is_some());
    }
    Ok(faults.len())
}

/// The plugins in WebAssembly, and why some of them cannot be loaded.
pub(crate) fn load_wasm(settings: &WasmSettings) -> (Vec<&'static PluginDef>, Vec<(String, String)>) {
    let loaded = settings.plugins.iter().map(|plugin| (plugin, tidegate_wasm::load(plugin, settings)));
    let (mut defs, mut faults) = (Vec::new(), Vec::new());
    for (plugin, loaded) in loaded {
        defs.push(loaded.def);
        faults.extend(loaded.fault.map(|fault| (plugin.name.clone(), fault)));
    }
    (defs, faults)
}

/// What of the plugins does nothing, for a command that starts nothing.
pub(crate) fn warnings(settings: &Settings) -> Vec<String> {
    let Some(path) = path(settings).ok().filter(|path| !path.is_empty()) else { return Vec::new() };
    let (defs, _) = tidegate_plugins::plugins_in_files(&path, &settings.plugins, &settings.raw);
    defs.iter().flat_map(|def| remarks(def)).collect()
}

fn remarks(def: &PluginDef) -> Vec<String> {
    let texts = def.file.map(|file| file.remarks()).unwrap_or_default();
    texts.iter().map(|text| format!("plugin {}: {text}", def.name)).collect()
}

/// Whether the files are as this process has read them.
pub(super) fn unchanged(settings: &Settings) -> bool {
    path(settings).is_ok_and(|path| lua_files::unchanged(&path, &settings.plugins))
        && wasm(settings).is_ok_and(|wasm| tidegate_wasm::unchanged(&wasm))
}

/// Whether a plugin of the list has a file.
pub(super) fn is_there(settings: &Settings, name: &str) -> bool {
    path(settings).is_ok_and(|path| path.plugin(name).is_some())
        || wasm(settings).is_ok_and(|wasm| wasm.plugins.iter().any(|plugin| plugin.name == name))
}
