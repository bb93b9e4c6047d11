//! Configurations of other gateways, turned into the lists of apisix.yaml and a report on what became of each part.
//!
//! Pure: text in, objects out; no network, and files only through the caller's hand. Whoever adds a source adds a [`Source`] and one module.

#![forbid(unsafe_code)]

mod apisix;
mod closed;
mod fields;
mod hyperapi;
mod kong;
mod nginx;
mod output;
mod reach;
mod report;

pub use nginx::{Listeners, Placement};
pub use output::Output;
pub use report::{At, Entry, Outcome, Report};

/// What a configuration names besides itself: certificates, proto files, included files.
pub trait Files {
    /// The text of a file, or why there is none. Relative names start where the other gateway starts them.
    fn read(&self, name: &str) -> Result<String, String>;

    /// The files that a pattern with `*`, `?` or `[…]` names, in their order. None in a folder that is there is fine.
    fn glob(&self, pattern: &str) -> Result<Vec<String>, String> {
        Err(format!("{pattern}: patterns are not read here"))
    }

    /// A variable of the environment.
    fn variable(&self, _name: &str) -> Option<String> {
        None
    }

    /// Whether the user said that there is nothing in it.
    fn is_declared_empty(&self, _name: &str) -> bool {
        false
    }
}

impl<F: Fn(&str) -> Result<String, String>> Files for F {
    fn read(&self, name: &str) -> Result<String, String> {
        self(name)
    }
}

/// Whose configuration it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    Kong,
    Hyperapi,
    Nginx,
    Apisix,
}

impl Source {
    pub const NAMES: &'static str = "kong, hyperapi, nginx, apisix";

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

/// What a configuration became.
#[derive(Debug, Default)]
pub struct Imported {
    pub output: Output,
    pub report: Report,
    /// Where the other gateway listens; nginx.
    pub listeners: Option<Listeners>,
    /// What may be asked of the other gateway and of this one to compare their answers; nginx.
    pub samples: Vec<Sample>,
}

/// A request that a line of the configuration suggests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    pub at: At,
    pub host: String,
    /// Path, as a request has it.
    pub target: String,
}

/// What importing a configuration may take into account.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Plugins that are left out knowingly, though they may guard; Kong.
    pub allow_missing: Vec<String>,
    /// Which listeners the gateway has; nginx.
    pub listeners: Placement,
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
