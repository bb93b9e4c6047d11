//! Classes of characters in patterns: `a`, `.`, `%d`, `[^%s-z]`.

use super::{
    ESCAPE,
    Fault::{self, Pattern as Wrong},
    Matcher,
};

const LONGEST_TRIED: usize = 64;

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

    /// Which bytes a match can begin with, where the pattern begins with a class that has to be there.
    pub(super) fn first_bytes(&self) -> Option<[bool; 256]> {
        let mut p = 0;
        while self.item(p) == b'(' && self.item(p + 1) != b')' {
            p += 1;
        }
        let item = self.item(p);
        let is_class = match item {
            0 | b'(' | b')' | b'$' => false,
            ESCAPE => !matches!(self.item(p + 1), b'b' | b'f' | b'0'..=b'9'),
            _ => true,
        };
        let behind = self.class_end(p).ok().filter(|_| is_class)?;
        // A long set costs more to look through than it saves.
        if behind - p > LONGEST_TRIED || matches!(self.item(behind), b'?' | b'*' | b'-') {
            return None;
        }
        let class = self.class(p, behind);
        Some(std::array::from_fn(|byte| self.fits(byte as u8, &class)))
    }

    /// The class between `p` and `behind`.
    pub(super) fn class(&self, p: usize, behind: usize) -> Class {
        match self.item(p) {
            b'.' => Class::Any,
            ESCAPE => match letter(self.item(p + 1)) {
                Some((kind, positive)) => Class::Kind(kind, positive),
                None => Class::Byte(self.item(p + 1)),
            },
            b'[' => Class::Set(p, behind - 1),
            byte => Class::Byte(byte),
        }
    }

    #[inline]
    pub(super) fn fits(&self, byte: u8, class: &Class) -> bool {
        match *class {
            Class::Any => true,
            Class::Byte(literal) => literal == byte,
            Class::Kind(kind, positive) => (KINDS[usize::from(byte)] & kind != 0) == positive,
            Class::Set(p, last) => self.in_set(byte, p, last),
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

/// One item of a pattern that stands for characters.
pub(super) enum Class {
    Any,
    Byte(u8),
    /// Bits of [`KINDS`], and whether they are wanted.
    Kind(u16, bool),
    /// From its `[` to its `]`.
    Set(usize, usize),
}

const CONTROL: u16 = 1;
const SPACE: u16 = 2;
const PUNCTUATION: u16 = 4;
const DIGIT: u16 = 8;
const HEX: u16 = 16;
const UPPER: u16 = 32;
const LOWER: u16 = 64;
const ZERO: u16 = 128;

/// What each byte is.
const KINDS: [u16; 256] = {
    let mut kinds = [0; 256];
    let mut at = 0;
    while at < 256 {
        let byte = at as u8;
        let mut kind = 0;
        if byte.is_ascii_control() {
            kind |= CONTROL;
        }
        if matches!(byte, b'\t'..=b'\r' | b' ') {
            kind |= SPACE;
        }
        if byte.is_ascii_punctuation() {
            kind |= PUNCTUATION;
        }
        if byte.is_ascii_digit() {
            kind |= DIGIT;
        }
        if byte.is_ascii_hexdigit() {
            kind |= HEX;
        }
        if byte.is_ascii_uppercase() {
            kind |= UPPER;
        }
        if byte.is_ascii_lowercase() {
            kind |= LOWER;
        }
        if byte == 0 {
            kind |= ZERO;
        }
        kinds[at] = kind;
        at += 1;
    }
    kinds
};

/// What `%a` and its like mean; an upper-case letter means everything else.
fn letter(class: u8) -> Option<(u16, bool)> {
    let kind = match class.to_ascii_lowercase() {
        b'a' => LOWER | UPPER,
        b'c' => CONTROL,
        b'd' => DIGIT,
        b'g' => LOWER | UPPER | DIGIT | PUNCTUATION,
        b'l' => LOWER,
        b'p' => PUNCTUATION,
        b's' => SPACE,
        b'u' => UPPER,
        b'w' => LOWER | UPPER | DIGIT,
        b'x' => HEX,
        b'z' => ZERO,
        _ => return None,
    };
    Some((kind, class.is_ascii_lowercase()))
}

fn in_class(byte: u8, class: u8) -> bool {
    match letter(class) {
        Some((kind, positive)) => (KINDS[usize::from(byte)] & kind != 0) == positive,
        None => byte == class,
    }
}
