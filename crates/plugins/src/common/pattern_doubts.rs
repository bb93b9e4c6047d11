//! Regular expressions of configurations that match something else than they seem to, as messages for who writes them.

use super::regexes::{Regex, Replacement};

/// A replacement names a group that its pattern does not have.
pub(crate) fn missing_group(pattern: &str, options: &str, replacement: &str) -> Option<String> {
    let groups = Regex::with_options(pattern, options).ok()?.groups()?;
    let group = Replacement::new(replacement).largest_group().filter(|group| *group > groups)?;
    Some(format!("{replacement} has ${group}, which is always empty: {pattern} has {groups} groups"))
}

/// `/admin*`, as in shells: it asks for `/admi` and any number of `n`.
pub(crate) fn repeated_letter(pattern: &str) -> Option<String> {
    let before = pattern.strip_suffix('*')?;
    let is_plain =
        before.len() > 1 && before.chars().all(|sign| sign.is_alphanumeric() || "/-_^".contains(sign));
    let last = before.chars().next_back().filter(|last| is_plain && last.is_alphanumeric())?;
    Some(format!(
        "{pattern} matches {before} with any number of {last} at its end, none included; write {before}"
    ))
}

/// `/curl/i`, as in JavaScript and Perl: slashes are signs like others.
pub(crate) fn with_delimiters(pattern: &str) -> Option<String> {
    let (inner, flags) = pattern.strip_prefix('/')?.rsplit_once('/')?;
    let is_delimited = !inner.is_empty() && flags.chars().all(|flag| "gimsuxy".contains(flag));
    let plain = if flags.contains('i') { format!("(?i){inner}") } else { inner.to_owned() };
    is_delimited.then(|| format!("{pattern} matches the slashes too; write {plain}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubts() {
        let has = |found: Option<String>, part: &str| {
            let found = found.unwrap_or_default();
            assert!(found.contains(part) && found.is_empty() == part.is_empty(), "{found:?} {part:?}");
        };
        for (pattern, part) in [
            ("/admin*", "write /admin"),
            ("^/a/b*", "number of b"),
            ("/admin.*", ""),
            ("a*", ""),
            ("[a-z]*", ""),
            ("/", ""),
        ] {
            has(repeated_letter(pattern), part);
        }
        for (pattern, part) in [
            ("/curl/i", "write (?i)curl"),
            ("/curl/", "write curl"),
            ("/a/b", ""),
            ("curl", ""),
            ("//", ""),
            ("/a", ""),
        ] {
            has(with_delimiters(pattern), part);
        }
        has(missing_group("(a)(b)", "", "$3"), "has $3, which is always empty: (a)(b) has 2 groups");
        has(missing_group("(a)", "jo", "$1"), "");
        has(missing_group("(a", "", "$4"), "");
    }
}
