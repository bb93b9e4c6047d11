//! The connections of a producer to brokers, of which a server may name as many as it likes.

/// More brokers than a topic has. Each has a descriptor.
const MOST: usize = 64;

/// Connections by the broker that they lead to; beyond the most, the one that was used longest ago goes.
pub(crate) struct KeptConnections<K, C>(Vec<(K, C)>);

impl<K, C> Default for KeptConnections<K, C> {
    fn default() -> Self {
        KeptConnections(Vec::new())
    }
}

impl<K: PartialEq, C> KeptConnections<K, C> {
    pub(crate) fn get(&mut self, key: &K) -> Option<&mut C> {
        let at = self.0.iter().position(|(known, _)| known == key)?;
        // The last one is the one that was used last.
        self.0.get_mut(at..)?.rotate_left(1);
        self.0.last_mut().map(|(_, connection)| connection)
    }

    pub(crate) fn keep(&mut self, key: K, connection: C) -> &mut C {
        if self.0.len() >= MOST {
            self.0.remove(0);
        }
        &mut self.0.push_mut((key, connection)).1
    }

    pub(crate) fn retain(&mut self, mut is_kept: impl FnMut(&K) -> bool) {
        self.0.retain(|(key, _)| is_kept(key));
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_that_was_used_longest_ago_goes() {
        let mut kept = KeptConnections::default();
        for broker in 0..MOST {
            kept.keep(broker, broker);
        }
        assert_eq!(kept.get(&0), Some(&mut 0));
        kept.keep(MOST, MOST);
        assert_eq!(kept.0.len(), MOST);
        assert_eq!(kept.get(&1), None);
        assert_eq!(kept.get(&0), Some(&mut 0));
        kept.retain(|broker| *broker == MOST);
        assert_eq!(kept.0, [(MOST, MOST)]);
        kept.clear();
        assert_eq!(kept.get(&MOST), None);
    }
}
