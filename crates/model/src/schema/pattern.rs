//! Patterns of schemas are PCRE without UTF mode: bytes in, ASCII classes.
//!
//! Most are the same to the `regex` crate once a few characters inside classes are escaped; look-around and
//! back-references go to `fancy-regex`.

use std::fmt;

use backtrack::{Expression, SearchTime};

pub(crate) struct Pattern {
    pub source: String,
    program: Program,
}

enum Program {
    Linear(Expression),
    Fancy(Box<Stages>),
}

/// One pattern under rising limits of its steps back: what is over soon is not charged for what it might have taken.
struct Stages {
    regexes: [(usize, fancy_regex::Regex); 3],
    /// About how many states it has.
    size: usize,
}

/// The last is where a search gives up.
const STEPS_BACK: [usize; 3] = [100, 5_000, backtrack::MAX_STEPS];
/// Steps back that cost one step of a check, on a short text.
const STEPS_BACK_PER_STEP: usize = 5;
/// Each step back may look at the text again.
const LONG_TEXT_BYTES: usize = 1024;
/// Bytes that a pattern without steps back looks at for one step of a check.
const BYTES_PER_STEP: usize = 16;

impl Pattern {
    pub fn compile(source: &str) -> Result<Pattern, String> {
        let adapted = adapt_pcre(source);
        let program = match Expression::linear(&adapted, false) {
            Ok(expression) => Program::Linear(expression),
            Err(_) => match Stages::compile(&adapted) {
                Ok(stages) => Program::Fancy(Box::new(stages)),
                Err(error) => return Err(format!("invalid pattern \"{source}\": {error}")),
            },
        };
        Ok(Pattern { source: source.to_owned(), program })
    }

    /// Whether the text matches; `None`: the search ran into a limit, its own, that of `time`, or that of `spend`, which is
    /// asked for steps before they are taken.
    pub fn find(&self, text: &str, time: &SearchTime, spend: &mut dyn FnMut(usize) -> bool) -> Option<bool> {
        match &self.program {
            Program::Linear(expression) => {
                let may = spend(text.len() / BYTES_PER_STEP);
                may.then(|| expression.is_match(text.as_bytes(), Some(time)).ok())?
            }
            Program::Fancy(stages) => stages.find(text, time, spend),
        }
    }
}

impl Stages {
    fn compile(source: &str) -> Result<Stages, Box<fancy_regex::Error>> {
        let stage = |limit| {
            let regex = fancy_regex::RegexBuilder::new(source).backtrack_limit(limit).build();
            regex.map(|regex| (limit, regex)).map_err(Box::new)
        };
        let [first, second, third] = STEPS_BACK;
        let regexes = [stage(first)?, stage(second)?, stage(third)?];
        Ok(Stages { regexes, size: backtrack::states(source) })
    }

    fn find(&self, text: &str, time: &SearchTime, spend: &mut dyn FnMut(usize) -> bool) -> Option<bool> {
        if self.size.saturating_mul(text.len()) > backtrack::MAX_WORK {
            return None;
        }
        let looks = 1 + text.len() / LONG_TEXT_BYTES;
        // Beyond what a search may take, nobody waits for it.
        let most = backtrack::max_steps(text.len()).max(STEPS_BACK[0]);
        let mut allowed = self.regexes.iter().filter(|(limit, _)| *limit <= most);
        allowed.find_map(|(limit, regex)| {
            let steps = (limit / STEPS_BACK_PER_STEP).saturating_mul(looks);
            if !spend(steps) {
                return Some(None);
            }
            let search = |_| Ok(regex.is_match(text).ok());
            time.backtracking(search).map_or(Some(None), |found| found.map(Some))
        })?
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "/{}/", self.source)
    }
}

/// Inside a class PCRE takes `[`, `&&`, `~~` and `--` literally, where `regex` sees sets and set operations.
pub fn adapt_pcre(source: &str) -> String {
    let mut out = String::with_capacity(source.len() + 8);
    let mut characters = source.chars().peekable();
    let mut class_position = None;
    while let Some(character) = characters.next() {
        match (character, class_position) {
            ('\\', position) => {
                out.push(character);
                if let Some(escaped) = characters.next() {
                    out.push(escaped);
                }
                class_position = position.map(|count| count + 1);
                continue;
            }
            ('[', None) => {
                class_position = Some(0);
                out.push(character);
                if characters.peek() == Some(&'^') {
                    characters.next();
                    out.push('^');
                }
                continue;
            }
            ('[', Some(_)) if characters.peek() != Some(&':') => out.push_str("\\["),
            ('[', Some(_)) => {
                out.push(character);
                for inner in characters.by_ref() {
                    out.push(inner);
                    if inner == ']' {
                        break;
                    }
                }
            }
            // A bracket right at the start of a class is a member of it.
            (']', Some(0)) => out.push_str("\\]"),
            (']', Some(_)) => {
                out.push(character);
                class_position = None;
                continue;
            }
            ('&' | '~', Some(_)) => {
                out.push('\\');
                out.push(character);
            }
            ('-', Some(_)) if characters.peek() == Some(&'-') => out.push_str("\\-"),
            _ => out.push(character),
        }
        class_position = class_position.map(|count| count + 1);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::Pattern;

    #[test]
    fn pcre_classes_are_understood() {
        for (pattern, text, expected) in [
            (r"^[0-9a-zA-Z-._\[\]:]+$", "[::1]", true),
            (r"^[a-zA-Z0-9-_]+$", "a-b_c", true),
            (r"^[a-zA-Z0-9-_]+$", "a b", false),
            (r"^[^[]+$", "a[", false),
            (r"^[]a]+$", "a]", true),
            (r"^(?!admin).*$", "admin", false),
            (r"^(?!admin).*$", "user", true),
            (r"^\w+$", "\u{e9}", false),
            (r"^[a&&b]+$", "&", true),
        ] {
            let compiled = Pattern::compile(pattern).unwrap();
            assert_eq!(
                compiled.find(text, &backtrack::SearchTime::default(), &mut |_| true),
                Some(expected),
                "{pattern} on {text}"
            );
        }
        assert!(Pattern::compile("(").is_err());
    }
}
