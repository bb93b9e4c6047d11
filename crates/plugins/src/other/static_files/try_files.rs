//! The names that are tried for a path.

use super::path;

/// One of `try_files`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Try {
    /// Text around the path, and whether it must be a directory.
    Name { before: Box<str>, with_path: bool, after: Box<str>, directory: bool },
    /// `=404`
    Status(u16),
    /// `@upstream`: proxied when no file was found.
    Upstream,
}

impl Try {
    /// `$uri`, `$uri/`, `$uri.html`, `/index.html`, `=404`, `@upstream`.
    pub(super) fn parse(text: &str) -> Result<Try, String> {
        if let Some(code) = text.strip_prefix('=') {
            return match code.parse() {
                Ok(code @ 200..=599) => Ok(Try::Status(code)),
                _ => Err(format!(
                    "try_files: {text} is not a status; give =404 or another one from 200 to 599"
                )),
            };
        }
        if text == "@upstream" {
            return Ok(Try::Upstream);
        }
        let (before, after, with_path) = match text.split_once("$uri") {
            Some((before, after)) => (before, after, true),
            None => (text, "", false),
        };
        if before.contains('$') || after.contains('$') {
            return Err(format!(
                "try_files: {text}: $uri is the only variable, and may occur once in a name"
            ));
        }
        if !path::is_safe(before.trim_start_matches('/').as_bytes(), true) {
            return Err(format!("try_files: {text} does not name something below the root"));
        }
        let directory = text.ends_with('/');
        Ok(Try::Name {
            before: before.into(),
            with_path,
            after: after.trim_end_matches('/').into(),
            directory,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_try_files() {
        let name = |before: &str, with_path, after: &str, directory| Try::Name {
            before: before.into(),
            with_path,
            after: after.into(),
            directory,
        };
        assert_eq!(Try::parse("$uri").unwrap(), name("", true, "", false));
        assert_eq!(Try::parse("$uri/").unwrap(), name("", true, "", true));
        assert_eq!(Try::parse("$uri.html").unwrap(), name("", true, ".html", false));
        assert_eq!(Try::parse("/app/index.html").unwrap(), name("/app/index.html", false, "", false));
        assert_eq!(Try::parse("=404").unwrap(), Try::Status(404));
        for bad in ["=40", "=abc", "$uri$args", "$host/x", "../x", "/a/../../x", "$uri/$uri"] {
            assert!(Try::parse(bad).is_err(), "{bad}");
        }
    }
}
