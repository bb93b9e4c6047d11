//! The four ways to choose among the nodes of one priority.
//!
//! Nodes are known by their position in the upstream. A group is built when nodes or health change; a pick only
//! reads it and touches the atomics of its lane and of the nodes.

mod cycle;
mod ring;

use std::sync::atomic::{AtomicU64, Ordering};

use crate::{
    health::Health,
    node::Node,
    spec::{Algorithm, NodeSpec},
};
use cycle::Cycle;
use ring::Ring;

/// Nodes of one priority and how to choose among them.
#[derive(Debug)]
pub(crate) struct Group {
    members: Vec<u16>,
    method: Method,
}

#[derive(Debug)]
enum Method {
    Cycle(Cycle),
    Ring(Ring),
    Ewma,
    LeastConnections,
}

/// The state of one worker, on a separate cache line.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Lane {
    cursor: AtomicU64,
    random: AtomicU64,
}

/// The inputs of one pick.
pub(crate) struct Candidates<'a> {
    pub nodes: &'a [Node],
    pub tried: &'a [u16],
    /// Set when nodes may have to be skipped.
    pub health: Option<&'a Health>,
    pub hash_key: Option<&'a [u8]>,
    pub now_ms: u64,
}

/// One group for each priority, highest first, of the nodes for which `usable` holds.
pub(crate) fn groups(algorithm: Algorithm, nodes: &[Node], usable: &dyn Fn(u16) -> bool) -> Vec<Group> {
    let mut members: Vec<u16> =
        (0u16..).zip(nodes).map(|(position, _)| position).filter(|node| usable(*node)).collect();
    let priority = |member: &u16| nodes.get(usize::from(*member)).map_or(0, |node| node.spec.priority);
    members.sort_by_key(|member| std::cmp::Reverse(priority(member)));
    let mut groups: Vec<Group> = members
        .chunk_by(|left, right| priority(left) == priority(right))
        .map(|members| {
            let weighted: Vec<(u16, &NodeSpec)> = members
                .iter()
                .filter_map(|member| Some((*member, &*nodes.get(usize::from(*member))?.spec)))
                .collect();
            let method = match algorithm {
                Algorithm::RoundRobin => Method::Cycle(Cycle::new(&weighted)),
                Algorithm::ConsistentHash => Method::Ring(Ring::new(&weighted)),
                Algorithm::Ewma => Method::Ewma,
                Algorithm::LeastConnections => Method::LeastConnections,
            };
            Group { members: members.to_vec(), method }
        })
        .collect();
    // Room for four is where one is collected, and there may be 50,000 upstreams.
    groups.shrink_to_fit();
    groups
}

impl Group {
    pub(crate) fn pick(&self, lane: &Lane, candidates: &Candidates<'_>) -> Option<u16> {
        match &self.method {
            Method::Cycle(cycle) => self.pick_in_turn(cycle, lane, candidates),
            Method::Ring(ring) => {
                ring.nodes_from(candidates.hash_key.unwrap_or_default()).find(|node| candidates.allow(*node))
            }
            Method::Ewma => self.pick_of_two(lane, candidates),
            Method::LeastConnections => self.pick_least(lane, candidates),
        }
    }

    fn pick_in_turn(&self, cycle: &Cycle, lane: &Lane, candidates: &Candidates<'_>) -> Option<u16> {
        // Usually the first is taken. A node of small weight may be far away in the cycle: after twice the
        // number of nodes look for any that is left.
        for _ in 0..self.members.len() * 2 {
            let node = cycle.at(lane.next_turn())?;
            if candidates.allow(node) {
                return Some(node);
            }
        }
        let left = |node: &u16| candidates.allow(*node) && cycle.has(*node);
        self.members.iter().copied().find(left)
    }

    /// The faster of two chosen at random; weights do not count.
    fn pick_of_two(&self, lane: &Lane, candidates: &Candidates<'_>) -> Option<u16> {
        if candidates.is_unrestricted() {
            return self.faster_of_two(self.members.len(), lane, candidates, |position| {
                self.members.get(position).copied()
            });
        }
        let allowed = || self.members.iter().copied().filter(|node| candidates.allow(*node));
        self.faster_of_two(allowed().count(), lane, candidates, |position| allowed().nth(position))
    }

    fn faster_of_two(
        &self,
        count: usize,
        lane: &Lane,
        candidates: &Candidates<'_>,
        node: impl Fn(usize) -> Option<u16>,
    ) -> Option<u16> {
        if count < 2 {
            return node(0);
        }
        let first = lane.random_below(count);
        let second = lane.random_below(count - 1);
        let second = if second >= first { second + 1 } else { second };
        let (first, second) = (node(first)?, node(second)?);
        let faster = candidates.latency_ms(first) <= candidates.latency_ms(second);
        Some(if faster { first } else { second })
    }

    /// The lowest (active + 1) / weight; equals take turns.
    fn pick_least(&self, lane: &Lane, candidates: &Candidates<'_>) -> Option<u16> {
        let turn = lane.next_turn() as usize % self.members.len().max(1);
        let (after, before) = self.members.split_at_checked(turn).map(|(before, after)| (after, before))?;
        let mut least: Option<(f64, u16)> = None;
        for node in after.iter().chain(before).copied().filter(|node| candidates.allow(*node)) {
            let score = candidates.connection_score(node);
            if least.is_none_or(|(known, _)| score < known) {
                least = Some((score, node));
            }
        }
        least.map(|(_, node)| node)
    }
}

impl Candidates<'_> {
    fn allow(&self, node: u16) -> bool {
        !self.tried.contains(&node) && self.health.is_none_or(|health| health.is_usable(node))
    }

    fn is_unrestricted(&self) -> bool {
        self.tried.is_empty() && self.health.is_none()
    }

    fn latency_ms(&self, node: u16) -> f64 {
        let statistics = self.nodes.get(usize::from(node)).and_then(|node| node.statistics.as_ref());
        statistics.map_or(0.0, |statistics| statistics.latency_ms(self.now_ms))
    }

    fn connection_score(&self, node: u16) -> f64 {
        let Some(node) = self.nodes.get(usize::from(node)) else { return f64::INFINITY };
        f64::from(node.active() + 1) * f64::from(node.spec.siblings()) / f64::from(node.spec.weight)
    }
}

impl Lane {
    pub(crate) fn new(seed: u64) -> Self {
        // A small start keeps the cursor far from wrapping; xorshift must not start at 0.
        Self { cursor: AtomicU64::new(seed >> 32), random: AtomicU64::new(seed | 1) }
    }

    /// A lane has one writer, so a load and a store do; two writers would only repeat a turn.
    fn next_turn(&self) -> u64 {
        let turn = self.cursor.load(Ordering::Relaxed);
        self.cursor.store(turn.wrapping_add(1), Ordering::Relaxed);
        turn
    }

    fn random_below(&self, count: usize) -> usize {
        let mut value = self.random.load(Ordering::Relaxed);
        value ^= value << 13;
        value ^= value >> 7;
        value ^= value << 17;
        self.random.store(value, Ordering::Relaxed);
        ((u128::from(value) * count as u128) >> 64) as usize
    }
}
