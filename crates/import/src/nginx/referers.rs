//! `valid_referers`: what makes `$invalid_referer` `1`, as a condition on the field Referer.
//!
//! nginx takes the host up to a colon or a slash. An exact name counts before wildcards in front, these before those behind,
//! the longest first, and a name with a path that the address does not have makes it invalid. Expressions see what follows
//! the scheme.

use super::{
    chain::Chain,
    condition::Condition,
    made::{Made, Stop},
    parse::Directive,
    patterns,
};

const FIELD: &str = "http_referer";
/// nginx takes what is shorter than `http://i.ru` for no address.
const IS_ADDRESS: &str = "(?is)^(?:http://.{4}|https://.{3})";
/// Longer hosts are invalid.
const TOO_LONG: &str = "(?i)^https?://[^/:]{257}";

/// A host, as an expression, with the path that the address must begin with.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Name {
    /// The lowest counts first.
    rank: (u8, usize),
    host: String,
    path: String,
}

/// When `$invalid_referer` is set; `None` without a word on it.
pub(super) fn invalid(chain: &Chain, server: &Directive) -> Made<Option<Condition>> {
    let lines = chain.all("valid_referers");
    let Some(first) = lines.first() else { return Ok(None) };
    let words: Vec<&str> = lines.iter().flat_map(|line| &line.arguments).map(String::as_str).collect();
    let not = |why: &str| Stop::closed(format!("`valid_referers` of line {}: {why}", first.at.line));
    let has = |wanted: &str| words.contains(&wanted);
    let (mut names, mut patterns) = (Vec::new(), Vec::new());
    let mut add = |text: &str| match text.split_once('/') {
        Some((host, path)) => names.extend(of_host(host, &format!("/{path}"))),
        None => names.extend(of_host(text, "")),
    };
    for word in &words {
        match *word {
            "none" | "blocked" => {}
            "server_names" => {
                let own: Vec<&str> =
                    server.all("server_name").flat_map(|line| &line.arguments).map(String::as_str).collect();
                if own.is_empty() || own.iter().any(|name| name.starts_with('~') || name.is_empty()) {
                    return Err(not("`server_names` with expressions, or without names, is not converted"));
                }
                own.into_iter().for_each(&mut add);
            }
            word if word.contains('$') => return Err(not(&format!("`{word}` has variables"))),
            word => match word.strip_prefix('~') {
                Some(pattern) => patterns
                    .push(behind_scheme(pattern).ok_or_else(|| not(&format!("`{word}` is not converted")))?),
                None => add(word),
            },
        }
    }
    if names.is_empty() && patterns.is_empty() {
        return Err(not("nginx refuses it without a name"));
    }
    names.sort();
    let address = Condition::test(FIELD, "~~", IS_ADDRESS);
    let mut valid = Vec::new();
    if has("none") {
        valid.push(present().negated());
    }
    if has("blocked") {
        valid.push(Condition::all([present(), address.clone().negated()]));
    }
    let fits = Condition::test(FIELD, "~~", TOO_LONG).negated();
    valid.push(Condition::all([address, fits, Condition::any(matching(&names, &patterns))]));
    Ok(Some(Condition::any(valid).negated()))
}

fn present() -> Condition {
    Condition::test(FIELD, "~~", "^")
}

/// `.a` is `a` and `*.a`.
fn of_host(host: &str, path: &str) -> Vec<Name> {
    let name = |kind: u8, host: String| Name {
        rank: (kind, usize::MAX - host.len()),
        host: host.to_lowercase(),
        path: path.to_owned(),
    };
    let front = |domain: &str| name(1, format!("[^/:]*\\.{}", regex::escape(domain)));
    if let Some(domain) = host.strip_prefix("*.") {
        vec![front(domain)]
    } else if let Some(domain) = host.strip_prefix('.') {
        vec![name(0, regex::escape(domain)), front(domain)]
    } else if let Some(start) = host.strip_suffix(".*") {
        vec![name(2, format!("{}\\.[^/:]*", regex::escape(start)))]
    } else {
        vec![name(0, regex::escape(host))]
    }
}

fn matching(names: &[Name], patterns: &[String]) -> Vec<Condition> {
    let whole = |name: &Name| Condition::test(FIELD, "~~", format!("(?i)^https?://{}(?:[/:]|$)", name.host));
    let has_paths = names.iter().any(|name| !name.path.is_empty());
    let unless = |count: usize| match has_paths {
        true => Condition::any(names.iter().take(count).map(whole)).negated(),
        // Whichever name it is, it is valid.
        false => Condition::Always,
    };
    let mut all = Vec::new();
    for (index, name) in names.iter().enumerate() {
        let own = match name.path.as_str() {
            "" => whole(name),
            path => {
                let pattern = format!("^(?i:https?://{})(?::[^/]*)?{}", name.host, regex::escape(path));
                Condition::test(FIELD, "~~", pattern)
            }
        };
        all.push(Condition::all([own, unless(index)]));
    }
    for pattern in patterns {
        let own = Condition::test(FIELD, "~~", pattern.clone());
        all.push(Condition::all([own, unless(names.len())]));
    }
    all
}

/// An expression for what follows the scheme, as one for the whole address. `None` where that cannot be determined.
fn behind_scheme(pattern: &str) -> Option<String> {
    let (mut carets, mut in_class, mut alternatives, mut escaped) = (0, false, false, false);
    for letter in pattern.chars() {
        match (escaped, letter) {
            (true, 'A' | 'G' | 'K' | 'Q') => return None,
            (true, _) => {}
            (false, '[') => in_class = true,
            (false, ']') => in_class = false,
            (false, '^') if !in_class => carets += 1,
            (false, '|') if !in_class => alternatives = true,
            _ => {}
        }
        escaped = !escaped && letter == '\\';
    }
    if pattern.replace("(?:", "").contains("(?") {
        return None;
    }
    let whole = match pattern.strip_prefix('^') {
        Some(rest) if carets == 1 && !alternatives => format!("(?i)^https?://(?:{rest})"),
        None if carets == 0 => format!("(?i)^https?://(?s:.*?)(?:{pattern})"),
        _ => return None,
    };
    patterns::known(&whole).is_ok().then_some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_move_behind_the_scheme() {
        for (pattern, wanted) in [
            ("^www\\.", Some("(?i)^https?://(?:www\\.)")),
            ("\\.google\\.", Some("(?i)^https?://(?s:.*?)(?:\\.google\\.)")),
            ("a[^b]c", Some("(?i)^https?://(?s:.*?)(?:a[^b]c)")),
            ("^a|b", None),
            ("(^a)", None),
            ("\\Aa", None),
            ("(?i)a", None),
            ("(?=a)", None),
            ("a(", None),
        ] {
            assert_eq!(behind_scheme(pattern).as_deref(), wanted, "{pattern}");
        }
    }

    #[test]
    fn exact_names_count_first() {
        let mut names = of_host("*.b.c", "");
        names.extend(of_host(".a.b.c", "/x"));
        names.extend(of_host("a.*", ""));
        names.sort();
        let hosts: Vec<&str> = names.iter().map(|name| name.host.as_str()).collect();
        assert_eq!(hosts, ["a\\.b\\.c", "[^/:]*\\.a\\.b\\.c", "[^/:]*\\.b\\.c", "a\\.[^/:]*"]);
    }
}
