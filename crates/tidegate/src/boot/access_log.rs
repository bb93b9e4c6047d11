//! Access log lines: the format of config.yaml rendered on the worker into its own buffer.

use std::cell::RefCell;

use tidegate_plugin_api::{
    Request, Template, Variable,
    template::{FormatError, Part},
    variables::Named,
};
use tidegate_proxy::settings::AccessLog;
use tidegate_telemetry::{
    access_log::WorkerLog,
    clock::TimeStrings,
    escape::{Escape, ValueSink},
    log_writer::LogSink,
};

pub(super) struct FormattedLog {
    template: Template,
    escape: Escape,
    sink: LogSink,
    buffer_bytes: usize,
}

struct Local {
    log: WorkerLog,
    clock: TimeStrings,
}

thread_local! {
    static LOCAL: RefCell<Option<Local>> = const { RefCell::new(None) };
}

impl FormattedLog {
    pub(super) fn new(
        format: &str,
        escape: &str,
        sink: LogSink,
        buffer_bytes: usize,
    ) -> anyhow::Result<FormattedLog> {
        let template = Template::compile_log_format(format, variable)?;
        Ok(FormattedLog {
            template,
            escape: Escape::from_name(escape).unwrap_or_default(),
            sink,
            buffer_bytes,
        })
    }

    fn with_local(&self, run: impl FnOnce(&mut Local)) {
        LOCAL.with_borrow_mut(|local| {
            run(local.get_or_insert_with(|| Local {
                log: WorkerLog::with_buffer(self.sink.clone(), self.buffer_bytes),
                clock: TimeStrings::default(),
            }));
        });
    }
}

/// Names of a format that stand for nothing the gateway or a plugin sets. The error: it is not a format.
pub(super) fn unknown_variables(format: &str) -> Result<Vec<String>, FormatError> {
    let template = Template::compile_log_format(format, variable)?;
    let unknown = template.variables().filter_map(|variable| match variable {
        Variable::Custom(name) if !is_set_by_plugins(name) => Some(name.to_string()),
        _ => None,
    });
    Ok(unknown.collect())
}

/// Variables that only plugins set.
pub(super) fn is_set_by_plugins(name: &str) -> bool {
    const NAMES: [&str; 2] = ["resp_body", "cookie_hash"];
    NAMES.contains(&name)
        || ["opentelemetry_", "zipkin_", "limit_", "jwt_", "grpc_"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
}

/// `$request_uri` is what the client sent in an access log, as in nginx; plugins see the normalised one.
fn variable(name: &str) -> Variable {
    Variable::resolve(if name == "request_uri" { "real_request_uri" } else { name })
}

impl AccessLog for FormattedLog {
    fn write(&self, _: usize, request: &Request) {
        self.with_local(|local| {
            let clock = local.clock.refresh();
            local.log.append(|out| {
                for part in self.template.parts() {
                    match part {
                        Part::Literal(text) => out.extend_from_slice(text),
                        Part::Variable { variable, .. } => {
                            self.escape.append(out, |sink| value(variable, request, clock, sink));
                        }
                    }
                }
            });
        });
    }

    fn tick(&self, _: usize) {
        self.with_local(|local| local.log.flush());
    }
}

fn value(variable: &Variable, request: &Request, clock: &TimeStrings, sink: &mut ValueSink<'_>) {
    match variable {
        Variable::Named(Named::TimeLocal) => sink.plain(clock.time_local()),
        Variable::Named(Named::TimeIso8601) => sink.plain(clock.time_iso8601()),
        Variable::Named(Named::Status) => sink.integer(u64::from(request.response.status)),
        Variable::Named(Named::BodyBytesSent) => sink.integer(request.outcome.body_bytes_sent),
        Variable::Named(Named::RequestTime) => {
            sink.seconds((request.elapsed_seconds() * 1_000_000.0) as u64);
        }
        _ => {
            if let Some(value) = request.variable(variable) {
                sink.text(&value);
            }
        }
    }
}
