//! Where the configuration is: the arguments that all verbs share.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use clap::Args;
use tidegate_config::{Loaded, Settings, Source};
use tidegate_plugins::registry::on_by_default;

use crate::boot::pid_file;

/// The heading of these options in `--help`, after those of the verb.
const SHARED: &str = "Shared options";

/// Where the gateway lives.
#[derive(Args, Clone)]
pub(super) struct SharedOptions {
    /// Folder with conf/, logs/ and data/
    #[arg(long, global = true, help_heading = SHARED, value_name = "DIR", env = "TIDEGATE_PREFIX",
        default_value = ".")]
    prefix: PathBuf,
    /// Configuration file to use instead of conf/config.yaml
    #[arg(short, long, global = true, help_heading = SHARED, value_name = "FILE", env = "TIDEGATE_CONFIG")]
    config: Option<PathBuf>,
    /// HTTP port or address, overriding apisix.node_listen
    #[arg(long, global = true, help_heading = SHARED, value_name = "ADDR")]
    pub(super) listen: Option<String>,
}

impl SharedOptions {
    /// Paths become absolute: the process in the background has another working directory.
    pub(super) fn source(&self) -> anyhow::Result<Source> {
        let prefix =
            std::path::absolute(&self.prefix).context("cannot find the working directory; give --prefix")?;
        let file = self.config.as_ref().map(std::path::absolute).transpose()?;
        Ok(Source { prefix, file, listen: self.listen.clone(), plugins: on_by_default() })
    }

    /// The same as arguments of another process.
    pub(super) fn arguments(&self) -> anyhow::Result<Vec<OsString>> {
        let Source { prefix, file, listen, .. } = self.source()?;
        let mut arguments = vec!["--prefix".into(), prefix.into_os_string()];
        for (name, value) in
            [("--config", file.map(PathBuf::into_os_string)), ("--listen", listen.map(OsString::from))]
        {
            arguments.extend(value.into_iter().flat_map(|value| [name.into(), value]));
        }
        Ok(arguments)
    }

    /// The configuration of the folder, which has to look like a gateway's.
    pub(super) fn load(&self) -> anyhow::Result<Loaded> {
        let source = self.source()?;
        if source.file.is_none() && !source.prefix.join("conf").is_dir() {
            let init =
                if self.is_here() { String::new() } else { format!(" --prefix {}", self.prefix.display()) };
            bail!(
                "{} has no folder conf/; run `tidegate init{init}` to make one with a config.yaml, or give --prefix",
                source.prefix.display()
            );
        }
        Ok(tidegate_config::load(&source)?)
    }

    /// For questions to the running gateway: the default ports need no folder, and a folder that is named has to be one.
    pub(super) fn load_to_ask(&self) -> anyhow::Result<Loaded> {
        if self.is_here() { self.load_anywhere() } else { self.load() }
    }

    /// The settings that this file gives the gateway of this folder.
    pub(super) fn load_of(&self, prefix: &Path, file: PathBuf) -> anyhow::Result<Loaded> {
        let source = Source { prefix: prefix.to_owned(), file: Some(file), ..self.source()? };
        Ok(tidegate_config::load(&source)?)
    }

    /// Whether a gateway was named: its folder, or its file.
    pub(super) fn is_named(&self) -> bool {
        self.config.is_some() || !self.is_here()
    }

    /// Whether no folder was named.
    fn is_here(&self) -> bool {
        self.prefix.as_os_str() == "."
    }

    /// As [`SharedOptions::load`], for what needs no configuration of its own.
    pub(super) fn load_anywhere(&self) -> anyhow::Result<Loaded> {
        Ok(tidegate_config::load(&self.source()?)?)
    }

    /// The settings for verbs that ask the Admin API, which take a generated key from its file.
    pub(super) fn load_with_key(&self) -> anyhow::Result<Settings> {
        let mut settings = self.load()?.settings;
        settings.read_admin_keys().map_err(anyhow::Error::msg)?;
        Ok(settings)
    }
}

/// Ports are asked, and another folder's gateway may have them.
pub(super) fn not_of_this_folder(place: &SharedOptions, settings: &Settings) -> Option<String> {
    let prefix = place.source().ok()?.prefix;
    let is_another =
        prefix.join("conf").is_dir() && matches!(pid_file::running(&settings.files.pid), Ok(None));
    is_another.then(|| {
        format!("the gateway of {} does not run; what answers on its ports is another one", prefix.display())
    })
}
