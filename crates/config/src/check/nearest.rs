//! What an unknown key was probably meant to be.

use crate::keys;

/// The end of the message: a similar name in the same table, or the same name elsewhere; else nothing.
pub fn hint(table: &str, name: &str) -> String {
    let most = (name.len() / 3).clamp(1, 3);
    let similar = keys::children(table).into_iter().map(|known| (distance(name, known), known)).min();
    if let Some((edits, known)) = similar
        && edits <= most
    {
        return format!("; did you mean {known}?");
    }
    let elsewhere = keys::all().map(|key| key.path).find(|path| path.rsplit('.').next() == Some(name));
    elsewhere.map(|path| format!("; it belongs at {path}")).unwrap_or_default()
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
}
