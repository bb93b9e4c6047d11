//! Copies of stacks become lists of functions, and equal ones are counted.

use std::{collections::HashMap, sync::Arc};

use framehop::{CacheNative, UnwindRegsNative, Unwinder};

use crate::{
    modules::Modules,
    profile::{Frame, Stack},
    samples::{Registers, Sample},
    symbols,
};

/// Deeper stacks are cut at their beginning.
const MOST_FRAMES: usize = 256;

/// Different stacks of one profile; what comes after them is counted as lost.
const MOST_STACKS: usize = 50_000;

pub(crate) struct Stacks {
    modules: Modules,
    cache: CacheNative<framehop::MayAllocateDuringUnwind>,
    /// By thread and addresses, innermost first.
    counts: HashMap<(Arc<str>, Box<[u64]>), u64>,
    lost: u64,
}

impl Stacks {
    pub(crate) fn new(modules: Modules) -> Stacks {
        Stacks { modules, cache: CacheNative::new(), counts: HashMap::new(), lost: 0 }
    }

    pub(crate) fn add(&mut self, sample: &Sample, thread: Arc<str>) {
        let key = (thread, self.unwind(sample).into_boxed_slice());
        if self.counts.len() >= MOST_STACKS && !self.counts.contains_key(&key) {
            self.lost += 1;
            return;
        }
        *self.counts.entry(key).or_default() += 1;
    }

    /// Addresses within the calls, innermost first, up to the first that is in no module.
    fn unwind(&mut self, sample: &Sample) -> Vec<u64> {
        let mut read = |address| sample.word(address).ok_or(());
        let registers = native(sample.registers);
        let start = sample.registers.instruction;
        let mut found = self.modules.unwinder.iter_frames(start, registers, &mut self.cache, &mut read);
        let mut frames = vec![];
        while let Ok(Some(frame)) = found.next() {
            let address = frame.address_for_lookup();
            // The innermost may be in code that was compiled while the program ran (Lua).
            if frames.len() >= MOST_FRAMES || (!frames.is_empty() && self.modules.position(address).is_none())
            {
                break;
            }
            frames.push(address);
            if self.modules.position(address).is_none() {
                break;
            }
        }
        frames
    }

    /// Samples that were not counted.
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    /// The stacks with the names of their functions, the most frequent first.
    pub(crate) fn named(self) -> Vec<Stack> {
        let mut addresses: Vec<u64> =
            self.counts.keys().flat_map(|(_, frames)| frames.iter().copied()).collect();
        addresses.sort_unstable();
        addresses.dedup();
        let named: HashMap<u64, Arc<Frame>> = symbols::frames(&self.modules, &addresses)
            .into_iter()
            .map(|frame| (frame.address, Arc::new(frame)))
            .collect();
        let mut stacks: Vec<Stack> = self
            .counts
            .into_iter()
            .map(|((thread, frames), samples)| Stack {
                thread,
                frames: frames.iter().filter_map(|address| named.get(address).cloned()).collect(),
                samples,
            })
            .collect();
        stacks.sort_by(|a, b| b.samples.cmp(&a.samples).then_with(|| a.thread.cmp(&b.thread)));
        stacks
    }
}

#[cfg(target_arch = "x86_64")]
fn native(registers: Registers) -> UnwindRegsNative {
    UnwindRegsNative::new(registers.instruction, registers.stack, registers.frame)
}

#[cfg(target_arch = "aarch64")]
fn native(registers: Registers) -> UnwindRegsNative {
    UnwindRegsNative::new(registers.link, registers.stack, registers.frame)
}
