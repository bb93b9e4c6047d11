//! The log files of the process and the thread that writes them; a second one writes to standard output and standard error,
//! which may be pipes without a reader.

use std::{panic, path::Path, thread, time::Duration};

use anyhow::Context;
use tidegate_config::Settings;
use tidegate_telemetry::{
    error_log,
    log_writer::{LogSink, LogWriter},
};

const ERROR: &str = "nginx_config.error_log";
const ACCESS: &str = "nginx_config.http.access_log";
const STREAM: &str = "nginx_config.stream.access_log";
const AUDIT: &str = "deployment.admin.audit_log";

pub(crate) struct Logs {
    pub writer: LogWriter,
    streams: LogWriter,
    pub access: Option<LogSink>,
    /// Of sessions of stream routes.
    pub stream: Option<LogSink>,
    /// Of the Admin and the Control API.
    pub audit: Option<LogSink>,
    error: LogSink,
}

impl Logs {
    pub(crate) fn open(settings: &Settings) -> anyhow::Result<Logs> {
        let start = || LogWriter::start().context("cannot start the log writer");
        let (writer, streams) = (start()?, start()?);
        let nginx = &settings.nginx;
        let open = |key: &str, path: &str| -> anyhow::Result<LogSink> {
            let path = settings.below_prefix(path);
            let opened = match path.parent() {
                Some(folder) => std::fs::create_dir_all(folder).map_err(|error| {
                    std::io::Error::new(error.kind(), format!("cannot create {}: {error}", folder.display()))
                }),
                None => Ok(()),
            };
            opened
                .and_then(|()| if is_stream(&path) { streams.open(&path) } else { writer.open(&path) })
                .map_err(|error| unusable(settings, key, &error.to_string()))
        };
        let to_stderr = is_stderr(&nginx.error_log);
        let error_sink = open(ERROR, if to_stderr { "/dev/stderr" } else { &nginx.error_log })?;
        super::notices::error_log_is_stderr(to_stderr);
        error_log::init(level(nginx.error_log_level), error_sink.clone());
        log_panics();
        let access = nginx.access_log.enable.then(|| open(ACCESS, &nginx.access_log.path)).transpose()?;
        let stream = stream_log(settings).map(|path| open(STREAM, path)).transpose()?;
        let audit = audit_log(settings).map(|path| if is_stderr(path) { "/dev/stderr" } else { path });
        let audit = audit.map(|path| open(AUDIT, path));
        let audit = audit.transpose()?;
        Ok(Logs { writer, streams, access, stream, audit, error: error_sink })
    }

    /// Each with its name in metrics.
    pub(crate) fn sinks(&self) -> Vec<(&'static str, LogSink)> {
        let all = [
            ("access", self.access.as_ref()),
            ("stream", self.stream.as_ref()),
            ("audit", self.audit.as_ref()),
            ("error", Some(&self.error)),
        ];
        all.into_iter().filter_map(|(name, sink)| Some((name, sink?.clone()))).collect()
    }

    /// After logrotate has moved the files.
    pub(crate) fn reopen(&self) {
        self.writer.reopen();
    }

    pub(crate) fn close(&self) {
        self.writer.drain(Duration::from_secs(1));
        self.streams.drain(Duration::from_secs(1));
    }
}

/// The reason of a start that fails is written, too.
impl Drop for Logs {
    fn drop(&mut self) {
        self.close();
    }
}

/// What a request caused never goes to standard error: a write there blocks until its reader has caught up.
fn log_panics() {
    let print = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        error_log::log(error_log::Level::Critical, format_args!("{panic}"));
        if thread::current().name().is_none_or(|name| !name.starts_with("worker-")) {
            print(panic);
        }
    }));
}

/// There is none without a listener whose callers it would record.
fn audit_log(settings: &Settings) -> Option<&str> {
    let served = settings.admin.listen.is_some() || settings.apisix.control.is_some();
    settings.admin.audit_log.as_deref().filter(|_| served)
}

fn stream_log(settings: &Settings) -> Option<&str> {
    let log = &settings.nginx.stream_log;
    (settings.stream.enable && log.enable).then_some(log.path.as_str())
}

/// The files that a start opens, each with its key.
pub(super) fn files(settings: &Settings) -> Vec<(&'static str, &str)> {
    let nginx = &settings.nginx;
    let access = nginx.access_log.enable.then_some((ACCESS, nginx.access_log.path.as_str()));
    let audit = audit_log(settings).map(|path| (AUDIT, path));
    let stream = stream_log(settings).map(|path| (STREAM, path));
    let all = [Some((ERROR, nginx.error_log.as_str())), access, stream, audit];
    all.into_iter().flatten().filter(|(_, path)| !is_stderr(path)).collect()
}

/// What a log file that cannot be opened ends a start with.
pub(super) fn unusable(settings: &Settings, key: &str, reason: &str) -> anyhow::Error {
    anyhow::anyhow!(
        "{}",
        settings
            .places
            .message(key, &format!("{key}: {reason}; give the path of a file that can be written"))
    )
}

fn is_stream(path: &Path) -> bool {
    path == Path::new("/dev/stdout") || path == Path::new("/dev/stderr")
}

fn is_stderr(path: &str) -> bool {
    matches!(path, "stderr" | "/dev/stderr")
}

pub(super) fn level(level: tidegate_config::settings::Level) -> error_log::Level {
    use tidegate_config::settings::Level;
    match level {
        Level::Debug => error_log::Level::Debug,
        Level::Info => error_log::Level::Info,
        Level::Notice => error_log::Level::Notice,
        Level::Warn => error_log::Level::Warn,
        Level::Error => error_log::Level::Error,
        Level::Crit => error_log::Level::Critical,
        Level::Alert => error_log::Level::Alert,
        Level::Emerg => error_log::Level::Emergency,
    }
}
