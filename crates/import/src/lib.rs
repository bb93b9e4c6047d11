//! Configurations of other gateways, turned into the lists of apisix.yaml and a report on what became of each part.
//!
//! Pure: text in, objects out; no network, and files only through the caller's hand. Whoever adds a source adds a [`Source`] and one module.

#![forbid(unsafe_code)]

mod apisix;
mod fields;
mod hyperapi;
mod kong;
mod nginx;
mod output;
mod report;

pub use output::Output;
pub use report::{Entry, Outcome, Report};

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
#[derive(Debug)]
pub struct Imported {
    pub output: Output,
    pub report: Report,
}

/// Converts a whole text; the error says where it cannot be read. `files` reads what the text names: certificates, proto
/// files.
pub fn import(
    source: Source,
    text: &str,
    files: &dyn Fn(&str) -> Result<String, String>,
) -> Result<Imported, String> {
    if source == Source::Nginx {
        let mut imported = Imported { output: Output::default(), report: Report::default() };
        nginx::convert(text, files, &mut imported)?;
        return Ok(imported);
    }
    let document = config::yaml::parse(text).map_err(|fault| fault.to_string())?;
    let mut imported = Imported { output: Output::default(), report: Report::default() };
    for note in document.notes.iter().chain(&document.second) {
        imported.report.approximated(note.line, "YAML", &note.message);
    }
    match source {
        Source::Kong => kong::convert(&document.root, files, &mut imported)?,
        Source::Hyperapi => hyperapi::convert(&document.root, &mut imported)?,
        Source::Nginx => {}
        Source::Apisix => apisix::convert(document.root, &mut imported)?,
    }
    Ok(imported)
}
