//! UUIDs (RFC 9562), for ids that need not be secret.

use std::{cell::Cell, time::Duration};

use tidegate_model::random::random_u64;

pub(crate) fn v4() -> String {
    text(random_u128(), 4)
}

thread_local! {
    /// Milliseconds and random bits of this worker's last one of version 7.
    static LAST: Cell<(u128, u128)> = const { Cell::new((0, 0)) };
}

/// The random bits of version 7, without their highest: room to count in.
const RANDOM_BITS: u32 = 73;

/// Each is higher than the one before of the same worker, also within a millisecond and when the clock goes back: RFC 9562
/// section 6.2, method 2.
pub(crate) fn v7(now: Duration) -> String {
    let now_ms = now.as_millis() & 0xffff_ffff_ffff;
    let (last_ms, last) = LAST.get();
    let (ms, tail) = match now_ms > last_ms {
        true => (now_ms, random_u128() & ((1 << RANDOM_BITS) - 1)),
        false => (last_ms, last + 1 + u128::from(random_u64() as u32)),
    };
    LAST.set((ms, tail));
    text(ms << 80 | (tail >> 62 & 0xfff) << 64 | tail & ((1 << 62) - 1), 7)
}

/// Version and variant bits put over 128 bits.
pub fn text(bits: u128, version: u128) -> String {
    let bits = bits & !(0xf << 76) | version << 76;
    let bits = bits & !(0x3 << 62) | 0x2 << 62;
    let mut text = String::with_capacity(36);
    for (at, byte) in bits.to_be_bytes().into_iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push(hex_digit(byte >> 4));
        text.push(hex_digit(byte & 0xf));
    }
    text
}

/// Of a number below 16.
fn hex_digit(number: u8) -> char {
    char::from(if number < 10 { b'0' + number } else { b'a' + number - 10 })
}

pub(crate) fn random_u128() -> u128 {
    u128::from(random_u64()) << 64 | u128::from(random_u64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_and_variant() {
        assert_eq!(text(0, 4), "00000000-0000-4000-8000-000000000000");
        assert_eq!(text(u128::MAX, 7), "ffffffff-ffff-7fff-bfff-ffffffffffff");
        assert_ne!(v4(), v4());
    }

    #[test]
    fn version_7_rises_within_a_millisecond() {
        let at = |ms: u64| v7(Duration::from_millis(ms));
        let mut ids = vec![at(5)];
        ids.extend((0..1000).map(|_| at(6)));
        ids.extend([at(4), at(6), at(7)]);
        assert!(ids.is_sorted() && ids.iter().all(|id| id.get(14..15) == Some("7")), "{ids:?}");
        assert!(ids.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
