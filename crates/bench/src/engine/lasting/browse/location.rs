//! Where a redirect leads (RFC 3986 section 5.2), if it stays on the server.

use crate::target::Origin;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// Path and query on this server.
    Here(Vec<u8>),
    Elsewhere,
    /// Nothing that could be asked for.
    Unusable,
}

/// `current` is the target of the request that was answered.
pub(super) fn resolve(origin: &Origin, current: &[u8], location: &[u8]) -> Target {
    let Ok(text) = std::str::from_utf8(location) else { return Target::Unusable };
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Target::Unusable;
    }
    let text = text.split('#').next().unwrap_or_default();
    let scheme = text.split_once(':').map(|(scheme, _)| scheme);
    let has_scheme = scheme.is_some_and(|scheme| scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    let absolute = if text.starts_with("//") {
        Some(format!("{}:{text}", if origin.tls { "https" } else { "http" }))
    } else {
        has_scheme.then(|| text.to_owned())
    };
    if let Some(url) = absolute {
        return match Origin::parse(&url) {
            Ok((found, path)) if is_same(origin, &found) => Target::Here(tidy(&path).into_bytes()),
            _ => Target::Elsewhere,
        };
    }
    let current = String::from_utf8_lossy(current);
    let path = current.split('?').next().unwrap_or_default();
    Target::Here(match text.chars().next() {
        Some('/') => tidy(text).into_bytes(),
        Some('?') => format!("{path}{text}").into_bytes(),
        None => current.into_owned().into_bytes(),
        Some(_) => {
            let folder = path.rfind('/').and_then(|at| path.get(..=at)).unwrap_or("/");
            tidy(&format!("{folder}{text}")).into_bytes()
        }
    })
}

fn is_same(one: &Origin, other: &Origin) -> bool {
    one.tls == other.tls && one.port == other.port && one.host.eq_ignore_ascii_case(&other.host)
}

/// Without the segments `.` and `..`.
fn tidy(target: &str) -> String {
    let (path, query) = match target.find('?') {
        Some(at) => target.split_at(at),
        None => (target, ""),
    };
    let mut kept: Vec<&str> = Vec::new();
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    for (at, &segment) in segments.iter().enumerate() {
        let is_last = at + 1 == segments.len();
        if segment == ".." {
            kept.pop();
        }
        match segment {
            "." | ".." if is_last => kept.push(""),
            "." | ".." => {}
            _ => kept.push(segment),
        }
    }
    format!("/{}{query}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_stay_or_leave() {
        let (origin, _) = Origin::parse("http://a.test:8080/").expect("good");
        let here = |target: &str| Target::Here(target.as_bytes().to_vec());
        let cases = [
            ("/b?c", here("/b?c")),
            ("c", here("/x/c")),
            ("../c/./d", here("/c/d")),
            ("..", here("/")),
            ("?q=1", here("/x/y?q=1")),
            ("#top", here("/x/y?z")),
            ("http://A.test:8080/p#f", here("/p")),
            ("http://a.test:8080?q", here("/?q")),
            ("//a.test:8080/p", here("/p")),
            ("/p?u=http://b.test/", here("/p?u=http://b.test/")),
            ("/{{seq}}", here("/{{seq}}")),
            ("http://a.test/", Target::Elsewhere),
            ("https://a.test:8080/", Target::Elsewhere),
            ("//b.test/", Target::Elsewhere),
            ("http://a.test:8080@b.test/", Target::Elsewhere),
            ("mailto:x@a.test", Target::Elsewhere),
            ("", Target::Unusable),
            ("/a b", Target::Unusable),
            ("/a\u{7f}", Target::Unusable),
        ];
        for (location, expected) in cases {
            assert_eq!(resolve(&origin, b"/x/y?z", location.as_bytes()), expected, "{location}");
        }
    }
}
