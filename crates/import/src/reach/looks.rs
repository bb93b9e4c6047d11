//! Look-around, which the automata do not have.

use regex_automata::util::look::Look;

/// Stands where look-around was.
pub(super) const MARK: Look = Look::StartLF;
const MARK_TEXT: &str = "(?m:^)";

const LOOKS: [&str; 4] = ["(?=", "(?!", "(?<=", "(?<!"];

/// Whether all look-around reads what stands before, or forbids what follows whatever else follows behind that. Then a match
/// within a text is one of each beginning of the text that has the match, too.
pub(super) fn only_forbid(pattern: &str) -> bool {
    // One that takes all it can may take less of a shorter text.
    let is_greedy = ["*+", "++", "?+", "}+"].iter().any(|sign| pattern.contains(sign));
    let mut looks = LOOKS.iter().flat_map(|look| pattern.match_indices(look)).peekable();
    !is_greedy
        && looks.peek().is_some()
        && looks.all(|(at, look)| {
            let text = pattern.get(at..).unwrap_or_default();
            let inner = group_length(text).and_then(|length| text.get(look.len()..length));
            look != "(?=" && inner.is_some_and(is_independent)
        })
}

/// Whether a match of it does not depend on what follows.
fn is_independent(inner: &str) -> bool {
    let mut escaped = inner.match_indices('\\').filter_map(|(at, _)| inner.get(at + 1..)?.chars().next());
    let is_sign = |sign: char| "dwsDWS".contains(sign) || !sign.is_alphanumeric();
    !inner.contains('$') && !inner.contains("(?") && escaped.all(is_sign)
}

/// With marks in place of look-around, which only takes matches away. `None`: there is none, or its end is not found.
pub(super) fn without(pattern: &str) -> Option<String> {
    // Flags, comments and conditions may have other parentheses in them.
    let is_plain = |(at, _): (usize, &str)| {
        let group = pattern.get(at..).unwrap_or_default();
        LOOKS.iter().chain(&["(?:", "(?<", "(?P<", "(?i)"]).any(|known| group.starts_with(known))
    };
    if !pattern.match_indices("(?").all(is_plain) {
        return None;
    }
    let (mut out, mut rest, mut found) = (String::new(), pattern, false);
    while let Some(sign) = rest.chars().next() {
        let length = match LOOKS.iter().any(|look| rest.starts_with(look)) {
            true => {
                found = true;
                // What repeats it stays with something.
                out.push_str(MARK_TEXT);
                group_length(rest)?
            }
            false => {
                let length = item_length(rest, sign)?;
                out.push_str(rest.get(..length)?);
                length
            }
        };
        rest = rest.get(length..)?;
    }
    found.then_some(out)
}

/// Of a sign, an escaped one or a class.
fn item_length(text: &str, sign: char) -> Option<usize> {
    match sign {
        // What stands between `\Q` and `\E` is not read.
        '\\' => match text.chars().nth(1)? {
            'Q' => None,
            escaped => Some(1 + escaped.len_utf8()),
        },
        '[' => {
            let mut at = 1;
            at += usize::from(text.get(at..)?.starts_with('^'));
            at += usize::from(text.get(at..)?.starts_with(']'));
            loop {
                let sign = text.get(at..)?.chars().next()?;
                match sign {
                    ']' => return Some(at + 1),
                    // A class of POSIX within.
                    '[' => return None,
                    '\\' => at += 1 + text.get(at + 1..)?.chars().next()?.len_utf8(),
                    other => at += other.len_utf8(),
                }
            }
        }
        other => Some(other.len_utf8()),
    }
}

/// Up to the parenthesis that closes the first one.
fn group_length(text: &str) -> Option<usize> {
    let (mut at, mut depth) = (0, 0_usize);
    loop {
        let sign = text.get(at..)?.chars().next()?;
        match sign {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        at += item_length(text.get(at..)?, sign)?;
        if depth == 0 {
            return Some(at);
        }
    }
}
