//! The media type of a file, by the end of its name.

use std::{borrow::Cow, collections::HashMap};

pub struct Types {
    /// Lower case, without the dot.
    own: HashMap<String, String>,
    default: String,
    charset: String,
}

impl Types {
    pub fn new(own: HashMap<String, String>, default: String, charset: String) -> Types {
        let normal = |ending: String| ending.trim_start_matches('.').to_ascii_lowercase();
        Types {
            own: own.into_iter().map(|(ending, kind)| (normal(ending), kind)).collect(),
            default,
            charset,
        }
    }

    pub fn of(&self, name: &[u8]) -> String {
        let file = name.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        let mut parts = file.rsplitn(2, |&byte| byte == b'.');
        let ending = parts.next().unwrap_or_default();
        // A name without a dot, or with one at its start only, has no ending.
        let ending = if parts.next().is_some_and(|stem| !stem.is_empty()) { ending } else { b"" };
        let ending = String::from_utf8_lossy(ending).to_ascii_lowercase();
        let kind: Cow<str> = match self.own.get(&ending) {
            Some(kind) => kind.into(),
            None => match mime_guess::from_ext(&ending).first_raw() {
                // RFC 9239: one name for all of JavaScript.
                Some("application/javascript") => "text/javascript".into(),
                Some(kind) => kind.into(),
                None => self.default.as_str().into(),
            },
        };
        if self.charset.is_empty() || !kind.starts_with("text/") || kind.contains(';') {
            return kind.into_owned();
        }
        format!("{kind}; charset={}", self.charset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_name_types() {
        let own = [(".Foo".to_owned(), "application/x-foo".to_owned())];
        let types = Types::new(own.into(), "application/octet-stream".to_owned(), "utf-8".to_owned());
        let check = |name: &str, expected: &str| assert_eq!(types.of(name.as_bytes()), expected, "{name}");
        check("index.html", "text/html; charset=utf-8");
        check("a/b.CSS", "text/css; charset=utf-8");
        check("app.js", "text/javascript; charset=utf-8");
        check("module.mjs", "text/javascript; charset=utf-8");
        check("a.json", "application/json");
        check("a.svg", "image/svg+xml");
        check("a.webp", "image/webp");
        check("a.wasm", "application/wasm");
        check("a.woff2", "font/woff2");
        check("a.tar.gz", "application/gzip");
        check("a.foo", "application/x-foo");
        check("a.d/README", "application/octet-stream");
        check(".html", "application/octet-stream");
        check("unknown.zzzz", "application/octet-stream");
        let none = Types::new(HashMap::new(), "text/plain".to_owned(), String::new());
        assert_eq!(none.of(b"a.txt"), "text/plain");
    }
}
