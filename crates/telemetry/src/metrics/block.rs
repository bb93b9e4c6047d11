//! The cells of series that are touched together. One worker writes them, the renderer reads them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use super::budget::Want;
use super::group::{CounterCell, GroupSpec, HistogramCell};
use super::text::escaped_length;

/// The names of the labels, and a place in three tables.
const NAMES_OF_LABELS: usize = 320;

/// What the figures over time remember of a block (`taken.rs`).
const SEEN_BYTES: usize = 20 * size_of::<u64>();

/// Cells of one label set. Only the worker whose shard made it may write: adding is a plain load and store,
/// which is why it costs no locked instruction, and why a second writer would lose counts.
#[derive(Debug)]
pub struct Block {
    /// Set by the renderer once the series expired; the worker then makes a new block.
    retired: AtomicBool,
    cells: Box<[AtomicU64]>,
    labels: Labels,
}

impl Block {
    pub(super) fn new(cells: usize, labels: Labels) -> Self {
        Block {
            retired: AtomicBool::new(false),
            cells: (0..cells).map(|_| AtomicU64::new(0)).collect(),
            labels,
        }
    }

    /// Adds to a counter.
    #[inline]
    pub fn add(&self, counter: CounterCell, amount: u64) {
        self.bump(counter.0, amount);
    }

    /// Adds a value, in the observed unit, to a histogram.
    #[inline]
    pub fn observe(&self, histogram: &HistogramCell, value: u64) {
        let bounds = &histogram.bounds;
        let bucket = bounds.iter().position(|bound| value <= *bound).unwrap_or(bounds.len());
        self.bump(histogram.first + bucket, 1);
        self.bump(histogram.first + bounds.len() + 1, value);
    }

    #[inline]
    fn bump(&self, cell: usize, amount: u64) {
        if let Some(cell) = self.cells.get(cell) {
            cell.store(cell.load(Relaxed).wrapping_add(amount), Relaxed);
        }
    }

    #[inline]
    pub(super) fn is_retired(&self) -> bool {
        self.retired.load(Relaxed)
    }

    /// The part of its group's budget that it takes.
    pub(super) fn want(&self, spec: &GroupSpec) -> Want {
        let series = spec.members.iter().map(|member| {
            let shown = |position: &usize| self.labels.shown(member.number, *position);
            let names = member.shown.iter().filter_map(|position| spec.label_names.get(*position));
            let names = names.map(String::len).sum::<usize>();
            let values = member.shown.iter().map(|position| escaped_length(shown(position))).sum::<usize>();
            let values_of_set: Vec<&str> = member.shown.iter().map(shown).collect();
            let key = spec.budget.series_key((member.first_cell, values_of_set));
            (key, member.bytes_on_the_page(names + values))
        });
        Want {
            bytes: self.bytes(),
            of_set: spec.members.len() * (NAMES_OF_LABELS + self.labels.text.len()),
            series: series.collect(),
        }
    }

    /// The memory that it takes.
    fn bytes(&self) -> usize {
        size_of::<Block>()
            + SEEN_BYTES
            + self.cells.len() * size_of::<AtomicU64>()
            + self.labels.text.capacity()
            + self.labels.ends.capacity() * size_of::<u32>()
    }

    pub(super) fn retire(&self) {
        self.retired.store(true, Relaxed);
    }

    pub(super) fn labels(&self) -> &Labels {
        &self.labels
    }

    pub(super) fn cell(&self, cell: usize) -> u64 {
        self.cells.get(cell).map_or(0, |cell| cell.load(Relaxed))
    }

    pub(super) fn values(&self) -> impl Iterator<Item = u64> + '_ {
        self.cells.iter().map(|cell| cell.load(Relaxed))
    }
}

/// Label values in the order of the group's label names, kept in one allocation.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Labels {
    text: String,
    ends: Vec<u32>,
    /// Per family of the group, a bit for each position that it shows as empty.
    hidden: Vec<u64>,
}

impl Labels {
    /// Adds the next value. Values longer than 1 KiB are cut: they come from requests.
    pub fn push(&mut self, value: &str) {
        const LONGEST: usize = 1024;
        let mut end = value.len().min(LONGEST);
        while !value.is_char_boundary(end) {
            end -= 1;
        }
        self.text.push_str(value.get(..end).unwrap_or_default());
        self.ends.push(u32::try_from(self.text.len()).unwrap_or(u32::MAX));
    }

    /// A family of the group, by its number in order of declaration, shows the labels of these bits as empty.
    pub fn hide(&mut self, family: usize, positions: u64) {
        if positions != 0 {
            if self.hidden.len() <= family {
                self.hidden.resize(family + 1, 0);
            }
            self.hidden[family] |= positions;
        }
    }

    /// The value that a family shows at a position.
    pub(super) fn shown(&self, family: usize, position: usize) -> &str {
        let hidden = self.hidden.get(family).is_some_and(|hidden| hidden >> position.min(63) & 1 == 1);
        if hidden { "" } else { self.get(position) }
    }

    /// The value at a position; empty when it was never pushed.
    pub fn get(&self, position: usize) -> &str {
        let end = self.ends.get(position).copied().unwrap_or_default() as usize;
        let start =
            position.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or_default();
        self.text.get(start as usize..end).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_keep_their_order_and_bound_their_length() {
        let mut labels = Labels::default();
        labels.push("200");
        labels.push("");
        labels.push(&"é".repeat(600));
        assert_eq!(labels.get(0), "200");
        assert_eq!(labels.get(1), "");
        assert_eq!(labels.get(2).len(), 1024);
        assert_eq!(labels.get(3), "");
    }
}
