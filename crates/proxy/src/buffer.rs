//! Read buffers and where idle ones rest.

use std::cell::RefCell;

/// Holds a usual head, and a 10 KB body with it.
pub(crate) const SIZE: usize = 16 * 1024;
/// For bodies that are known to be large: fewer system calls.
pub(crate) const LARGE: usize = 64 * 1024;

/// Received bytes between `start` and `end`. Three words, as each idle connection has an empty one.
#[derive(Default)]
pub(crate) struct Buffer {
    data: Box<[u8]>,
    start: u32,
    end: u32,
}

impl Buffer {
    pub(crate) fn with_size(size: usize) -> Buffer {
        Buffer { data: vec![0; size.min(u32::MAX as usize)].into(), start: 0, end: 0 }
    }

    pub(crate) fn capacity(&self) -> usize {
        self.data.len()
    }

    pub(crate) fn filled(&self) -> &[u8] {
        self.data.get(self.start as usize..self.end as usize).unwrap_or_default()
    }

    pub(crate) fn len(&self) -> usize {
        (self.end - self.start) as usize
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    pub(crate) fn consume(&mut self, count: usize) {
        self.start += count.min(self.len()) as u32;
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Room to read into. Makes some by moving what is held to the front, or by growing up to `limit`.
    pub(crate) fn room(&mut self, limit: usize) -> &mut [u8] {
        let limit = limit.min(u32::MAX as usize);
        if self.end as usize == self.data.len() {
            if self.start > 0 {
                self.data.copy_within(self.start as usize..self.end as usize, 0);
                self.end -= self.start;
                self.start = 0;
            } else if self.data.len() < limit {
                let size = (self.data.len() * 2).clamp(SIZE, limit.max(SIZE));
                let mut data = std::mem::take(&mut self.data).into_vec();
                data.resize(size, 0);
                self.data = data.into();
            }
        }
        self.data.get_mut(self.end as usize..).unwrap_or_default()
    }

    pub(crate) fn received(&mut self, count: usize) {
        self.end += count.min(self.data.len() - self.end as usize) as u32;
    }

    /// Keeps the first `count` bytes.
    pub(crate) fn truncate(&mut self, count: usize) {
        self.end = self.start + count.min(self.len()) as u32;
    }

    pub(crate) fn clear(&mut self) {
        (self.start, self.end) = (0, 0);
    }
}

/// Buffers between uses, per worker.
#[derive(Default)]
pub(crate) struct Buffers {
    inputs: RefCell<Vec<Buffer>>,
    large: RefCell<Vec<Buffer>>,
    outputs: RefCell<Vec<Vec<u8>>>,
}

/// Kept at most; more were a burst.
const KEPT: usize = 256;
const LARGE_KEPT: usize = 32;

impl Buffers {
    pub(crate) fn input(&self) -> Buffer {
        self.inputs.borrow_mut().pop().unwrap_or_else(|| Buffer::with_size(SIZE))
    }

    pub(crate) fn large(&self) -> Buffer {
        self.large.borrow_mut().pop().unwrap_or_else(|| Buffer::with_size(LARGE))
    }

    pub(crate) fn give_back(&self, mut buffer: Buffer) {
        let (kept, most) = match buffer.capacity() {
            SIZE => (&self.inputs, KEPT),
            LARGE => (&self.large, LARGE_KEPT),
            _ => return,
        };
        let mut kept = kept.borrow_mut();
        if kept.len() < most {
            buffer.clear();
            kept.push(buffer);
        }
    }

    /// Gives memory of a burst back, half of it each time.
    pub(crate) fn trim(&self) {
        let mut inputs = self.inputs.borrow_mut();
        let kept = (inputs.len() / 2).max(16);
        inputs.truncate(kept);
        let mut large = self.large.borrow_mut();
        let kept = large.len() / 2;
        large.truncate(kept);
        let mut outputs = self.outputs.borrow_mut();
        let kept = (outputs.len() / 2).max(16);
        outputs.truncate(kept);
    }

    pub(crate) fn output(&self) -> Vec<u8> {
        self.outputs.borrow_mut().pop().unwrap_or_else(|| Vec::with_capacity(4096))
    }

    pub(crate) fn give_back_output(&self, mut buffer: Vec<u8>) {
        let mut outputs = self.outputs.borrow_mut();
        if buffer.capacity() <= LARGE && buffer.capacity() > 0 && outputs.len() < KEPT {
            buffer.clear();
            outputs.push(buffer);
        }
    }
}
