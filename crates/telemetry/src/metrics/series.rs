//! The renderer's side of a family: series summed over blocks and shards, then written as text.

use std::collections::HashMap;

use super::group::{FamilySpec, Member};
use super::text::{Kind, TextWriter, label_text};
use super::{Block, Labels};
use crate::background::give_way;

/// Some 20 us where none of them is in a cache.
const CLEARED_AT_ONCE: usize = 64;

/// All series of one family. A series is there as long as a live block feeds it.
#[derive(Debug)]
pub(super) struct Family {
    pub spec: FamilySpec,
    by_labels: HashMap<Box<str>, usize>,
    series: Vec<Series>,
    free: Vec<usize>,
}

#[derive(Debug)]
struct Series {
    labels: Box<str>,
    feeders: u32,
    /// The counts of expired blocks of this series: a counter must not decrease while others feed it.
    base: Box<[u64]>,
    sum: Box<[u64]>,
}

impl Family {
    pub(super) fn new(spec: FamilySpec) -> Self {
        Family { spec, by_labels: HashMap::new(), series: Vec::new(), free: Vec::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.by_labels.len()
    }

    /// Finds or makes the series a block's member feeds; returns its slot.
    pub(super) fn attach(&mut self, member: &Member, label_names: &[String], labels: &Labels) -> usize {
        let shown = member.shown.iter().filter_map(|position| {
            Some((label_names.get(*position)?.as_str(), labels.shown(member.number, *position)))
        });
        let fixed = member.fixed.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let pairs: Vec<(&str, &str)> = fixed.chain(shown).collect();
        let text = label_text(&pairs);
        let slot = match self.by_labels.get(text.as_str()) {
            Some(slot) => *slot,
            None => self.insert(text.into_boxed_str()),
        };
        if let Some(series) = self.series.get_mut(slot) {
            series.feeders += 1;
        }
        slot
    }

    fn insert(&mut self, labels: Box<str>) -> usize {
        let zeros = vec![0; self.spec.cells()].into_boxed_slice();
        let series = Series { labels: labels.clone(), feeders: 0, base: zeros.clone(), sum: zeros };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.series[slot] = series;
                slot
            }
            None => {
                self.series.push(series);
                self.series.len() - 1
            }
        };
        self.by_labels.insert(labels, slot);
        slot
    }

    /// A block stops feeding a series: its counts stay if others still feed it, else the series goes.
    pub(crate) fn detach(&mut self, slot: usize, member: &Member, block: &Block) {
        let Some(series) = self.series.get_mut(slot) else { return };
        series.feeders = series.feeders.saturating_sub(1);
        if series.feeders == 0 {
            self.by_labels.remove(&series.labels);
            self.free.push(slot);
        } else {
            add(&mut series.base, block.values().skip(member.first_cell));
        }
    }

    pub(crate) fn clear_sums(&mut self) {
        for many in self.series.chunks_mut(CLEARED_AT_ONCE) {
            many.iter_mut().for_each(|series| series.sum.copy_from_slice(&series.base));
            give_way();
        }
    }

    pub(super) fn add(&mut self, slot: usize, member: &Member, block: &Block) {
        if let Some(series) = self.series.get_mut(slot) {
            add(&mut series.sum, block.values().skip(member.first_cell));
        }
    }

    pub(super) fn write(&self, prefix: &str, out: &mut TextWriter) {
        if self.by_labels.is_empty() {
            return;
        }
        let name = format!("{prefix}{}", self.spec.name);
        out.family(&name, &self.spec.help, self.spec.kind);
        for series in self.series.iter().filter(|series| series.feeders > 0) {
            let first = series.sum.first().copied().unwrap_or_default();
            match self.spec.kind {
                Kind::Counter | Kind::Gauge => out.line_integer(&name, "", &series.labels, first),
                Kind::Histogram => self.write_histogram(&name, series, out),
            }
            give_way();
        }
    }

    fn write_histogram(&self, name: &str, series: &Series, out: &mut TextWriter) {
        if series.sum.iter().all(|cell| *cell == 0) {
            // Never observed, such as the upstream latency of a route that answers by itself.
            return;
        }
        let bounds = self.spec.bounds.iter().map(|bound| Some(*bound)).chain([None]);
        let mut count = 0u64;
        for (bound, in_bucket) in bounds.zip(series.sum.iter()) {
            count = count.wrapping_add(*in_bucket);
            out.bucket(name, &series.labels, bound, count);
        }
        let sum = series.sum.last().copied().unwrap_or_default();
        out.line(name, "_sum", &series.labels, sum as f64 / self.spec.scale as f64);
        out.line_integer(name, "_count", &series.labels, count);
    }
}

fn add(into: &mut [u64], values: impl Iterator<Item = u64>) {
    for (cell, value) in into.iter_mut().zip(values) {
        *cell = cell.wrapping_add(value);
    }
}
