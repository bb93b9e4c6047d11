//! A look at the text of a module, without running it: what it requires, and what of it is not available here.

/// Modules of the gateway. `tidegate` makes each in `lua/prelude.lua` or `lua/modules.lua`; a test compares.
pub const OFFERED: &[&str] = &[
    "apisix.consumer",
    "apisix.core",
    "apisix.core.config_local",
    "apisix.core.ctx",
    "apisix.core.env",
    "apisix.core.ip",
    "apisix.core.id",
    "apisix.core.json",
    "apisix.core.log",
    "apisix.core.lrucache",
    "apisix.core.math",
    "apisix.core.request",
    "apisix.core.response",
    "apisix.core.schema",
    "apisix.core.string",
    "apisix.core.table",
    "apisix.core.timer",
    "apisix.core.utils",
    "apisix.core.version",
    "apisix.plugin",
    "apisix.schema_def",
    "apisix.timers",
    "bit",
    "cjson",
    "cjson.safe",
    "coroutine",
    "lyaml",
    "math",
    "net.url",
    "ngx",
    "ngx.base64",
    "ngx.errlog",
    "ngx.re",
    "ngx.req",
    "ngx.resp",
    "os",
    "pl.stringx",
    "resty.http",
    "resty.hmac",
    "resty.ipmatcher",
    "resty.jit-uuid",
    "resty.lrucache",
    "resty.md5",
    "resty.random",
    "resty.sha1",
    "resty.sha256",
    "resty.sha512",
    "resty.string",
    "string",
    "table",
    "table.clear",
    "table.clone",
    "table.isarray",
    "table.isempty",
    "table.new",
    "table.nkeys",
    "tinyyaml",
];

/// What modules of APISIX and OpenResty say and the sandbox does not have.
const ABSENT: &[(&str, &str)] = &[
    ("io.", "files are not available"),
    ("os.execute", "no program is started"),
    ("os.exit", "the process goes on"),
    ("os.remove", "files are not available"),
    ("os.rename", "files are not available"),
    ("os.tmpname", "files are not available"),
    ("os.setlocale", "the locale cannot be changed"),
    ("ffi.", "C is not available"),
    ("jit.", "the compiler is off"),
    ("debug.", "the debugger is not available"),
    ("dofile", "no other file is run"),
    ("loadfile", "no other file is run"),
    ("collectgarbage", "memory is managed by the gateway"),
    ("newproxy", "finalizers are not available"),
    ("package.loadlib", "C is not available"),
    ("ngx.socket.", "sockets are not available: use resty.http"),
    ("ngx.location.capture", "locations are not available: use resty.http"),
    ("ngx.exec", "locations are not available"),
    ("ngx.thread.", "light threads are not available: use ngx.timer.at"),
    ("ngx.semaphore", "light threads are not available"),
    ("ngx.req.socket", "sockets are not available"),
    ("ngx.req.raw_header", "use ngx.req.get_headers"),
    ("ngx.req.init_body", "use ngx.req.set_body_data"),
    ("ngx.req.append_body", "use ngx.req.set_body_data"),
    ("ngx.req.finish_body", "use ngx.req.set_body_data"),
    ("ngx.req.set_body_file", "files are not available"),
    ("ngx.on_abort", "a request whose client left ends by itself"),
    ("ngx.crc32_", "use a digest of resty"),
    ("ngx.ssl", "certificates are objects of the Admin API"),
    ("core.etcd.", "objects are written with the Admin API"),
    ("core.config.new", "objects are written with the Admin API"),
    ("core.io.", "files are not available"),
    ("core.os.", "no program is started"),
    ("core.resolver.", "names are resolved by resty.http"),
    ("core.pubsub.", "WebSockets are not available to Lua"),
    ("core.event.", "events are not available"),
    ("core.profile.", "use core.config.local_conf()"),
];

/// Something in a text, and its line.
#[derive(Debug, PartialEq, Eq)]
pub struct Remark {
    /// From 1 on.
    pub line: usize,
    /// What is not available, and what to do.
    pub text: String,
}

/// The modules that calls of `require` name with a text, and the lines of the calls.
pub fn required(text: &[u8]) -> impl Iterator<Item = (String, usize)> {
    let mut found = Vec::new();
    for (line, words) in Code::of(text, true).lines() {
        let mut rest = words;
        while let Some(at) = position(rest, "require") {
            rest = rest.get(at + "require".len()..).unwrap_or_default();
            found.extend(quoted(rest).map(|name| (name, line)));
        }
    }
    found.into_iter()
}

/// What the module cannot have here. `is_there`: whether a file has the module of that name.
pub fn remarks(text: &[u8], is_there: impl Fn(&str) -> bool) -> Vec<Remark> {
    let mut found: Vec<Remark> = required(text)
        .filter(|(name, _)| !OFFERED.contains(&name.as_str()) && !is_there(name))
        .map(|(name, line)| Remark { line, text: format!("module {name} is not available") })
        .collect();
    for (line, words) in Code::of(text, false).lines() {
        for (name, why) in ABSENT.iter().filter(|(name, _)| position(words, name).is_some()) {
            found.push(Remark {
                line,
                text: format!("{} is not available: {why}", name.trim_end_matches('.')),
            });
        }
    }
    found.sort_by_key(|remark| remark.line);
    found
}

/// The first line that has a word, outside of comments.
pub(crate) fn line_of(text: &[u8], word: &str) -> Option<usize> {
    let is_part = |sign: Option<char>| sign.is_some_and(|sign| sign.is_ascii_alphanumeric() || sign == '_');
    let has = |words: &str| {
        words.match_indices(word).any(|(at, _)| {
            let before = words.get(..at).and_then(|text| text.chars().next_back());
            let after = words.get(at + word.len()..).and_then(|text| text.chars().next());
            !is_part(before) && !is_part(after)
        })
    };
    Code::of(text, true).lines().find(|(_, words)| has(words)).map(|(line, _)| line)
}

/// Where a word begins that is not part of another one.
fn position(text: &str, word: &str) -> Option<usize> {
    let is_part = |sign: char| sign.is_ascii_alphanumeric() || matches!(sign, '_' | '.' | ':');
    text.match_indices(word)
        .map(|(at, _)| at)
        .find(|at| !text.get(..*at).and_then(|before| before.chars().next_back()).is_some_and(is_part))
}

/// The text in quotes that a call begins with: `("a.b")` or `"a.b"`.
fn quoted(text: &str) -> Option<String> {
    let text = text.trim_start();
    let text = text.strip_prefix('(').unwrap_or(text).trim_start();
    let quote = text.chars().next().filter(|sign| matches!(sign, '"' | '\''))?;
    let inner = text.get(1..)?;
    Some(inner.get(..inner.find(quote)?)?.to_owned()).filter(|name| !name.is_empty() && name.len() <= 256)
}

/// A text without its comments, with its texts in quotes or without; the lines stay.
pub(super) struct Code(String);

impl Code {
    pub(super) fn of(text: &[u8], with_texts: bool) -> Code {
        let text = String::from_utf8_lossy(text);
        let mut code = String::with_capacity(text.len());
        let mut rest = text.as_ref();
        while let Some(sign) = rest.chars().next() {
            let (length, is_left_out) = match sign {
                '-' if rest.starts_with("--") => (comment(rest), true),
                '"' | '\'' => (short(rest, sign), !with_texts),
                '[' => long(rest).map_or((1, false), |length| (length, !with_texts)),
                sign => (sign.len_utf8(), false),
            };
            let (part, after) = rest.split_at(length.clamp(1, rest.len()));
            match is_left_out {
                true => code.extend(part.chars().filter(|sign| *sign == '\n')),
                false => code.push_str(part),
            }
            rest = after;
        }
        Code(code)
    }

    pub(super) fn text(&self) -> &str {
        &self.0
    }

    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.0.lines())
    }
}

/// The length of a comment, without the end of its line.
fn comment(text: &str) -> usize {
    let block = text.get(2..).and_then(long).map(|length| length + 2);
    block.unwrap_or_else(|| text.find('\n').unwrap_or(text.len()))
}

/// The length of a text in quotes.
fn short(text: &str, quote: char) -> usize {
    let mut signs = text.char_indices().skip(1);
    while let Some((at, sign)) = signs.next() {
        match sign {
            '\\' => drop(signs.next()),
            sign if sign == quote => return at + 1,
            // It is not finished: the line's end ends it.
            '\n' => return at,
            _ => {}
        }
    }
    text.len()
}

/// The length of a text in long brackets, `None` where there is none.
fn long(text: &str) -> Option<usize> {
    let inner = text.strip_prefix('[')?;
    let level = inner.bytes().take_while(|byte| *byte == b'=').count();
    inner.get(level..)?.strip_prefix('[')?;
    let close = format!("]{}]", "=".repeat(level));
    Some(text.find(&close).map_or(text.len(), |at| at + close.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_text_requires_and_lacks() {
        let text = b"local core = require(\"apisix.core\") -- require('no')\n\
            local s = 'require(\"x\")' --[[ io.open\n ffi.new ]] local r = require 'my.redis'\n\
            local f = io.open('/etc/passwd')\nlocal audio.open = 1\n--[==[ debug.x ]==]\nngx.socket.tcp()\n";
        let names: Vec<_> = required(text).collect();
        assert_eq!(names[0], ("apisix.core".to_owned(), 1));
        assert!(names.contains(&("my.redis".to_owned(), 3)), "{names:?}");
        assert!(!names.iter().any(|(name, _)| name == "no"));
        let lines: Vec<usize> = remarks(text, |name| name == "x").iter().map(|remark| remark.line).collect();
        assert_eq!(lines, [3, 4, 7]);
    }
}
