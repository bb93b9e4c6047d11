//! Finds the known name that an unknown one was probably meant to be.

/// Shorter names are within an edit of too many others.
const SHORTEST: usize = 3;
const MOST_EDITS: usize = 3;
/// Longer names are unlikely to be typing errors, and take long to compare.
const LONGEST: usize = 64;

/// The known name that is closest to `name`, if it is close enough to be meant.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > LONGEST {
        return None;
    }
    let known: Vec<&str> = known.into_iter().collect();
    // `GLOBAL_RULES`, `globalRules`.
    if let Some(same) = known.iter().find(|known| **known != name && folded(known).eq(folded(name))) {
        return Some(same);
    }
    let most = (name.len() / 3).clamp(1, MOST_EDITS);
    if name.len() < SHORTEST {
        return None;
    }
    // A letter has up to four bytes. Objects are checked against many schemas of which one fits: most comparisons end here.
    let bytes = if name.is_ascii() { most } else { most * 4 };
    let candidates = known
        .into_iter()
        .filter(|known| known.len().abs_diff(name.len()) <= if known.is_ascii() { bytes } else { most * 4 });
    let (edits, known) = candidates.map(|known| (distance(name, known), known)).min()?;
    (1..=most).contains(&edits).then_some(known)
}

/// The end of a message about `name`: the known name that was probably meant, or nothing.
pub fn hint<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(name, known).map(|known| format!("; did you mean {known}?")).unwrap_or_default()
}

/// A name without regard to case and separators.
fn folded(name: &str) -> impl Iterator<Item = char> {
    name.chars().filter(|sign| !matches!(sign, '_' | '-')).map(|sign| sign.to_ascii_lowercase())
}

/// How many letters to insert, delete, replace or swap with the neighbour to get from one name to the other.
fn distance(from: &str, to: &str) -> usize {
    let from: Vec<char> = from.chars().collect();
    let to: Vec<char> = to.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.iter().enumerate() {
        let mut next = vec![i + 1];
        for (j, b) in to.iter().enumerate() {
            let replace = row.get(j).copied().unwrap_or(0) + usize::from(a != b);
            let delete = row.get(j + 1).copied().unwrap_or(0) + 1;
            let insert = next.last().copied().unwrap_or(0) + 1;
            let mut best = replace.min(delete).min(insert);
            let swapped = i > 0 && j > 0 && from.get(i - 1) == Some(b) && to.get(j - 1) == Some(a);
            if swapped && let Some(cost) = before.get(j - 1) {
                best = best.min(cost + 1);
            }
            next.push(best);
        }
        before = std::mem::replace(&mut row, next);
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (from, to, expected) in [
            ("", "", 0),
            ("abc", "abc", 0),
            ("", "abc", 3),
            ("abc", "acb", 1),
            ("kitten", "sitting", 3),
            ("prt", "port", 1),
        ] {
            assert_eq!(distance(from, to), expected, "{from} {to}");
        }
    }

    #[test]
    fn hints() {
        let known = ["key-auth", "jwt-auth", "cors", "uri"];
        for (name, expected) in [
            ("kye-auth", "; did you mean key-auth?"),
            ("key_auth", "; did you mean key-auth?"),
            ("urii", "; did you mean uri?"),
            ("KEY_AUTH", "; did you mean key-auth?"),
            ("keyAuth", "; did you mean key-auth?"),
            ("cors", ""),
            ("prometheus", ""),
            ("x", ""),
        ] {
            assert_eq!(hint(name, known), expected, "{name}");
        }
        let long = "k".repeat(100_000);
        assert_eq!(hint(&long, known), "");
    }
}
