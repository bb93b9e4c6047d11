//! What of a plugin's file does nothing: functions that are never called, names in its schemas that check nothing.

use mlua::{Function, Table};
use tidegate_model::schema::Schema;
use tidegate_plugin_api::Phases;

use super::declared::Declared;
use crate::{
    lua::{
        members::{self, Members},
        phases,
    },
    lua_files::{
        Module, Modules,
        functions::{Definition, functions},
        look, module_of,
    },
};

/// Functions that run, as docs/guide/lua.md lists them.
const RUN: [&str; 7] =
    ["rewrite", "access", "before_proxy", "header_filter", "body_filter", "delayed_body_filter", "log"];

/// What else a module may have. `destroy` is never called, and leaves nothing undone: the process ends.
const OTHERS: [&str; 14] = [
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
];

/// Functions by which a plugin without phases may be of use.
const BESIDE_REQUESTS: [&str; 4] = ["init", "api", "destroy", "control_api"];

/// A module that was started.
pub(super) struct Started<'a> {
    /// The name that it gave itself.
    pub own_name: Option<String>,
    /// Functions that would have run before `init()`.
    pub before: Vec<&'static str>,
    pub module: &'a Table,
    pub declared: &'a Declared,
}

/// `Err`: nothing of it runs, although functions of it were meant to.
pub(super) fn of(name: &str, modules: &Modules, started: Started<'_>) -> Result<Vec<String>, String> {
    let Started { own_name, module, declared, .. } = &started;
    let Some(file) = modules.get(&module_of(name)) else { return Ok(Vec::new()) };
    let texts: Vec<&[u8]> = modules.iter().map(|(_, module)| module.text.as_slice()).collect();
    let idle = members::remarks(module, &Members { run: &RUN, others: &OTHERS, texts: &texts });
    let has_functions = idle.iter().any(|remark| remark.is_function);
    let mut found: Vec<String> =
        idle.into_iter().map(|remark| placed(file, remark.name.as_deref(), &remark.text)).collect();
    let is_beside = BESIDE_REQUESTS.into_iter().any(|name| module.contains_key(name).unwrap_or(true));
    let is_idle = declared.phases == Phases::NONE && !is_beside;
    found.extend(elsewhere(file, &started, is_beside)?);
    if is_idle && has_functions {
        return Err(format!("none of its functions runs: {}", found.join("; ")));
    }
    if is_idle {
        found.push(placed(file, None, &format!("it has none of the functions that run: {}", RUN.join(", "))));
    }
    if let Some(own) = own_name.as_ref().filter(|own| *own != name) {
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

/// Functions with the name of one that runs, which are not where they run, or do not get what they ask for.
fn elsewhere(file: &Module, started: &Started<'_>, is_beside: bool) -> Result<Vec<String>, String> {
    let Started { before, module, declared, .. } = started;
    let runs = declared.phases != Phases::NONE;
    let after = phases::running(module);
    let gone = before.iter().find(|name| !after.contains(name));
    let gone = gone.map(|name| placed(file, Some(name), &format!("{name} is gone after init()")));
    if let Some(gone) = gone.as_ref().filter(|_| !runs) {
        return Err(format!("none of its functions runs: {gone}"));
    }
    let mut found: Vec<String> = gone.into_iter().collect();
    let path = file.path.display();
    for Definition { line, of, name, parameters, count } in functions(&file.text) {
        if !RUN.contains(&name.as_str()) {
            continue;
        }
        if of.ends_with(':') && is_at(module, &name, line) && is_shifted(&parameters) {
            return Err(format!(
                "{path}:{line}: {name} has a colon, so that its arguments are shifted: its {} is the context; write {}.{name}({})",
                parameters.first().map(String::as_str).unwrap_or_default(),
                of.trim_end_matches(':'),
                parameters.join(", ")
            ));
        }
        // As in `{access = function(conf, ctx) end}`.
        if is_at(module, &name, line) {
            continue;
        }
        let text = format!(
            "{path}:{line}: {name} is not a member of the module, and is never called; write function _M.{name}(conf, ctx)"
        );
        let is_idle = count == 1 || !is_beside;
        match runs {
            false if is_idle => return Err(format!("none of its functions runs: {text}")),
            true if of.is_empty() && count == 1 => found.push(text),
            _ => {}
        }
    }
    Ok(found)
}

/// Whether the member was defined on that line.
fn is_at(module: &Table, name: &str, line: usize) -> bool {
    module.get::<Function>(name).is_ok_and(|function| function.info().line_defined == Some(line))
}

/// The colon puts `self` before them, and `conf` is in that.
fn is_shifted(parameters: &[String]) -> bool {
    parameters.len() > 1 || parameters.first().is_some_and(|first| first == "conf")
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
