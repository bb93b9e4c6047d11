//! Changes the request on its way upstream: URI, host, method and header fields.

mod header_value;

use std::{ops::Range, sync::Arc};

use header_value::HeaderValue;
use model::header_text::Text;
use plugin::{BuildContext, Phases, Plugin, PluginDef, Request, SchemaKind, Step, Template};
use routing::expr::GaveUp;
use serde::Deserialize;
use serde_json::Value;
use wire::{HeaderId, Method};

use crate::common::{
    conf::typed,
    header_edits,
    regexes::{self, Regex, Replacement},
};

pub static PLUGIN: PluginDef = PluginDef {
    name: "proxy-rewrite",
    version: 0.1,
    priority: 1008,
    guards: false,
    schema: include_str!("../schemas/proxy-rewrite.json"),
    phases: Phases::REWRITE,
    check,
    headers: &[("headers", Text::Edits), ("host", Text::Value)],
    remarks: header_edits::remarks,
    build,
    ..PluginDef::DEFAULT
};

#[derive(Deserialize)]
struct Conf {
    uri: Option<String>,
    method: Option<String>,
    regex_uri: Option<Vec<String>>,
    host: Option<String>,
    headers: Option<Value>,
    use_real_request_uri_unsafe: bool,
}

struct ProxyRewrite {
    uri: Option<Template>,
    rules: Vec<(Regex, Replacement)>,
    host: Option<String>,
    method: Option<Method>,
    real_uri: bool,
    headers: Headers,
}

#[derive(Default)]
struct Headers {
    add: Vec<(String, Vec<HeaderValue>)>,
    set: Vec<(String, Vec<HeaderValue>)>,
    remove: Vec<String>,
}

fn check(conf: &Value, _: SchemaKind) -> Result<(), String> {
    let texts = conf.get("regex_uri").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    if !texts.len().is_multiple_of(2) {
        return Err("The length of regex_uri should be an even number".to_owned());
    }
    for pair in texts.chunks_exact(2) {
        if let [Value::String(pattern), Value::String(replacement)] = pair
            && !model::schema::is_secret_reference(pattern)
        {
            Regex::new(pattern, false)
                .and_then(|_| Replacement::check(replacement))
                .map_err(|error| format!("invalid regex_uri({pattern}, {replacement}): {error}"))?;
        }
    }
    match conf.get("headers").filter(|headers| !header_edits::has_operations(headers)) {
        Some(headers) => check_fields(headers),
        None => Ok(()),
    }
}

fn check_fields(headers: &Value) -> Result<(), String> {
    for (name, value) in headers.as_object().into_iter().flatten() {
        if !value.is_string() && !value.is_number() {
            return Err("invalid type as header value".to_owned());
        }
        if name.is_empty() {
            return Err("invalid field length in header".to_owned());
        }
        if !name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':') {
            return Err("invalid field character in header".to_owned());
        }
        let printable = |byte: u8| (b' '..0x7f).contains(&byte);
        if !value.as_str().unwrap_or_default().bytes().all(printable) {
            return Err("invalid value character in header".to_owned());
        }
    }
    Ok(())
}

fn build(conf: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let conf: Conf = typed(conf)?;
    let mut rules = Vec::new();
    for pair in conf.regex_uri.unwrap_or_default().chunks_exact(2) {
        if let [pattern, replacement] = pair {
            rules.push((Regex::new(pattern, false)?, Replacement::new(replacement)));
        }
    }
    Ok(Arc::new(ProxyRewrite {
        uri: conf.uri.as_deref().map(Template::compile),
        rules,
        host: conf.host,
        method: conf.method.map(|method| Method::of(method.as_bytes())),
        real_uri: conf.use_real_request_uri_unsafe,
        headers: conf.headers.as_ref().map(Headers::new).unwrap_or_default(),
    }))
}

impl Headers {
    fn new(conf: &Value) -> Headers {
        let fields = |fields: Option<&Value>| {
            let entries = fields.and_then(Value::as_object).into_iter().flatten();
            entries.map(|(name, value)| (name.clone(), HeaderValue::list(value))).collect()
        };
        if header_edits::has_operations(conf) {
            Headers {
                add: fields(conf.get("add")),
                set: fields(conf.get("set")),
                remove: header_edits::removed(conf),
            }
        } else {
            Headers { set: fields(Some(conf)), ..Headers::default() }
        }
    }

    fn apply(&self, request: &mut Request, captures: &Captures) {
        for (name, values) in &self.add {
            for value in values {
                let value = value.render(request, captures);
                // As in nginx, an empty field is none.
                if !value.is_empty() {
                    request.head.headers.add(name, value);
                }
            }
        }
        for (name, values) in &self.set {
            let values: Vec<Vec<u8>> = values.iter().map(|value| value.render(request, captures)).collect();
            request.assert_header(name, values.iter().filter(|value| !value.is_empty()));
        }
        for name in &self.remove {
            request.assert_header(name, [] as [&str; 0]);
            let id = HeaderId::of(name.as_bytes());
            if matches!(id, HeaderId::XForwardedProto | HeaderId::XForwardedHost | HeaderId::XForwardedPort) {
                request.edits.without.push(id);
            }
        }
    }
}

/// What `regex_uri` caught, for `$1` in header values of this and later instances.
#[derive(Clone, Default)]
pub(crate) struct Captures {
    text: Vec<u8>,
    groups: Vec<Option<Range<usize>>>,
}

impl Captures {
    fn get(&self, index: usize) -> &[u8] {
        let range = self.groups.get(index).cloned().flatten();
        range.and_then(|range| self.text.get(range)).unwrap_or_default()
    }
}

impl Plugin for ProxyRewrite {
    fn rewrite<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        if let Some(host) = &self.host {
            request.edits.host = Some(host.clone().into_bytes());
        }
        self.rewrite_uri(request);
        let captures = request.extensions.get::<Captures>().cloned().unwrap_or_default();
        self.headers.apply(request, &captures);
        if let Some(method) = &self.method {
            request.edits.method = Some(method.clone());
        }
        Step::Next
    }
}

impl ProxyRewrite {
    fn rewrite_uri(&self, request: &mut Request) {
        let mut uri = if self.real_uri { request.head.target().to_vec() } else { request.path.clone() };
        // Whether a `?` in `uri` starts a query; one that the client sent as `%3F` does not.
        let mut has_query = false;
        if let Some(template) = &self.uri {
            let query = query_of(&uri).filter(|_| self.real_uri).map(<[u8]>::to_vec);
            uri.clear();
            template.render_with(request, &mut uri, escape_question_mark);
            has_query = true;
            if let Some(query) = query {
                uri.push(if query_of(&uri).is_some() { b'&' } else { b'?' });
                uri.extend_from_slice(&query);
            }
        } else if !self.rules.is_empty() {
            has_query = query_of(&uri).is_none();
            for (regex, replacement) in &self.rules {
                let (groups, replaced) = match regex.within(&request.search_time).captures(&uri) {
                    Ok(Some(groups)) => {
                        let replaced = regexes::replaced(&uri, &groups, replacement);
                        (groups, replaced)
                    }
                    Ok(None) => continue,
                    Err(GaveUp) => return request.set_undecided(500),
                };
                request.extensions.insert(Captures { text: uri.clone(), groups });
                uri = replaced;
                break;
            }
        }
        let target = if self.real_uri { uri } else { encode(&uri, has_query, request.head.query()) };
        request.edits.target = Some(target);
    }
}

fn query_of(uri: &[u8]) -> Option<&[u8]> {
    let at = uri.iter().position(|&byte| byte == b'?')?;
    uri.get(at + 1..)
}

/// The first `?` of a variable's value must not start a query.
fn escape_question_mark(value: &[u8], out: &mut Vec<u8>) {
    match value.iter().position(|&byte| byte == b'?') {
        Some(at) => {
            out.extend_from_slice(value.get(..at).unwrap_or_default());
            out.extend_from_slice(b"%3F");
            out.extend_from_slice(value.get(at + 1..).unwrap_or_default());
        }
        None => out.extend_from_slice(value),
    }
}

/// The target to send: path encoded, control characters of the query too, the client's query behind it.
fn encode(uri: &[u8], has_query: bool, client_query: Option<&[u8]>) -> Vec<u8> {
    let query_at = uri.iter().position(|&byte| byte == b'?').filter(|_| has_query);
    let (path, query) = uri.split_at(query_at.unwrap_or(uri.len()));
    let mut out = Vec::with_capacity(uri.len() + 16);
    wire::uri::encode_path(path, &mut out);
    for &byte in query {
        // A `#` would cut off what the configuration says behind it (RFC 9112 section 3.2 has no fragment).
        if byte < 0x20 || byte == 0x7f || byte == b'#' {
            out.extend_from_slice(format!("%{byte:02X}").as_bytes());
        } else {
            out.push(byte);
        }
    }
    if let Some(client_query) = client_query.filter(|query| !query.is_empty()) {
        out.push(if query_at.is_some() { b'&' } else { b'?' });
        out.extend_from_slice(client_query);
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn targets_are_encoded() {
        let cases: &[(&str, bool, Option<&str>, &str)] = &[
            ("/a b", false, None, "/a%20b"),
            ("/a?b", false, Some("c=d"), "/a%3Fb?c=d"),
            ("/a?b=c", true, Some("d=e"), "/a?b=c&d=e"),
            ("/a", true, Some("d=e"), "/a?d=e"),
            ("/a?x\r\ny", true, None, "/a?x%0D%0Ay"),
            ("/a?x=1#&role=user", true, None, "/a?x=1%23&role=user"),
            ("/a", true, Some(""), "/a"),
        ];
        for (uri, has_query, client, expected) in cases {
            let target = encode(uri.as_bytes(), *has_query, client.map(str::as_bytes));
            assert_eq!(target, expected.as_bytes(), "{uri}");
        }
    }

    #[test]
    fn what_the_schema_cannot_say() {
        let cases = [
            (json!({"regex_uri": ["^/a", "/b", "/c"]}), "The length of regex_uri should be an even number"),
            (
                json!({"regex_uri": ["^/a(", "/b"]}),
                "invalid regex_uri(^/a(, /b): pcre_compile() failed: missing ) in \"^/a(\"",
            ),
            (
                json!({"regex_uri": ["^/a", "/$`"]}),
                "invalid regex_uri(^/a, /$`): invalid capturing variable name found in \"/$`\"",
            ),
            (json!({"headers": {"X-Api-Version": []}}), "invalid type as header value"),
            (json!({"headers": {"X-Api\r": "1"}}), "invalid field character in header"),
            (json!({"headers": {"X-Api": "1\r"}}), "invalid value character in header"),
            (json!({"headers": {"": "1"}}), "invalid field length in header"),
        ];
        for (conf, expected) in cases {
            assert_eq!(check(&conf, SchemaKind::Plugin).unwrap_err(), expected, "{conf}");
        }
        assert_eq!(check(&json!({"headers": {"remove": ["X"]}}), SchemaKind::Plugin), Ok(()));
    }
}
