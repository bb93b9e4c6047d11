//! Numbers for keep-alive pools: nodes with the same address, scheme and TLS settings share connections.

use rustc_hash::FxHashMap;

#[derive(Default)]
pub struct PoolNumbers(FxHashMap<String, u32>);

impl PoolNumbers {
    pub fn number(&mut self, name: String) -> u32 {
        let next = self.0.len() as u32;
        *self.0.entry(name).or_insert(next)
    }
}
