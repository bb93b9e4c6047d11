//! Random numbers: those that must not be guessable, and those that need not be secret.

use std::{
    cell::Cell,
    hash::{BuildHasher, RandomState},
    io,
};

/// Fills keys, nonces and identities.
pub fn fill_secret(bytes: &mut [u8]) -> io::Result<()> {
    aws_lc_rs::rand::fill(bytes).map_err(|_| io::Error::other("the system's random number generator failed"))
}

/// Not for secrets: ids, sampling, and choices among equals.
pub fn random_u64() -> u64 {
    thread_local! {
        static STATE: Cell<u64> = Cell::new(RandomState::new().hash_one(std::thread::current().id()) | 1);
    }
    STATE.with(|state| {
        // splitmix64 (Steele, Lea, Flood 2014)
        let next = state.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        state.set(next);
        let mut mixed = next;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    })
}

/// As [`random_u64`], from 0 to below 1.
pub fn random_fraction() -> f64 {
    (random_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

/// As [`random_u64`], below a limit; 0 where the limit is 0.
pub fn random_below(limit: usize) -> usize {
    ((u128::from(random_u64()) * limit as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_within_their_bounds() {
        assert_eq!(random_below(0), 0);
        let mut seen = [false; 3];
        for _ in 0..1000 {
            seen[random_below(3)] = true;
            assert!((0.0..1.0).contains(&random_fraction()));
        }
        assert_eq!(seen, [true; 3]);
        assert_ne!(random_u64(), random_u64());
        let mut key = [0; 32];
        fill_secret(&mut key).expect("random numbers");
        assert_ne!(key, [0; 32]);
    }
}
