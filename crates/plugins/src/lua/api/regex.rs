//! `ngx.re`: regular expressions in PCRE's syntax. `native` gives matches as positions; the prelude shapes them.

use std::{borrow::Cow, cell::RefCell, ops::Range, rc::Rc};

use ahash::AHashMap;
use fancy_regex::{Match, Regex, RegexBuilder};
use mlua::{Lua, LuaString, Table, Value};
use tidegate_backtrack::pcre::{Units, translate};
use tidegate_routing::expr::MAX_STEPS;

use super::native_function;
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
    states: usize,
    backtracks: bool,
}

impl Expression {
    fn is_too_much_for(&self, subject: &str) -> bool {
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
        let source = translate(&source, Units::Characters).map_err(|why| refused(&why))?.pattern;
        let regex = RegexBuilder::new(&source)
            .backtrack_limit(MAX_STEPS)
            .delegate_size_limit(MAX_COMPILED_BYTES)
            .build()
            .map_err(|error| refused(&error))?;
        let expression = Expression {
            regex: Rc::new(regex),
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

/// A subject and a pattern as the engine takes them. Bytes that are not UTF-8 stand for the characters with their numbers: PCRE
/// without option `u` compares bytes, too.
struct Text<'a> {
    subject: Cow<'a, str>,
    pattern: Cow<'a, str>,
    from: usize,
    widened: bool,
}

impl<'a> Text<'a> {
    fn new(subject: &'a [u8], pattern: &'a [u8], from: usize) -> Text<'a> {
        if let (Ok(text), Ok(pattern)) = (std::str::from_utf8(subject), std::str::from_utf8(pattern))
            && text.is_char_boundary(from)
        {
            return Text { subject: text.into(), pattern: pattern.into(), from, widened: false };
        }
        let wide = |bytes: &[u8]| bytes.iter().map(|&byte| char::from(byte)).collect::<String>();
        let before =
            subject.get(..from).map_or(0, |before| before.iter().filter(|byte| !byte.is_ascii()).count());
        Text {
            subject: wide(subject).into(),
            pattern: wide(pattern).into(),
            from: from + before,
            widened: true,
        }
    }

    /// Where the bytes of a match are; passes through the subject.
    fn range(&self, found: &Match<'_>) -> Range<usize> {
        let place = |at: usize| match self.widened {
            true => self.subject.get(..at).map_or(0, |before| before.chars().count()),
            false => at,
        };
        place(found.start())..place(found.end())
    }

    /// The bytes of a match.
    fn bytes<'t>(&self, found: &Match<'t>) -> Cow<'t, [u8]> {
        match self.widened {
            // Each character stands for one byte.
            true => found.as_str().chars().map(|sign| sign as u8).collect(),
            false => found.as_str().as_bytes().into(),
        }
    }
}

pub fn install(lua: &Lua, native: &Table) -> mlua::Result<()> {
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
                let text = Text::new(&subject, &pattern, from);
                let compiled = cache.borrow_mut().get(&text.pattern, options.as_deref().unwrap_or(""));
                let expression = compiled.map_err(mlua::Error::runtime)?;
                if expression.is_too_much_for(&text.subject) {
                    return failed(too_many());
                }
                let regex = expression.regex;
                let captures = match regex.captures_from_pos(&*text.subject, text.from) {
                    Err(error) => return failed(format!("pcre2_match() failed: {error}")),
                    Ok(None) => return Ok((Value::Nil, None, None, None)),
                    Ok(Some(captures)) => captures,
                };
                let table = lua.create_table()?;
                let value = |group: Option<Match<'_>>| match group {
                    Some(group) => lua.create_string(text.bytes(&group)).map(Value::String),
                    None => Ok(Value::Boolean(false)),
                };
                for (at, group) in captures.iter().enumerate() {
                    table.raw_set(at, value(group)?)?;
                }
                for name in regex.capture_names().flatten() {
                    table.raw_set(name, value(captures.name(name))?)?;
                }
                let whole = captures.get(0).map(|group| text.range(&group));
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

    /// Whether the pattern is found, or why nobody can say.
    fn find(subject: &[u8], pattern: &str) -> Result<bool, String> {
        let lua = Lua::new();
        let native = lua.create_table().expect("a table");
        install(&lua, &native).expect("installs");
        let search: Function = native.get("re_exec").expect("a function");
        let subject = lua.create_string(subject).expect("a string");
        let found = search.call::<Value>((subject, pattern, Value::Nil, 1));
        found.map(|found| !found.is_nil()).map_err(|error| error.to_string())
    }

    /// A byte that is not UTF-8 becomes two: what the engine passes through counts, not what came.
    #[test]
    fn widened_subjects_are_bounded_by_what_is_searched() {
        let longest = clock::scaled(MAX_WORK) / tidegate_backtrack::states("x");
        let ascii = vec![b'b'; longest];
        assert_eq!(find(&ascii, "x"), Ok(false));
        let bytes = vec![0xff; longest];
        let refused = find(&bytes, "x").expect_err("twice as long to the engine");
        assert!(refused.contains(&format!("{longest} bytes are too many for this expression")), "{refused}");
        let (half, _) = bytes.split_at(longest / 2);
        assert_eq!(find(half, "x"), Ok(false));
        assert_eq!(find(&[0xff; 9], "\u{ff}$"), Ok(false), "the pattern is bytes as well: 0xC3 0xBF");
    }

    /// Before it is copied, whatever the expression.
    #[test]
    fn subjects_longer_than_any_are_refused() {
        for byte in [b'b', 0xff] {
            let subject = vec![byte; clock::scaled(MAX_WORK) + 1];
            assert!(find(&subject, "x").is_err_and(|error| error.contains("are too many")), "{byte}");
        }
    }

    #[test]
    fn matches_in_widened_subjects() {
        let text = Text::new(b"a\xff\xfeb", b"b", 0);
        assert!(text.widened);
        let regex = Regex::new(&text.pattern).expect("compiles");
        let found = regex.find(&*text.subject).expect("searched").expect("found");
        assert_eq!((text.range(&found), &*text.bytes(&found)), (3..4, &b"b"[..]));
        assert!(!Text::new("aé".as_bytes(), b"b", 0).widened);
        assert!(Text::new("aé".as_bytes(), b"b", 2).widened, "a search from within a character");
    }
}
