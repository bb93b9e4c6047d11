//! A radix tree that is built once from all its keys and answers "which keys are prefixes of this text, longest
//! first".
//!
//! Built top down: the keys of a node are cut by their common prefix and spread over the children by their next
//! byte, which is a radix sort and a tree in one pass. Nodes live in one array with the children of a node side
//! by side; every node knows the nearest end above it, so that a lookup goes down once and keeps no stack.

#[derive(Debug, Default)]
pub(super) struct Trie {
    nodes: Vec<Node>,
    /// First byte of each node's label, for the search among siblings.
    first_bytes: Vec<u8>,
    labels: Vec<u8>,
}

/// A key of the tree; equal keys share an end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key<'a> {
    pub bytes: &'a [u8],
    pub value: u32,
}

#[derive(Debug)]
struct Node {
    label_start: u32,
    label_length: u32,
    children_start: u32,
    children_count: u32,
    /// The value of the end function for the keys that end here, or `NONE`.
    value: u32,
    /// The nearest node above that is an end, or `NONE`.
    shorter: u32,
}

const NONE: u32 = u32::MAX;

/// Below this many keys a comparison sort beats counting.
const COUNTING_FROM: usize = 64;

struct Work {
    node: u32,
    from: usize,
    to: usize,
    depth: usize,
    shorter: u32,
}

impl Trie {
    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The first root. Valid only when the tree is not empty.
    pub(super) fn first_root(&self) -> u32 {
        0
    }

    /// Adds a separate tree to the arena and returns its root. `end` is given all keys that end at a node and
    /// returns the node's value, which must not be `u32::MAX`.
    pub(super) fn add_root(&mut self, keys: &mut [Key<'_>], end: &mut dyn FnMut(&[Key<'_>]) -> u32) -> u32 {
        let root = self.reserve(1);
        let mut scratch = Vec::new();
        let mut work = vec![Work { node: root, from: 0, to: keys.len(), depth: 0, shorter: NONE }];
        while let Some(item) = work.pop() {
            self.fill(item, keys, &mut scratch, &mut work, end);
        }
        root
    }

    /// The values of all keys that are prefixes of `text`, longest first.
    pub(super) fn prefixes(&self, root: u32, text: &[u8]) -> Prefixes<'_> {
        Prefixes { trie: self, node: self.longest(root, text) }
    }

    fn longest(&self, root: u32, mut text: &[u8]) -> u32 {
        let mut longest = NONE;
        let mut position = root;
        while let Some(node) = self.nodes.get(position as usize) {
            let label = self.labels.get(node.label_start as usize..).unwrap_or_default();
            let label = label.get(..node.label_length as usize).unwrap_or_default();
            let Some(rest) = text.strip_prefix(label) else { break };
            text = rest;
            if node.value != NONE {
                longest = position;
            }
            let Some(next) = text.first() else { break };
            let start = node.children_start as usize;
            let siblings = self.first_bytes.get(start..start + node.children_count as usize);
            let Some(child) = siblings.and_then(|siblings| memchr::memchr(*next, siblings)) else { break };
            position = node.children_start + child as u32;
        }
        longest
    }

    fn reserve(&mut self, count: usize) -> u32 {
        let start = self.nodes.len();
        self.nodes.resize_with(start + count, || Node {
            label_start: 0,
            label_length: 0,
            children_start: 0,
            children_count: 0,
            value: NONE,
            shorter: NONE,
        });
        self.first_bytes.resize(start + count, 0);
        start as u32
    }

    fn fill<'k>(
        &mut self,
        work_item: Work,
        all: &mut [Key<'k>],
        scratch: &mut Vec<Key<'k>>,
        work: &mut Vec<Work>,
        end: &mut dyn FnMut(&[Key<'_>]) -> u32,
    ) {
        let Work { node, from, to, depth, mut shorter } = work_item;
        let keys = &mut all[from..to];
        let common = common_length(keys, depth);
        let depth = common.max(depth);
        let label_start = self.labels.len();
        if let Some(first) = keys.first() {
            self.labels.extend_from_slice(&first.bytes[work_item.depth..depth]);
        }
        let ends = gather_ends(keys, depth);
        let value = if ends == 0 { NONE } else { end(&keys[..ends]) };

        let mut groups = Vec::new();
        spread(&mut keys[ends..], depth, scratch, &mut groups);
        let children_start = self.reserve(groups.len());
        let slot = &mut self.nodes[node as usize];
        slot.label_start = label_start as u32;
        slot.label_length = (depth - work_item.depth) as u32;
        slot.children_start = children_start;
        slot.children_count = groups.len() as u32;
        slot.value = value;
        slot.shorter = shorter;
        if value != NONE {
            shorter = node;
        }
        let mut start = from + ends;
        for (child, (byte, count)) in (children_start..).zip(groups) {
            self.first_bytes[child as usize] = byte;
            work.push(Work { node: child, from: start, to: start + count, depth, shorter });
            start += count;
        }
    }
}

/// Iterator of [`Trie::prefixes`].
pub(super) struct Prefixes<'t> {
    trie: &'t Trie,
    node: u32,
}

impl Iterator for Prefixes<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let node = self.trie.nodes.get(self.node as usize)?;
        self.node = node.shorter;
        Some(node.value)
    }
}

/// How many bytes all keys share, counted from their beginning; `from` of them are known to be.
fn common_length(keys: &[Key<'_>], from: usize) -> usize {
    let Some((first, others)) = keys.split_first() else { return 0 };
    let mut common = first.bytes;
    for key in others {
        let tail = common[from..].iter().zip(&key.bytes[from..]);
        let shared = tail.take_while(|(left, right)| left == right).count();
        common = &common[..from + shared];
    }
    common.len()
}

/// Moves keys of exactly `depth` bytes to the front and returns how many there are.
fn gather_ends(keys: &mut [Key<'_>], depth: usize) -> usize {
    let mut ends = 0;
    for position in 0..keys.len() {
        if keys[position].bytes.len() == depth {
            keys.swap(ends, position);
            ends += 1;
        }
    }
    ends
}

/// Sorts by the byte at `depth`, which every key has, and lists each byte with its number of keys.
fn spread<'k>(keys: &mut [Key<'k>], depth: usize, scratch: &mut Vec<Key<'k>>, groups: &mut Vec<(u8, usize)>) {
    if keys.len() < COUNTING_FROM {
        keys.sort_unstable_by_key(|key| key.bytes[depth]);
        for key in keys {
            match groups.last_mut() {
                Some((byte, count)) if *byte == key.bytes[depth] => *count += 1,
                _ => groups.push((key.bytes[depth], 1)),
            }
        }
        return;
    }
    let mut counts = [0usize; 256];
    for key in keys.iter() {
        counts[key.bytes[depth] as usize] += 1;
    }
    let mut next = [0usize; 256];
    let mut start = 0;
    for (byte, count) in counts.iter().enumerate() {
        next[byte] = start;
        start += count;
        if *count > 0 {
            groups.push((byte as u8, *count));
        }
    }
    scratch.clear();
    scratch.extend_from_slice(keys);
    for key in scratch.iter() {
        let slot = &mut next[key.bytes[depth] as usize];
        keys[*slot] = *key;
        *slot += 1;
    }
}
