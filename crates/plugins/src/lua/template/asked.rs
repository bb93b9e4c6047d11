//! Which members of a document the code of a template can ask for. What no code can name need not become a Lua value: a
//! body may have a hundred thousand members, and a template asks for some.
//!
//! Only code that is easy to understand counts: members by their names, loops over lists, and calls of functions that
//! do not look into tables. Anything else may ask for everything.

use std::collections::HashSet;

/// Functions that look at no members of what they get.
const FUNCTIONS: [&str; 7] = ["_escape_xml", "tostring", "tonumber", "type", "ipairs", "text", "escaped"];

/// The same, in libraries and as methods of texts. (`gsub` may take a table.)
const METHODS: [&str; 12] =
    ["upper", "lower", "sub", "len", "rep", "reverse", "byte", "char", "find", "match", "format", "floor"];

/// Names that lead to the whole document, or to functions that look into tables without being called here.
const OPEN: [&str; 9] =
    ["context", "next", "pairs", "getfenv", "setfenv", "function", "goto", "rawget", "load"];

/// The names that the code can ask for, at any depth; `None`: it may ask for any.
pub(super) fn names(code: &str) -> Option<HashSet<Box<str>>> {
    let tokens = tokens(code)?;
    let mut found = HashSet::new();
    for (at, token) in tokens.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|before| tokens.get(before));
        let (after, second) = (tokens.get(at + 1), tokens.get(at + 2));
        match token {
            Token::Name(name) => {
                let is_method = matches!(before, Some(Token::Sign('.' | ':')));
                let is_called = matches!(after, Some(Token::Sign('(') | Token::Text(_)));
                let known = if is_method { METHODS.contains(name) } else { FUNCTIONS.contains(name) };
                if OPEN.contains(name) || is_called && !known && !is_keyword(name) {
                    return None;
                }
                found.insert((*name).into());
            }
            Token::Text(text) => drop(found.insert((*text).into())),
            // `a[1]` and `a["b"]`, nothing that is computed.
            Token::Sign('[')
                if !matches!(
                    (after, second),
                    (Some(Token::Text(_) | Token::Number), Some(Token::Sign(']')))
                ) =>
            {
                return None;
            }
            // The result of an expression is called.
            Token::Sign('(') if matches!(before, Some(Token::Sign(')' | ']') | Token::Text(_))) => {
                return None;
            }
            Token::Sign('{') => return None,
            _ => {}
        }
    }
    Some(found)
}

enum Token<'a> {
    Name(&'a str),
    Text(&'a str),
    Number,
    Sign(char),
}

fn is_keyword(name: &str) -> bool {
    const WORDS: [&str; 9] = ["and", "or", "not", "if", "elseif", "while", "until", "return", "in"];
    WORDS.contains(&name)
}

/// `None`: there are long texts, comments or escapes.
fn tokens(code: &str) -> Option<Vec<Token<'_>>> {
    let mut found = Vec::new();
    let mut rest = code.trim_start();
    while let Some(first) = rest.chars().next() {
        let is_word = |sign: char| sign.is_ascii_alphanumeric() || sign == '_';
        let (token, length) = match first {
            '"' | '\'' => {
                let text = rest.get(1..)?;
                let end = text.find(first)?;
                let text = text.get(..end).filter(|text| !text.contains(['\\', '\n']))?;
                (Token::Text(text), end + 2)
            }
            '0'..='9' => (Token::Number, rest.find(|sign| !is_word(sign)).unwrap_or(rest.len())),
            first if is_word(first) => {
                let end = rest.find(|sign| !is_word(sign)).unwrap_or(rest.len());
                (Token::Name(rest.get(..end)?), end)
            }
            first if first.is_ascii() => {
                if rest.starts_with("--") || rest.starts_with("[[") || rest.starts_with("[=") {
                    return None;
                }
                (Token::Sign(first), 1)
            }
            _ => return None,
        };
        found.push(token);
        rest = rest.get(length..)?.trim_start();
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_code_can_ask_for() {
        let cases: &[(&str, Option<&[&str]>)] = &[
            ("a.b", Some(&["a", "b"])),
            ("a[1]['c d'] .. \"x\"", Some(&["a", "c d", "x"])),
            ("name or 'none'", Some(&["name", "none", "or"])),
            ("_escape_xml(a.b)\nif (a) then end", Some(&["_escape_xml", "a", "b", "end", "if", "then"])),
            (
                "for _, item in ipairs(list) do\nitem.name\nend",
                Some(&["_", "do", "end", "for", "in", "ipairs", "item", "list", "name"]),
            ),
            ("#list + 1 * n", Some(&["list", "n"])),
            ("string.upper(name)\nname:sub(1, 2)", Some(&["name", "string", "sub", "upper"])),
            ("", Some(&[])),
            ("for k, v in pairs(a) do end", None),
            ("for k, v in next, a do end", None),
            ("a[b]", None),
            ("a['x' .. n]", None),
            ("_escape_json(a)", None),
            ("context.a", None),
            ("cjson.encode(a)", None),
            ("name:gsub('x', a)", None),
            ("f'x'", None),
            ("a.b(c)", None),
            ("(a or b)(c)", None),
            ("{a}", None),
            ("[[x]]", None),
            ("a -- b", None),
            ("'a\\110'", None),
            ("local f = function(t) return t end", None),
            ("a[ [[b]] ]", None),
        ];
        for (code, expected) in cases {
            let found = names(code).map(|found| {
                let mut found: Vec<String> = found.into_iter().map(String::from).collect();
                found.sort();
                found
            });
            assert_eq!(
                found.as_ref().map(|found| found.iter().map(String::as_str).collect::<Vec<_>>()).as_deref(),
                *expected,
                "{code}"
            );
        }
    }
}
