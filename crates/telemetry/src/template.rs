//! nginx `log_format` templates: literal text and `$variables`, compiled once, with nginx's escapes.
//!
//! Generic over what a variable is, so the request path can resolve names to an enum when a configuration is
//! loaded and never look at a name again. Not here: APISIX's richer templates (`${name ?? default}`).

use std::fmt;

/// How values are made safe for the line they stand in; names and rules are nginx's `escape=`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Escape {
    /// `"`, `\`, control and non-ASCII bytes as `\xXX`; a value that is not there is `-`.
    #[default]
    Default,
    /// As inside a JSON string; a value that is not there is empty.
    Json,
    /// As they are; a value that is not there is empty.
    None,
}

impl Escape {
    /// The setting with this name in the configuration.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "default" => Some(Escape::Default),
            "json" => Some(Escape::Json),
            "none" => Some(Escape::None),
            _ => None,
        }
    }
}

/// A compiled format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template<V> {
    parts: Vec<Part<V>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part<V> {
    Literal(Box<[u8]>),
    Variable(V),
}

/// Why a format does not compile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TemplateError {
    /// A `$` that no name follows.
    MissingName { offset: usize },
    /// A `${` without its `}`.
    Unclosed { offset: usize },
    /// A name the resolver does not know.
    Unknown { name: String },
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TemplateError::MissingName { offset } => {
                write!(f, "log format: no variable name after \"$\" at byte {offset}")
            }
            TemplateError::Unclosed { offset } => {
                write!(f, "log format: \"${{\" at byte {offset} needs a closing \"}}\"")
            }
            TemplateError::Unknown { name } => {
                write!(f, "log format: unknown variable \"{name}\"; check its spelling")
            }
        }
    }
}

impl std::error::Error for TemplateError {}

impl<V> Template<V> {
    /// Compiles a format; `resolve` turns a name into the caller's variable.
    pub fn compile(text: &str, mut resolve: impl FnMut(&str) -> Option<V>) -> Result<Self, TemplateError> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(dollar) = rest.find('$') {
            let offset = text.len() - rest.len() + dollar;
            push_literal(&mut parts, rest.get(..dollar).unwrap_or_default());
            let after = rest.get(dollar + 1..).unwrap_or_default();
            let (name, remaining) = split_name(after, offset)?;
            let variable = resolve(name).ok_or_else(|| TemplateError::Unknown { name: name.to_owned() })?;
            parts.push(Part::Variable(variable));
            rest = remaining;
        }
        push_literal(&mut parts, rest);
        Ok(Template { parts })
    }

    /// The variables, in order.
    pub fn variables(&self) -> impl Iterator<Item = &V> {
        self.parts.iter().filter_map(|part| match part {
            Part::Variable(variable) => Some(variable),
            Part::Literal(_) => None,
        })
    }

    /// Appends one line's text (without line end). `write` puts a variable's value into the sink; a sink
    /// left untouched means the value is not there.
    pub fn render(&self, out: &mut Vec<u8>, escape: Escape, mut write: impl FnMut(&V, &mut ValueSink<'_>)) {
        for part in &self.parts {
            match part {
                Part::Literal(text) => out.extend_from_slice(text),
                Part::Variable(variable) => {
                    let mut sink = ValueSink { out, escape, written: false };
                    write(variable, &mut sink);
                    if !sink.written && escape == Escape::Default {
                        out.push(b'-');
                    }
                }
            }
        }
    }
}

/// Where a variable's value goes.
#[derive(Debug)]
pub struct ValueSink<'a> {
    out: &'a mut Vec<u8>,
    escape: Escape,
    written: bool,
}

impl ValueSink<'_> {
    /// A value that may hold any byte. An empty one counts as there.
    pub fn text(&mut self, value: &[u8]) {
        self.written = true;
        match self.escape {
            Escape::None => self.out.extend_from_slice(value),
            Escape::Default => escape_with(self.out, value, is_plain, escape_hex),
            Escape::Json => escape_with(self.out, value, is_json_plain, escape_json),
        }
    }

    /// A value known to need no escape, such as a cached time.
    pub fn plain(&mut self, value: &str) {
        self.written = true;
        self.out.extend_from_slice(value.as_bytes());
    }

    /// A number.
    pub fn integer(&mut self, value: u64) {
        self.plain(itoa::Buffer::new().format(value));
    }

    /// Microseconds as nginx shows times: seconds with three decimals.
    pub fn seconds(&mut self, microseconds: u64) {
        let milliseconds = microseconds / 1000;
        self.integer(milliseconds / 1000);
        let rest = milliseconds % 1000;
        let digits = [rest / 100, rest / 10 % 10, rest % 10].map(|digit| b'0' + digit as u8);
        self.out.push(b'.');
        self.out.extend_from_slice(&digits);
    }
}

fn split_name(after: &str, offset: usize) -> Result<(&str, &str), TemplateError> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let (braced, text) = match after.strip_prefix('{') {
        Some(text) => (true, text),
        None => (false, after),
    };
    let length = text.bytes().position(|byte| !is_name(byte)).unwrap_or(text.len());
    let (name, rest) = text.split_at_checked(length).unwrap_or((text, ""));
    let rest = match (braced, rest.strip_prefix('}')) {
        (true, Some(rest)) => rest,
        (true, None) => return Err(TemplateError::Unclosed { offset }),
        (false, _) => rest,
    };
    if name.is_empty() { Err(TemplateError::MissingName { offset }) } else { Ok((name, rest)) }
}

fn push_literal<V>(parts: &mut Vec<Part<V>>, text: &str) {
    if !text.is_empty() {
        parts.push(Part::Literal(text.as_bytes().into()));
    }
}

fn escape_with(out: &mut Vec<u8>, value: &[u8], plain: fn(u8) -> bool, escape: fn(&mut Vec<u8>, u8)) {
    let mut rest = value;
    // Copies runs: almost every value needs no escape at all.
    while let Some(at) = rest.iter().position(|byte| !plain(*byte)) {
        let (run, special) = rest.split_at(at);
        out.extend_from_slice(run);
        if let Some((byte, after)) = special.split_first() {
            escape(out, *byte);
            rest = after;
        }
    }
    out.extend_from_slice(rest);
}

fn is_plain(byte: u8) -> bool {
    (0x20..0x7f).contains(&byte) && byte != b'"' && byte != b'\\'
}

fn is_json_plain(byte: u8) -> bool {
    byte >= 0x20 && byte != b'"' && byte != b'\\'
}

fn escape_hex(out: &mut Vec<u8>, byte: u8) {
    out.extend_from_slice(b"\\x");
    push_hex(out, byte);
}

fn escape_json(out: &mut Vec<u8>, byte: u8) {
    let short = match byte {
        b'"' | b'\\' => byte,
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        0x08 => b'b',
        0x0c => b'f',
        other => {
            out.extend_from_slice(b"\\u00");
            push_hex(out, other);
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

fn push_hex(out: &mut Vec<u8>, byte: u8) {
    let digit = |value: u8| if value < 10 { b'0' + value } else { b'A' + value - 10 };
    out.extend_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compile(text: &str) -> Result<Template<String>, TemplateError> {
        Template::compile(text, |name| (name != "nope").then(|| name.to_owned()))
    }

    #[test]
    fn renders_as_nginx_does() {
        let check = |format: &str, escape, expected: &str| {
            let template = compile(format).expect("format compiles");
            let mut out = Vec::new();
            template.render(&mut out, escape, |name, sink| match name.as_str() {
                "status" => sink.integer(200),
                "request_time" => sink.seconds(1_234_567),
                "quoted" => sink.text(b"a\"b\\c\x01\n\xc3\xa9"),
                "empty" => sink.text(b""),
                _ => {}
            });
            assert_eq!(String::from_utf8_lossy(&out), expected, "{format}");
        };
        check("$status ${status}x $request_time", Escape::Default, "200 200x 1.234");
        check("[$absent] [$empty]", Escape::Default, "[-] []");
        check("[$absent] [$empty]", Escape::Json, "[] []");
        check("[$absent]", Escape::None, "[]");
        check("\"$quoted\"", Escape::Default, r#""a\x22b\x5Cc\x01\x0A\xC3\xA9""#);
        check("\"$quoted\"", Escape::Json, "\"a\\\"b\\\\c\\u0001\\né\"");
        check("$quoted", Escape::None, "a\"b\\c\x01\né");
        check("no variables", Escape::Default, "no variables");
    }

    #[test]
    fn refuses_what_it_cannot_render() {
        let check = |format: &str, expected| assert_eq!(compile(format), Err(expected), "{format}");
        check("a $", TemplateError::MissingName { offset: 2 });
        check("a $- b", TemplateError::MissingName { offset: 2 });
        check("${}", TemplateError::MissingName { offset: 0 });
        check("x${status", TemplateError::Unclosed { offset: 1 });
        check("$nope", TemplateError::Unknown { name: "nope".into() });
    }
}
