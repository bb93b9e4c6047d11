//! Access log lines of stream routes: as those of requests, in a file of their own.

use std::cell::RefCell;

use tidegate_config::settings::AccessLog;
use tidegate_plugin_api::{
    Session, Template, Variable,
    template::{FormatError, Part},
    variables::Named,
};
use tidegate_proxy::settings::StreamLog;
use tidegate_telemetry::{
    access_log::WorkerLog,
    clock::TimeStrings,
    escape::{Escape, ValueSink},
    log_writer::LogSink,
};

pub(super) struct FormattedStreamLog {
    template: Template,
    escape: Escape,
    sink: LogSink,
    buffer_bytes: usize,
}

thread_local! {
    static LOCAL: RefCell<Option<(WorkerLog, TimeStrings)>> = const { RefCell::new(None) };
}

impl FormattedStreamLog {
    pub(super) fn new(log: &AccessLog, sink: LogSink) -> Result<FormattedStreamLog, FormatError> {
        Ok(FormattedStreamLog {
            template: Template::compile_log_format(&log.format, Variable::resolve)?,
            escape: Escape::from_name(&log.escape).unwrap_or_default(),
            sink,
            buffer_bytes: log.buffer_bytes,
        })
    }

    fn with_local(&self, run: impl FnOnce(&mut WorkerLog, &mut TimeStrings)) {
        LOCAL.with_borrow_mut(|local| {
            let log = || WorkerLog::with_buffer(self.sink.clone(), self.buffer_bytes);
            let (log, clock) = local.get_or_insert_with(|| (log(), TimeStrings::default()));
            run(log, clock);
        });
    }
}

/// Names of a format that no session has a value for.
pub(super) fn unknown_variables(format: &str) -> Result<Vec<String>, FormatError> {
    let template = Template::compile_log_format(format, Variable::resolve)?;
    let unknown =
        template.variables().filter(|variable| !Session::knows(variable)).map(|variable| match variable {
            Variable::Custom(name) => name.to_string(),
            other => format!("{other:?}"),
        });
    Ok(unknown.collect())
}

impl StreamLog for FormattedStreamLog {
    fn write(&self, _: usize, session: &Session) {
        self.with_local(|log, clock| {
            let clock = clock.refresh();
            log.append(|out| {
                for part in self.template.parts() {
                    match part {
                        Part::Literal(text) => out.extend_from_slice(text),
                        Part::Variable { variable, .. } => {
                            self.escape.append(out, |sink| value(variable, session, clock, sink));
                        }
                    }
                }
            });
        });
    }

    fn tick(&self, _: usize) {
        self.with_local(|log, _| log.flush());
    }
}

fn value(variable: &Variable, session: &Session, clock: &TimeStrings, sink: &mut ValueSink<'_>) {
    match variable {
        Variable::Named(Named::TimeLocal) => sink.plain(clock.time_local()),
        Variable::Named(Named::TimeIso8601) => sink.plain(clock.time_iso8601()),
        _ => {
            if let Some(value) = session.variable(variable) {
                sink.text(&value);
            }
        }
    }
}
