//! Random numbers that are the same for the same seed.

/// splitmix64 (Steele, Lea, Flood 2014).
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    /// A number below `count`.
    pub(crate) fn of(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % count as u64) as usize
    }

    pub(crate) fn pick<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.of(items.len())].clone()
    }

    /// True one time in `count`.
    pub(crate) fn once_in(&mut self, count: usize) -> bool {
        self.of(count) == 0
    }

    /// `r3`: one of `count` ids.
    pub(crate) fn id(&mut self, prefix: &str, count: usize) -> String {
        format!("{prefix}{}", self.of(count))
    }
}
