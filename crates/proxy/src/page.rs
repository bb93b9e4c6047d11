//! The page for a bare status. It carries nginx's reason phrase, and the address of APISIX: scripts look for both.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use tidegate_protocol::status;

/// Whether pages name this program alone.
static OWN_NAME: AtomicBool = AtomicBool::new(false);

/// From now on pages name this program alone: for verbs whose users have not asked for APISIX.
pub fn use_own_name() {
    OWN_NAME.store(true, Relaxed);
}

/// The page for a status, with its reason phrase as the title.
pub(crate) fn of_status(status: u16) -> String {
    let phrase = status::reason(status);
    let title = if phrase.is_empty() { status.to_string() } else { format!("{status} {phrase}") };
    html(&title, "", OWN_NAME.load(Relaxed))
}

/// For a client that speaks plain HTTP to a port with TLS, in nginx's words, which other proxies look for.
pub(crate) fn needs_https() -> String {
    let message = "<p>The plain HTTP request was sent to HTTPS port: use https:// for it.</p>";
    html("400 Bad Request", message, OWN_NAME.load(Relaxed))
}

fn html(title: &str, message: &str, own_name: bool) -> String {
    let place = match own_name {
        true => "",
        false => ", compatible with <a href=\"https://apisix.apache.org/\">Apache APISIX</a>",
    };
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head><title>{title}</title></head>\n\
         <body><h1>{title}</h1>{message}<p>Tidegate{place}</p></body>\n</html>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_have_the_phrase_and_the_name() {
        let page = of_status(502);
        assert!(
            page.contains("<h1>502 Bad Gateway</h1>") && page.contains("https://apisix.apache.org/"),
            "{page}"
        );
        assert!(of_status(599).contains("<title>599</title>"));
        assert!(needs_https().contains("plain HTTP request was sent to HTTPS port"));
        assert!(!html("404 Not Found", "", true).contains("APISIX"));
    }
}
