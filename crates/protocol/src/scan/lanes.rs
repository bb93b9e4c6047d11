//! Sixteen bytes at once, with instructions that every x86-64 has.
//!
//! They compute with values; none takes a pointer. Rust asks for `unsafe` all the same, because functions that may use them are not
//! marked as such.

#![allow(unsafe_code)]

use std::arch::x86_64::{
    __m128i, _mm_cmpeq_epi8, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128, _mm_set_epi64x, _mm_set1_epi8,
    _mm_sub_epi8,
};

#[derive(Clone, Copy)]
pub(super) struct Lanes(__m128i);

/// The place of the first byte from `at` on that `mark` marks, or, in `Err`, where fewer than 16 unmarked bytes are left.
#[inline]
pub(super) fn first(bytes: &[u8], mut at: usize, mark: impl Fn(Lanes) -> u32) -> Result<usize, usize> {
    while let Some(chunk) = bytes.get(at..).and_then(<[u8]>::first_chunk) {
        let marks = mark(Lanes::new(chunk));
        if marks != 0 {
            return Ok(at + marks.trailing_zeros() as usize);
        }
        at += 16;
    }
    Err(at)
}

impl Lanes {
    #[inline]
    fn new(bytes: &[u8; 16]) -> Lanes {
        let all = u128::from_le_bytes(*bytes);
        // SAFETY: every x86-64 has SSE2.
        Lanes(unsafe { _mm_set_epi64x((all >> 64) as i64, all as i64) })
    }

    /// All bytes the same.
    #[inline]
    fn of(byte: u8) -> Lanes {
        // SAFETY: every x86-64 has SSE2.
        Lanes(unsafe { _mm_set1_epi8(byte as i8) })
    }

    /// A bit for each byte that is below the blank, or DEL.
    #[inline]
    pub(super) fn controls(self) -> u32 {
        self.at_most(0x1f).or(self.equal(0x7f)).bits()
    }

    /// A bit for each byte that is neither a letter nor a digit nor the dash.
    #[inline]
    pub(super) fn no_letters_digits_dashes(self) -> u32 {
        // The bit of the case makes no letter of what is none.
        let letters = self.or(Lanes::of(0x20)).within(b'a', 25);
        let plain = letters.or(self.within(b'0', 9)).or(self.equal(b'-'));
        !plain.bits() & 0xffff
    }

    /// Marks bytes from `first` on, and so many more.
    #[inline]
    fn within(self, first: u8, more: u8) -> Lanes {
        // SAFETY: every x86-64 has SSE2.
        Lanes(unsafe { _mm_sub_epi8(self.0, Lanes::of(first).0) }).at_most(more)
    }

    #[inline]
    fn at_most(self, most: u8) -> Lanes {
        // SAFETY: every x86-64 has SSE2.
        Lanes(unsafe { _mm_cmpeq_epi8(_mm_min_epu8(self.0, Lanes::of(most).0), self.0) })
    }

    #[inline]
    fn equal(self, byte: u8) -> Lanes {
        // SAFETY: every x86-64 has SSE2.
        Lanes(unsafe { _mm_cmpeq_epi8(self.0, Lanes::of(byte).0) })
    }

    #[inline]
    fn or(self, other: Lanes) -> Lanes {
        // SAFETY: every x86-64 has SSE2.
        Lanes(unsafe { _mm_or_si128(self.0, other.0) })
    }

    #[inline]
    fn bits(self) -> u32 {
        // SAFETY: every x86-64 has SSE2.
        unsafe { _mm_movemask_epi8(self.0) as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::is_plain_byte;

    #[test]
    fn every_byte_at_every_place() {
        for byte in 0..=255u8 {
            for at in 0..16 {
                let mut bytes = [b'a'; 16];
                bytes[at] = byte;
                let expected = |is_marked: bool| if is_marked { 1 << at } else { 0 };
                let lanes = Lanes::new(&bytes);
                assert_eq!(lanes.controls(), expected(byte < 0x20 || byte == 0x7f), "{byte} at {at}");
                assert_eq!(
                    lanes.no_letters_digits_dashes(),
                    expected(!is_plain_byte(byte)),
                    "{byte} at {at}"
                );
            }
        }
    }

    #[test]
    fn the_first_from_a_place_on() {
        let bytes = b"0123456789012345678901\n3456789\t.";
        assert_eq!(first(bytes, 0, Lanes::controls), Ok(22));
        assert_eq!(first(bytes, 7, Lanes::controls), Ok(22));
        assert_eq!(first(bytes, 23, Lanes::controls), Err(23));
        assert_eq!(first(b"", 0, Lanes::controls), Err(0));
        assert_eq!(first(b"", 1, Lanes::controls), Err(1));
    }
}
