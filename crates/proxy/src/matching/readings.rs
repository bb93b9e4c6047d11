//! Paths that can be read in two ways: a slash at the end that does not count, and `%2F`, which upstreams may read as a
//! slash or as a part of a segment. The path goes upstream unchanged, so no reading may open what the other one
//! guards.

use std::borrow::Cow;

use tidegate_plugin_api::{Reply, Request};
use tidegate_telemetry::error_log;

use super::input::Input;

/// The path used for routing. With `apisix.delete_uri_tail_slash` that is the one without its last slash if a route is for
/// exactly that path. A pattern with `*` at its end is for paths below: it is matched against the path that goes upstream.
#[inline]
pub(crate) fn routed_path(request: &Request) -> Cow<'_, [u8]> {
    if !request.snapshot.options.delete_uri_tail_slash {
        return Cow::Borrowed(&request.path);
    }
    without_tail_slash(request)
}

#[inline(never)]
fn without_tail_slash(request: &Request) -> Cow<'_, [u8]> {
    let path = &request.path;
    let Some(trimmed) = path.strip_suffix(b"/").filter(|rest| !rest.is_empty()) else {
        return Cow::Borrowed(path);
    };
    let found = request.snapshot.router.find(&Input::new(request, trimmed));
    let is_exact = |pattern: &str| !pattern.rsplit('/').next().unwrap_or_default().contains('*');
    match found {
        Some(found) if is_exact(found.matched_uri) => Cow::Owned(trimmed.to_vec()),
        _ => Cow::Borrowed(path),
    }
}

/// `:name` matches one segment, and a `%2F` may be a part of that segment. A request whose path belongs to one route as it
/// is decoded, and to another one with parameters as it came, is ambiguous: the gateway cannot know which of them the
/// upstream will see.
#[inline]
pub(super) fn has_ambiguous_slash(request: &Request, route: u32) -> bool {
    let options = request.snapshot.options;
    options.uri_parameters && !options.match_uri_encoded_slash && leads_elsewhere(request, route)
}

#[inline(never)]
fn leads_elsewhere(request: &Request, route: u32) -> bool {
    let raw = request.head.raw_path();
    if !raw.windows(3).any(|escape| escape.eq_ignore_ascii_case(b"%2f")) {
        return false;
    }
    let mut path = Vec::new();
    if normalize_with_encoded_slashes(raw, &mut path).is_err() {
        return false;
    }
    let other = request.snapshot.router.find(&Input::new(request, &path));
    other.is_some_and(|other| other.route != route && other.matched_uri.contains(':'))
}

pub(super) fn refuse_encoded_slash(request: &Request) -> Box<Reply> {
    error_log::log(
        error_log::Level::Info,
        format_args!("%2F in the path leads to two routes, client: {}", request.remote_addr),
    );
    Box::new(Reply::page(400))
}

/// Writes the normal form with `%2F` left in it.
pub(super) fn normalize_with_encoded_slashes(raw: &[u8], path: &mut Vec<u8>) -> Result<(), &'static str> {
    tidegate_protocol::uri::normalize_marking_slashes(raw, path)?;
    if path.contains(&tidegate_protocol::uri::MARK) {
        *path = tidegate_protocol::uri::unmarked(path);
    }
    Ok(())
}
