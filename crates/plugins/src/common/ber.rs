//! The forms of BER (X.690) that LDAP messages have.

/// An answer is some tens of bytes; referrals and messages make it longer.
pub(crate) const LONGEST_BYTES: usize = 64 * 1024;

/// Appends an element.
pub(crate) fn element(out: &mut Vec<u8>, tag: u8, content: &[u8]) {
    out.push(tag);
    if content.len() < 128 {
        out.push(content.len() as u8);
    } else {
        out.push(0x84);
        out.extend_from_slice(&u32::try_from(content.len()).unwrap_or(u32::MAX).to_be_bytes());
    }
    out.extend_from_slice(content);
}

/// Content and what follows it.
pub(crate) type Element<'a> = (&'a [u8], &'a [u8]);

/// The element of this kind that the bytes begin with; `None` when bytes are missing.
pub(crate) fn read_element(bytes: &[u8], tag: u8) -> Result<Option<Element<'_>>, String> {
    let [found, length, rest @ ..] = bytes else { return Ok(None) };
    if *found != tag {
        return Err(format!("an answer has element {found:#x} where {tag:#x} belongs"));
    }
    let (length, rest) = match length {
        0..=0x7f => (usize::from(*length), rest),
        0x81..=0x84 => {
            let Some((digits, rest)) = rest.split_at_checked(usize::from(length - 0x80)) else {
                return Ok(None);
            };
            (digits.iter().fold(0, |value, digit| value << 8 | usize::from(*digit)), rest)
        }
        _ => return Err("an answer has a length of unknown form".to_owned()),
    };
    if length > LONGEST_BYTES {
        return Err("an answer is too long".to_owned());
    }
    Ok(rest.split_at_checked(length))
}
