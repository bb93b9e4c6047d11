//! Patterns are PCRE's, without its UTF mode, as nginx and APISIX run them. The engines here read some of them otherwise: `[a&&b]` is
//! an intersection to them, `\<` the start of a word, `\h` a hexadecimal digit, `a++` not possessive. So each pattern is
//! written again in what both read alike, or refused.
//!
//! Source: pcre2pattern(3) of PCRE2 10.42, and its verdicts (`pcre/tests.rs`).

mod class;
mod escape;
mod group;
mod property;
mod translator;

use self::translator::Translator;
pub use self::translator::Units;

/// A pattern for the engines here.
#[derive(Debug, PartialEq, Eq)]
pub struct Translated {
    /// In the engines' syntax.
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

#[cfg(test)]
mod tests;
