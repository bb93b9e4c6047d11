//! How locations match, and which one takes a path.

use super::parse::Directive;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum LocationMatch {
    Exact(String),
    Prefix {
        path: String,
        ends: bool,
    },
    Regex(String),
    /// `@name`: only other places lead there.
    Named(String),
}

/// `None` for what nginx would refuse.
pub(super) fn place(location: &Directive) -> Option<LocationMatch> {
    let (first, second) = (location.argument(0), location.argument(1).to_owned());
    // The sign and the text may be one word.
    for sign in ["^~", "~*", "=", "~"] {
        let Some(rest) = first.strip_prefix(sign) else { continue };
        let text = if rest.is_empty() { second } else { rest.to_owned() };
        return Some(match sign {
            "=" => LocationMatch::Exact(text),
            "^~" => LocationMatch::Prefix { path: text, ends: true },
            "~" => LocationMatch::Regex(text),
            _ => LocationMatch::Regex(format!("(?i){text}")),
        });
    }
    match first {
        // All paths begin with it, as they do with a slash.
        "" => Some(LocationMatch::Prefix { path: String::new(), ends: false }),
        path if path.starts_with('/') => Some(LocationMatch::Prefix { path: path.to_owned(), ends: false }),
        name if name.starts_with('@') => Some(LocationMatch::Named(name.to_owned())),
        _ => None,
    }
}

pub(super) fn uri(place: &LocationMatch) -> String {
    match place {
        LocationMatch::Exact(path) => path.clone(),
        LocationMatch::Prefix { path, .. } => format!("{path}*"),
        LocationMatch::Regex(_) | LocationMatch::Named(_) => "/*".to_owned(),
    }
}

/// Why it is unknown which place takes a path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Untaken {
    /// None is for it.
    ByNone,
    /// This one may take some of the paths.
    InPart(usize),
    /// The expression of this one cannot be read.
    Unreadable(usize),
}

/// Which of the places takes every path that begins with `literal`, or just this one if it is `whole`.
pub(crate) fn taker(places: &[&LocationMatch], literal: &str, whole: bool) -> Result<usize, Untaken> {
    let mut best: Option<(usize, &str, bool)> = None;
    for (index, place) in places.iter().enumerate() {
        match place {
            LocationMatch::Exact(path) if whole && path == literal => return Ok(index),
            LocationMatch::Exact(path) | LocationMatch::Prefix { path, .. }
                if !whole && path.starts_with(literal) && path != literal =>
            {
                return Err(Untaken::InPart(index));
            }
            LocationMatch::Prefix { path, ends }
                if literal.starts_with(path.as_str())
                    && best.is_none_or(|(_, longest, _)| path.len() > longest.len()) =>
            {
                best = Some((index, path, *ends));
            }
            _ => {}
        }
    }
    let found = best.map(|(index, ..)| index).ok_or(Untaken::ByNone);
    if best.is_some_and(|(_, _, ends)| ends) {
        return found;
    }
    for (index, place) in places.iter().enumerate() {
        if let LocationMatch::Regex(pattern) = place {
            if !whole {
                return Err(Untaken::InPart(index));
            }
            if super::patterns::takes(pattern, literal).ok_or(Untaken::Unreadable(index))? {
                return Ok(index);
            }
        }
    }
    found
}

/// Paths with a star are closed from there on.
pub(crate) fn safe_uri(place: &LocationMatch) -> String {
    match place {
        LocationMatch::Exact(path) | LocationMatch::Prefix { path, .. } if path.contains('*') => {
            format!("{}*", path.split('*').next().unwrap_or("/"))
        }
        place => uri(place),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_takes_a_path() {
        let prefix = |path: &str, ends| LocationMatch::Prefix { path: path.to_owned(), ends };
        let all = [
            prefix("/", false),
            prefix("/a/", false),
            prefix("/a/b/", true),
            LocationMatch::Exact("/x".to_owned()),
            LocationMatch::Regex("\\.php$".to_owned()),
        ];
        let places: Vec<&LocationMatch> = all.iter().collect();
        let cases = [
            ("/x", true, Ok(3)),
            ("/x", false, Err(Untaken::InPart(4))),
            ("/index.php", true, Ok(4)),
            ("/index.html", true, Ok(0)),
            ("/a/b/c", false, Ok(2)),
            ("/a/", true, Ok(1)),
            // It could go on with b/.
            ("/a/", false, Err(Untaken::InPart(2))),
            // The expression could match the rest.
            ("/a/c", false, Err(Untaken::InPart(4))),
        ];
        for (literal, whole, expected) in cases {
            assert_eq!(taker(&places, literal, whole), expected, "{literal} {whole}");
        }
        let fewer: Vec<&LocationMatch> = all.iter().take(3).collect();
        assert_eq!(taker(&fewer, "/c/", false), Ok(0));
        assert_eq!(taker(&fewer[1..], "/c/", true), Err(Untaken::ByNone));
    }
}
