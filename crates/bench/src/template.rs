//! `{{...}}` in paths, header values and bodies: what varies from request to request.
//!
//! | written | becomes |
//! |---|---|
//! | `{{seq}}` | 0, 1, 2, ... over the whole run |
//! | `{{seq 1 100}}` | 1 to 100, and again |
//! | `{{rand 1 100}}` | a whole number of that range |
//! | `{{pick a b c}}` | one of the words |
//! | `{{hex 16}}` | that many random hexadecimal digits |
//! | `{{uuid}}` | a random UUID (version 4) |
//! | `{{line FILE}}` | the lines of a file in turn, read before the run |
//! | `{{connection}}`, `{{thread}}` | numbers from 0 |

use std::{fs, sync::Arc};

use crate::Problem;

/// The table above, for a terminal.
pub const HELP: &str = "\
In paths, header values and bodies:
  {{seq}}          0, 1, 2, ... over the whole run
  {{seq 1 100}}    1 to 100, and again
  {{rand 1 100}}   a whole number of that range
  {{pick a b c}}   one of the words
  {{hex 16}}       that many random hexadecimal digits
  {{uuid}}         a random UUID (version 4)
  {{line FILE}}    the lines of a file in turn, read before the run
  {{connection}}   number of the connection, from 0
  {{thread}}       number of the thread, from 0
";

const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// A text with `{{...}}` in it.
#[derive(Clone, Debug)]
pub struct Template {
    parts: Vec<Part>,
}

#[derive(Clone, Debug)]
enum Part {
    Text(Vec<u8>),
    Sequence { first: u64, count: u64 },
    Random { first: u64, count: u64 },
    Pick(Arc<[Vec<u8>]>),
    Line(Arc<[Vec<u8>]>),
    Hex(usize),
    Uuid,
    Connection,
    Thread,
}

/// Where a request comes from; what the placeholders are filled from.
#[derive(Clone, Debug)]
pub struct Source {
    /// The number of this request in the run.
    pub number: u64,
    pub(crate) connection: usize,
    pub(crate) thread: usize,
    pub(crate) random: Random,
}

impl Source {
    /// For what does not vary.
    pub fn nobody() -> Source {
        Source { number: 0, connection: 0, thread: 0, random: Random::new(0) }
    }
}

impl Template {
    /// The error names the placeholder.
    pub fn parse(text: &str) -> Result<Template, Problem> {
        let (mut parts, mut rest) = (Vec::new(), text);
        while let Some((before, after)) = rest.split_once("{{") {
            let (inside, after) = after.split_once("}}").ok_or_else(|| {
                Problem::usage(format!(
                    "template {text:?}: a placeholder that starts with {{{{ must end with }}}}"
                ))
            })?;
            if !before.is_empty() {
                parts.push(Part::Text(before.as_bytes().to_vec()));
            }
            parts.push(Part::parse(inside)?);
            rest = after;
        }
        if !rest.is_empty() || parts.is_empty() {
            parts.push(Part::Text(rest.as_bytes().to_vec()));
        }
        Ok(Template { parts })
    }

    /// The text, when nothing in it varies.
    pub fn fixed(&self) -> Option<&[u8]> {
        match self.parts.as_slice() {
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Appends the text for one request.
    pub fn render(&self, out: &mut Vec<u8>, source: &mut Source) {
        for part in &self.parts {
            part.render(out, source);
        }
    }
}

impl Part {
    fn parse(inside: &str) -> Result<Part, Problem> {
        let words: Vec<&str> = inside.split_whitespace().collect();
        let unknown = || {
            Problem::usage(format!(
                "unknown placeholder {{{{{inside}}}}}; there are seq, seq FIRST LAST, rand FIRST LAST, pick WORD..., \
                 hex DIGITS, uuid, line FILE, connection and thread"
            ))
        };
        Ok(match words.as_slice() {
            ["seq"] => Part::Sequence { first: 0, count: u64::MAX },
            ["seq", first, last] => {
                let (first, count) = range(first, last).ok_or_else(unknown)?;
                Part::Sequence { first, count }
            }
            ["rand", first, last] => {
                let (first, count) = range(first, last).ok_or_else(unknown)?;
                Part::Random { first, count }
            }
            ["pick", words @ ..] if !words.is_empty() => {
                Part::Pick(words.iter().map(|word| word.as_bytes().to_vec()).collect())
            }
            ["hex", digits] => match digits.parse() {
                Ok(digits @ 1..=4096) => Part::Hex(digits),
                _ => return Err(unknown()),
            },
            ["uuid"] => Part::Uuid,
            ["line", file] => Part::Line(lines(file)?),
            ["connection"] => Part::Connection,
            ["thread"] => Part::Thread,
            _ => return Err(unknown()),
        })
    }

    fn render(&self, out: &mut Vec<u8>, source: &mut Source) {
        match self {
            Part::Text(text) => out.extend_from_slice(text),
            Part::Sequence { first, count } => write_number(out, first + source.number % count),
            Part::Random { first, count } => write_number(out, first + source.random.below(*count)),
            Part::Pick(words) => {
                let at = source.random.below(words.len() as u64) as usize;
                out.extend_from_slice(words.get(at).map_or(&[], Vec::as_slice));
            }
            Part::Line(lines) => {
                let at = (source.number % lines.len() as u64) as usize;
                out.extend_from_slice(lines.get(at).map_or(&[], Vec::as_slice));
            }
            Part::Hex(digits) => write_hex(out, *digits, &mut source.random),
            Part::Uuid => write_uuid(out, &mut source.random),
            Part::Connection => write_number(out, source.connection as u64),
            Part::Thread => write_number(out, source.thread as u64),
        }
    }
}

fn range(first: &str, last: &str) -> Option<(u64, u64)> {
    let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
    Some((first, last.checked_sub(first)?.checked_add(1)?))
}

fn lines(file: &str) -> Result<Arc<[Vec<u8>]>, Problem> {
    let failed = |why: &dyn std::fmt::Display| Problem::usage(format!("{{{{line {file}}}}}: {why}"));
    let size = fs::metadata(file).map_err(|error| failed(&error))?.len();
    if size > MAX_FILE_BYTES {
        return Err(failed(&"the file is larger than 64 MiB"));
    }
    let text = fs::read_to_string(file).map_err(|error| failed(&error))?;
    let lines: Arc<[Vec<u8>]> =
        text.lines().filter(|line| !line.is_empty()).map(|line| line.as_bytes().to_vec()).collect();
    if lines.is_empty() { Err(failed(&"the file has no lines")) } else { Ok(lines) }
}

pub(crate) fn write_number(out: &mut Vec<u8>, number: u64) {
    let mut digits = [0u8; 20];
    let (mut at, mut left) = (digits.len(), number);
    loop {
        at -= 1;
        digits[at] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

fn write_hex(out: &mut Vec<u8>, digits: usize, random: &mut Random) {
    let mut bits = 0;
    for at in 0..digits {
        if at % 16 == 0 {
            bits = random.number();
        }
        out.push(b"0123456789abcdef"[(bits & 15) as usize]);
        bits >>= 4;
    }
}

fn write_uuid(out: &mut Vec<u8>, random: &mut Random) {
    for (at, digits) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if at > 0 {
            out.push(b'-');
        }
        let start = out.len();
        write_hex(out, digits, random);
        match (at, out.get_mut(start)) {
            (2, Some(version)) => *version = b'4',
            (3, Some(variant)) => *variant = b"89ab"[(random.number() & 3) as usize],
            _ => {}
        }
    }
}

/// SplitMix64: a few instructions a number, good enough to spread requests. Not for secrets.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The same seed gives the same numbers.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next one.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.number()) * u128::from(limit)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(text: &str, number: u64) -> String {
        let mut source = Source { number, connection: 7, thread: 2, random: Random::new(number) };
        let mut out = Vec::new();
        Template::parse(text).unwrap_or_else(|problem| panic!("{problem}")).render(&mut out, &mut source);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn placeholders() {
        assert_eq!(render("/plain", 3), "/plain");
        assert_eq!(render("", 3), "");
        assert_eq!(render("/a/{{seq}}/b{{seq 10 12}}", 4), "/a/4/b11");
        assert_eq!(render("{{connection}}-{{thread}}", 0), "7-2");
        for number in 0..200 {
            let random: u64 = render("{{rand 5 6}}", number).parse().expect("a number");
            assert!((5..=6).contains(&random));
            assert!(["a", "b"].contains(&render("{{pick a b}}", number).as_str()));
        }
        let uuid = render("{{uuid}}", 1);
        assert_eq!((uuid.len(), &uuid[14..15]), (36, "4"));
        assert_eq!(render("{{hex 33}}", 1).len(), 33);
    }

    #[test]
    fn mistakes_are_named() {
        for bad in ["{{seq", "{{nope}}", "{{rand 9 1}}", "{{hex 0}}", "{{pick}}", "{{line /no/such/file}}"] {
            assert!(Template::parse(bad).is_err(), "{bad}");
        }
    }
}
