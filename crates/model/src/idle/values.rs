//! Which values a variable can have: a comparison with any other has no effect.

use serde_json::Value;

use super::Matching;

/// The known form of a variable's values.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// A name in lower case, without a port and a dot at its end.
    Host,
    OneOf(&'static [&'static str]),
    Method,
    /// A number that the gateway wrote: digits only, no zeros in front.
    Decimal,
    Address,
    /// Begins with `/`, decoded and without dot segments.
    Path,
    /// Begins with `/`, as the client wrote it.
    Target,
    Consumer,
    /// Blanks around them are taken off.
    Trimmed,
    Any,
}

#[rustfmt::skip]
const FORMS: &[(Form, &[&str])] = &[
    (Form::Host, &["host"]),
    (Form::OneOf(&["http", "https"]), &["scheme"]),
    (Form::OneOf(&["on", ""]), &["https"]),
    (Form::OneOf(&["HTTP/1.0", "HTTP/1.1", "HTTP/2.0"]), &["server_protocol"]),
    (Form::OneOf(&["?", ""]), &["is_args"]),
    (Form::OneOf(&["_"]), &["server_name"]),
    (Form::Method, &["request_method", "method"]),
    (Form::Decimal, &[
        "balancer_port", "body_bytes_sent", "bytes_sent", "connection", "connection_requests", "pid", "proxy_protocol_port",
        "proxy_protocol_server_port", "realip_remote_port", "remote_port", "request_length", "server_port", "status",
    ]),
    (Form::Address, &["remote_addr", "realip_remote_addr", "server_addr"]),
    (Form::Path, &["uri", "document_uri"]),
    (Form::Target, &["request_uri"]),
    (Form::Consumer, &["consumer_name"]),
    (Form::Trimmed, &["args", "query_string", "content_type"]),
];

/// Variables that every request has, whatever else it has.
const ALWAYS: [&str; 21] = [
    "connection",
    "connection_requests",
    "document_uri",
    "host",
    "https",
    "is_args",
    "method",
    "pid",
    "realip_remote_addr",
    "realip_remote_port",
    "remote_addr",
    "remote_port",
    "request_id",
    "request_method",
    "request_uri",
    "scheme",
    "server_addr",
    "server_name",
    "server_port",
    "server_protocol",
    "uri",
];

const FAMILIES: [&str; 3] = ["http_", "arg_", "cookie_"];

fn form(name: &str) -> Form {
    if name.starts_with("http_") {
        return Form::Trimmed;
    }
    FORMS.iter().find(|(_, names)| names.contains(&name)).map_or(Form::Any, |(form, _)| *form)
}

/// Whether its values are texts. Body fields may have any type.
pub(crate) fn is_text(name: &str) -> bool {
    form(name) != Form::Any || FAMILIES.iter().any(|family| name.starts_with(family))
}

/// Why a variable never equals this. `coerced`: numbers on the right side are compared with the number that the text is.
pub(super) fn never_equal(name: &str, right: &Value, coerced: bool, matching: Matching) -> Option<String> {
    match right {
        Value::Null if ALWAYS.contains(&name) => Some(format!("{name} has a value in every request")),
        Value::Null => None,
        Value::String(text) => never_text(name, text, matching),
        Value::Number(number) if coerced => {
            never_number(name).or_else(|| never_port(name, number.as_u64()?, matching))
        }
        other => Some(format!("{name} is a text; write \"{other}\"")),
    }
}

/// Why a variable's value is never a number.
pub(super) fn never_number(name: &str) -> Option<String> {
    match form(name) {
        Form::Path | Form::Target => Some("paths begin with /".to_owned()),
        Form::OneOf(values) => Some(one_of(values)),
        Form::Method => Some("methods are names".to_owned()),
        Form::Address => Some("addresses are not numbers; use ipmatch".to_owned()),
        _ => None,
    }
}

fn one_of(values: &[&str]) -> String {
    let shown: Vec<&str> =
        values.iter().map(|value| if value.is_empty() { "empty" } else { value }).collect();
    match shown.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("it is {} or {last}", rest.join(", ")),
        _ => format!("it is {}", shown.join("")),
    }
}

fn never_text(name: &str, text: &str, matching: Matching) -> Option<String> {
    let write = |canonical: &str| (canonical != text).then(|| format!("write {canonical}"));
    match form(name) {
        Form::Host => never_host(text),
        Form::OneOf(values) if values.contains(&text) => None,
        Form::OneOf(values) => {
            let meant =
                values.iter().find(|value| !value.is_empty() && value.eq_ignore_ascii_case(text.trim()));
            Some(meant.map_or_else(|| one_of(values), |meant| format!("write {meant}")))
        }
        // Methods are compared as they are sent, and no client sends `get`.
        Form::Method => write(&text.trim().to_ascii_uppercase()),
        Form::Decimal => never_decimal(text).or_else(|| never_port(name, text.parse().ok()?, matching)),
        Form::Address => never_address(text),
        Form::Consumer => (!super::names::is_name(text, ""))
            .then(|| "consumer names have only letters, digits, _ and -".to_owned()),
        _ if text != text.trim() && form(name) != Form::Any => {
            Some("values have no spaces around them".to_owned())
        }
        Form::Path | Form::Target if !text.starts_with('/') && text != "*" => {
            Some("paths begin with /".to_owned())
        }
        Form::Path => never_path(text, matching),
        Form::Target | Form::Trimmed | Form::Any => None,
    }
}

fn never_host(text: &str) -> Option<String> {
    if text.contains('/') {
        return Some("it is a name without scheme and path".to_owned());
    }
    if text.contains('*') {
        return Some("== compares the whole name; use ~~ with a pattern".to_owned());
    }
    if text.rsplit_once(':').is_some_and(|(name, _)| !name.contains(':') || name.ends_with(']')) {
        return Some("names are compared without their port".to_owned());
    }
    let canonical = text.trim().trim_end_matches('.').to_ascii_lowercase();
    (canonical != text).then(|| format!("write {canonical}"))
}

fn never_decimal(text: &str) -> Option<String> {
    let digits = text.trim();
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return Some("it is a number".to_owned());
    }
    let significant = digits.trim_start_matches('0');
    let canonical = if significant.is_empty() { "0" } else { significant };
    (canonical != text).then(|| format!("write {canonical}"))
}

fn never_port(name: &str, port: u64, matching: Matching) -> Option<String> {
    let instead = matching.ports.instead_of(port).filter(|_| name == "server_port")?;
    Some(format!("the gateway listens for requests on {instead}"))
}

fn never_address(text: &str) -> Option<String> {
    if text.contains('/') {
        return Some(format!("{text} is a network; use ipmatch"));
    }
    match text.trim().parse::<std::net::IpAddr>() {
        Ok(address) => {
            let canonical = address.to_canonical().to_string();
            (canonical != text).then(|| format!("write {canonical}"))
        }
        Err(_) => Some("it is an IP address".to_owned()),
    }
}

fn never_path(text: &str, matching: Matching) -> Option<String> {
    if text.contains('*') && text != "*" {
        return Some("== compares the whole path; use ~~ with a pattern".to_owned());
    }
    let canonical = super::matching::compared(text, matching);
    (canonical != text)
        .then(|| format!("write {canonical}: paths are compared decoded, without // and dot segments"))
}

/// Why no value of a variable matches a pattern: its first letter, where it is anchored, or a letter that each match has.
pub(super) fn never_matches(name: &str, pattern: &str) -> Option<String> {
    let has =
        |is_it: fn(&char) -> bool| certain_letters(pattern).is_some_and(|found| found.iter().any(is_it));
    match form(name) {
        Form::Path | Form::Target => {
            let first = pattern.strip_prefix('^')?.chars().next().filter(char::is_ascii_alphanumeric);
            // A letter that may be absent proves nothing.
            let is_certain = !pattern.contains(['|', '?', '*', '{']);
            (first.is_some() && is_certain).then(|| "paths begin with /".to_owned())
        }
        Form::Method if has(char::is_ascii_lowercase) => Some("methods are uppercase".to_owned()),
        Form::Host if has(char::is_ascii_uppercase) => {
            Some("names are lowercase; write a lowercase pattern, or use ~*".to_owned())
        }
        Form::OneOf(["http", "https"]) if has(char::is_ascii_uppercase) => {
            Some("it is http or https; write a lowercase pattern, or use ~*".to_owned())
        }
        _ => None,
    }
}

/// The letters that are literal in every match: outside of groups and classes, and not optional. `None`: the
/// pattern has parts, such as `(?i)`, after which nothing is certain.
fn certain_letters(pattern: &str) -> Option<Vec<char>> {
    let mut letters = Vec::new();
    let mut depth = 0_usize;
    let mut signs = pattern.chars().peekable();
    while let Some(sign) = signs.next() {
        match sign {
            '\\' => match signs.next()? {
                // With something behind it that belongs to it, or that is quoted.
                'x' | 'p' | 'P' | 'Q' | 'E' | 'c' | 'g' | 'k' | 'o' | 'u' | 'N' => return None,
                _ => {}
            },
            '[' => skip_class(&mut signs)?,
            '(' => {
                depth += 1;
                if signs.peek() == Some(&'*') {
                    return None;
                }
                if signs.next_if_eq(&'?').is_some()
                    && !matches!(signs.peek(), Some(':' | '=' | '!' | '<' | '>'))
                {
                    return None;
                }
            }
            ')' => depth = depth.checked_sub(1)?,
            '|' if depth == 0 => return None,
            letter
                if letter.is_ascii_alphabetic()
                    && depth == 0
                    && !matches!(signs.peek(), Some('?' | '*' | '{')) =>
            {
                letters.push(letter);
            }
            _ => {}
        }
    }
    Some(letters)
}

/// From behind its `[` to behind its `]`.
fn skip_class(signs: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<()> {
    signs.next_if_eq(&'^');
    // The first one is literal.
    signs.next_if_eq(&']');
    loop {
        match signs.next()? {
            ']' => return Some(()),
            '\\' => drop(signs.next()?),
            // `[:alpha:]`
            '[' if signs.peek() == Some(&':') => while signs.next()? != ']' {},
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_that_each_match_has() {
        for (pattern, letters) in [
            (r"^A\.T$", Some("AT")),
            (r"^\w+\.A", Some("A")),
            (r"^[A-Z\]]+\.t$", Some("t")),
            (r"^[[:upper:]X]t$", Some("t")),
            ("^[]A]t", Some("t")),
            (r"^(WWW\.)?a$", Some("a")),
            (r"^(?:A|b)\.c$", Some("c")),
            ("A?B*C{0,2}d+", Some("d")),
            ("a|B", None),
            ("(?i)A", None),
            (r"\x41", None),
            (r"\QA\E", None),
            ("(*UTF8)A", None),
        ] {
            let found = certain_letters(pattern).map(String::from_iter);
            assert_eq!(found.as_deref(), letters, "{pattern}");
        }
    }
}
