//! Counts over time, at one resolution.

use std::collections::VecDeque;

use super::count::{Count, Shares};

/// The newest times of one length, each with what was counted in it. A time that is not there is one in which the gateway did not run.
#[derive(Debug)]
pub(super) struct Level {
    pub step: u64,
    most: usize,
    bins: VecDeque<(u64, Count)>,
}

impl Level {
    pub(super) fn new(step: u64, most: usize) -> Level {
        Level { step, most, bins: VecDeque::new() }
    }

    /// The beginning of the time that a moment is in.
    pub(super) fn start_of(&self, unix_s: u64) -> u64 {
        unix_s - unix_s % self.step
    }

    /// Times may come in any order, since clocks are set; the oldest one makes room.
    pub(super) fn add(&mut self, start: u64, count: &Count) {
        let after = self.bins.iter().rev().take_while(|(other, _)| *other > start).count();
        let at = self.bins.len() - after;
        match at.checked_sub(1).and_then(|before| self.bins.get_mut(before)) {
            Some((other, known)) if *other == start => known.add(count),
            _ => self.bins.insert(at, (start, *count)),
        }
        if self.bins.len() > self.most {
            self.bins.pop_front();
        }
    }

    pub(super) fn within(&self, from: u64, to: u64) -> impl Iterator<Item = &(u64, Count)> {
        self.bins.iter().filter(move |(start, _)| (from..to).contains(start))
    }

    pub(super) fn all(&self) -> impl ExactSizeIterator<Item = &(u64, Count)> {
        self.bins.iter()
    }
}

/// A time with its routes and consumers: one that is not over, or one that is written to a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Period {
    pub start: u64,
    pub count: Count,
    pub routes: Shares,
    pub consumers: Shares,
}

impl Period {
    pub(super) fn at(start: u64) -> Period {
        Period { start, ..Period::default() }
    }

    pub(super) fn add(&mut self, other: &Period) {
        self.count.add(&other.count);
        self.routes.add_all(&other.routes);
        self.consumers.add_all(&other.consumers);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_keeps_the_newest_in_order() {
        let mut level = Level::new(60, 3);
        let one = Count { requests: 1, ..Count::default() };
        for start in [120, 60, 180, 120, 240, 0] {
            level.add(start, &one);
        }
        let kept: Vec<(u64, u64)> = level.all().map(|(start, count)| (*start, count.requests)).collect();
        assert_eq!(kept, [(120, 2), (180, 1), (240, 1)]);
        assert_eq!(level.within(180, 240).count(), 1);
        assert_eq!(level.start_of(119), 60);
    }
}
