//! Patterns that are accepted and so large that requests with long texts will probably meet their limit: a write of one
//! is answered with a remark.

use std::cell::RefCell;

use crate::time::MAX_TIME;

/// Why a pattern is refused that is none of the wrong ones, and what to do about it.
pub const TOO_LARGE: &str = "the pattern is too large, compiled it takes more than 10 MiB; smaller counts in {m,n} make it smaller, and \
                             a class such as [^\\x00-\\x7F] is much smaller than \\p{L}";

/// From so many states on 250 bytes are as much as one search may do for certain.
const MANY_STATES: usize = 4096;

/// A list of words has about as many states as characters, and most of them are never tried together. Counts that multiply
/// each other are another thing.
const STATES_OF_A_CHARACTER: usize = 8;

/// Characters of a pattern in a message.
const SHOWN: usize = 60;

thread_local! {
    /// Set while a caller collects them.
    static FOUND: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// What to know of the patterns that are compiled meanwhile.
pub fn remarks_on_patterns<R>(compile: impl FnOnce() -> R) -> (R, Vec<String>) {
    let outer = FOUND.replace(Some(Vec::new()));
    let result = compile();
    let found = FOUND.replace(outer).unwrap_or_default();
    (result, found)
}

pub(crate) fn remark_on(source: &str, states: usize) {
    if states < MANY_STATES || states / STATES_OF_A_CHARACTER < source.len() {
        return;
    }
    FOUND.with_borrow_mut(|found| {
        let Some(found) = found else { return };
        let mut shown: String = source.chars().take(SHOWN).collect();
        if shown.len() < source.len() {
            shown.push_str("...");
        }
        let text = format!(
            "the pattern \"{shown}\" has {states} states: on long texts it may take more than the {} ms of a request, which is refused \
             then; smaller counts in {{m,n}} make it smaller",
            MAX_TIME.as_millis()
        );
        if !found.contains(&text) {
            found.push(text);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Expression;

    #[test]
    fn counts_that_multiply_are_remarked_on() {
        let words: Vec<String> = (0..2_000).map(|number| format!("word{number}")).collect();
        let cases = [
            ("(x{1,100}){1,100}y", 1),
            (r"\p{L}{1,64}", 0),
            ("(?!z)(x{1,100}){1,100}y", 1),
            (&words.join("|"), 0),
            (r"^[a-z0-9-]{1,63}(\.[a-z0-9-]{1,63}){1,8}$", 0),
            ("^/api/v[0-9]+/", 0),
        ];
        for (pattern, expected) in cases {
            let (made, remarks) = remarks_on_patterns(|| Expression::new(pattern, false));
            assert!(made.is_ok(), "{pattern}");
            assert_eq!(remarks.len(), expected, "{pattern}: {remarks:?}");
        }
    }

    #[test]
    fn what_is_only_too_large_says_so() {
        for pattern in ["(?!z)(x{1,900}){1,900}", "(x{1,900}){1,900}"] {
            let why = Expression::new(pattern, false).expect_err(pattern);
            assert_eq!(why.to_string(), TOO_LARGE, "{pattern}");
        }
        let wrong = Expression::new("(", false).expect_err("no pattern");
        assert_ne!(wrong.to_string(), TOO_LARGE);
    }
}
