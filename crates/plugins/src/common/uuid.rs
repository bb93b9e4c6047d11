//! UUIDs (RFC 9562), for ids that need not be secret.

use plugin::request::random_u64;

pub fn v4() -> String {
    text(random_u128(), 4)
}

/// Version and variant bits put over 128 bits.
pub fn text(bits: u128, version: u128) -> String {
    let bits = bits & !(0xf << 76) | version << 76;
    let bits = bits & !(0x3 << 62) | 0x2 << 62;
    let text = format!("{bits:032x}");
    let part = |from: usize, to: usize| text.get(from..to).unwrap_or_default();
    format!("{}-{}-{}-{}-{}", part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32))
}

pub fn random_u128() -> u128 {
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
}
