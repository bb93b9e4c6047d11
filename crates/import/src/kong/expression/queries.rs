//! `http.queries.NAME`: comparisons of query arguments, as expressions on the whole query.
//!
//! Kong decodes names and values, and an argument may come several times: then all of them have to hold, or one with `any()`.
//! So each character stands for itself or its code, and `all` is: there is one, and none that differs.

use std::fmt::Write;

use serde_json::{Value, json};

pub(super) const FIELDS: &str = "http.queries.";

/// `None` for what is not converted.
pub(super) fn condition(name: &str, any: bool, operator: &str, text: &str) -> Option<Value> {
    let (name, value) = (coded(name)?, coded(text)?);
    // Behind the name: an argument without `=` has an empty value.
    let equal = if text.is_empty() { "=?(?:&|$)".to_owned() } else { format!("={value}(?:&|$)") };
    let begins = match text {
        "" => "(?:[=&]|$)".to_owned(),
        _ => format!("={value}"),
    };
    let (wanted, is_equal) = match operator {
        "==" => (equal, true),
        "!=" => (equal, false),
        "^=" => (begins, true),
        _ => return None,
    };
    let start = format!("(?s)(?:^|&){name}");
    let there = json!(["args", "~~", format!("{start}(?:[=&]|$)")]);
    let one_like_it = json!(["args", "~~", format!("{start}{wanted}")]);
    let one_unlike = json!(["args", "~~", format!("{start}(?=[=&]|$)(?!{wanted})")]);
    Some(match (any, is_equal) {
        (true, true) => one_like_it,
        (true, false) => one_unlike,
        (false, true) => json!(["AND", there, ["args", "!", "~~", one_unlike[2]]]),
        (false, false) => json!(["AND", there, ["args", "!", "~~", one_like_it[2]]]),
    })
}

/// Each character plain or as its code. A percent sign that begins no code would stand for itself.
fn coded(text: &str) -> Option<String> {
    let mut pattern = String::new();
    for letter in text.chars() {
        if !letter.is_ascii_graphic() && letter != ' ' || letter == '%' {
            return None;
        }
        let code = letter as u32;
        let plain = match letter {
            ' ' => "\\+| ".to_owned(),
            // These end a name or a value, or stand for a blank.
            '&' | '+' => String::new(),
            letter => regex::escape(&letter.to_string()),
        };
        let separator = if plain.is_empty() { "" } else { "|" };
        // Writing to a string does not fail.
        let _ = write!(pattern, "(?:{plain}{separator}%(?i:{code:02x}))");
    }
    Some(pattern)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_and_their_codes() {
        assert_eq!(coded("a/").as_deref(), Some("(?:a|%(?i:61))(?:/|%(?i:2f))"));
        assert_eq!(coded("+ ").as_deref(), Some("(?:%(?i:2b))(?:\\+| |%(?i:20))"));
        assert_eq!(coded("ü"), None);
        assert!(condition("a", false, "contains", "b").is_none());
    }
}
