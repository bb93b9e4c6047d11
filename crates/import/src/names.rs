//! Names that are made of what a part of a file says, and not of where it stands: a line more or less renames nothing.

const LONGEST_WORDS: usize = 20;

/// The letters and digits of a path or name, joined by `-`; may be empty.
pub(crate) fn words(text: &str) -> String {
    let parts = text.split(|sign: char| !sign.is_ascii_alphanumeric()).filter(|part| !part.is_empty());
    let text: String = parts.collect::<Vec<_>>().join("-").chars().take(LONGEST_WORDS).collect();
    text.trim_end_matches('-').to_owned()
}

/// The same of a path, `root` for `/`.
pub(crate) fn words_of_path(path: &str) -> String {
    match words(path) {
        empty if empty.is_empty() => "root".to_owned(),
        words => words,
    }
}

/// FNV-1a, folded to 16 bits: names are the same on every machine.
pub(crate) fn folded(text: &str) -> u16 {
    let hash =
        text.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let [a, b, c, d] = hash.to_be_bytes();
    u16::from_be_bytes([a ^ c, b ^ d])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_paths() {
        for (path, expected) in [
            ("/", "root"),
            ("/orders/", "orders"),
            ("\\.(php|phtml)$", "php-phtml"),
            ("/a/very/long/path/with/many/parts", "a-very-long-path-wit"),
        ] {
            assert_eq!(words_of_path(path), expected, "{path}");
        }
        assert_ne!(folded("location /a"), folded("location /a/"));
    }
}
