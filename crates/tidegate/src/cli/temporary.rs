//! A gateway without a folder of its own: its configuration is made by a verb, written to a temporary folder, and removed
//! with it.

use std::{
    env,
    fs::{self, DirBuilder},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::Context;
use tidegate_config::{Settings, Source};

use super::daemon;
use crate::boot::{self, RunOptions, pid_file::PidFile, serving::Origin, signals::Hangup};

/// The access log of such a gateway, which is its standard output.
pub(super) const LOG_FORMAT: &str =
    "$remote_addr - - [$time_local] \\\"$request\\\" $status $body_bytes_sent $request_time";

/// The folder of the configuration. It goes with the process.
pub(super) struct Home(PathBuf);

impl Home {
    pub(super) fn create() -> anyhow::Result<Home> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let name = format!("tidegate-serve-{}-{}", std::process::id(), now.as_nanos());
        let path = env::temp_dir().join(name);
        // Fails if it exists already: no other user may write what this process runs.
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.with_context(|| format!("cannot create {}; set TMPDIR to a folder for it", path.display()))?;
        Ok(Home(path))
    }

    /// A folder that another process has created.
    pub(super) fn created(path: PathBuf) -> Home {
        Home(path)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Writes config.yaml and apisix.yaml.
    pub(super) fn write(&self, config: &str, resources: &str) -> anyhow::Result<()> {
        let folder = self.0.join("conf");
        let write = |name: &str, text: &str| fs::write(folder.join(name), text);
        fs::create_dir_all(&folder)
            .and_then(|()| write("config.yaml", config))
            .and_then(|()| write("apisix.yaml", resources))
            .with_context(|| format!("cannot write to {}", folder.display()))
    }

    /// Serves what was written. `listen` takes the place of `node_listen`; `says` is printed when the ports are open.
    pub(super) fn run(self, listen: Option<String>, says: String, hangup: Hangup) -> anyhow::Result<()> {
        let prefix = self.0.clone();
        let load = move || settings_of(&prefix, listen.clone());
        let settings = load()?;
        let options = RunOptions {
            origin: Origin {
                program: daemon::own_program()?,
                arguments: env::args_os().skip(1).collect(),
                load: Box::new(load),
            },
            config: settings.raw.clone(),
            pid_file: PidFile::create(&settings.files.pid)?,
            stay: false,
            hangup,
            predecessor: None,
            warnings: Vec::new(),
            new_keys: Vec::new(),
            says: Some(says),
        };
        boot::run(settings, options).map_err(|error| self.in_words_of_the_verb(&error))
    }

    /// Who called the verb has written no configuration.
    fn in_words_of_the_verb(&self, error: &anyhow::Error) -> anyhow::Error {
        let text = format!("{error:#}");
        let own = text.starts_with(&self.0.display().to_string());
        let text = text.split_once(": ").filter(|_| own).map_or(text.as_str(), |(_, reason)| reason);
        anyhow::anyhow!(text.replace("another port (apisix.node_listen)", "another port with --listen"))
    }
}

/// The settings of such a folder.
pub(super) fn settings_of(prefix: &Path, listen: Option<String>) -> anyhow::Result<Settings> {
    let plugins = tidegate_plugins::registry::on_by_default();
    let source = Source { prefix: prefix.to_owned(), file: None, listen, plugins };
    let mut settings = tidegate_config::load(&source)?.settings;
    settings.own_name = true;
    Ok(settings)
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
