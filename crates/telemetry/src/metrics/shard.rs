//! One worker's metrics: a map from the caller's hash to a block. Used by one thread, without locks.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Weak};

use super::{
    block::{Block, Labels},
    budget::{BYTES_PER_SERIES, PAGE_BYTES_PER_SERIES},
    group::Group,
};
use crate::error_log::{self, Level};

/// Value of every label of the block that counts label sets beyond a group's limit.
pub(super) const OVERFLOW_LABEL: &str = "_overflow";

/// A worker's own metrics. Made with [`super::Registry::shard`]; dropped, its counts stay in the registry.
#[derive(Debug)]
pub struct Shard {
    groups: Vec<ShardGroup>,
    created: Sender<NewBlock>,
    signals: Arc<Signals>,
    /// How many retirements [`Shard::sweep`] has already seen.
    swept: u64,
}

#[derive(Debug, Default)]
struct ShardGroup {
    blocks: HashMap<u64, Arc<Block>, BuildHasherDefault<Identity>>,
    overflow: Option<Arc<Block>>,
}

/// How a shard announces a block to the registry. The registry learns of a shard's blocks only this way.
#[derive(Debug)]
pub(super) struct NewBlock {
    pub group: Group,
    pub block: Arc<Block>,
    /// Under which it has taken room; an overflow block has not.
    pub key: Option<u64>,
    pub signals: Weak<Signals>,
}

/// What shard and registry signal to each other between blocks.
#[derive(Debug, Default)]
pub(super) struct Signals {
    /// Lookups that ended in an overflow block. Written by the worker.
    pub overflowed: AtomicU64,
    /// Blocks the registry retired. Written by the registry.
    pub retired: AtomicU64,
}

impl Shard {
    pub(super) fn new(created: Sender<NewBlock>, signals: Arc<Signals>) -> Self {
        Shard { groups: Vec::new(), created, signals, swept: 0 }
    }

    /// The block of a label set, made on first use.
    ///
    /// `key` must be a well-mixed hash of everything `labels` writes, with a per-process seed: it is not
    /// hashed again, so equal keys share a block and a guessable hash would let clients slow the map down.
    #[inline]
    pub fn block(&mut self, group: &Group, key: u64, labels: impl FnOnce(&mut Labels)) -> &Block {
        self.block_arc(group, key, labels)
    }

    /// As [`Shard::block`], for callers that keep the block (a connection's gauge). A kept block must still
    /// only be written on this worker's thread.
    #[inline]
    pub(crate) fn block_arc(
        &mut self,
        group: &Group,
        key: u64,
        labels: impl FnOnce(&mut Labels),
    ) -> &Arc<Block> {
        let id = group.0.id;
        if id >= self.groups.len() {
            self.groups.resize_with(id + 1, ShardGroup::default);
        }
        let Shard { groups, created, signals, .. } = self;
        let ShardGroup { blocks, overflow } = &mut groups[id];
        let channel = Channel { group, created, signals };
        match blocks.entry(key) {
            std::collections::hash_map::Entry::Occupied(entry) => {
                let slot = entry.into_mut();
                if slot.is_retired() {
                    match channel.make(key, labels) {
                        Some(block) => *slot = block,
                        None => return channel.overflow(overflow),
                    }
                }
                slot
            }
            std::collections::hash_map::Entry::Vacant(entry) => match channel.make(key, labels) {
                Some(block) => entry.insert(block),
                None => channel.overflow(overflow),
            },
        }
    }

    /// Forgets blocks whose series expired. Call on the worker's slow tick (seconds); does nothing, and costs
    /// one load, unless something expired.
    pub fn sweep(&mut self) {
        let retired = self.signals.retired.load(Relaxed);
        if retired == self.swept {
            return;
        }
        self.swept = retired;
        for group in &mut self.groups {
            group.blocks.retain(|_, block| !block.is_retired());
            if group.overflow.as_ref().is_some_and(|block| block.is_retired()) {
                group.overflow = None;
            }
        }
    }
}

/// Announces new blocks to the registry.
struct Channel<'a> {
    group: &'a Group,
    created: &'a Sender<NewBlock>,
    signals: &'a Arc<Signals>,
}

impl Channel<'_> {
    /// `None`: there is no room.
    fn make(&self, key: u64, labels: impl FnOnce(&mut Labels)) -> Option<Arc<Block>> {
        let spec = &self.group.0;
        if !spec.budget.may_have_room(key) {
            return None;
        }
        let mut values = Labels::default();
        labels(&mut values);
        let block = Arc::new(Block::new(spec.cells, values));
        if !spec.budget.take(key, &block.want(spec)) {
            return None;
        }
        self.announce(block.clone(), Some(key));
        Some(block)
    }

    #[cold]
    fn overflow<'a>(&self, place: &'a mut Option<Arc<Block>>) -> &'a Arc<Block> {
        let overflowed = &self.signals.overflowed;
        overflowed.store(overflowed.load(Relaxed).wrapping_add(1), Relaxed);
        place.get_or_insert_with(|| {
            warn_of_overflow(self.group);
            let mut values = Labels::default();
            overflow_labels(self.group, &mut values);
            let block = Arc::new(Block::new(self.group.0.cells, values));
            self.announce(block.clone(), None);
            block
        })
    }

    fn announce(&self, block: Arc<Block>, key: Option<u64>) {
        // Fails only when the registry is gone, at shutdown: then the counts are not read anyway.
        let _ = self.created.send(NewBlock {
            group: self.group.clone(),
            block,
            key,
            signals: Arc::downgrade(self.signals),
        });
    }
}

/// Once per worker, until the series expires.
#[cold]
fn warn_of_overflow(group: &Group) {
    error_log::log(
        Level::Warn,
        format_args!(
            "metrics: there are more than {} combinations of values of labels, or they take more than {BYTES_PER_SERIES} bytes of \
             memory, or {PAGE_BYTES_PER_SERIES} of the page, each on average; further ones are counted as {OVERFLOW_LABEL:?}; see plugin_attr.prometheus.max_series and expire",
            group.0.budget.limit()
        ),
    );
}

fn overflow_labels(group: &Group, labels: &mut Labels) {
    for _ in &group.0.label_names {
        labels.push(OVERFLOW_LABEL);
    }
}

/// Uses the caller's hash unchanged.
#[derive(Debug, Default)]
struct Identity(u64);

impl Hasher for Identity {
    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }

    #[inline]
    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }
}
