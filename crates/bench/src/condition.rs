//! `--fail-if`: a bound that a run must not pass, such as `p99>20ms` or `errors>0.1%`.
//!
//! An expression says when a run has *failed*. So `p99<20ms`, which other tools read as what must hold, is refused and
//! not taken for its opposite.

mod parse;

use std::fmt;

use crate::{Outcome, outcome::after::ConditionResult, report::units};

/// What `--fail-if` takes, for messages.
pub const FORMS: &str = "write METRIC>VALUE, such as p99>20ms, mean>800us, errors>0.1%, errors>5, rps<5000, 5xx>0 or \
                         429>1%; latency metrics are p50, p75, p90, p95, p99, p999, p9999, max and mean, \
                         with us, ms or s";

/// A condition of `--fail-if`.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// As it was written.
    expression: String,
    metric: Metric,
    relation: Relation,
    /// Microseconds, percent, a number or a number a second.
    value: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Metric {
    Percentile(f64),
    Mean,
    Max,
    /// Answers per second.
    Rate,
    /// Requests without an answer and answers with a status that is not accepted.
    Errors(Unit),
    Status {
        first: u16,
        last: u16,
        unit: Unit,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Count,
    Percent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    Above,
    AtLeast,
    Below,
    AtMost,
}

impl Condition {
    /// Whether the run meets it, and by what value.
    pub fn evaluate(&self, outcome: &Outcome) -> ConditionResult {
        let value = self.metric.of(outcome);
        let failed = match self.relation {
            Relation::Above => value > self.value,
            Relation::AtLeast => value >= self.value,
            Relation::Below => value < self.value,
            Relation::AtMost => value <= self.value,
        };
        ConditionResult { condition: self.expression.clone(), value, shown: self.metric.show(value), failed }
    }

    /// Whether it says how many errors a run may have.
    pub fn is_about_errors(&self) -> bool {
        matches!(self.metric, Metric::Errors(_))
    }
}

impl Metric {
    fn of(self, outcome: &Outcome) -> f64 {
        let latency = outcome.seen();
        let tried = outcome.requests + outcome.failed();
        match self {
            Metric::Percentile(percent) => latency.at(percent),
            Metric::Mean => latency.mean_us,
            // One that had no answer when the run ended has waited at least so long.
            Metric::Max => latency.max_us.max(outcome.oldest_unfinished_ms * 1000.0),
            Metric::Rate => outcome.requests_per_second(),
            Metric::Errors(unit) => unit.of(outcome.failed() + outcome.bad_statuses, tried),
            Metric::Status { first, last, unit } => {
                let inside = |status: &u16| (first..=last).contains(status);
                let statuses = outcome.statuses.iter().filter(|(status, _)| inside(status));
                unit.of(statuses.map(|(_, count)| count).sum(), tried)
            }
        }
    }

    fn show(self, value: f64) -> String {
        match self {
            Metric::Percentile(_) | Metric::Mean | Metric::Max => units::time(value),
            Metric::Rate => format!("{value:.0}/s"),
            Metric::Errors(Unit::Percent) | Metric::Status { unit: Unit::Percent, .. } => {
                format!("{} %", units::short(value))
            }
            Metric::Errors(Unit::Count) | Metric::Status { unit: Unit::Count, .. } => format!("{value:.0}"),
        }
    }
}

impl Unit {
    fn of(self, part: u64, whole: u64) -> f64 {
        match self {
            Unit::Count => part as f64,
            Unit::Percent => 100.0 * part as f64 / whole.max(1) as f64,
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.expression)
    }
}
