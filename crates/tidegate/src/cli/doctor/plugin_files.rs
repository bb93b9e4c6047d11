//! Plugins in files: which cannot be loaded, and which calls in those in Lua do nothing here.

use tidegate_config::Settings;
use tidegate_plugin_api::PluginDef;
use tidegate_plugins::lua_files::{self, LuaPath, Modules, look};

use super::check::Check;
use crate::boot::plugin_files;

const REMEDY: &str = "docs/guide/lua.md lists what is offered and which functions run; change the file, or leave the plugin out of plugins";
const WASM_REMEDY: &str =
    "docs/guide/wasm.md says what a module has to be; change it, or leave the plugin out of wasm.plugins";
/// Lines of one file that are shown.
const MOST_LINES: usize = 20;

/// A check for each plugin that a start would load.
pub(super) fn checks(settings: &Settings) -> Vec<Check> {
    let mut checks = in_lua(settings);
    checks.extend(in_wasm(settings));
    checks
}

/// Of `wasm.plugins`; a section that cannot be read is among the faults of config.yaml.
fn in_wasm(settings: &Settings) -> Vec<Check> {
    let Ok(wasm) = plugin_files::wasm(settings) else { return Vec::new() };
    let (defs, faults) = plugin_files::load_wasm(&wasm);
    let check = |def: &&PluginDef| {
        let name = format!("plugin {}", def.name);
        match faults.iter().find(|(other, _)| other == def.name) {
            Some((_, reason)) => Check::bad(&name, format!("it cannot be loaded: {reason}"), WASM_REMEDY),
            None => Check::good(&name, "its module can be loaded"),
        }
    };
    defs.iter().map(check).collect()
}

fn in_lua(settings: &Settings) -> Vec<Check> {
    // A path that cannot be used is among the faults of config.yaml.
    let Some(path) = plugin_files::path(settings).ok().filter(|path| !path.is_empty()) else {
        return Vec::new();
    };
    let (defs, faults) = tidegate_plugins::plugins_in_files(&path, &settings.plugins, &settings.raw);
    let (modules, _) = Modules::of_plugins(&path, &settings.plugins);
    let mut checks = Vec::new();
    for def in &defs {
        let name = format!("plugin {}", def.name);
        let fault = faults.iter().find(|(other, _)| other == def.name);
        checks.extend(
            fault.map(|(_, reason)| Check::bad(&name, format!("it cannot be loaded: {reason}"), REMEDY)),
        );
        let idle = def.file.map(|file| file.remarks()).unwrap_or_default();
        let remarks: Vec<String> = idle.iter().cloned().chain(remarks(&path, &modules, def.name)).collect();
        match remarks.is_empty() && fault.is_none() {
            true => checks.push(Check::good(&name, "a look at its text finds no call that is not available, and no function that is never called")),
            false => checks.extend(remarks.into_iter().map(|text| Check::bad(&name, text, REMEDY))),
        }
    }
    checks
}

/// File, line and call.
fn remarks(path: &LuaPath, modules: &Modules, plugin: &str) -> Vec<String> {
    let reached = modules.reached(&lua_files::module_of(plugin));
    let is_there = |name: &str| modules.get(name).is_some() || path.find(name).is_some();
    let of_file = |module: &lua_files::Module| {
        let remarks = look::remarks(&module.text, is_there);
        let place = module.path.display().to_string();
        remarks
            .into_iter()
            .take(MOST_LINES)
            .map(move |remark| format!("{place}:{}: {}", remark.line, remark.text))
    };
    reached.into_iter().flat_map(of_file).collect()
}
