//! Configurations of other gateways, turned into the lists of apisix.yaml and a report on what became of each part.
//!
//! Pure: text in, objects out; no network, and files only through the caller's hand. A new source needs a [`Source`]
//! and one module.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod apisix;
mod closed;
mod fields;
mod hyperapi;
mod imported;
mod input;
mod kong;
mod literal;
mod names;
mod nginx;
mod output;
mod reach;
mod report;

pub use imported::{Imported, Sample};
pub use input::{Files, Options};
pub use nginx::{Listeners, Placement};
pub use output::Output;
pub use report::{At, Conversion, Entry, Report};

/// Whose configuration it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A declarative configuration, as `deck gateway dump` writes it.
    Kong,
    /// A hyperapi configuration.
    Hyperapi,
    /// An nginx.conf, or a file with servers.
    Nginx,
    /// An apisix.yaml.
    Apisix,
}

impl Source {
    /// The names that [`Source::from_name`] takes, for messages.
    pub const NAMES: &'static str = "kong, hyperapi, nginx, apisix";

    /// As people call it.
    pub fn name(self) -> &'static str {
        match self {
            Source::Kong => "Kong",
            Source::Hyperapi => "hyperapi",
            Source::Nginx => "nginx",
            Source::Apisix => "APISIX",
        }
    }

    /// The name in `--from NAME:FILE`.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "kong" => Some(Source::Kong),
            "hyperapi" => Some(Source::Hyperapi),
            "nginx" => Some(Source::Nginx),
            "apisix" => Some(Source::Apisix),
            _ => None,
        }
    }
}

/// Converts a whole text; the error says where it cannot be read. `files` reads what the text names.
pub fn import(source: Source, text: &str, files: &dyn Files, options: Options) -> Result<Imported, String> {
    let mut imported = Imported::default();
    if source == Source::Nginx {
        nginx::convert(text, files, options.listeners, &mut imported)?;
        return Ok(imported);
    }
    let text = if source == Source::Kong { &kong::readable(text) } else { text };
    let mut root = tidegate_config::yaml::parse(text).map_err(|fault| fault.to_string())?;
    match source {
        Source::Kong => kong::convert(&mut root, files, &options, &mut imported)?,
        Source::Hyperapi => hyperapi::convert(&root, &mut imported)?,
        Source::Nginx => {}
        Source::Apisix => apisix::convert(root, &mut imported)?,
    }
    Ok(imported)
}
