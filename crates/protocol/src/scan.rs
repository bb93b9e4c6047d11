//! Finds the parts of field lines, 16 bytes at a time where every processor of the kind can, else eight. What it takes for a line
//! is one to [`crate::fields`] too; it takes fewer.

#[cfg(target_arch = "x86_64")]
mod lanes;

use crate::names;

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// Offsets from the start of a line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// Not 0. Which bytes the name has is not checked, unless it is plain.
    pub(crate) name_len: usize,
    /// The name is of letters, digits and dashes.
    pub(crate) is_plain: bool,
    pub(crate) value_at: usize,
    /// Without white space.
    pub(crate) value_end: usize,
    /// Of the CRLF.
    pub(crate) end: usize,
}

/// The field line at the start of `rest`. `None`: it is none, or not whole.
#[inline]
pub(crate) fn line(rest: &[u8]) -> Option<Line> {
    let signs_from = first_sign(rest);
    let is_plain = rest.get(signs_from) == Some(&b':');
    let name_len = if is_plain { signs_from } else { signs_from + colon(rest.get(signs_from..)?)? };
    let mut value_at = name_len + 1;
    while is_blank(rest.get(value_at)) {
        value_at += 1;
    }
    let mut end = first_control(rest, value_at)?;
    while rest.get(end) == Some(&b'\t') {
        end = first_control(rest, end + 1)?;
    }
    if !rest.get(end..)?.starts_with(b"\r\n") {
        return None;
    }
    let mut value_end = end;
    while value_end > value_at && is_blank(rest.get(value_end - 1)) {
        value_end -= 1;
    }
    (name_len > 0).then_some(Line { name_len, is_plain, value_at, value_end, end })
}

fn is_blank(byte: Option<&u8>) -> bool {
    matches!(byte, Some(b' ' | b'\t'))
}

/// The place of the first byte that no plain name has; the end, if there is none.
#[inline]
fn first_sign(bytes: &[u8]) -> usize {
    let at = 0;
    #[cfg(target_arch = "x86_64")]
    let at = match lanes::first(bytes, at, lanes::Lanes::no_letters_digits_dashes) {
        Ok(found) => return found,
        Err(left) => left,
    };
    let rest = bytes.get(at..).unwrap_or_default();
    at + rest.iter().position(|&byte| !names::is_plain_byte(byte)).unwrap_or(rest.len())
}

/// Whether a name is of letters, digits and dashes.
#[inline]
pub(crate) fn is_plain(name: &[u8]) -> bool {
    #[cfg(target_arch = "x86_64")]
    if let Some(last) = name.last_chunk::<16>() {
        // What is left behind the first sixteens is in the last one.
        let has_none = |bytes: &[u8]| lanes::first(bytes, 0, lanes::Lanes::no_letters_digits_dashes).is_err();
        return has_none(name) && has_none(last);
    }
    !names::has_other_sign(name)
}

/// Of a name that is not plain.
#[cold]
fn colon(bytes: &[u8]) -> Option<usize> {
    memchr::memchr(b':', bytes)
}

/// The place of the first control character from `at` on, tabs included.
#[inline]
pub(crate) fn first_control(bytes: &[u8], at: usize) -> Option<usize> {
    #[cfg(target_arch = "x86_64")]
    let at = match lanes::first(bytes, at, lanes::Lanes::controls) {
        Ok(found) => return Some(found),
        Err(left) => left,
    };
    first(bytes, at, controls)
}

/// The place of the first byte from `at` on that `mark` marks with its high bit. Marks above the first need not be right.
#[inline]
fn first(bytes: &[u8], mut at: usize, mark: impl Fn(u64) -> u64) -> Option<usize> {
    let lowest = |marks: u64| marks.trailing_zeros() as usize / 8;
    while let Some(word) = bytes.get(at..).and_then(<[u8]>::first_chunk) {
        let marks = mark(u64::from_le_bytes(*word));
        if marks != 0 {
            return Some(at + lowest(marks));
        }
        at += 8;
    }
    let mut last = [b' '; 8];
    for (to, from) in last.iter_mut().zip(bytes.get(at..)?) {
        *to = *from;
    }
    let marks = mark(u64::from_le_bytes(last));
    (marks != 0).then(|| at + lowest(marks))
}

/// Control characters, tabs included. `~` after 0xff is a false alarm.
#[inline]
fn controls(word: u64) -> u64 {
    let below_blank = word.wrapping_sub(ONES * 0x20);
    // Only of DEL does the high bit become set that was not.
    let delete = word.wrapping_add(ONES);
    (below_blank | delete) & !word & HIGH
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sign_at_any_place_of_a_name() {
        for length in 0..40 {
            assert!(is_plain(&vec![b'a'; length]), "{length}");
            for at in 0..length {
                let mut name = vec![b'a'; length];
                name[at] = b'_';
                assert!(!is_plain(&name), "{at} of {length}");
            }
        }
    }
}
