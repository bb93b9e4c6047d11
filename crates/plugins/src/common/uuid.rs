//! UUIDs (RFC 9562), for ids that need not be secret.

use std::{cell::Cell, time::Duration};

use tidegate_model::random::random_u64;

pub(crate) fn v4() -> Text {
    written(random_u128(), 4)
}

thread_local! {
    /// Milliseconds and random bits of this worker's last one of version 7.
    static LAST: Cell<(u128, u128)> = const { Cell::new((0, 0)) };
}

/// The random bits of version 7, without their highest: room to count in.
const RANDOM_BITS: u32 = 73;

/// Each is higher than the one before of the same worker, also within a millisecond and when the clock goes back: RFC 9562
/// section 6.2, method 2.
pub(crate) fn v7(now: Duration) -> Text {
    let now_ms = now.as_millis() & 0xffff_ffff_ffff;
    let (last_ms, last) = LAST.get();
    let (ms, tail) = match now_ms > last_ms {
        true => (now_ms, random_u128() & ((1 << RANDOM_BITS) - 1)),
        false => (last_ms, last + 1 + u128::from(random_u64() as u32)),
    };
    LAST.set((ms, tail));
    written(ms << 80 | (tail >> 62 & 0xfff) << 64 | tail & ((1 << 62) - 1), 7)
}

/// Version and variant bits put over 128 bits.
pub fn text(bits: u128, version: u128) -> String {
    written(bits, version).as_str().to_owned()
}

/// 36 characters, without memory of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Text([u8; 36]);

impl Text {
    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

fn written(bits: u128, version: u128) -> Text {
    let bits = bits & !(0xf << 76) | version << 76;
    let bits = bits & !(0x3 << 62) | 0x2 << 62;
    let mut text = [b'-'; 36];
    for (byte, at) in bits.to_be_bytes().into_iter().zip(PLACES) {
        if let Some(place) = text.get_mut(at..at + 2) {
            place.copy_from_slice(&HEX[usize::from(byte)]);
        }
    }
    Text(text)
}

/// Where each byte is written, with dashes in between.
const PLACES: [usize; 16] = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];

/// The two digits of each byte.
static HEX: [[u8; 2]; 256] = {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut table = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = [DIGITS[byte / 16], DIGITS[byte % 16]];
        byte += 1;
    }
    table
};

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
        assert!(ids.is_sorted() && ids.iter().all(|id| id.as_str().get(14..15) == Some("7")), "{ids:?}");
        assert!(ids.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
