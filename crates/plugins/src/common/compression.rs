//! What the compressing plugins share: which responses they take, and how the head changes.

pub mod memory;

use serde::Deserialize;
use serde_json::Value;
use tidegate_plugin_api::Request;
use tidegate_protocol::{HeaderId, Version, content_coding};

/// The fields that `gzip` and `brotli` have in common.
#[derive(Deserialize)]
pub struct Conf {
    types: Value,
    min_length: u64,
    http_version: f64,
    #[serde(default)]
    vary: bool,
}

/// Types that no answer has.
pub(crate) fn remarks(conf: &Value) -> Vec<String> {
    let types = conf.get("types").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let never = types.filter(|one| one.contains(['*', ';']));
    never
        .map(|one| {
            format!(
                "types: {one} compresses nothing: media types are compared as a whole, without parameters; types \"*\" in place of \
                 the list is all of them"
            )
        })
        .collect()
}

pub(crate) struct Eligible {
    /// `None`: any.
    types: Option<Vec<String>>,
    /// Bytes; counts only where the length is known.
    min_length: u64,
    min_version: Version,
    vary: bool,
}

impl Eligible {
    pub(crate) fn new(conf: &Conf) -> Eligible {
        let list = |types: &Vec<Value>| types.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        Eligible {
            types: conf.types.as_array().map(list),
            min_length: conf.min_length,
            min_version: if conf.http_version < 1.1 { Version::Http10 } else { Version::Http11 },
            vary: conf.vary,
        }
    }

    pub(crate) fn accepts(&self, request: &Request) -> bool {
        let headers = &request.response.headers;
        let Some(content_type) = headers.known(HeaderId::ContentType) else { return false };
        let media_type = content_type.split(|&byte| byte == b';').next().unwrap_or_default();
        let type_fits =
            |types: &Vec<String>| types.iter().any(|one| one.as_bytes().eq_ignore_ascii_case(media_type));
        let length = headers.known(HeaderId::ContentLength);
        let length = length.and_then(|length| std::str::from_utf8(length).ok()?.parse::<u64>().ok());
        self.types.as_ref().is_none_or(type_fits)
            && length.is_none_or(|length| length >= self.min_length)
            && request.head.version >= self.min_version
            && headers.known(HeaderId::ContentEncoding).is_none()
            && request.head.method != tidegate_protocol::Method::Head
    }

    /// Describes the compressed body in the head.
    pub(crate) fn announce(&self, request: &mut Request, coding: &str) {
        if self.vary {
            request.response.headers.add("Vary", "Accept-Encoding");
        }
        request.response.length_modified();
        let headers = &mut request.response.headers;
        headers.set("Content-Encoding", coding);
        headers.remove_known(HeaderId::AcceptRanges);
        weaken_etag(request);
    }
}

/// Bytes change, meaning does not: a strong validator becomes a weak one; what is not a validator goes.
fn weaken_etag(request: &mut Request) {
    let headers = &mut request.response.headers;
    let Some(etag) = headers.known(HeaderId::Etag) else { return };
    let quoted = |tag: &[u8]| {
        tag.len() >= 2
            && tag.starts_with(b"\"")
            && tag.iter().rposition(|&byte| byte == b'"') == Some(tag.len() - 1)
    };
    if etag.strip_prefix(b"W/").is_some_and(quoted) {
        return;
    }
    if quoted(etag) {
        let weak = [b"W/", etag].concat();
        headers.set("ETag", weak);
    } else {
        headers.remove_known(HeaderId::Etag);
    }
}

/// Whether the client accepts a coding; `any`: also by `*`.
pub(crate) fn client_accepts(request: &Request, coding: &str, any: bool) -> bool {
    let mut lines = request.head.headers.all_known(HeaderId::AcceptEncoding);
    lines.any(|line| content_coding::accepts(line, coding, any))
}
