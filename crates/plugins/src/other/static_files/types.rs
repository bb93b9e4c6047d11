//! The media type of a file, by the end of its name.

use std::{borrow::Cow, collections::HashMap};

/// Types that nginx and browsers know, where the registry's list says something else or nothing. The names of JavaScript and
/// YAML are those of RFC 9239 and RFC 9512.
const KNOWN: [(&str, &[&str]); 41] = [
    ("text/javascript", &["js", "mjs"]),
    ("application/yaml", &["yaml", "yml"]),
    ("application/json", &["map"]),
    ("application/manifest+json", &["webmanifest"]),
    ("application/gzip", &["tgz", "gz"]),
    ("application/vnd.apple.mpegurl", &["m3u8"]),
    ("application/wasm", &["wasm"]),
    ("application/java-archive", &["jar", "war", "ear"]),
    ("application/x-x509-ca-cert", &["der", "pem", "crt"]),
    ("application/x-perl", &["pl", "pm"]),
    ("application/x-pilot", &["prc", "pdb"]),
    ("application/x-tcl", &["tcl", "tk"]),
    ("application/x-makeself", &["run"]),
    ("application/x-cocoa", &["cco"]),
    ("application/x-sea", &["sea"]),
    ("application/x-java-archive-diff", &["jardiff"]),
    ("application/x-redhat-package-manager", &["rpm"]),
    ("application/octet-stream", &["bin", "exe", "dll", "deb", "dmg", "iso", "img", "msi", "msp", "msm"]),
    ("application/rtf", &["rtf"]),
    ("application/mac-binhex40", &["hqx"]),
    ("application/postscript", &["ps", "eps", "ai"]),
    ("font/woff", &["woff"]),
    ("font/woff2", &["woff2"]),
    ("font/otf", &["otf"]),
    ("font/ttf", &["ttf"]),
    ("image/avif", &["avif"]),
    ("image/jxl", &["jxl"]),
    ("image/x-icon", &["ico"]),
    ("image/x-ms-bmp", &["bmp"]),
    ("image/x-jng", &["jng"]),
    ("text/xml", &["xml"]),
    ("text/mathml", &["mml"]),
    ("text/x-component", &["htc"]),
    ("audio/midi", &["mid", "midi", "kar"]),
    ("audio/x-m4a", &["m4a"]),
    ("audio/x-realaudio", &["ra"]),
    ("video/mp2t", &["ts"]),
    ("video/3gpp", &["3gpp", "3gp"]),
    ("video/x-m4v", &["m4v"]),
    ("video/x-mng", &["mng"]),
    ("video/x-ms-asf", &["asx", "asf"]),
];

fn known(ending: &str) -> Option<&'static str> {
    KNOWN.iter().find(|(_, endings)| endings.contains(&ending)).map(|(kind, _)| *kind)
}

pub(super) struct Types {
    /// Lower case, without the dot.
    own: HashMap<String, String>,
    default: String,
    charset: String,
}

impl Types {
    pub(super) fn new(own: HashMap<String, String>, default: String, charset: String) -> Types {
        let normal = |ending: String| ending.trim_start_matches('.').to_ascii_lowercase();
        Types {
            own: own.into_iter().map(|(ending, kind)| (normal(ending), kind)).collect(),
            default,
            charset,
        }
    }

    pub(super) fn of(&self, name: &[u8]) -> String {
        let file = name.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        let mut parts = file.rsplitn(2, |&byte| byte == b'.');
        let ending = parts.next().unwrap_or_default();
        // A name without a dot, or with one at its start only, has no ending.
        let ending = if parts.next().is_some_and(|stem| !stem.is_empty()) { ending } else { b"" };
        let ending = String::from_utf8_lossy(ending).to_ascii_lowercase();
        let kind: Cow<str> = match self.own.get(&ending) {
            Some(kind) => kind.into(),
            None => match known(&ending).or_else(|| mime_guess::from_ext(&ending).first_raw()) {
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
        check("a.ts", "video/mp2t");
        check("a.map", "application/json");
        check("a.yaml", "application/yaml");
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
