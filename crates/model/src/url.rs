//! URLs in messages.

/// A URL without the user name and password that it may carry, for whatever is printed.
pub fn without_user(text: &str) -> String {
    match (text.split_once("://"), text.rfind('@')) {
        (Some((scheme, rest)), Some(at)) if at > scheme.len() => {
            let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
            format!("{scheme}://***@{host}")
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        for (text, shown) in [
            ("http://h:1/a", "http://h:1/a"),
            ("http://u:p@h:1/a", "http://***@h:1/a"),
            ("http://u:p@q@h", "http://***@h"),
            ("a@b", "a@b"),
        ] {
            assert_eq!(without_user(text), shown);
        }
    }
}
