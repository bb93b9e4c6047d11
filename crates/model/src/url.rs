//! URLs in messages.

use crate::secret::is_credential;

/// A URL without the user name and password that it may carry, nor tokens among its arguments, for whatever is printed.
pub fn without_user(text: &str) -> String {
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), text),
    };
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let rest = match rest.rsplit_once('@') {
        _ if !scheme.is_empty() && !is_cut(authority) => match authority.rsplit_once('@') {
            Some((_, host)) if !host.is_empty() => format!("***@{host}{path}"),
            _ => rest.to_owned(),
        },
        Some((_, host)) if !scheme.is_empty() && !host.is_empty() => format!("***@{host}"),
        // Without a scheme only what cannot be anything else: `user:password@host`.
        Some((user, host)) if is_user(user) && !host.is_empty() => format!("***@{host}"),
        _ => rest.to_owned(),
    };
    without_tokens(&format!("{scheme}{rest}"))
}

/// Whether it ends within a password that has a slash, `user:pass/word@host`: what follows the colon is not a port.
fn is_cut(authority: &str) -> bool {
    let port = authority.split_once(':').map_or("", |(_, port)| port);
    is_user(authority) && !authority.contains('@') && !port.bytes().all(|digit| digit.is_ascii_digit())
}

fn is_user(text: &str) -> bool {
    let is_part = |part: &str| !part.is_empty() && !part.contains(['/', ' ', '$', '?', '^', '(', '[']);
    text.split_once(':').is_some_and(|(user, password)| is_part(user) && is_part(password))
}

fn without_tokens(text: &str) -> String {
    let Some((path, arguments)) = text.split_once('?').filter(|(path, _)| path.contains('/')) else {
        return text.to_owned();
    };
    let shown = arguments.split('&').map(|argument| match argument.split_once('=') {
        Some((name, value)) if is_secret_argument(name) && !value.starts_with('$') => format!("{name}=***"),
        _ => argument.to_owned(),
    });
    format!("{path}?{}", shown.collect::<Vec<String>>().join("&"))
}

/// Services of clouds take credentials as `key`, `sig` and `code`.
fn is_secret_argument(name: &str) -> bool {
    const SHORT: [&str; 7] = ["auth", "code", "key", "pass", "pwd", "sig", "signature"];
    is_credential(name) || SHORT.iter().any(|short| name.eq_ignore_ascii_case(short))
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
            ("http://u:p@h:1/x?b@c", "http://***@h:1/x?b@c"),
            ("http://h/b@c", "http://h/b@c"),
            ("http://u:p/w@h/x", "http://***@h/x"),
            ("redis://:p@h", "redis://***@h"),
            ("u:p@h:1", "***@h:1"),
            ("a@b", "a@b"),
            ("/a:b@c", "/a:b@c"),
            ("http://h/?token=x&a=1&api_key=y", "http://h/?token=***&a=1&api_key=***"),
            ("/health?access_token=x", "/health?access_token=***"),
            ("http://h/x?key=a&sig=b&Code=c&keys=d", "http://h/x?key=***&sig=***&Code=***&keys=d"),
            ("^/(a|b)?c=1", "^/(a|b)?c=1"),
            ("/a?token=$arg_token", "/a?token=$arg_token"),
        ] {
            assert_eq!(without_user(text), shown);
        }
    }
}
