//! An explanation for people.

use std::fmt::Write;

use serde_json::Value;

use crate::cli::printable::printable;

/// Writing to a string cannot fail, so its results are dropped.
pub(super) fn render(explanation: &Value) -> String {
    let mut out = String::new();
    let at = |path: &str| explanation.pointer(path).map(shown).unwrap_or_default();
    let _ = writeln!(
        out,
        "{} {}://{}{} from {} at revision {}",
        at("/request/method"),
        at("/request/scheme"),
        at("/request/host"),
        at("/request/path"),
        at("/request/client_ip"),
        at("/revision"),
    );
    let _ = writeln!(out, "{}", at("/result/summary"));
    route(&mut out, explanation.get("route").unwrap_or(&Value::Null));
    out.push_str("\ncandidates, in the order tried\n");
    for candidate in items(explanation, "candidates") {
        let field = |name: &str| candidate.get(name).map(shown).unwrap_or_default();
        let host = candidate.get("host").filter(|host| !host.is_null()).map(shown).unwrap_or("*".to_owned());
        let line = format!(
            "  {:<8}  route {}  {host} {}  priority {}",
            field("verdict"),
            field("route"),
            field("uri"),
            field("priority")
        );
        out.push_str(&line);
        match candidate.get("reason").and_then(Value::as_str) {
            Some(reason) => {
                let _ = writeln!(out, "  ({})", printable(reason));
            }
            None => out.push('\n'),
        }
    }
    if items(explanation, "candidates").is_empty() {
        out.push_str("  none: no route has this path\n");
    }
    if explanation.get("more_candidates") == Some(&Value::Bool(true)) {
        out.push_str("  and more\n");
    }
    phases(&mut out, explanation);
    plugins(&mut out, explanation);
    for note in items(explanation, "notes") {
        let _ = writeln!(out, "\nnote: {}", shown(note));
    }
    out
}

fn route(out: &mut String, route: &Value) {
    if route.is_null() {
        out.push_str("no route\n");
        return;
    }
    let field = |name: &str| route.get(name).filter(|value| !value.is_null()).map(shown);
    let _ = write!(out, "route {}", field("id").unwrap_or_default());
    if let Some(name) = field("name") {
        let _ = write!(out, " ({name})");
    }
    for (label, name) in [
        ("service", "service"),
        ("plugin config", "plugin_config"),
        ("upstream", "upstream"),
        ("node", "node"),
    ] {
        if let Some(value) = field(name) {
            let _ = write!(out, ", {label} {value}");
        }
    }
    out.push('\n');
}

fn phases(out: &mut String, explanation: &Value) {
    let phases = items(explanation, "phases");
    if phases.is_empty() {
        out.push_str("\nno plugins\n");
        return;
    }
    out.push_str("\nplugins by phase, in execution order\n");
    for phase in phases {
        let _ = writeln!(out, "  {}", phase.get("phase").map(shown).unwrap_or_default());
        for entry in items(phase, "plugins") {
            let field = |name: &str| entry.get(name).map(shown).unwrap_or_default();
            let _ = writeln!(
                out,
                "    {}  priority {}  from {}{}",
                field("plugin"),
                field("priority"),
                field("from"),
                does(entry)
            );
        }
    }
}

/// What becomes of a plugin's turn, where that is more than that it lets the request continue.
fn does(entry: &Value) -> String {
    let field = |name: &str| entry.get(name).filter(|value| !value.is_null()).map(shown);
    let with = field("status").map(|status| format!(" with {status}")).unwrap_or_default();
    let reason = field("reason").unwrap_or_default();
    match field("does").unwrap_or_default().as_str() {
        "skipped" => "  skipped by _meta.filter".to_owned(),
        "not_reached" => "  not reached".to_owned(),
        "answers" => format!("  answers{with}: {reason}"),
        "may_answer" => format!("  may answer{with}: {reason}"),
        "splits" => "  chooses the upstream".to_owned(),
        _ => String::new(),
    }
}

fn plugins(out: &mut String, explanation: &Value) {
    for plugin in items(explanation, "plugins") {
        let field = |name: &str| plugin.get(name).map(shown).unwrap_or_default();
        let _ = write!(out, "\n{} from {}", field("plugin"), field("from"));
        let hides: Vec<String> = items(plugin, "hides").iter().map(shown).collect();
        if !hides.is_empty() {
            let _ = write!(out, ", in place of {}", hides.join(", "));
        }
        out.push('\n');
        for field in items(plugin, "fields").iter().chain(items(plugin, "metadata")) {
            let path = field.get("path").map(shown).unwrap_or_default();
            let value = field.get("value").map(Value::to_string).unwrap_or_default();
            let value = printable(&value);
            let from = field.get("from").map(shown).unwrap_or_default();
            let _ = writeln!(out, "  {path} = {value}  ({from})");
        }
    }
}

fn items<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn shown(value: &Value) -> String {
    printable(&value.as_str().map_or_else(|| value.to_string(), str::to_owned)).into_owned()
}
