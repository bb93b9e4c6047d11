//! Numbers for keep-alive pools: nodes with the same address, scheme and TLS settings share connections.

use rustc_hash::{FxHashMap, FxHashSet};

/// A number is never given twice: connections of a node that is gone may still come back to its pool.
#[derive(Default)]
pub(crate) struct PoolNumbers {
    numbers: FxHashMap<String, u32>,
    next: u32,
    /// How many names were left after the last look.
    left: usize,
}

/// Names that were never in use at once are not worth a look.
const FEW: usize = 1024;

impl PoolNumbers {
    pub(crate) fn number(&mut self, name: String) -> u32 {
        let next = &mut self.next;
        *self.numbers.entry(name).or_insert_with(|| {
            let number = *next;
            *next = next.wrapping_add(1);
            number
        })
    }

    /// Whether addresses have come and gone so often that most names may be out of use.
    pub(crate) fn is_crowded(&self) -> bool {
        self.numbers.len() > 2 * self.left + FEW
    }

    /// Forgets the names of all other numbers.
    pub(crate) fn keep(&mut self, used: &FxHashSet<u32>) {
        self.numbers.retain(|_, number| used.contains(number));
        self.left = self.numbers.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_out_of_use_are_forgotten_and_numbers_are_not_given_again() {
        let mut pools = PoolNumbers::default();
        let kept = pools.number("kept".to_owned());
        let mut highest = 0;
        for address in 0..10_000 {
            highest = pools.number(format!("address {address}"));
            if pools.is_crowded() {
                pools.keep(&FxHashSet::from_iter([kept, highest]));
            }
            assert!(pools.numbers.len() <= 2 * FEW);
        }
        assert_eq!((highest, pools.number("kept".to_owned())), (10_000, kept));
    }
}
