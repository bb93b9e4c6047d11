//! Patterns are PCRE's, without its UTF mode, as nginx and APISIX run them. The engines here read some of them otherwise: `[a&&b]` is
//! an intersection to them, `\<` the start of a word, `\h` a hexadecimal digit, `a++` not possessive. So each pattern is
//! written again in what both read alike, or refused.
//!
//! Source: pcre2pattern(3) of PCRE2 10.42, and its verdicts (`pcre/tests.rs`).

mod class;
mod escape;
mod group;
mod property;

/// What a character beyond ASCII is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Units {
    /// Its bytes in UTF-8, each a character of its own, as in PCRE.
    Bytes,
    /// One character: for engines that search texts.
    Characters,
}

/// A pattern for the engines here.
#[derive(Debug, PartialEq, Eq)]
pub struct Translated {
    pub pattern: String,
    /// It says the same to the engines here as it stands.
    pub is_common: bool,
}

/// The error says what of it is not supported.
pub fn translate(pattern: &str, units: Units) -> Result<Translated, String> {
    let mut translator = Translator {
        rest: pattern,
        units,
        out: String::with_capacity(pattern.len() + 8),
        is_common: true,
        groups: group_count(pattern),
        opened: 0,
        open: Vec::new(),
        extended: false,
        item: None,
    };
    translator.run()?;
    Ok(Translated { pattern: translator.out, is_common: translator.is_common })
}

struct Translator<'a> {
    rest: &'a str,
    units: Units,
    out: String,
    is_common: bool,
    /// Of the whole pattern.
    groups: usize,
    /// Groups so far.
    opened: usize,
    open: Vec<Open>,
    /// Blanks and comments do not count (`x`).
    extended: bool,
    /// Where the item begins that a quantifier would repeat.
    item: Option<usize>,
}

/// A group that is not closed yet.
struct Open {
    at: usize,
    extended_before: bool,
}

impl Translator<'_> {
    fn run(&mut self) -> Result<(), String> {
        while let Some(sign) = self.take() {
            match sign {
                '\\' => self.escape()?,
                '[' => self.class()?,
                '(' => self.group()?,
                ')' => {
                    let open = self.open.pop().ok_or("unmatched parentheses")?;
                    self.extended = open.extended_before;
                    self.out.push(')');
                    self.item = Some(open.at);
                }
                '|' | '^' | '$' => {
                    self.out.push(sign);
                    self.item = None;
                }
                '*' | '+' | '?' => self.repeat(&sign.to_string())?,
                '{' => match bounds(self.rest) {
                    Some(length) => {
                        let (bounds, rest) = self.rest.split_at(length);
                        self.rest = rest;
                        self.repeat(&format!("{{{bounds}"))?;
                    }
                    None => {
                        self.is_common &= !self.rest.starts_with(',');
                        self.literal('{');
                    }
                },
                '#' if self.extended => {
                    self.rest = self.rest.split_once('\n').map_or("", |(_, rest)| rest);
                }
                // Neither an item nor the end of one.
                _ if self.extended && is_blank(sign) => {}
                '.' => {
                    self.item = Some(self.out.len());
                    self.out.push('.');
                }
                sign => self.literal(sign),
            }
        }
        if self.open.is_empty() { Ok(()) } else { Err("missing )".to_owned()) }
    }

    fn take(&mut self) -> Option<char> {
        let mut signs = self.rest.chars();
        let sign = signs.next()?;
        self.rest = signs.as_str();
        Some(sign)
    }

    /// Takes `text` if it is next.
    fn skip(&mut self, text: &str) -> bool {
        let rest = self.rest.strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// Takes what stands before `end`, and that.
    fn until(&mut self, end: &str) -> Option<&str> {
        let (text, rest) = self.rest.split_once(end)?;
        self.rest = rest;
        Some(text)
    }

    /// A character that stands for itself.
    fn literal(&mut self, sign: char) {
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

    fn byte(&mut self, byte: u8) {
        self.item = Some(self.out.len());
        write_byte(&mut self.out, byte);
    }

    /// Something of several signs that a quantifier repeats as a whole.
    fn whole(&mut self, text: &str) {
        self.item = Some(self.out.len());
        self.out.push_str(text);
    }

    fn repeat(&mut self, quantifier: &str) -> Result<(), String> {
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

fn is_blank(sign: char) -> bool {
    matches!(sign, ' ' | '\t' | '\n' | '\x0b' | '\x0c' | '\r')
}

/// The length of `2}`, `2,}` or `2,5}` behind a brace. Anything else is the brace itself, `{,5}` too.
fn bounds(rest: &str) -> Option<usize> {
    let (inside, _) = rest.split_once('}')?;
    let (least, most) = inside.split_once(',').unwrap_or((inside, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    (!least.is_empty() && digits(least) && digits(most)).then_some(inside.len() + 1)
}

/// Groups that capture, for what `\10` is.
fn group_count(pattern: &str) -> usize {
    let (mut count, mut rest) = (0, pattern);
    while let Some(at) = rest.find(['\\', '[', '(']) {
        let (_, from) = rest.split_at(at);
        rest = from.get(1..).unwrap_or_default();
        match from.as_bytes().first() {
            Some(b'\\') => {
                let mut signs = rest.chars();
                signs.next();
                rest = signs.as_str();
            }
            Some(b'[') => rest = class::after(rest),
            _ => count += usize::from(group::captures(rest)),
        }
    }
    count
}

/// As it stands outside and inside of classes.
fn write_sign(out: &mut String, sign: char) {
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

fn write_byte(out: &mut String, byte: u8) {
    use std::fmt::Write;
    match byte {
        b' '..=b'~' if byte != b' ' => write_sign(out, char::from(byte)),
        byte => _ = write!(out, "\\x{byte:02X}"),
    }
}

#[cfg(test)]
mod tests;
