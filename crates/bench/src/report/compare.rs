//! Two runs side by side: ratios with 95 % confidence intervals, and "no difference" where the interval holds 1.
//!
//! The runs are cut into blocks of time, the blocks are drawn again with replacement a thousand times (block
//! bootstrap): neighbouring requests are not independent, blocks nearly are.

use std::fmt::Write;

use super::units::time;
use crate::{
    Outcome, Problem,
    engine::slot::{BUCKETS, percentile_of},
    outcome::SlotFigures,
    template::Random,
};

const ROUNDS: usize = 1_000;
/// Fewer blocks than this give no interval worth the name.
const LEAST_BLOCKS: usize = 8;
const MOST_BLOCKS: usize = 60;
/// Differences below this are not worth a word even when they are certain.
const NEGLIGIBLE: f64 = 0.005;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunDifference {
    NoDifference,
    Better,
    Worse,
}

/// A figure of both runs.
#[derive(Clone, Debug)]
pub struct Row {
    /// Of the figure.
    pub name: &'static str,
    /// Its value in the first run.
    pub first: f64,
    /// Its value in the second run.
    pub second: f64,
    /// Second divided by first, and where 95 % of the draws lie.
    pub ratio: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) verdict: RunDifference,
}

/// What is compared, and whether more of it is better.
type Figure = (&'static str, bool, fn(&Blocks) -> f64);

const FIGURES: [Figure; 5] = [
    ("requests/s", true, Blocks::rate),
    ("mean", false, Blocks::mean),
    ("p50", false, |blocks| blocks.percentile(50.0)),
    ("p99", false, |blocks| blocks.percentile(99.0)),
    ("p99.9", false, |blocks| blocks.percentile(99.9)),
];

/// Refuses runs that are too short.
pub fn compare(first: &Outcome, second: &Outcome) -> Result<Vec<Row>, Problem> {
    let (first, second) = (blocks(first)?, blocks(second)?);
    let mut random = Random::new(42);
    let mut draws: Vec<Vec<f64>> = vec![Vec::with_capacity(ROUNDS); FIGURES.len()];
    for _ in 0..ROUNDS {
        let (one, two) = (draw(&first, &mut random), draw(&second, &mut random));
        for ((_, _, figure), ratios) in FIGURES.iter().zip(&mut draws) {
            ratios.push(ratio(figure(&one), figure(&two)));
        }
    }
    let (one, two) = (Blocks::sum(first.iter()), Blocks::sum(second.iter()));
    let rows = FIGURES.iter().zip(&mut draws).map(|(&(name, more_is_better, figure), ratios)| {
        ratios.sort_by(f64::total_cmp);
        let at = |share: f64| ratios.get((share * ROUNDS as f64) as usize).copied().unwrap_or(1.0);
        let (low, high) = (at(0.025), at(0.975));
        let (first, second) = (figure(&one), figure(&two));
        let verdict = verdict(ratio(first, second), low, high, more_is_better);
        Row { name, first, second, ratio: ratio(first, second), low, high, verdict }
    });
    Ok(rows.collect())
}

/// A table; `names`: what the runs are called.
pub fn render(names: [&str; 2], rows: &[Row]) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(out, "{:<12}{:>14}{:>14}{:>9}   95 % interval", "", names[0], names[1], "ratio");
    for row in rows {
        let shown = |value: f64| if row.name == "requests/s" { format!("{value:.0}") } else { time(value) };
        let word = match row.verdict {
            RunDifference::NoDifference => "no difference",
            RunDifference::Better => "better",
            RunDifference::Worse => "worse",
        };
        let _ = writeln!(
            out,
            "{:<12}{:>14}{:>14}{:>9.3}   {:.3} to {:.3}  {word}",
            row.name,
            shown(row.first),
            shown(row.second),
            row.ratio,
            row.low,
            row.high
        );
    }
    out
}

fn verdict(ratio: f64, low: f64, high: f64, more_is_better: bool) -> RunDifference {
    if (low..=high).contains(&1.0) || (ratio - 1.0).abs() < NEGLIGIBLE {
        RunDifference::NoDifference
    } else if (ratio > 1.0) == more_is_better {
        RunDifference::Better
    } else {
        RunDifference::Worse
    }
}

fn ratio(first: f64, second: f64) -> f64 {
    if first > 0.0 { second / first } else { 1.0 }
}

/// One or many blocks of time together.
#[derive(Clone, Debug)]
struct Blocks {
    seconds: f64,
    count: u64,
    sum_us: f64,
    steps: Vec<u64>,
}

impl Blocks {
    fn empty() -> Blocks {
        Blocks { seconds: 0.0, count: 0, sum_us: 0.0, steps: vec![0; BUCKETS] }
    }

    fn add_slot(&mut self, slot: &SlotFigures, seconds: f64) {
        self.seconds += seconds;
        self.count += slot.count;
        self.sum_us += slot.mean_us * slot.count as f64;
        for &(step, count) in &slot.steps {
            if let Some(sum) = self.steps.get_mut(step) {
                *sum += count;
            }
        }
    }

    fn sum<'a>(blocks: impl Iterator<Item = &'a Blocks>) -> Blocks {
        blocks.fold(Blocks::empty(), |mut sum, block| {
            sum.seconds += block.seconds;
            sum.count += block.count;
            sum.sum_us += block.sum_us;
            sum.steps.iter_mut().zip(&block.steps).for_each(|(sum, more)| *sum += more);
            sum
        })
    }

    fn rate(&self) -> f64 {
        self.count as f64 / self.seconds.max(1e-9)
    }

    fn mean(&self) -> f64 {
        self.sum_us / self.count.max(1) as f64
    }

    fn percentile(&self, percent: f64) -> f64 {
        percentile_of(self.steps.iter().copied().enumerate(), self.count, percent) as f64 / 1000.0
    }
}

fn blocks(outcome: &Outcome) -> Result<Vec<Blocks>, Problem> {
    let seconds = outcome.series.slot_ms as f64 / 1000.0;
    // The last slot is cut by the end of the run.
    let slots = outcome.series.slots.split_last().map_or(&[][..], |(_, whole)| whole);
    if slots.len() < LEAST_BLOCKS {
        return Err(Problem::usage(format!(
            "the run against {} is too short to compare: {LEAST_BLOCKS} slots of 0.1 s are needed, run for 2 s or more",
            outcome.url
        )));
    }
    let each = slots.len().div_ceil(MOST_BLOCKS);
    let block = |slots: &[SlotFigures]| {
        let mut block = Blocks::empty();
        slots.iter().for_each(|slot| block.add_slot(slot, seconds));
        block
    };
    Ok(slots.chunks(each).map(block).collect())
}

fn draw(blocks: &[Blocks], random: &mut Random) -> Blocks {
    let count = blocks.len() as u64;
    let drawn: Vec<&Blocks> = (0..count).filter_map(|_| blocks.get(random.below(count) as usize)).collect();
    Blocks::sum(drawn.into_iter())
}
