//! Reads `METRIC>VALUE`.

use std::str::FromStr;

use super::{Condition, FORMS, Metric, Relation, Unit};
use crate::Problem;

impl FromStr for Condition {
    type Err = Problem;

    fn from_str(text: &str) -> Result<Condition, Problem> {
        let wrong = |why: String| Problem::usage(format!("--fail-if {text:?}: {why}; {FORMS}"));
        let at = text.find(['<', '>']).ok_or_else(|| wrong("expected > or <".into()))?;
        let (name, rest) = text.split_at(at);
        let (relation, bound) = relation(rest);
        let (name, bound) = (name.trim(), bound.trim());
        let end = bound.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(bound.len());
        let (number, unit) = bound.split_at(end);
        let number: f64 = number.parse().map_err(|_| wrong(format!("{bound:?} is not a value")))?;
        let (metric, value) = metric(name, number, unit.trim()).map_err(wrong)?;
        let is_below = matches!(relation, Relation::Below | Relation::AtMost);
        if is_below && !matches!(metric, Metric::Rate | Metric::Status { .. }) {
            return Err(wrong(format!("this fails when all is well; did you mean {name}>{bound}")));
        }
        Ok(Condition { expression: text.trim().to_owned(), metric, relation, value })
    }
}

fn relation(rest: &str) -> (Relation, &str) {
    let forms =
        [(">=", Relation::AtLeast), ("<=", Relation::AtMost), (">", Relation::Above), ("<", Relation::Below)];
    let found = forms.into_iter().find_map(|(sign, relation)| Some((relation, rest.strip_prefix(sign)?)));
    // The text begins with one of the signs.
    found.unwrap_or((Relation::Above, rest))
}

fn metric(name: &str, number: f64, unit: &str) -> Result<(Metric, f64), String> {
    let latency = |metric: Metric| {
        let us = match unit {
            "us" | "µs" => 1.0,
            "ms" => 1_000.0,
            "s" => 1_000_000.0,
            _ => return Err(format!("{name} is a time: its value needs us, ms or s")),
        };
        Ok((metric, number * us))
    };
    let counted = || match unit {
        "" => Ok(Unit::Count),
        "%" if number <= 100.0 => Ok(Unit::Percent),
        "%" => Err("a share cannot exceed 100%".to_owned()),
        _ => Err(format!("{name} is a number or a share in %")),
    };
    match name {
        "p50" => latency(Metric::Percentile(50.0)),
        "p75" => latency(Metric::Percentile(75.0)),
        "p90" => latency(Metric::Percentile(90.0)),
        "p95" => latency(Metric::Percentile(95.0)),
        "p99" => latency(Metric::Percentile(99.0)),
        "p999" | "p99.9" => latency(Metric::Percentile(99.9)),
        "p9999" | "p99.99" => latency(Metric::Percentile(99.99)),
        "max" => latency(Metric::Max),
        "mean" => latency(Metric::Mean),
        "rps" if unit.is_empty() => Ok((Metric::Rate, number)),
        "rps" => Err("rps is a number of answers a second, without a unit".into()),
        "errors" => Ok((Metric::Errors(counted()?), number)),
        _ => match statuses(name) {
            Some((first, last)) => Ok((Metric::Status { first, last, unit: counted()? }, number)),
            None => Err(format!("unknown metric {name:?}")),
        },
    }
}

/// `5xx` or `429`.
fn statuses(name: &str) -> Option<(u16, u16)> {
    if let Some(class) = name.strip_suffix("xx") {
        let class: u16 = class.parse().ok().filter(|class| (1..=5).contains(class))?;
        return Some((class * 100, class * 100 + 99));
    }
    let status: u16 = name.parse().ok().filter(|status| (100..600).contains(status))?;
    Some((status, status))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Outcome, outcome::Latency};

    fn outcome() -> Outcome {
        Outcome {
            seconds: 2.0,
            requests: 990,
            statuses: vec![(200, 980), (429, 4), (503, 6)],
            bad_statuses: 10,
            failures: vec![("timeout".into(), 10)],
            latency: Latency {
                count: 990,
                mean_us: 900.0,
                max_us: 30_000.0,
                steps: vec![(800.0, 980), (30_000.0, 10)],
                ..Latency::default()
            },
            ..Outcome::default()
        }
    }

    #[test]
    fn conditions_hold_or_fail() {
        let check = |text: &str, failed: bool, shown: &str| {
            let condition: Condition = text.parse().unwrap_or_else(|problem| panic!("{problem}"));
            let verdict = condition.evaluate(&outcome());
            assert_eq!((verdict.failed, verdict.shown.as_str()), (failed, shown), "{text}");
        };
        check("p50>800us", false, "800.0us");
        check("p50>=800us", true, "800.0us");
        check("p999 > 20ms", true, "30.00ms");
        check("p99.9>0.03s", false, "30.00ms");
        check("mean>1ms", false, "900.0us");
        check("max>29.9ms", true, "30.00ms");
        check("rps<496", true, "495/s");
        check("rps<=494", false, "495/s");
        check("errors>1%", true, "2 %");
        check("errors>20", false, "20");
        check("5xx>=6", true, "6");
        check("429>0.4%", false, "0.4 %");
        check("2xx<98%", false, "98 %");
    }

    #[test]
    fn mistakes_are_named() {
        let check = |text: &str, reason: &str| {
            let problem = text.parse::<Condition>().expect_err(text).text;
            assert!(problem.contains(reason) && problem.contains(text) && problem.contains("p99>20ms"));
        };
        check("p99", "expected > or <");
        check("p98>20ms", "unknown metric");
        check("p99>20", "needs us, ms or s");
        check("p99>", "is not a value");
        check("p99>fast", "is not a value");
        check("p99<20ms", "did you mean p99>20ms");
        check("errors<1%", "did you mean errors>1%");
        check("errors>101%", "cannot exceed 100%");
        check("errors>1ms", "a number or a share");
        check("rps<1%", "without a unit");
        check("6xx>0", "unknown metric");
    }
}
