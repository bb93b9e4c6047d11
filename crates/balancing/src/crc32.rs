//! CRC-32 (IEEE), as `ngx.crc32_short` and lua-resty-chash use it: the ring must place every key where theirs does.

const TABLE: [u32; 256] = table();

const fn table() -> [u32; 256] {
    let mut table = [0u32; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut value = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 { 0xedb8_8320 ^ (value >> 1) } else { value >> 1 };
            bit += 1;
        }
        table[byte] = value;
        byte += 1;
    }
    table
}

/// Feeds bytes to a running value that starts at `0xffff_ffff` and is inverted at the end.
pub(crate) fn update(running: u32, bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .fold(running, |value, byte| TABLE[((value ^ u32::from(*byte)) & 0xff) as usize] ^ (value >> 8))
}

/// The checksum of `bytes`.
pub fn checksum(bytes: &[u8]) -> u32 {
    !update(u32::MAX, bytes)
}

#[cfg(test)]
mod tests {
    #[test]
    fn check_value_of_the_standard() {
        assert_eq!(super::checksum(b"123456789"), 0xcbf4_3926);
    }
}
