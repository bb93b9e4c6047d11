//! The consistent hash ring of lua-resty-chash: the same points for the same nodes, so that a key stays where it
//! was when a gateway is replaced by this one.
//!
//! A node named `address:port` has 160 points for each unit of its weight (divided by the greatest common divisor of
//! all weights); the addresses of a domain share those of its
//! weight, so that a change of one domain moves no key between the others. Its first point is a CRC-32 that continues the one of the name, with a zero byte for the colon,
//! over four zero bytes; each further point continues it over the point before.

use crate::{crc32, spec::NodeSpec};

#[derive(Debug)]
pub(super) struct Ring {
    points: Vec<Point>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Point {
    hash: u32,
    node: u16,
}

const POINTS_PER_WEIGHT: u64 = 160;

/// Weights beyond this are scaled down: 16 MB of points must do. Proportions then are only nearly kept.
const MAX_POINTS: u64 = 2_000_000;

impl Ring {
    pub(super) fn new(nodes: &[(u16, &NodeSpec)]) -> Self {
        let divisor = nodes.iter().map(|(_, node)| u64::from(node.weight)).fold(0, greatest_common_divisor);
        // Nodes that all have weight 0 leave an empty ring, and APISIX then answers 502.
        let weight = |node: &NodeSpec| u64::from(node.weight).checked_div(divisor).unwrap_or(0);
        let share = |node: &NodeSpec| match weight(node) * POINTS_PER_WEIGHT / u64::from(node.siblings()) {
            0 => u64::from(node.weight > 0),
            share => share,
        };
        let total: u64 = nodes.iter().map(|(_, node)| share(node)).sum();
        let mut points = Vec::with_capacity(total.min(MAX_POINTS) as usize);
        for (position, node) in nodes {
            let mut count = share(node);
            if total > MAX_POINTS && count > 0 {
                count = (u128::from(count) * u128::from(MAX_POINTS) / u128::from(total)).max(1) as u64;
            }
            add_points(&mut points, *position, &name(node), count);
        }
        points.sort_by_key(|point| point.hash);
        Self { points }
    }

    /// The node a key belongs to, then those that follow on the ring; nodes repeat.
    pub(super) fn nodes_from(&self, key: &[u8]) -> impl Iterator<Item = u16> + '_ {
        let hash = crc32::checksum(key);
        let first = self.points.partition_point(|point| point.hash < hash);
        let (before, after) = self.points.split_at(first);
        after.iter().chain(before).map(|point| point.node)
    }
}

fn name(node: &NodeSpec) -> String {
    format!("{}:{}", node.place(), node.port).replace(':', "\0")
}

fn add_points(points: &mut Vec<Point>, node: u16, name: &str, count: u64) {
    let base = !crc32::checksum(name.as_bytes());
    let mut hash = 0u32;
    for _ in 0..count {
        hash = !crc32::update(base, &hash.to_le_bytes());
        points.push(Point { hash, node });
    }
}

fn greatest_common_divisor(left: u64, right: u64) -> u64 {
    if right == 0 { left } else { greatest_common_divisor(right, left % right) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The counts are those in lua-resty-balancer's own tests.
    #[test]
    fn places_keys_as_lua_resty_chash_does() {
        let mut points = Vec::new();
        for (node, name, weight) in [(0, "server1", 10), (1, "server2", 2), (2, "server3", 1)] {
            add_points(&mut points, node, name, weight * POINTS_PER_WEIGHT);
        }
        points.sort_by_key(|point| point.hash);
        let ring = Ring { points };
        let mut counts = [0; 3];
        for key in 1..=100_000 {
            let node = ring.nodes_from(key.to_string().as_bytes()).next().unwrap();
            counts[usize::from(node)] += 1;
        }
        assert_eq!(counts, [77_075, 14_743, 8_182]);
    }

    #[test]
    fn huge_weights_stay_bounded() {
        let node = |weight| NodeSpec { weight, ..NodeSpec::default() };
        let ring = Ring::new(&[(0, &node(u32::MAX)), (1, &node(1)), (2, &node(0))]);
        assert!(ring.points.len() as u64 <= MAX_POINTS + 2);
        assert!(ring.points.iter().any(|point| point.node == 1));
        assert!(ring.points.iter().all(|point| point.node != 2));
    }
}
