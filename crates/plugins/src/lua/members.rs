//! Members of a table of functions that are never called: of a `script`, and of a plugin in a file.

use mlua::{Table, Value};
use tidegate_model::nearest::nearest;

/// Phases of APISIX and nginx in which neither runs, here or there.
const ELSEWHERE: [&str; 10] = [
    "init",
    "init_worker",
    "destroy",
    "balancer",
    "before_proxy",
    "delayed_body_filter",
    "preread",
    "control_api",
    "workflow_handler",
    "certificate",
];

/// What is known of the members.
pub(super) struct Members<'a> {
    /// Names of functions that run.
    pub run: &'a [&'a str],
    /// Other names that mean something.
    pub others: &'a [&'a str],
    /// Where a helper would be called by its name.
    pub texts: &'a [&'a [u8]],
}

/// A member that does nothing.
pub(super) struct Remark {
    pub name: Option<String>,
    pub is_function: bool,
    pub text: String,
}

/// Members that look like guards and never run, in the order of their texts.
pub(super) fn remarks(table: &Table, known: &Members<'_>) -> Vec<Remark> {
    let members = table.pairs::<Value, Value>().filter_map(Result::ok);
    let mut found: Vec<Remark> =
        members.filter_map(|(name, value)| remark(table, &name, &value, known)).collect();
    found.sort_by(|left, right| left.text.cmp(&right.text));
    found
}

fn remark(table: &Table, name: &Value, value: &Value, known: &Members<'_>) -> Option<Remark> {
    let phases = known.run.join(", ");
    let is_function = is_callable(value);
    let name = match name {
        Value::String(name) => name.to_string_lossy(),
        _ if !is_function => return None,
        other => {
            let kind = other.type_name();
            let which = match other {
                Value::Integer(number) => format!("[{number}]"),
                _ => format!("with a {kind} as its name"),
            };
            let text = format!("the member {which} is never called: the functions that run are {phases}");
            return Some(Remark { name: None, is_function, text });
        }
    };
    let said = |text: String| Some(Remark { name: Some(name.clone()), is_function, text });
    if known.run.contains(&name.as_str()) {
        let is_off = matches!(value, Value::Boolean(false));
        let text = || format!("{name} is false, so nothing runs in that phase");
        return is_off.then(text).and_then(said);
    }
    if known.others.contains(&name.as_str()) {
        return None;
    }
    let count: usize = known.texts.iter().map(|text| occurrences(text, &name)).sum();
    // A helper is called by its name, or handed on.
    let is_called = count > 1;
    let meant = nearest(&name, known.run.iter().chain(known.others).copied());
    // What it resembles is there itself.
    let meant = meant.filter(|meant| !(is_called && table.contains_key(*meant).unwrap_or(false)));
    if !is_function {
        let meant = meant.filter(|meant| !table.contains_key(*meant).unwrap_or(false))?;
        let verb = if known.run.contains(&meant) { "called" } else { "read" };
        return said(format!("{name} is never {verb}; did you mean {meant}?"));
    }
    if meant.is_none() && is_called && !ELSEWHERE.contains(&name.as_str()) {
        return None;
    }
    let inside = || known.run.iter().find(|phase| name.contains(**phase)).copied();
    said(match meant.or_else(inside) {
        Some(meant) => format!("{name} is never called; did you mean {meant}?"),
        None => format!("{name} is never called: the functions that run are {phases}"),
    })
}

/// As Lua's call takes it: a function, or a table with a function `__call`.
pub(super) fn is_callable(value: &Value) -> bool {
    match value {
        Value::Function(_) => true,
        Value::Table(table) => {
            let call = table.metatable().and_then(|meta| meta.raw_get::<Value>("__call").ok());
            matches!(call, Some(Value::Function(_)))
        }
        _ => false,
    }
}

/// How often a name stands in a text as a whole word.
fn occurrences(text: &[u8], name: &str) -> usize {
    let is_part = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    memchr::memmem::find_iter(text, name.as_bytes())
        .filter(|at| {
            let before = at.checked_sub(1).and_then(|before| text.get(before));
            !is_part(before) && !is_part(text.get(at + name.len()))
        })
        .count()
}
