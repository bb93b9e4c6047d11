//! `%2F` with `apisix.match_uri_encoded_slash`: such a slash is still encoded in the path that routes and plugins see, and looks
//! there like the text that a client has written as `%252F`. The path that is sent must distinguish them.

use std::borrow::Cow;

use tidegate_protocol::uri::{MARK, normalize_marking_slashes, unmarked};

use crate::Request;

const WRITTEN: &[u8] = b"%2F";

/// The kinds of `%2F` in a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slashes {
    /// A text of the client's.
    Text,
    /// A slash that the client has encoded.
    Encoded,
    /// There are both: which of them a piece of the path has is not known.
    Mixed,
}

impl Request {
    /// The path with a [`MARK`] for each slash that is still encoded.
    pub fn marked_path(&self) -> Cow<'_, [u8]> {
        if !self.snapshot.options.match_uri_encoded_slash || !has_written(&self.path) {
            return Cow::Borrowed(&self.path);
        }
        let mut marked = Vec::with_capacity(self.path.len());
        // If the path was made in another way, it has no such slashes.
        match normalize_marking_slashes(self.head.raw_path(), &mut marked) {
            Ok(()) if unmarked(&marked) == self.path => Cow::Owned(marked),
            _ => Cow::Borrowed(&self.path),
        }
    }

    /// The kinds of `%2F` in pieces of the path.
    pub fn slashes(&self) -> Slashes {
        let marked = self.marked_path();
        match (marked.contains(&MARK), has_written(&marked)) {
            (true, true) => Slashes::Mixed,
            (true, false) => Slashes::Encoded,
            (false, _) => Slashes::Text,
        }
    }

    /// The path for code that decides by its text: `%2F` is a slash that the client has encoded, `%252F` its text
    /// `%2F`.
    pub fn unambiguous_path(&self) -> Cow<'_, [u8]> {
        if !self.snapshot.options.match_uri_encoded_slash || !has_written(&self.path) {
            return Cow::Borrowed(&self.path);
        }
        let marked = self.marked_path();
        let mut path = Vec::with_capacity(marked.len() + 8);
        let mut rest = &marked[..];
        while let Some((first, behind)) = rest.split_first() {
            match rest.strip_prefix(WRITTEN) {
                Some(after) => {
                    path.extend_from_slice(b"%252F");
                    rest = after;
                    continue;
                }
                None if *first == MARK => path.extend_from_slice(WRITTEN),
                None => path.push(*first),
            }
            rest = behind;
        }
        Cow::Owned(path)
    }

    /// The path and the query as a request target, percent-encoded where a path requires it. Services that decide on the
    /// request get this form, so that they judge the same path as routes and plugins.
    pub fn canonical_target(&self) -> Vec<u8> {
        self.target_with(&self.marked_path())
    }

    /// As [`Request::canonical_target`], with another path, marked.
    pub fn target_with(&self, marked_path: &[u8]) -> Vec<u8> {
        let mut target = Vec::with_capacity(marked_path.len() + 16);
        tidegate_protocol::uri::encode_marked_path(marked_path, &mut target);
        if let Some(query) = self.head.query() {
            target.push(b'?');
            target.extend_from_slice(query);
        }
        target
    }
}

fn has_written(path: &[u8]) -> bool {
    memchr::memmem::find(path, WRITTEN).is_some()
}
