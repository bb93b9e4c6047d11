//! nginx's escapes for values in lines of a log.

/// How values are made safe for the line they are in; names and rules are nginx's `escape=`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Escape {
    /// `"`, `\`, control and non-ASCII bytes as `\xXX`; a value that is not there is `-`.
    #[default]
    Default,
    /// As inside a JSON string; a value that is not there is empty.
    Json,
    /// Unchanged; a value that is not there is empty.
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

    /// Appends a value. `write` puts it into the sink; a sink left untouched means that it is not there.
    pub fn append(self, out: &mut Vec<u8>, write: impl FnOnce(&mut ValueSink<'_>)) {
        let mut sink = ValueSink { out, escape: self, written: false };
        write(&mut sink);
        if !sink.written && self == Escape::Default {
            sink.out.push(b'-');
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

    #[test]
    fn values_as_nginx_writes_them() {
        let check = |escape: Escape, write: &dyn Fn(&mut ValueSink<'_>), expected: &str| {
            let mut out = Vec::new();
            escape.append(&mut out, write);
            assert_eq!(String::from_utf8_lossy(&out), expected, "{escape:?}");
        };
        let quoted = |sink: &mut ValueSink<'_>| sink.text(b"a\"b\\c\x01\n\xc3\xa9");
        check(Escape::Default, &|sink| sink.integer(200), "200");
        check(Escape::Default, &|sink| sink.seconds(1_234_567), "1.234");
        check(Escape::Default, &|_| {}, "-");
        check(Escape::Default, &|sink| sink.text(b""), "");
        check(Escape::Json, &|_| {}, "");
        check(Escape::None, &|_| {}, "");
        check(Escape::Default, &quoted, r"a\x22b\x5Cc\x01\x0A\xC3\xA9");
        check(Escape::Json, &quoted, "a\\\"b\\\\c\\u0001\\né");
        check(Escape::None, &quoted, "a\"b\\c\x01\né");
    }
}
