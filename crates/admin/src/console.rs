//! The console: a page for browsers at `/ui/`, of files that this program carries compressed.
//!
//! It needs no key: what it shows comes from the Admin API, which asks for one. A path is compared with the names of the files as
//! it was sent, and leads to no folder, so that there is nothing to climb out of.

use std::io::Read;

use tidegate_protocol::uri::percent_decode_text;

use crate::{
    documents::{Documents, Holds},
    message::{Head, Response},
};

/// A file as it is built into the program.
pub(crate) struct File {
    /// Below `/ui/`.
    pub path: &'static str,
    kind: &'static str,
    /// For `ETag`, with its quotation marks.
    tag: &'static str,
    /// By brotli.
    packed: &'static [u8],
}

include!(concat!(env!("OUT_DIR"), "/console_files.rs"));

const ROOT: &str = "/ui";

/// The page that every place of the console begins with.
const PAGE: &str = "index.html";

/// Files whose names change with what is in them.
const NAMED_BY_CONTENT: &str = "assets/";

/// No script but its own, no frame around it, no request elsewhere.
const PROTECTION: [(&str, &str); 5] = [
    (
        "Content-Security-Policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; \
         connect-src 'self'; worker-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
    ),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Permissions-Policy", "camera=(), geolocation=(), microphone=()"),
];

/// Whether a path is the console's.
pub(crate) fn owns(path: &str) -> bool {
    path.strip_prefix(ROOT).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The response to a request for a path of the console.
pub(crate) async fn respond(head: &Head, documents: &std::sync::Arc<Documents>) -> Response {
    let mut response = find(head, documents).await;
    response.headers.extend(PROTECTION.map(|(name, value)| (name, value.to_owned())));
    response
}

async fn find(head: &Head, documents: &std::sync::Arc<Documents>) -> Response {
    if !matches!(head.method.as_str(), "GET" | "HEAD") {
        return Response::text(405, "only GET and HEAD\n").with_header("Allow", "GET, HEAD");
    }
    if head.path == ROOT {
        return Response::empty(302).with_header("Location", "/ui/");
    }
    let Some(file) = file_at(&head.path) else { return Response::page(404) };
    let unchanged = head.header("if-none-match").is_some_and(|tags| names(tags, file.tag));
    let mut response = if unchanged { Response::empty(304) } else { content(head, file, documents).await };
    let cache = match file.path.starts_with(NAMED_BY_CONTENT) {
        true => "public, max-age=31536000, immutable",
        false => "no-cache",
    };
    if response.status < 400 {
        let fields = [("ETag", file.tag), ("Cache-Control", cache), ("Vary", "Accept-Encoding")];
        response.headers.extend(fields.map(|(name, value)| (name, value.to_owned())));
    }
    response
}

async fn content(head: &Head, file: &'static File, documents: &std::sync::Arc<Documents>) -> Response {
    let response = if takes_brotli(head) {
        let packed = Response { body: file.packed.into(), ..Response::empty(200) };
        packed.with_header("Content-Encoding", "br")
    } else {
        // Browsers take brotli: this is for other programs. Those who ask at the same time share what is unpacked.
        let question = format!("console {}", file.path);
        documents.get(question, Holds::AtRevision(0), || unpacked(file)).await
    };
    match response.status {
        200 => response.with_header("Content-Type", file.kind),
        _ => response,
    }
}

fn unpacked(file: &File) -> Response {
    let mut bytes = Vec::new();
    match brotli_decompressor::Decompressor::new(file.packed, 64 * 1024).read_to_end(&mut bytes) {
        Ok(_) => Response { body: bytes.into(), ..Response::empty(200) },
        Err(_) => Response::page(500),
    }
}

/// The file that a path names; places of the console, which the page itself shows, have its page.
fn file_at(path: &str) -> Option<&'static File> {
    let name = path.strip_prefix(ROOT)?.strip_prefix('/')?;
    let named = |wanted: &str| FILES.iter().find(|file| file.path == wanted);
    match named(name) {
        Some(file) => Some(file),
        None if name.starts_with(NAMED_BY_CONTENT) || is_trick(name) => None,
        None => named(PAGE),
    }
}

/// Names that the console never makes, and that a proxy in front may read as another path.
fn is_trick(name: &str) -> bool {
    let decoded = percent_decode_text(name, false);
    let climbs = |path: &str| path.split('/').any(|part| part == "." || part == "..");
    let twice = percent_decode_text(&decoded, false);
    decoded.contains(|letter: char| letter.is_control() || letter == '\\')
        || name.split('/').rev().skip(1).any(str::is_empty)
        || climbs(&decoded)
        || climbs(&twice)
}

fn names(tags: &str, own: &str) -> bool {
    let mut tags = tags.split(',').map(|tag| tag.trim().trim_start_matches("W/"));
    tags.any(|tag| tag == own || tag == "*")
}

fn takes_brotli(head: &Head) -> bool {
    let offered = head.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("accept-encoding"));
    let mut codings = offered.flat_map(|(_, value)| value.split(','));
    codings.any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        let is_brotli = parts.next().is_some_and(|name| name.eq_ignore_ascii_case("br"));
        let weight = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
        let refused =
            weight.is_some_and(|weight| weight.trim().parse::<f32>().is_ok_and(|weight| weight <= 0.0));
        is_brotli && !refused
    })
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::digest::{SHA256, digest};
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::{finish, request};

    const LIST: &str = include_str!("../../../web/dist/files.json");

    /// `make ui` writes both; a file that is changed by hand is found here.
    #[test]
    fn the_files_are_those_of_the_list() {
        let list: Value = serde_json::from_str(LIST).expect("JSON");
        let list = list.as_array().expect("a list");
        assert_eq!(list.len(), FILES.len());
        for (listed, file) in list.iter().zip(FILES) {
            assert_eq!((&listed["path"], &listed["type"]), (&json!(file.path), &json!(file.kind)));
            let plain = unpacked(file).body;
            let sum = digest(&SHA256, &plain);
            let sum: String = sum.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(listed["sha256"], json!(sum), "{}", file.path);
            assert_eq!(listed["bytes"], json!(plain.len()), "{}", file.path);
            assert_eq!(listed["brotli"], json!(file.packed.len()), "{}", file.path);
        }
        assert!(FILES.iter().any(|file| file.path == PAGE));
        let carried: usize = FILES.iter().map(|file| file.packed.len()).sum();
        assert!(carried <= 1 << 20, "the program grows by {carried} bytes");
    }

    fn ask(method: &str, path: &str, fields: &[(&str, &str)]) -> Response {
        let mut request = request(method, path, "");
        request.head.headers = fields.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let documents = Documents::new("Admin API", 1 << 20);
        finish(async { respond(&request.head, &documents).await })
    }

    fn field<'a>(response: &'a Response, name: &str) -> &'a str {
        let found = response.headers.iter().find(|(other, _)| *other == name);
        found.map_or("", |(_, value)| value)
    }

    #[test]
    fn names_that_lead_elsewhere_lead_nowhere() {
        for path in [
            "/ui/../apisix/admin/routes",
            "/ui/..",
            "/ui/%2e%2e/x",
            "/ui/%2E%2E%2Fdata/admin.key",
            "/ui/..%2fdata",
            "/ui/%252e%252e/x",
            "/ui/./x",
            "/ui/..%5cx",
            "/ui/..\\x",
            "/ui/index.html%00",
            "/ui/%00",
            "/ui//etc/passwd",
            "/ui/assets/none.js",
            "/ui/assets/../index.html",
            "/ui/assets/%2e%2e/index.html",
            "/ui/assets",
        ] {
            let expected = if path == "/ui/assets" { 200 } else { 404 };
            let response = ask("GET", path, &[("accept-encoding", "br")]);
            assert_eq!(response.status, expected, "{path}");
            assert!(field(&response, "Content-Security-Policy").contains("frame-ancestors 'none'"), "{path}");
        }
        assert!(!owns("/uix") && !owns("/UI/") && owns("/ui") && owns("/ui/"));
    }

    #[test]
    fn files_are_sent_as_they_are_asked_for() {
        let page = FILES.iter().find(|file| file.path == PAGE).expect("the page");
        for (codings, packed) in
            [("gzip, deflate, br", true), ("br;q=0.5", true), ("br;q=0", false), ("gzip", false), ("", false)]
        {
            let response = ask("GET", "/ui/", &[("accept-encoding", codings)]);
            assert_eq!(response.status, 200, "{codings}");
            assert_eq!(field(&response, "Content-Encoding") == "br", packed, "{codings}");
            assert_eq!(response.body == page.packed, packed, "{codings}");
            assert_eq!(field(&response, "Vary"), "Accept-Encoding");
        }
        let tag = page.tag;
        for tags in [tag.to_owned(), format!("W/{tag}"), format!("\"a\", {tag}"), "*".to_owned()] {
            let response = ask("GET", "/ui/routes/a%20b", &[("if-none-match", &tags)]);
            assert_eq!((response.status, response.body.len()), (304, 0), "{tags}");
            assert_eq!((field(&response, "ETag"), field(&response, "Cache-Control")), (tag, "no-cache"));
        }
        let script = FILES.iter().find(|file| file.path.ends_with(".js")).expect("a script");
        let response = ask("GET", &format!("/ui/{}", script.path), &[]);
        assert_eq!(field(&response, "Cache-Control"), "public, max-age=31536000, immutable");
        assert_eq!(field(&response, "Content-Type"), "text/javascript; charset=utf-8");
        let away = ask("GET", "/ui", &[]);
        assert_eq!((away.status, field(&away, "Location")), (302, "/ui/"));
        assert_eq!(ask("POST", "/ui/", &[]).status, 405);
    }
}
