//! When the error log reports lost lines.

use std::time::{Duration, Instant};

use crate::{
    error_log::{self, Level},
    log_writer::Losses,
};

/// Between two lines about lost lines, over all files of a writer.
const BETWEEN_TWO_LINES: Duration = Duration::from_secs(10);

/// When the writer's thread last reported losses.
#[derive(Debug, Default)]
pub(super) struct LossReport(Option<Instant>);

impl LossReport {
    /// Reports lost lines, if it is time to. Returns whether any are still to be reported.
    pub(super) fn report_losses<'l>(&mut self, files: impl Iterator<Item = &'l Losses> + Clone) -> bool {
        if !files.clone().any(Losses::untold) {
            return false;
        }
        if self.0.is_some_and(|last| last.elapsed() < BETWEEN_TWO_LINES) {
            return true;
        }
        self.0 = Some(Instant::now());
        files.filter(|losses| losses.untold()).for_each(report_lost_lines);
        false
    }
}

fn report_lost_lines(losses: &Losses) {
    let (new, reason) = losses.take_untold();
    let path = losses.path().display();
    error_log::log(Level::Error, format_args!("{new} lines of {path} were lost: {reason}"));
}
