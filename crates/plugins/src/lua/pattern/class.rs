//! Classes of characters in patterns: `a`, `.`, `%d`, `[^%s-z]`.

use super::{
    ESCAPE,
    Fault::{self, Pattern as Wrong},
    Matcher,
};

impl Matcher<'_> {
    /// Behind the class that begins at `p`.
    pub(super) fn class_end(&self, p: usize) -> Result<usize, Fault> {
        match self.item(p) {
            ESCAPE if self.item(p + 1) == 0 => Err(Wrong("malformed pattern (ends with '%')")),
            ESCAPE => Ok(p + 2),
            b'[' => {
                let mut p = if self.item(p + 1) == b'^' { p + 2 } else { p + 1 };
                loop {
                    let item = self.item(p);
                    if item == 0 {
                        return Err(Wrong("malformed pattern (missing ']')"));
                    }
                    p += 1;
                    if item == ESCAPE && self.item(p) != 0 {
                        p += 1;
                    }
                    if self.item(p) == b']' {
                        return Ok(p + 1);
                    }
                }
            }
            _ => Ok(p + 1),
        }
    }

    pub(super) fn fits(&self, byte: u8, p: usize, behind: usize) -> bool {
        match self.item(p) {
            b'.' => true,
            ESCAPE => in_class(byte, self.item(p + 1)),
            b'[' => self.in_set(byte, p, behind - 1),
            literal => literal == byte,
        }
    }

    /// A set: `p` is at its `[`, `last` at its `]`.
    pub(super) fn in_set(&self, byte: u8, mut p: usize, last: usize) -> bool {
        let positive = self.item(p + 1) != b'^';
        if !positive {
            p += 1;
        }
        p += 1;
        while p < last {
            let item = self.item(p);
            if item == ESCAPE {
                p += 1;
                if in_class(byte, self.item(p)) {
                    return positive;
                }
            } else if self.item(p + 1) == b'-' && p + 2 < last {
                p += 2;
                if (item..=self.item(p)).contains(&byte) {
                    return positive;
                }
            } else if item == byte {
                return positive;
            }
            p += 1;
        }
        !positive
    }
}

/// `%a` and its like; an upper-case letter means everything else.
fn in_class(byte: u8, class: u8) -> bool {
    let is = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'g' => byte.is_ascii_graphic(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => matches!(byte, b'\t'..=b'\r' | b' '),
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return byte == class,
    };
    is == class.is_ascii_lowercase()
}
