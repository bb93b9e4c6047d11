//! URLs in messages.

use crate::secret::{is_credential_argument, says_credential};

/// A URL without user name, password, and tokens among its arguments, for all output.
pub fn without_user(text: &str) -> String {
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        // Relative to the scheme of the page.
        None => match text.strip_prefix("//") {
            Some(rest) => ("//".to_owned(), rest),
            None => (String::new(), text),
        },
    };
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let rest = match rest.rsplit_once('@') {
        _ if !scheme.is_empty() && !is_cut(authority) => match authority.rsplit_once('@') {
            Some((_, host)) if !host.is_empty() => format!("***@{host}{path}"),
            _ => rest.to_owned(),
        },
        Some((_, host)) if !scheme.is_empty() && !host.is_empty() => format!("***@{host}"),
        // Without a scheme only the unambiguous form: `user:password@host`.
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

/// Arguments occur after `?`, among the parameters of a path (`;`) and in the fragment.
fn without_tokens(text: &str) -> String {
    let arguments = text.find(['?', '#', ';']).and_then(|at| text.split_at_checked(at));
    let Some((path, mut rest)) = arguments.filter(|(path, _)| path.contains('/') || path.is_empty()) else {
        return text.to_owned();
    };
    let mut shown = path.to_owned();
    // A pattern has no arguments, only characters that look like the beginning of some.
    let is_url = !path.starts_with(['^', '~']);
    // Parameters of a path in an address mean something to its server only.
    let is_address = path.contains("://") || path.starts_with("//");
    let (mut in_query, mut was_hidden) = (false, false);
    while let Some(sign) = rest.chars().next() {
        let (_, after) = rest.split_at(sign.len_utf8());
        let (argument, next) = after.split_at(after.find(['?', '#', ';', '&']).unwrap_or(after.len()));
        in_query |= sign != ';';
        was_hidden &= sign == ';';
        let hidden = match argument.split_once('=') {
            Some((name, value))
                if !value.starts_with('$')
                    && (is_address && !in_query && !value.is_empty() || is_credential(name, value)) =>
            {
                Some(format!("{name}=***"))
            }
            // A part of the value before it, or a token without a name.
            None if was_hidden || is_url && in_query && is_token(argument) => Some("***".to_owned()),
            _ => None,
        };
        was_hidden = hidden.is_some();
        shown.push(sign);
        shown.push_str(hidden.as_deref().unwrap_or(argument));
        rest = next;
    }
    shown
}

/// Compared as the receiver reads them: with escapes decoded. A structured value may have credentials
/// anywhere.
fn is_credential(name: &str, value: &str) -> bool {
    let value = percent_decoded(&value.replace('+', " "));
    is_credential_argument(&percent_decoded(name)) || says_credential(&value) || value.starts_with(['{', '['])
}

/// Replaces each escape with its byte; text that is not an escape stays.
pub(crate) fn percent_decoded(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// Whether an argument without a name may be a secret, not a word like `wsdl`.
fn is_token(argument: &str) -> bool {
    const SHORTEST: usize = 8;
    argument.len() >= SHORTEST
        && argument.bytes().all(|sign| sign.is_ascii_alphanumeric() || b"-._~%+/:@!,".contains(&sign))
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
            ("/a;token=x/b?c=1;api_key=y", "/a;token=***?c=1;api_key=***"),
            ("/a?key=x;y&z=1", "/a?key=***;***&z=1"),
            ("http://h/#access_token=x&state=1", "http://h/#access_token=***&state=1"),
            ("http://h/hook?0pen-Sesame&wsdl", "http://h/hook?***&wsdl"),
            ("http://h/?client_assertion=x&client_id=a", "http://h/?client_assertion=***&client_id=a"),
            ("http://h/?%61pi%4BEY=x&a[b]=1", "http://h/?%61pi%4BEY=***&a[b]=1"),
            ("http://h/?q=%7B%22a%22%3A1%7D&p={}", "http://h/?q=***&p=***"),
            ("http://h/?a=Bearer%20x&b=Basic+y&c=Basic", "http://h/?a=***&b=***&c=Basic"),
            ("?apikey=x&passphrase=y", "?apikey=***&passphrase=***"),
            ("^/a/?(.*)#long-text", "^/a/?(.*)#long-text"),
            ("^/a?b;long-text", "^/a?b;long-text"),
            ("//u:p@h/x", "//***@h/x"),
            ("//h/x?token=a", "//h/x?token=***"),
            ("http://h/a;k=b;c=$d/e?x=1", "http://h/a;k=***;c=$d/e?x=1"),
            ("http://h/a?k=b&tok=c&hmac=d&x=1", "http://h/a?k=***&tok=***&hmac=***&x=1"),
            ("/a;v=1", "/a;v=1"),
            ("a/b; charset=utf-8", "a/b; charset=utf-8"),
            ("/a?$request_uri_long", "/a?$request_uri_long"),
        ] {
            assert_eq!(without_user(text), shown);
        }
    }
}
