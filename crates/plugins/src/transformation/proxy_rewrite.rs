//! Changes the request on its way upstream: URI, host, method and header fields.

mod captures;
mod header_value;
mod rootless;
mod target;

use std::{borrow::Cow, sync::Arc};

use captures::Captures;
use header_value::HeaderValue;
use serde::Deserialize;
use serde_json::Value;
use smallvec::SmallVec;
use target::{Reading, Target};
use tidegate_model::header_text::Text;
use tidegate_plugin_api::{
    BuildContext, Foresight, Phases, Plugin, PluginDef, Reply, Request, SchemaKind, Step, Template,
    uri_text::Kind,
};
use tidegate_protocol::{FieldName, HeaderId, Method};
use tidegate_routing::expr::GaveUp;
use tidegate_telemetry::error_log::{self, Level};

use crate::common::{
    conf::typed,
    header_edits, new_uri,
    regexes::{self, Piece, Regex, Replacement},
};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "proxy-rewrite",
    version: 0.1,
    priority: 1008,
    guards: false,
    schema: include_str!("proxy_rewrite.json"),
    phases: Phases::REWRITE,
    check,
    headers: &[("headers", Text::Edits), ("host", Text::Value)],
    remarks,
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
    set: Vec<(FieldName, Vec<HeaderValue>)>,
    remove: Vec<String>,
}

fn check(conf: &Value, _: SchemaKind) -> Result<(), String> {
    let texts = conf.get("regex_uri").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    if !texts.len().is_multiple_of(2) {
        return Err("The length of regex_uri should be an even number".to_owned());
    }
    for pair in texts.chunks_exact(2) {
        if let [Value::String(pattern), Value::String(replacement)] = pair
            && !tidegate_model::schema::is_secret_reference(pattern)
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

fn remarks(conf: &Value) -> Vec<String> {
    [header_edits::remarks(conf), new_uri::remarks(conf), rootless::remarks(conf)].concat()
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
        fn fields<N>(fields: Option<&Value>, named: impl Fn(&str) -> N) -> Vec<(N, Vec<HeaderValue>)> {
            let entries = fields.and_then(Value::as_object).into_iter().flatten();
            entries.map(|(name, value)| (named(name), HeaderValue::list(value))).collect()
        }
        if header_edits::has_operations(conf) {
            Headers {
                add: fields(conf.get("add"), str::to_owned),
                set: fields(conf.get("set"), FieldName::new),
                remove: header_edits::removed(conf),
            }
        } else {
            Headers { set: fields(Some(conf), FieldName::new), ..Headers::default() }
        }
    }

    fn apply(&self, request: &mut Request, captures: &Captures) {
        for (name, values) in &self.add {
            for value in values {
                let value = value.render(request, captures);
                // As in nginx, an empty field is not added.
                if !value.is_empty() {
                    request.head.headers.add(name, value);
                }
            }
        }
        for (name, values) in &self.set {
            if let [value] = &values[..] {
                let value = value.render(request, captures);
                request.assert_named(name, Some(value).filter(|value| !value.is_empty()));
                continue;
            }
            let values: SmallVec<[Cow<'_, [u8]>; 2]> =
                values.iter().map(|value| value.render(request, captures)).collect();
            request.assert_named(name, values.iter().filter(|value| !value.is_empty()));
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

impl Plugin for ProxyRewrite {
    fn rewrite<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        if let Some(host) = &self.host {
            request.edits.host = Some(host.clone().into_bytes());
        }
        if let Err(Refusal { status, level, reason }) = self.rewrite_uri(request) {
            error_log::log(level, format_args!("{reason}, client: {}", request.remote_addr));
            return Step::reply(Reply::page(status));
        }
        let captures = request.extensions.get::<Captures>().cloned().unwrap_or_default();
        self.headers.apply(request, &captures);
        if let Some(method) = &self.method {
            request.edits.method = Some(method.clone());
        }
        Step::Next
    }

    fn foresee(&self, phase: Phases, request: &mut Request) -> Foresight {
        Foresight::by_running(self, phase, request)
    }
}

/// Why a request is not sent on.
struct Refusal {
    status: u16,
    level: Level,
    reason: &'static str,
}

impl Refusal {
    /// What the client sent cannot be carried over.
    fn of_client(reason: &'static str) -> Refusal {
        Refusal { status: 400, level: Level::Info, reason }
    }
}

impl ProxyRewrite {
    fn rewrite_uri(&self, request: &mut Request) -> Result<(), Refusal> {
        if self.uri.is_none() && self.rules.is_empty() && !self.real_uri {
            request.edits.target = Some(request.canonical_target());
            return Ok(());
        }
        let mut target = Target::new(Reading { raw: self.real_uri, slashes: request.slashes() });
        let query = if let Some(template) = &self.uri {
            template.visit(request, |variable, text| match variable {
                None => target.push(text),
                Some(variable) => target.push_value(Kind::of(variable), text),
            });
            if self.real_uri { query_of(request.head.target()) } else { request.head.query() }
        } else {
            let own = if self.real_uri { request.head.target().to_vec() } else { request.path.clone() };
            if let Err(GaveUp) = self.replace(request, own, &mut target) {
                request.set_undecided(500);
                return Ok(());
            }
            request.head.query().filter(|_| !self.real_uri)
        };
        if target.is_unclear() {
            return Err(Refusal::of_client("proxy-rewrite cannot distinguish %2F from %252F in the path"));
        }
        if target.climbs() {
            return Err(Refusal::of_client("proxy-rewrite would turn the client's text into a dot segment"));
        }
        let target = target.with_query(query);
        if !target.starts_with(b"/") && target != request.head.target() {
            let reason = "regex_uri of proxy-rewrite made a target that does not begin with /";
            return Err(Refusal { status: 500, level: Level::Error, reason });
        }
        request.edits.target = Some(target);
        Ok(())
    }

    /// What the first rule that matches makes of `uri`, or `uri` itself.
    fn replace(&self, request: &mut Request, uri: Vec<u8>, target: &mut Target) -> Result<(), GaveUp> {
        for (regex, replacement) in &self.rules {
            let Some(groups) = regex.within(&request.search_time).captures(&uri)? else { continue };
            for piece in regexes::replaced(&uri, &groups, replacement) {
                match piece {
                    Piece::Author(text) => target.push(text),
                    // As the client wrote it: that is what is asked for.
                    Piece::Client(text) if self.real_uri => target.push(text),
                    Piece::Client(text) => target.push_path(text),
                }
            }
            request.extensions.insert(Captures { text: uri, groups });
            return Ok(());
        }
        match self.real_uri {
            true => target.push(&uri),
            false => target.push_path(&uri),
        }
        Ok(())
    }
}

fn query_of(uri: &[u8]) -> Option<&[u8]> {
    let at = uri.iter().position(|&byte| byte == b'?')?;
    uri.get(at + 1..)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
