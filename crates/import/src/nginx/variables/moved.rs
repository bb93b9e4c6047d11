//! Which variables a rewrite or a redirect within the server changes.

/// Stands for all arguments that are not named.
pub(super) const ANY_ARGUMENT: &str = "arg_";

pub(super) const PATHS: [&str; 2] = ["uri", "document_uri"];
const QUERIES: [&str; 3] = ["args", "query_string", "is_args"];

/// What a request has that is not the client's.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moved {
    pub path: bool,
    pub query: bool,
}

impl Moved {
    /// By nginx's name or by ours.
    pub(crate) fn has(self, name: &str) -> bool {
        let name = name.to_ascii_lowercase();
        let name = name.strip_prefix("raw_").unwrap_or(&name);
        (self.path && PATHS.contains(&name))
            || (self.query && (QUERIES.contains(&name) || name.starts_with(ANY_ARGUMENT)))
    }
}
