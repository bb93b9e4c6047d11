//! The log files of the process and the one thread that writes them.

use std::time::Duration;

use anyhow::Context;
use config::Settings;
use telemetry::{
    error_log,
    log_writer::{LogSink, LogWriter},
};

pub struct Logs {
    pub writer: LogWriter,
    pub access: Option<LogSink>,
    /// Of the Admin and the Control API.
    pub audit: Option<LogSink>,
}

impl Logs {
    pub fn open(settings: &Settings) -> anyhow::Result<Logs> {
        let writer = LogWriter::start().context("cannot start the log writer")?;
        let nginx = &settings.nginx;
        let open = |path: &str| -> anyhow::Result<LogSink> {
            let path = settings.below_prefix(path);
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder)
                    .with_context(|| format!("cannot create {}", folder.display()))?;
            }
            writer.open(&path).with_context(|| format!("cannot open log file {}", path.display()))
        };
        let to_stderr = is_stderr(&nginx.error_log);
        let error_sink = if to_stderr { None } else { Some(open(&nginx.error_log)?) };
        super::notices::error_log_is_stderr(to_stderr);
        error_log::init(level(nginx.error_log_level), error_sink, to_stderr);
        let access = nginx.access_log.enable.then(|| open(&nginx.access_log.path)).transpose()?;
        let audit = settings.admin.audit_log.as_deref();
        let audit = audit.filter(|_| settings.admin.listen.is_some() || settings.apisix.control.is_some());
        let audit = audit.map(|path| if is_stderr(path) { "/dev/stderr" } else { path }).map(open);
        Ok(Logs { writer, access, audit: audit.transpose()? })
    }

    /// After logrotate has moved the files.
    pub fn reopen(&self) {
        self.writer.reopen();
    }

    pub fn close(&self) {
        self.writer.drain(Duration::from_secs(1));
    }
}

fn is_stderr(path: &str) -> bool {
    matches!(path, "stderr" | "/dev/stderr")
}

pub fn level(level: config::settings::Level) -> error_log::Level {
    use config::settings::Level;
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
