//! Tokens of GraphQL.

use super::Fault;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'t> {
    Name(&'t str),
    Punctuation(u8),
    /// `...`
    Spread,
    Number(&'t str),
    /// What stands between the quotes.
    Text(&'t str),
    End,
}

pub(super) struct Lexer<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Lexer<'t> {
    pub(super) fn new(text: &'t str) -> Lexer<'t> {
        Lexer { text, at: 0 }
    }

    pub(super) fn fault(&self) -> Fault {
        let before = self.text.as_bytes().get(..self.at).unwrap_or_default();
        Fault::Syntax { line: 1 + memchr::memchr_iter(b'\n', before).count() }
    }

    fn rest(&self) -> &'t [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    /// Passes over what does not matter: blanks, commas, comments, byte order marks.
    fn skip(&mut self) {
        loop {
            match self.rest() {
                [b' ' | b'\t' | b'\r' | b'\n' | b',', ..] => self.at += 1,
                [0xef, 0xbb, 0xbf, ..] => self.at += 3,
                [b'#', rest @ ..] => {
                    self.at += 1 + memchr::memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
                }
                _ => return,
            }
        }
    }

    pub(super) fn next(&mut self) -> Result<Token<'t>, Fault> {
        self.skip();
        let rest = self.rest();
        let Some(&first) = rest.first() else { return Ok(Token::End) };
        let (length, token) = match first {
            b'{' | b'}' | b'(' | b')' | b'[' | b']' | b':' | b'=' | b'!' | b'|' | b'@' | b'&' | b'$' => {
                (1, Token::Punctuation(first))
            }
            b'.' if rest.starts_with(b"...") => (3, Token::Spread),
            b'_' | b'a'..=b'z' | b'A'..=b'Z' => {
                let length = rest.iter().take_while(|byte| is_name(**byte)).count();
                (length, Token::Name(self.part(0, length)))
            }
            b'-' | b'0'..=b'9' => {
                let length = number(rest).ok_or_else(|| self.fault())?;
                (length, Token::Number(self.part(0, length)))
            }
            b'"' => self.string(rest)?,
            _ => return Err(self.fault()),
        };
        self.at += length;
        Ok(token)
    }

    /// Of the rest; its ends are ASCII signs, or the text's end.
    fn part(&self, from: usize, to: usize) -> &'t str {
        self.text.get(self.at + from..self.at + to).unwrap_or_default()
    }

    fn string(&self, rest: &[u8]) -> Result<(usize, Token<'t>), Fault> {
        if let Some(body) = rest.strip_prefix(b"\"\"\"") {
            let mut from = 0;
            loop {
                let found = memchr::memmem::find(body.get(from..).unwrap_or_default(), b"\"\"\"");
                let end = from + found.ok_or_else(|| self.fault())?;
                if end == 0 || body.get(end - 1) != Some(&b'\\') {
                    return Ok((end + 6, Token::Text(self.part(3, 3 + end))));
                }
                from = end + 3;
            }
        }
        let mut at = 1;
        loop {
            match rest.get(at) {
                Some(b'"') => return Ok((at + 1, Token::Text(self.part(1, at)))),
                Some(b'\\') => at += 2,
                Some(b'\n' | b'\r') | None => return Err(self.fault()),
                Some(_) => at += 1,
            }
        }
    }
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// The length of the number at the beginning. Nothing of a name may follow.
fn number(text: &[u8]) -> Option<usize> {
    let digits = |from: usize| {
        text.get(from..).unwrap_or_default().iter().take_while(|byte| byte.is_ascii_digit()).count()
    };
    let mut at = usize::from(text.first() == Some(&b'-'));
    let whole = digits(at);
    if whole == 0 || (whole > 1 && text.get(at) == Some(&b'0')) {
        return None;
    }
    at += whole;
    if text.get(at) == Some(&b'.') {
        let fraction = digits(at + 1);
        at += if fraction == 0 { return None } else { fraction + 1 };
    }
    if matches!(text.get(at), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(text.get(at + 1), Some(b'+' | b'-')));
        let exponent = digits(at + 1 + sign);
        at += if exponent == 0 { return None } else { exponent + 1 + sign };
    }
    (!text.get(at).is_some_and(|byte| is_name(*byte) || *byte == b'.')).then_some(at)
}
