//! What of a plugin's file does nothing: functions that are never called, names in its schemas that check nothing.

use mlua::Table;
use tidegate_model::schema::Schema;
use tidegate_plugin_api::Phases;

use super::declared::Declared;
use crate::{
    lua::members::{self, Members},
    lua_files::{Module, Modules, look, module_of},
};

/// Functions that run, as docs/guide/lua.md lists them.
const RUN: [&str; 7] =
    ["rewrite", "access", "before_proxy", "header_filter", "body_filter", "delayed_body_filter", "log"];

/// What else a module may have. Those that are never called are in the guide, and guard nothing.
const OTHERS: [&str; 16] = [
    "version",
    "priority",
    "name",
    "attr",
    "schema",
    "metadata_schema",
    "consumer_schema",
    "type",
    "scope",
    "run_policy",
    "check_schema",
    "init",
    "api",
    "destroy",
    "control_api",
    "workflow_handler",
];

/// Functions by which a plugin without phases may be of use.
const BESIDE_REQUESTS: [&str; 4] = ["init", "api", "destroy", "control_api"];

/// `Err`: nothing of it runs, although functions of it were meant to.
pub(super) fn of(
    name: &str,
    own_name: Option<String>,
    module: &Table,
    modules: &Modules,
    declared: &Declared,
) -> Result<Vec<String>, String> {
    let Some(file) = modules.get(&module_of(name)) else { return Ok(Vec::new()) };
    let texts: Vec<&[u8]> = modules.iter().map(|(_, module)| module.text.as_slice()).collect();
    let idle = members::remarks(module, &Members { run: &RUN, others: &OTHERS, texts: &texts });
    let functions = idle.iter().any(|remark| remark.is_function);
    let mut found: Vec<String> =
        idle.into_iter().map(|remark| placed(file, remark.name.as_deref(), &remark.text)).collect();
    let is_idle = declared.phases == Phases::NONE
        && !BESIDE_REQUESTS.into_iter().any(|name| module.contains_key(name).unwrap_or(true));
    if is_idle && functions {
        return Err(format!("none of its functions runs: {}", found.join("; ")));
    }
    if is_idle {
        found.push(placed(file, None, &format!("it has none of the functions that run: {}", RUN.join(", "))));
    }
    if let Some(own) = own_name.filter(|own| own != name) {
        found.push(placed(file, Some("name"), &format!("its name is {own:?}, and it is used as {name}")));
    }
    for (field, schema) in declared.schemas() {
        for remark in Schema::remarks(schema) {
            let keyword = remark.split('"').nth(1).unwrap_or_default();
            if keyword != "encrypt_fields" {
                found.push(placed(file, Some(keyword), &format!("{field} at {remark}")));
            }
        }
    }
    Ok(found)
}

/// What is wrong with a whole module, with its place.
pub(super) fn fault(name: &str, modules: &Modules, reason: String) -> String {
    let Some(file) = modules.get(&module_of(name)).filter(|_| reason.starts_with("invalid plugin")) else {
        return reason;
    };
    let field = OTHERS.iter().find(|field| reason.split([' ', ':']).any(|word| word == **field));
    placed(file, field.copied(), &reason)
}

/// Where the function that checks configurations is.
pub(super) fn place_of_check(name: &str, modules: &Modules) -> String {
    modules.get(&module_of(name)).map(|file| placed(file, Some("check_schema"), "")).unwrap_or_default()
}

/// With file and line.
fn placed(file: &Module, word: Option<&str>, text: &str) -> String {
    let path = file.path.display();
    match word.and_then(|word| look::line_of(&file.text, word)) {
        Some(line) => format!("{path}:{line}: {text}"),
        None => format!("{path}: {text}"),
    }
}
