//! Expressions without their look-around.

/// An expression that matches more.
pub(super) struct Wider {
    pub(super) pattern: String,
    /// Where it matches a text, and the narrower one matches that text with something behind it, this one matches the text itself: all
    /// that was taken away is `(?!...)` that sees no end. What it finds there it finds whatever follows.
    pub(super) keeps_matches: bool,
}

/// Without look-around, which only takes matches away. `None`: there is none, or its end is not found.
pub(super) fn without_looks(pattern: &str) -> Option<Wider> {
    const LOOKS: [&str; 4] = ["(?=", "(?!", "(?<=", "(?<!"];
    // Flags, comments and conditions may have other parentheses in them.
    let is_plain = |(at, _): (usize, &str)| {
        let group = pattern.get(at..).unwrap_or_default();
        LOOKS.iter().chain(&["(?:", "(?<", "(?P<", "(?i)"]).any(|known| group.starts_with(known))
    };
    if !pattern.match_indices("(?").all(is_plain) {
        return None;
    }
    let (mut out, mut rest, mut found, mut keeps_matches) = (String::new(), pattern, false, true);
    while let Some(sign) = rest.chars().next() {
        let length = match LOOKS.iter().any(|look| rest.starts_with(look)) {
            true => {
                found = true;
                // Nothing takes its place, and what repeats it stays with something.
                out.push_str("(?:)");
                let length = group_length(rest)?;
                keeps_matches &= rest.get(..length)?.strip_prefix("(?!").is_some_and(sees_no_end);
                length
            }
            false => {
                let length = item_length(rest, sign)?;
                out.push_str(rest.get(..length)?);
                length
            }
        };
        rest = rest.get(length..)?;
    }
    found.then_some(Wider { pattern: out, keeps_matches })
}

/// Whether what an expression finds does not depend on what comes behind it: no `$`, `\b`, `\z` or look-around.
fn sees_no_end(expression: &str) -> bool {
    let escaped =
        expression.match_indices('\\').filter_map(|(at, _)| expression.get(at + 1..)?.chars().next());
    !expression.contains(['$', '?', '\n']) && escaped.into_iter().all(|sign| sign.is_ascii_punctuation())
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
