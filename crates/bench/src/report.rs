//! What a run looks like on paper: our own form, those of older tools, and files.

mod ab;
mod beyond;
pub mod compare;
pub mod html;
mod jitter;
pub mod lines;
pub mod markdown;
pub mod prometheus;
mod terminal;
pub mod units;
mod wrk;
mod wrk2;

use crate::{Outcome, Problem};

/// Whose output to print.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// For people.
    #[default]
    Text,
    /// As wrk.
    Wrk,
    /// As wrk2.
    Wrk2,
    /// As ApacheBench.
    Ab,
    /// As jitter.
    Jitter,
    /// As `--json`.
    Json,
}

/// The report in a style.
pub fn render(style: Style, outcome: &Outcome) -> Result<String, Problem> {
    Ok(match style {
        Style::Text => terminal::render(outcome),
        Style::Wrk => wrk::render(outcome),
        Style::Wrk2 => wrk2::render(outcome),
        Style::Ab => ab::render(outcome),
        Style::Jitter => jitter::render(outcome),
        Style::Json => json(outcome)?,
    })
}

/// The whole result, for `bench compare`.
pub fn json(outcome: &Outcome) -> Result<String, Problem> {
    serde_json::to_string(outcome)
        .map(|text| text + "\n")
        .map_err(|error| Problem::failed(format!("cannot write the result as JSON: {error}")))
}
