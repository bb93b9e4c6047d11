//! Numbers for keep-alive pools: nodes with the same address, scheme and TLS settings share connections, and where they are
//! equal in all else, too, they are one.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use tidegate_balancing::NodeSpec;
use tidegate_plugin_api::upstream::Node;

/// A number is never given twice: connections of a node that is gone may still come back to its pool.
#[derive(Default)]
pub(crate) struct PoolNumbers {
    numbers: FxHashMap<String, Pool>,
    next: u32,
    /// How many names were left after the last look.
    left: usize,
}

struct Pool {
    number: u32,
    /// Those of it that were made last.
    node: Option<Arc<Node>>,
    spec: Option<Arc<NodeSpec>>,
}

/// Names that were never in use at once are not worth a look.
const FEW: usize = 1024;

impl PoolNumbers {
    /// The node, as the proxy and as the balancer see it, of the pool of that name: those of another upstream, if they are
    /// equal.
    pub(crate) fn share(
        &mut self,
        name: String,
        spec: NodeSpec,
        node: impl FnOnce(u32) -> Node,
    ) -> (Arc<Node>, Arc<NodeSpec>) {
        let pool = self.pool(name);
        let node = node(pool.number);
        (known_or(&mut pool.node, node), known_or(&mut pool.spec, spec))
    }

    fn pool(&mut self, name: String) -> &mut Pool {
        let next = &mut self.next;
        self.numbers.entry(name).or_insert_with(|| {
            let number = *next;
            *next = next.wrapping_add(1);
            Pool { number, node: None, spec: None }
        })
    }

    /// Whether addresses have come and gone so often that most names may be out of use.
    pub(crate) fn is_crowded(&self) -> bool {
        self.numbers.len() > 2 * self.left + FEW
    }

    /// Forgets the names of all other numbers.
    pub(crate) fn keep(&mut self, used: &FxHashSet<u32>) {
        self.numbers.retain(|_, pool| used.contains(&pool.number));
        self.left = self.numbers.len();
    }
}

/// What is known, if it is equal; else the new one is known from now on.
fn known_or<T: PartialEq>(known: &mut Option<Arc<T>>, new: T) -> Arc<T> {
    match known {
        Some(known) if **known == new => known.clone(),
        _ => known.insert(Arc::new(new)).clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_nodes_are_one() {
        let mut pools = PoolNumbers::default();
        let mut made = |name: &str, host_header: &str, weight| {
            let node = |pool| Node {
                host: "a".into(),
                port: 80,
                address: None,
                ip: "a".into(),
                host_header: host_header.into(),
                pool,
            };
            pools.share(name.to_owned(), NodeSpec { weight, ..NodeSpec::default() }, node)
        };
        let first = made("a", "a", 1);
        let same = made("a", "a", 1);
        assert!(Arc::ptr_eq(&first.0, &same.0) && Arc::ptr_eq(&first.1, &same.1));
        let heavier = made("a", "a", 2);
        assert!(Arc::ptr_eq(&first.0, &heavier.0) && heavier.1.weight == 2 && same.1.weight == 1);
        let named = made("a", "a:80", 2);
        assert_eq!((&*named.0.host_header, named.0.pool), ("a:80", first.0.pool));
        let other = made("b", "a", 1);
        assert_ne!(other.0.pool, first.0.pool);
    }

    #[test]
    fn names_out_of_use_are_forgotten_and_numbers_are_not_given_again() {
        let mut pools = PoolNumbers::default();
        let kept = pools.pool("kept".to_owned()).number;
        let mut highest = 0;
        for address in 0..10_000 {
            highest = pools.pool(format!("address {address}")).number;
            if pools.is_crowded() {
                pools.keep(&FxHashSet::from_iter([kept, highest]));
            }
            assert!(pools.numbers.len() <= 2 * FEW);
        }
        assert_eq!((highest, pools.pool("kept".to_owned()).number), (10_000, kept));
    }
}
