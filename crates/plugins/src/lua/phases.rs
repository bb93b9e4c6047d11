//! The table that a `script` returns: which of its members run, and which are never called.

use mlua::{Table, Value};
use tidegate_model::{check::LuaFault, nearest::hint};
use tidegate_plugin_api::Phases;

const PHASES: [&str; 5] = ["rewrite", "access", "header_filter", "body_filter", "log"];

/// Phases of APISIX and nginx in which no script runs, here or there.
const ELSEWHERE: [&str; 8] = [
    "init",
    "init_worker",
    "destroy",
    "balancer",
    "before_proxy",
    "delayed_body_filter",
    "preread",
    "certificate",
];

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

/// As Lua's call takes it: a function, or a table with a function `__call`.
fn is_callable(value: &Value) -> bool {
    match value {
        Value::Function(_) => true,
        Value::Table(table) => {
            let call = table.metatable().and_then(|meta| meta.raw_get::<Value>("__call").ok());
            matches!(call, Some(Value::Function(_)))
        }
        _ => false,
    }
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

/// Members that look like guards and never run, in words.
pub(super) fn remarks(table: &Table, source: &str) -> Vec<String> {
    let members = table.pairs::<Value, Value>().filter_map(Result::ok);
    let mut found: Vec<String> = members.filter_map(|(name, value)| remark(&name, &value, source)).collect();
    found.sort();
    found
}

fn remark(name: &Value, value: &Value, source: &str) -> Option<String> {
    let phases = PHASES.join(", ");
    let name = match name {
        Value::String(name) => name.to_string_lossy(),
        _ if !is_callable(value) => return None,
        Value::Integer(number) => {
            return Some(format!(
                "script: the member [{number}] is never called: the functions that run are {phases}"
            ));
        }
        other => {
            let kind = other.type_name();
            return Some(format!(
                "script: the member with a {kind} as its name is never called: the functions that run are \
                 {phases}"
            ));
        }
    };
    if PHASES.contains(&name.as_str()) {
        return matches!(value, Value::Boolean(false))
            .then(|| format!("script: {name} is false, so nothing runs in that phase"));
    }
    let meant = hint(&name, PHASES);
    let inside = || PHASES.iter().find(|phase| name.contains(**phase)).copied();
    let is_meant = !meant.is_empty() || ELSEWHERE.contains(&name.as_str());
    // A helper is called by its name, or handed on.
    let is_idle = is_callable(value) && (is_meant || occurrences(source, &name) < 2);
    if !is_idle && (meant.is_empty() || value.is_nil()) {
        return None;
    }
    let end = match inside() {
        _ if !meant.is_empty() => meant,
        Some(phase) => format!("; did you mean {phase}?"),
        None => format!(": the functions that run are {phases}"),
    };
    Some(format!("script: {name} is never called{end}"))
}

/// How often a name stands in a text as a whole word.
fn occurrences(source: &str, name: &str) -> usize {
    let is_part = |sign: char| sign.is_ascii_alphanumeric() || sign == '_';
    source
        .match_indices(name)
        .filter(|(at, _)| {
            let before = source.get(..*at).and_then(|text| text.chars().next_back());
            let after = source.get(at + name.len()..).and_then(|text| text.chars().next());
            !before.is_some_and(is_part) && !after.is_some_and(is_part)
        })
        .count()
}
