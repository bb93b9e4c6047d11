//! Cookies of one server (RFC 6265). As all requests go to the same host, what differs is the path.

use std::time::{Duration, SystemTime};

/// What browsers keep at least for one host.
const MAX_COOKIES: usize = 50;
const MAX_BYTES: usize = 4096;

#[derive(Debug, Default)]
pub(crate) struct Jar {
    cookies: Vec<Cookie>,
}

#[derive(Debug)]
struct Cookie {
    name: String,
    value: String,
    path: String,
    secure: bool,
    /// `None`: with the jar.
    until: Option<SystemTime>,
}

impl Jar {
    /// Takes one `Set-Cookie` in the answer to a request for `path`: whether there is a cookie now.
    pub(super) fn set(&mut self, field: &[u8], host: &str, path: &[u8]) -> bool {
        let Some(cookie) = Cookie::parse(field, host, path) else { return false };
        self.cookies.retain(|one| one.name != cookie.name || one.path != cookie.path);
        if cookie.is_over(SystemTime::now()) {
            return false;
        }
        if self.cookies.len() == MAX_COOKIES {
            self.cookies.remove(0);
        }
        self.cookies.push(cookie);
        true
    }

    /// The value of `Cookie` for a path, longer paths first; `None` where no cookie belongs there.
    pub(super) fn field(&mut self, path: &[u8], is_tls: bool) -> Option<Vec<u8>> {
        if self.cookies.is_empty() {
            return None;
        }
        let (now, path) = (SystemTime::now(), String::from_utf8_lossy(path));
        self.cookies.retain(|cookie| !cookie.is_over(now));
        let belongs = |cookie: &&Cookie| (is_tls || !cookie.secure) && matches(&path, &cookie.path);
        let mut all: Vec<&Cookie> = self.cookies.iter().filter(belongs).collect();
        all.sort_by_key(|cookie| std::cmp::Reverse(cookie.path.len()));
        let pairs: Vec<String> =
            all.iter().map(|cookie| format!("{}={}", cookie.name, cookie.value)).collect();
        (!pairs.is_empty()).then(|| pairs.join("; ").into_bytes())
    }
}

impl Cookie {
    fn parse(field: &[u8], host: &str, path: &[u8]) -> Option<Cookie> {
        let text = std::str::from_utf8(field).ok().filter(|text| text.len() <= MAX_BYTES)?;
        let mut parts = text.split(';');
        let (name, value) = parts.next()?.split_once('=')?;
        let mut cookie = Cookie {
            name: name.trim().to_owned(),
            value: value.trim().to_owned(),
            path: folder(&String::from_utf8_lossy(path)).to_owned(),
            secure: false,
            until: None,
        };
        let mut lasts = None;
        for part in parts {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let (name, value) = (name.trim().to_ascii_lowercase(), value.trim());
            match name.as_str() {
                "path" if value.starts_with('/') => cookie.path = value.to_owned(),
                "domain" if !is_within(host, value.trim_start_matches('.')) => return None,
                "secure" => cookie.secure = true,
                "max-age" => lasts = value.parse::<i64>().ok(),
                // Old servers write dashes into the date.
                "expires" => cookie.until = httpdate::parse_http_date(&value.replace('-', " ")).ok(),
                _ => {}
            }
        }
        if let Some(seconds) = lasts {
            let seconds = u64::try_from(seconds).unwrap_or(0);
            cookie.until = SystemTime::now().checked_add(Duration::from_secs(seconds));
        }
        (!cookie.name.is_empty() && text.bytes().all(|byte| byte >= b' ' && byte != 0x7f)).then_some(cookie)
    }

    fn is_over(&self, now: SystemTime) -> bool {
        self.until.is_some_and(|until| until <= now)
    }
}

fn is_within(host: &str, domain: &str) -> bool {
    let (host, domain) = (host.to_ascii_lowercase(), domain.to_ascii_lowercase());
    domain.is_empty() || host == domain || host.ends_with(&format!(".{domain}"))
}

/// Where a cookie without a path belongs.
fn folder(path: &str) -> &str {
    path.rfind('/').filter(|&at| at > 0).and_then(|at| path.get(..at)).unwrap_or("/")
}

fn matches(path: &str, of_cookie: &str) -> bool {
    let rest = path.strip_prefix(of_cookie);
    rest.is_some_and(|rest| rest.is_empty() || of_cookie.ends_with('/') || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(fields: &[&str], path: &str) -> Option<String> {
        let mut jar = Jar::default();
        for field in fields {
            jar.set(field.as_bytes(), "www.a.test", b"/shop/cart");
        }
        jar.field(path.as_bytes(), false).map(|text| String::from_utf8(text).expect("text"))
    }

    #[test]
    fn cookies_go_where_they_belong() {
        let check = |fields: &[&str], path: &str, expected: Option<&str>| {
            assert_eq!(sent(fields, path).as_deref(), expected, "{fields:?} {path}");
        };
        check(&["a=1"], "/shop/x", Some("a=1"));
        check(&["a=1"], "/shopping", None);
        check(&["a=1; Path=/", "b=2"], "/shop", Some("b=2; a=1"));
        check(&["a=1", "a=2; HttpOnly; SameSite=Lax"], "/shop/", Some("a=2"));
        check(&["a=1; Secure"], "/shop/", None);
        check(&["a=1", "a=1; Max-Age=0"], "/shop/", None);
        check(&["a=1", "a=; Expires=Thu, 01-Jan-1970 00:00:00 GMT"], "/shop/", None);
        check(&["a=1; Max-Age=60; Expires=Thu, 01 Jan 1970 00:00:00 GMT"], "/shop/", Some("a=1"));
        check(&["a=1; Domain=.a.test", "b=2; Domain=b.test", "nonsense"], "/shop/", Some("a=1"));
        check(&["a=x\u{1}y"], "/shop/", None);
    }
}
