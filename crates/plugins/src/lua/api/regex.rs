//! `ngx.re`: regular expressions in PCRE's syntax. `native` gives matches as positions; the prelude shapes them.

use std::{borrow::Cow, cell::RefCell, fmt::Write, rc::Rc};

use ahash::AHashMap;
use fancy_regex::{BytesMode, Captures, Regex, RegexBuilder};
use mlua::{Lua, LuaString, Table, Value};
use tidegate_backtrack::pcre::{Units, translate};
use tidegate_routing::expr::MAX_STEPS;

use super::native::native_function;
use crate::lua::clock;

/// Compiled expressions kept per worker, and their states together.
const MAX_CACHED: usize = 1024;
/// Compiling takes time that nothing stops.
const MAX_PATTERN_BYTES: usize = 8 << 10;
/// Longer ones are compiled each time: code may make them of what clients send.
const LONGEST_CACHED: usize = 4 << 10;
const MAX_CACHED_STATES: usize = 1 << 18;

/// Memory of one compiled part of an expression: compiling takes some ten milliseconds at most.
const MAX_COMPILED_BYTES: usize = 1 << 20;

/// States times bytes of the subject: the slowest of the engines passes through all of them, and nothing stops it.
const MAX_WORK: usize = 8 << 20;

/// The square of the subject's bytes where the expression looks around or back: at each byte it can go through all of them.
const MAX_SQUARE: usize = 64 << 20;

#[derive(Default)]
struct Cache {
    compiled: AHashMap<(String, String), Expression>,
    states: usize,
}

#[derive(Clone)]
struct Expression {
    regex: Rc<Regex>,
    has_end_anchor: bool,
    states: usize,
    backtracks: bool,
}

impl Expression {
    fn is_too_much_for(&self, subject: &[u8]) -> bool {
        let length = subject.len();
        self.states.saturating_mul(length) > clock::scaled(MAX_WORK)
            || self.backtracks && length.saturating_mul(length) > clock::scaled(MAX_SQUARE)
    }
}

/// Whether the engine that goes back is used: for what looks around or back, and for possessive items.
fn backtracks(pattern: &str) -> bool {
    const MARKS: [&str; 12] =
        ["(?=", "(?!", "(?<=", "(?<!", "(?>", "(?(", "*+", "++", "?+", "}+", "\\k", "\\K"];
    let refers =
        |pair: &[u8]| pair[0] == b'\\' && (pair[1].is_ascii_digit() || matches!(pair[1], b'g' | b'G'));
    MARKS.iter().any(|mark| pattern.contains(mark)) || pattern.as_bytes().windows(2).any(refers)
}

impl Cache {
    fn get(&mut self, pattern: &str, options: &str) -> Result<Expression, String> {
        let key = (pattern.to_owned(), options.to_owned());
        if let Some(expression) = self.compiled.get(&key) {
            return Ok(expression.clone());
        }
        let flags: String =
            options.chars().filter(|option| matches!(option, 'i' | 'm' | 's' | 'x')).collect();
        let mut source = if options.contains('a') { format!(r"\G(?:{pattern})") } else { pattern.to_owned() };
        if !flags.is_empty() {
            source = format!("(?{flags}){source}");
        }
        let refused =
            |error: &dyn std::fmt::Display| format!("pcre2_compile() failed: {error} in \"{pattern}\"");
        // Option `u`: characters, else bytes.
        let (units, mode) = match options.contains('u') {
            true => (Units::Characters, BytesMode::UnicodeBytes),
            false => (Units::Bytes, BytesMode::Ascii),
        };
        let source = translate(&source, units).map_err(|why| refused(&why))?.pattern;
        let regex = RegexBuilder::new(&source)
            .bytes_mode(mode)
            .backtrack_limit(MAX_STEPS)
            .delegate_size_limit(MAX_COMPILED_BYTES)
            .build()
            .map_err(|error| refused(&error))?;
        let expression = Expression {
            regex: Rc::new(regex),
            has_end_anchor: pattern.contains('$'),
            states: tidegate_backtrack::states(pattern),
            backtracks: backtracks(pattern),
        };
        if self.compiled.len() >= MAX_CACHED || self.states > MAX_CACHED_STATES {
            self.compiled.clear();
            self.states = 0;
        }
        if pattern.len() <= LONGEST_CACHED {
            self.states = self.states.saturating_add(expression.states);
            self.compiled.insert(key, expression.clone());
        }
        Ok(expression)
    }
}

/// A pattern as the engine takes it. It is bytes, as the subject is; those that are not UTF-8 are written by their numbers.
fn text_of(pattern: &[u8]) -> Cow<'_, str> {
    let mut chunks = pattern.utf8_chunks().peekable();
    match chunks.peek() {
        Some(first) if first.invalid().is_empty() => Cow::Borrowed(first.valid()),
        _ => chunks
            .fold(String::new(), |mut text, chunk| {
                text.push_str(chunk.valid());
                chunk.invalid().iter().for_each(|byte| _ = write!(text, "\\x{byte:02X}"));
                text
            })
            .into(),
    }
}

impl Expression {
    /// The first match from there on. To PCRE a line feed at the very end may follow a `$`.
    fn search<'t>(
        &self,
        subject: &'t [u8],
        from: usize,
    ) -> Result<Option<Captures<'t, [u8]>>, fancy_regex::Error> {
        let found = self.regex.captures_from_pos(subject, from)?;
        match subject.strip_suffix(b"\n") {
            Some(line) if found.is_none() && self.has_end_anchor && from <= line.len() => {
                self.regex.captures_from_pos(line, from)
            }
            _ => Ok(found),
        }
    }
}

pub(super) fn install(lua: &Lua, native: &Table) -> mlua::Result<()> {
    let cache = RefCell::new(Cache::default());
    // re_exec(subject, pattern, options, from) -> {groups..., names}, first, last | nil, error
    native.set(
        "re_exec",
        native_function(
            lua,
            move |lua, (subject, pattern, options, from): (LuaString, LuaString, Option<String>, usize)| {
                // `nil` would pass a guard that could not be judged.
                let failed = |reason: String| Err(mlua::Error::runtime(reason));
                let (subject, pattern) = (subject.as_bytes(), pattern.as_bytes());
                let length = pattern.len();
                if length > clock::scaled(MAX_PATTERN_BYTES) {
                    return failed(format!("pcre2_compile() failed: {length} bytes are too many"));
                }
                let from = from.saturating_sub(1);
                if from > subject.len() {
                    return Ok((Value::Nil, None, None, None::<String>));
                }
                let too_many = || {
                    let length = subject.len();
                    format!("pcre2_match() failed: {length} bytes are too many for this expression")
                };
                if subject.len() > clock::scaled(MAX_WORK) {
                    return failed(too_many());
                }
                let text = text_of(&pattern);
                let compiled = cache.borrow_mut().get(&text, options.as_deref().unwrap_or(""));
                let expression = compiled.map_err(mlua::Error::runtime)?;
                if expression.is_too_much_for(&subject) {
                    return failed(too_many());
                }
                let captures = match expression.search(&subject, from) {
                    Err(error) => return failed(format!("pcre2_match() failed: {error}")),
                    Ok(None) => return Ok((Value::Nil, None, None, None)),
                    Ok(Some(captures)) => captures,
                };
                let table = lua.create_table()?;
                let value = |group: Option<&[u8]>| match group {
                    Some(group) => lua.create_string(group).map(Value::String),
                    None => Ok(Value::Boolean(false)),
                };
                let group = |at: usize| captures.get(at).and_then(|group| subject.get(group.range()));
                for at in 0..captures.len() {
                    table.raw_set(at, value(group(at))?)?;
                }
                for (at, name) in expression.regex.capture_names().enumerate() {
                    if let Some(name) = name {
                        table.raw_set(name, value(group(at))?)?;
                    }
                }
                let whole = captures.get(0).map(|group| group.range());
                let first = whole.as_ref().map(|whole| whole.start + 1);
                Ok((Value::Table(table), first, whole.map(|whole| whole.end), None))
            },
        )?,
    )
}

#[cfg(test)]
mod tests {
    use mlua::Function;

    use super::*;

    /// Whether the pattern is found, or why that is unknown.
    fn find(subject: &[u8], pattern: &str) -> Result<bool, String> {
        let lua = Lua::new();
        let native = lua.create_table().expect("a table");
        install(&lua, &native).expect("installs");
        let search: Function = native.get("re_exec").expect("a function");
        let subject = lua.create_string(subject).expect("a string");
        let found = search.call::<Value>((subject, pattern, Value::Nil, 1));
        found.map(|found| !found.is_nil()).map_err(|error| error.to_string())
    }

    #[test]
    fn subjects_are_bounded_whatever_their_bytes() {
        let longest = clock::scaled(MAX_WORK) / tidegate_backtrack::states("x");
        for byte in [b'b', 0xff] {
            assert_eq!(find(&vec![byte; longest], "x"), Ok(false));
        }
        assert_eq!(find(&[0xff; 9], "\u{ff}$"), Ok(false), "the pattern is bytes as well: 0xC3 0xBF");
    }

    /// As OpenResty without option `u`.
    #[test]
    fn texts_are_bytes() {
        for (pattern, subject, expected) in [
            ("^/admin$", &b"/admin\n"[..], true),
            (r"\bab\b", "éab".as_bytes(), true),
            (r"^\S+$", "a\u{a0}b".as_bytes(), true),
            (r"^\w+$", "é".as_bytes(), false),
            (r"^\d+$", "\u{663}".as_bytes(), false),
            (r"\s", b"\x85", false),
            ("^.{1,4}$", "ééé".as_bytes(), false),
            (r"\x{e9}", "é".as_bytes(), false),
            ("(?i)s", "\u{17f}".as_bytes(), false),
            ("é", "é".as_bytes(), true),
            ("a.b", b"a\xffb", true),
            (r"(a)\1", b"aa\xff", true),
        ] {
            assert_eq!(find(subject, pattern), Ok(expected), "{pattern} on {subject:?}");
        }
        assert_eq!(text_of(b"a\xffb"), "a\\xFFb");
    }

    /// Before it is copied, whatever the expression.
    #[test]
    fn subjects_longer_than_any_are_refused() {
        for byte in [b'b', 0xff] {
            let subject = vec![byte; clock::scaled(MAX_WORK) + 1];
            assert!(find(&subject, "x").is_err_and(|error| error.contains("are too many")), "{byte}");
        }
    }
}
