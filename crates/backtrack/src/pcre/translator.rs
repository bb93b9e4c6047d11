//! A pattern while it is written again: what is left of it, and what it has become so far.

/// What a character beyond ASCII is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Units {
    /// Its bytes in UTF-8, each a character of its own, as in PCRE.
    Bytes,
    /// One character: for engines that search texts.
    Characters,
}

pub(super) struct Translator<'a> {
    pub(super) rest: &'a str,
    pub(super) units: Units,
    pub(super) out: String,
    pub(super) is_common: bool,
    /// Of the whole pattern.
    pub(super) groups: usize,
    /// Groups so far.
    pub(super) opened: usize,
    pub(super) open: Vec<Open>,
    /// Blanks and comments do not count (`x`).
    pub(super) extended: bool,
    /// Where the item begins that a quantifier would repeat.
    pub(super) item: Option<usize>,
}

/// A group that is not closed yet.
pub(super) struct Open {
    pub(super) at: usize,
    pub(super) extended_before: bool,
}

impl Translator<'_> {
    pub(super) fn take(&mut self) -> Option<char> {
        let mut signs = self.rest.chars();
        let sign = signs.next()?;
        self.rest = signs.as_str();
        Some(sign)
    }

    /// Takes `text` if it is next.
    pub(super) fn skip(&mut self, text: &str) -> bool {
        let rest = self.rest.strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// Takes what stands before `end`, and that.
    pub(super) fn until(&mut self, end: &str) -> Option<&str> {
        let (text, rest) = self.rest.split_once(end)?;
        self.rest = rest;
        Some(text)
    }

    /// A character that stands for itself.
    pub(super) fn literal(&mut self, sign: char) {
        if sign.is_ascii() || self.units == Units::Characters {
            self.item = Some(self.out.len());
            write_sign(&mut self.out, sign);
            return;
        }
        self.is_common = false;
        for byte in sign.encode_utf8(&mut [0; 4]).bytes() {
            self.byte(byte);
        }
    }

    pub(super) fn byte(&mut self, byte: u8) {
        self.item = Some(self.out.len());
        write_byte(&mut self.out, byte);
    }

    /// Something of several signs that a quantifier repeats as a whole.
    pub(super) fn whole(&mut self, text: &str) {
        self.item = Some(self.out.len());
        self.out.push_str(text);
    }

    pub(super) fn repeat(&mut self, quantifier: &str) -> Result<(), String> {
        let start = self.item.take().ok_or("nothing to repeat")?;
        self.out.push_str(quantifier);
        if self.skip("?") {
            self.out.push('?');
        } else if self.skip("+") {
            // Possessive: the engine that runs in linear time would read two quantifiers.
            self.out.insert_str(start, "(?>");
            self.out.push(')');
            self.is_common = false;
        }
        Ok(())
    }
}

/// As it stands outside and inside of classes.
pub(super) fn write_sign(out: &mut String, sign: char) {
    match sign {
        '<' | '>' => out.push(sign),
        sign if sign.is_ascii_punctuation() && sign != '_' => {
            out.push('\\');
            out.push(sign);
        }
        sign if sign.is_ascii_control() || sign == ' ' => write_byte(out, sign as u8),
        sign => out.push(sign),
    }
}

pub(super) fn write_byte(out: &mut String, byte: u8) {
    use std::fmt::Write;
    match byte {
        b' '..=b'~' if byte != b' ' => write_sign(out, char::from(byte)),
        byte => _ = write!(out, "\\x{byte:02X}"),
    }
}
