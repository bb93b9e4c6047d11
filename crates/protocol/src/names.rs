//! The bytes of field names.

/// `true` for the characters of a token (RFC 9110 section 5.6.2).
pub const fn is_token_byte(byte: u8) -> bool {
    TOKEN[byte as usize]
}

static TOKEN: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0usize;
    while byte < 256 {
        let b = byte as u8;
        table[byte] = b.is_ascii_alphanumeric()
            || matches!(
                b,
                b'!' | b'#'
                    | b'$'
                    | b'%'
                    | b'&'
                    | b'\''
                    | b'*'
                    | b'+'
                    | b'-'
                    | b'.'
                    | b'^'
                    | b'_'
                    | b'`'
                    | b'|'
                    | b'~'
            );
        byte += 1;
    }
    table
};

/// `true` for letters, digits and the dash.
#[inline]
pub(crate) fn is_plain_byte(byte: u8) -> bool {
    CLASS[usize::from(byte)] == 0
}

/// Bits of [`CLASS`]: not a letter, a digit or the dash.
const OTHER_SIGN: u8 = 1;
/// Not of a token either.
const NO_TOKEN: u8 = 2;

static CLASS: [u8; 256] = {
    let mut table = [0; 256];
    let mut byte = 0usize;
    while byte < 256 {
        let is_plain = (byte as u8).is_ascii_alphanumeric() || byte as u8 == b'-';
        table[byte] = match (is_plain, is_token_byte(byte as u8)) {
            (true, _) => 0,
            (false, true) => OTHER_SIGN,
            (false, false) => OTHER_SIGN | NO_TOKEN,
        };
        byte += 1;
    }
    table
};

/// The signs of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signs {
    /// At most dashes.
    Dashes,
    /// Another one, so that it may be another name to an upstream.
    Others,
}

/// `None`: it is not a token.
#[inline]
pub(crate) fn signs(name: &[u8]) -> Option<Signs> {
    match classes(name) {
        0 => Some(Signs::Dashes),
        OTHER_SIGN => Some(Signs::Others),
        _ => None,
    }
}

fn classes(name: &[u8]) -> u8 {
    // Without a jump for each byte: hardly any name has other signs.
    name.iter().fold(0, |classes, &byte| classes | CLASS[usize::from(byte)])
}

/// Whether a name has a sign other than the dash, so that it may be another name to an upstream.
pub(crate) fn has_other_sign(name: &[u8]) -> bool {
    classes(name) != 0
}
