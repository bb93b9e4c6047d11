//! The order of lua-resty-balancer's weighted round robin.
//!
//! There a threshold falls from the largest weight to 0 in steps of the greatest common divisor, and each pass
//! visits the nodes whose weight reaches it. Passes between two neighbouring weights visit the same nodes, so
//! one segment represents all of them and the n-th visit is found without walking: the weights may make the cycle as long
//! as they like. Nodes that share the weight of one domain take part with their shares: all weights are scaled so that
//! the shares are integers.

use crate::spec::NodeSpec;

/// Weights are scaled by this at most; beyond it the shares are only nearly equal.
const MOST_SCALED: u64 = 1 << 20;

#[derive(Debug)]
pub(super) struct Cycle {
    segments: Vec<Segment>,
    length: u64,
}

#[derive(Debug)]
struct Segment {
    start: u64,
    end: u64,
    members: Vec<u16>,
}

impl Cycle {
    pub(super) fn new(nodes: &[(u16, &NodeSpec)]) -> Self {
        let shares = shares(nodes);
        let mut weights: Vec<u64> = shares.iter().map(|(_, share)| *share).filter(|w| *w > 0).collect();
        weights.sort_unstable_by(|left, right| right.cmp(left));
        weights.dedup();
        let divisor = weights.iter().copied().fold(0, greatest_common_divisor);
        if divisor == 0 {
            // Only nodes of weight 0: they take equal turns.
            let members: Vec<u16> = nodes.iter().map(|(node, _)| *node).collect();
            let length = members.len() as u64;
            return Self { segments: vec![Segment { start: 0, end: length, members }], length };
        }
        let mut segments = Vec::with_capacity(weights.len());
        let mut length = 0u64;
        for (position, weight) in weights.iter().enumerate() {
            let lower = weights.get(position + 1).copied().unwrap_or(0);
            let passes = (weight - lower) / divisor;
            let members: Vec<u16> =
                shares.iter().filter(|(_, share)| share >= weight).map(|(node, _)| *node).collect();
            let end = length.saturating_add(passes.saturating_mul(members.len() as u64));
            segments.push(Segment { start: length, end, members });
            length = end;
        }
        Self { segments, length }
    }

    /// The node that the given turn belongs to.
    pub(super) fn at(&self, turn: u64) -> Option<u16> {
        let turn = turn.checked_rem(self.length)?;
        let segment = match self.segments.as_slice() {
            [only] => only,
            segments => segments.get(segments.partition_point(|segment| segment.end <= turn))?,
        };
        let position = (turn - segment.start).checked_rem(segment.members.len() as u64)?;
        segment.members.get(position as usize).copied()
    }

    /// False for a node of weight 0 among others.
    pub(super) fn has(&self, node: u16) -> bool {
        self.segments.last().is_some_and(|segment| segment.members.contains(&node))
    }
}

/// Each node's share of its domain's weight, scaled by a common factor.
fn shares(nodes: &[(u16, &NodeSpec)]) -> Vec<(u16, u64)> {
    let multiple = |factor: u64, siblings: u64| factor / greatest_common_divisor(factor, siblings) * siblings;
    let exact = nodes.iter().map(|(_, node)| u64::from(node.siblings())).try_fold(1, |factor, siblings| {
        Some(multiple(factor, siblings)).filter(|factor| *factor <= MOST_SCALED)
    });
    let factor = exact.unwrap_or(MOST_SCALED);
    let share = |node: &NodeSpec| match u64::from(node.weight) * factor / u64::from(node.siblings()) {
        0 => u64::from(node.weight > 0),
        share => share,
    };
    nodes.iter().map(|(position, node)| (*position, share(node))).collect()
}

fn greatest_common_divisor(left: u64, right: u64) -> u64 {
    if right == 0 { left } else { greatest_common_divisor(right, left % right) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(weights: &[u32], count: u64) -> Vec<u16> {
        let specs: Vec<NodeSpec> =
            weights.iter().map(|weight| NodeSpec { weight: *weight, ..NodeSpec::default() }).collect();
        let nodes: Vec<_> = (0u16..).zip(&specs).collect();
        let cycle = Cycle::new(&nodes);
        (0..count).filter_map(|turn| cycle.at(turn)).collect()
    }

    #[test]
    fn interleaves_as_lua_resty_balancer_does() {
        assert_eq!(order(&[1, 1], 4), [0, 1, 0, 1]);
        assert_eq!(order(&[1, 2], 6), [1, 0, 1, 1, 0, 1]);
        assert_eq!(order(&[3, 2, 1], 6), [0, 0, 1, 0, 1, 2]);
        assert_eq!(order(&[20, 10], 3), [0, 0, 1]);
        assert_eq!(order(&[0, 1], 2), [1, 1]);
        assert_eq!(order(&[0, 0], 4), [0, 1, 0, 1]);
        assert!(order(&[], 4).is_empty());
    }

    #[test]
    fn addresses_of_a_domain_share_its_weight() {
        let node = |weight, siblings| NodeSpec { weight, siblings, ..NodeSpec::default() };
        let specs = [node(3, 1), node(2, 3), node(2, 3), node(2, 3), node(1, 0)];
        let nodes: Vec<_> = (0u16..).zip(&specs).collect();
        let cycle = Cycle::new(&nodes);
        let mut counts = [0; 5];
        (0..1800).filter_map(|turn| cycle.at(turn)).for_each(|node| counts[usize::from(node)] += 1);
        assert_eq!(counts, [900, 200, 200, 200, 300]);
        // Without a small common multiple they share nearly.
        let specs: Vec<NodeSpec> = (1..=64).map(|siblings| node(u32::MAX, siblings)).collect();
        let nodes: Vec<_> = (0u16..).zip(&specs).collect();
        assert!(Cycle::new(&nodes).at(u64::MAX).is_some());
    }

    #[test]
    fn weights_may_be_large() {
        let order = order(&[u32::MAX, 1], 10);
        assert_eq!(order, [0; 10]);
    }
}
