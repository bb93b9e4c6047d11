//! Appends a line of JSON per request to a file.
//!
//! Files stay open, shared by all configurations that name the same path, and are reopened after SIGUSR1. The log
//! writer's thread opens and writes them, whole lines at a time, so lines of several workers do not mix.

mod files;

use std::sync::Arc;

use serde_json::{Map, Value};
use tidegate_plugin_api::{
    BodyChunk, BuildContext, Foresight, Phases, Plugin, PluginDef, Request, SchemaKind, Step, Variable,
    aside, stop,
};
use tidegate_routing::expr::Expression;
use tidegate_telemetry::log_writer::LineSink;

use crate::common::log_entry::{LogEntry, Made};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "file-logger",
    version: 0.1,
    priority: 399,
    guards: false,
    schema: include_str!("file_logger.json"),
    metadata_schema: Some(include_str!("file_logger.metadata.json")),
    phases: LogEntry::ALL_PHASES,
    check,
    remarks,
    build,
    for_admins: Some("it writes files of the machine"),
    ..PluginDef::DEFAULT
};

fn expression(rule: &Value) -> Result<Expression<Variable>, String> {
    Expression::compile(rule, &mut |name| Variable::resolve(name))
}

fn check(conf: &Value, kind: SchemaKind) -> Result<(), String> {
    match conf.get("match").filter(|_| kind == SchemaKind::Plugin) {
        Some(rule) => expression(rule)
            .map(|_| ())
            .map_err(|reason| format!("failed to validate the 'match' expression: {reason}")),
        None => Ok(()),
    }
}

/// A fault of the path is in the error log with the first request only.
fn remarks(conf: &Value) -> Vec<String> {
    let path = conf.get("path").and_then(Value::as_str).and_then(files::place);
    let fault = path.and_then(|path| files::fault(&path)).map(|fault| format!("path: {fault}"));
    let is_empty = conf.get("match").and_then(Value::as_array).is_some_and(Vec::is_empty);
    let none =
        is_empty.then(|| "match is empty, so that nothing is logged; leave it out to log all".to_owned());
    fault.into_iter().chain(none).collect()
}

struct FileLogger {
    entry: LogEntry,
    /// One of these must hold; none given: everything is logged.
    matches: Option<Vec<Expression<Variable>>>,
    file: Arc<LineSink>,
}

fn build(conf: &Value, context: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let of_metadata = || context.metadata.and_then(|metadata| metadata.get("path"));
    let path = conf
        .get("path")
        .or_else(of_metadata)
        .and_then(Value::as_str)
        .ok_or("property \"path\" is not set in either the plugin conf or the metadata")?;
    let matches = conf.get("match").and_then(Value::as_array).map(|rules| {
        // A rule that does not compile never holds.
        rules.iter().filter_map(|rule| expression(rule).ok()).collect()
    });
    Ok(Arc::new(FileLogger {
        entry: LogEntry::new(conf, context.metadata)?,
        matches,
        file: files::open(path)?,
    }))
}

impl Plugin for FileLogger {
    fn phases(&self) -> Phases {
        self.entry.phases()
    }

    fn access<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        self.entry.access(request)
    }

    fn body_filter(&self, request: &mut Request, chunk: &mut BodyChunk) {
        self.entry.body_filter(request, chunk);
    }

    fn log(&self, request: &mut Request) {
        if self.matches.as_ref().is_some_and(|rules| !rules.iter().any(|rule| rule.eval(request))) {
            return;
        }
        match self.entry.entry(request).then(line) {
            Made::Now(line) => {
                self.file.append(&line);
            }
            Made::Later(_, make) => {
                let Some(host) = tidegate_plugin_api::host() else { return };
                let (file, guard) = (self.file.clone(), stop::guard());
                host.background.spawn(async move {
                    let _ = aside::run(aside::Whose::Ours, move || file.append(&make())).await;
                    drop(guard);
                });
            }
        }
    }

    fn foresee(&self, phase: Phases, request: &mut Request) -> Foresight {
        Foresight::by_running(self, phase, request)
    }
}

fn line(entry: Map<String, Value>) -> Vec<u8> {
    let mut line = serde_json::to_vec(&entry).unwrap_or_default();
    line.push(b'\n');
    line
}
