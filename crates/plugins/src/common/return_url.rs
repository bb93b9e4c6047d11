//! Where a browser comes back to after it has been sent away to log in.

use tidegate_plugin_api::location;

/// A longer URL is forgotten during a login; the browser then comes back to `/`.
const LONGEST_URL_BYTES: usize = 2048;

/// The URL within this host.
pub(crate) fn of(target: &[u8]) -> String {
    if target.len() > LONGEST_URL_BYTES || !target.starts_with(b"/") {
        return "/".to_owned();
    }
    String::from_utf8_lossy(&location::on_this_site(target)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_stay_on_this_host() {
        let cases =
            [("/a?b", "/a?b"), ("//evil.test/x", "/evil.test/x"), ("/\\evil.test", "/evil.test"), ("*", "/")];
        for (target, expected) in cases {
            assert_eq!(of(target.as_bytes()), expected);
        }
    }
}
