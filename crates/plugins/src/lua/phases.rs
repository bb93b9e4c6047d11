//! The table that a `script` returns: which of its members run, and which are never called.

use mlua::{Table, Value};
use tidegate_model::check::LuaFault;
use tidegate_plugin_api::Phases;

use super::members::{self, Members, is_callable};

const PHASES: [&str; 5] = ["rewrite", "access", "header_filter", "body_filter", "log"];

/// A script whose table has nothing to run guards nothing, and what cannot be called fails at each request. What a
/// metatable adds shows only when it is asked.
pub(super) fn check(table: &Table) -> Result<(), LuaFault> {
    let mut runs = table.metatable().is_some();
    for phase in PHASES {
        match table.raw_get::<Value>(phase).unwrap_or(Value::Nil) {
            // As for a phase that is not there.
            Value::Nil | Value::Boolean(false) => {}
            value if is_callable(&value) => runs = true,
            value => {
                let kind = value.type_name();
                return Err(LuaFault::Load(format!("its {phase} should be a function, not a {kind}")));
            }
        }
    }
    if runs {
        return Ok(());
    }
    let names: Vec<String> =
        table.pairs::<String, Value>().filter_map(Result::ok).map(|(name, _)| name).collect();
    let names = if names.is_empty() { "no members".to_owned() } else { names.join(", ") };
    let phases = PHASES.join(", ");
    Err(LuaFault::Load(format!("its table has {names}, and none of the functions that run: {phases}")))
}

/// What of a phase is called. `phase = false` stands for none, as in APISIX.
pub(super) fn function(table: &Table, phase: &str) -> mlua::Result<Option<Value>> {
    match table.get::<Value>(phase)? {
        Value::Nil | Value::Boolean(false) => Ok(None),
        value if is_callable(&value) => Ok(Some(value)),
        value => {
            let kind = value.type_name();
            Err(mlua::Error::runtime(format!("{phase} should be a function, not a {kind}")))
        }
    }
}

/// Functions of a plugin in a file, and when they run.
const OF_PLUGINS: [(&str, Phases); 7] = [
    ("rewrite", Phases::REWRITE),
    ("access", Phases::ACCESS),
    ("before_proxy", Phases::BEFORE_PROXY),
    ("header_filter", Phases::HEADER_FILTER),
    ("body_filter", Phases::BODY_FILTER.and(Phases::HEADER_FILTER)),
    ("delayed_body_filter", Phases::BODY_FILTER.and(Phases::HEADER_FILTER)),
    ("log", Phases::LOG),
];

/// When functions of the module run.
pub(super) fn of_plugin(module: &Table) -> mlua::Result<Phases> {
    let mut runs = Phases::NONE;
    for (name, phase) in OF_PLUGINS {
        if function(module, name)?.is_some() {
            runs = runs.and(phase);
        }
    }
    Ok(runs)
}

/// Names of the functions that would run.
pub(super) fn running(module: &Table) -> Vec<&'static str> {
    let runs = |name: &&str| function(module, name).is_ok_and(|found| found.is_some());
    OF_PLUGINS.iter().map(|(name, _)| *name).filter(runs).collect()
}

/// Members that look like guards and never run, in words.
pub(super) fn remarks(table: &Table, source: &str) -> Vec<String> {
    let members = Members { run: &PHASES, others: &[], texts: &[source.as_bytes()] };
    members::remarks(table, &members).iter().map(|remark| format!("script: {}", remark.text)).collect()
}
