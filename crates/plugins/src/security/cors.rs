//! Cross-origin resource sharing: answers preflights and adds the headers that browsers ask for.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use tidegate_model::header_text::Text;
use tidegate_plugin_api::{
    BuildContext, Foresight, Phases, Plugin, PluginDef, Reply, Request, SchemaKind, Step,
};
use tidegate_protocol::{FieldName, Head, HeaderId, Method};
use tidegate_routing::expr::{GaveUp, SearchTime};

use crate::common::{
    conf::typed,
    regexes::{self, Regex},
};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "cors",
    version: 0.1,
    priority: 4000,
    guards: false,
    schema: include_str!("cors.json"),
    metadata_schema: Some(include_str!("cors.metadata.json")),
    phases: Phases::REWRITE.and(Phases::HEADER_FILTER),
    check,
    headers: &[
        ("allow_headers", Text::Value),
        ("expose_headers", Text::Value),
        ("allow_methods", Text::Value),
        ("allow_origins", Text::Value),
        ("timing_allow_origins", Text::Value),
    ],
    metadata_headers: &[("allow_origins.*", Text::Value)],
    remarks,
    build,
    ..PluginDef::DEFAULT
};

#[derive(Deserialize)]
struct Conf {
    allow_origins: String,
    allow_methods: String,
    allow_headers: String,
    expose_headers: Option<String>,
    max_age: i64,
    allow_credential: bool,
    allow_origins_by_regex: Option<Vec<String>>,
    allow_origins_by_metadata: Option<Vec<String>>,
    timing_allow_origins: Option<String>,
    timing_allow_origins_by_regex: Option<Vec<String>>,
}

struct Cors {
    origins: Origins,
    /// `allow_origins` is not `*`: the answer depends on the origin.
    varies: bool,
    origins_regex: Option<Regex>,
    /// Lists of the plugin metadata; `Some` even when they are empty.
    metadata_origins: Option<Vec<Origins>>,
    allow_origin: FieldName,
    /// The fields that are the same for every origin, of which no two have one name.
    fields: Head,
    /// What the client asks for is allowed: no field of `fields` says it.
    allows_asked: bool,
    allow_credential: bool,
    timing_origins: Option<Origins>,
    timing_regex: Option<Regex>,
}

/// `*`, `**`, one origin, or several between commas.
enum Origins {
    Any,
    /// `**`: any, by name.
    Echo,
    One(Vec<u8>),
    Listed(Vec<Vec<u8>>),
}

impl Origins {
    fn new(text: &str) -> Origins {
        match text {
            "*" => Origins::Any,
            "**" => Origins::Echo,
            _ if text.contains(',') => {
                Origins::Listed(text.split(',').map(|origin| origin.as_bytes().to_vec()).collect())
            }
            _ => Origins::One(text.as_bytes().to_vec()),
        }
    }

    /// What the header would say.
    fn answer<'a>(&'a self, origin: Option<&'a [u8]>) -> Option<&'a [u8]> {
        match self {
            Origins::Any => Some(b"*"),
            Origins::Echo => Some(origin.unwrap_or(b"*")),
            Origins::One(one) => Some(one),
            Origins::Listed(list) => origin.filter(|origin| list.iter().any(|listed| listed == origin)),
        }
    }
}

fn matches(origin: Option<&[u8]>, allowed: Option<&[u8]>) -> bool {
    origin == allowed || allowed == Some(b"*")
}

fn check(conf: &Value, kind: SchemaKind) -> Result<(), String> {
    if kind == SchemaKind::Metadata {
        return Ok(());
    }
    if conf.get("allow_credential") == Some(&Value::Bool(true)) {
        let fields =
            ["allow_origins", "allow_methods", "allow_headers", "expose_headers", "timing_allow_origins"];
        if fields.iter().any(|field| conf.get(field).and_then(Value::as_str) == Some("*")) {
            return Err("you can not set '*' for other option when 'allow_credential' is true".to_owned());
        }
    }
    regexes::check_all(conf.get("allow_origins_by_regex"))?;
    regexes::check_all(conf.get("timing_allow_origins_by_regex"))
}

/// Why no browser sends the origin: it has a scheme, a host, and a port that is not the scheme's own.
fn never_sent(origin: &str) -> Option<String> {
    let (scheme, rest) = origin.split_once("://")?;
    if rest.contains('*') {
        return Some(format!("{origin} allows nothing: * stands for no part of an origin; write a pattern"));
    }
    let (host, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let known = [("http", ":80"), ("https", ":443")];
    let own = known.into_iter().find_map(|(name, port)| (name == scheme).then_some(port));
    let sent = own.and_then(|port| host.strip_suffix(port)).unwrap_or(host).to_ascii_lowercase();
    let sent = format!("{}://{sent}", scheme.to_ascii_lowercase());
    if !path.is_empty() {
        return Some(format!("{sent} allows nothing with a slash or path behind it; leave that out"));
    }
    (sent != origin).then(|| format!("{origin} allows nothing: browsers write it otherwise; write {sent}"))
}

/// Options that another one overrules, and those that let every site read what only its user may. `*` is the default, and
/// stored as if it had been written.
fn remarks(conf: &Value) -> Vec<String> {
    let text = |name: &str| conf.get(name).and_then(Value::as_str);
    let by_metadata = conf.get("allow_origins_by_metadata").is_some();
    let mut found = Vec::new();
    for (list, patterns) in [
        ("allow_origins", "allow_origins_by_regex"),
        ("timing_allow_origins", "timing_allow_origins_by_regex"),
    ] {
        // Beside metadata any list but `*` has the patterns asked.
        let is_asked = list == "allow_origins" && by_metadata;
        if text(list).is_some_and(|origins| origins != "*") && conf.get(patterns).is_some() && !is_asked {
            found.push(format!("{list} has no effect with {patterns}; write its origins as patterns"));
        }
    }
    for list in ["allow_origins", "timing_allow_origins"] {
        let origins = text(list).into_iter().flat_map(|origins| origins.split(','));
        found.extend(
            origins.filter_map(|origin| never_sent(origin.trim()).map(|why| format!("{list}: {why}"))),
        );
    }
    let methods = text("allow_methods").into_iter().flat_map(|methods| methods.split(','));
    let small = methods.map(str::trim).filter(|name| name.bytes().any(|byte| byte.is_ascii_lowercase()));
    found.extend(small.map(|name| {
        format!(
            "allow_methods: {name} allows nothing: methods are compared in capitals; write {}",
            name.to_ascii_uppercase()
        )
    }));
    for (list, things) in
        [("allow_methods", "methods"), ("allow_headers", "names"), ("expose_headers", "names")]
    {
        let items = text(list).into_iter().flat_map(|items| items.split(',')).map(str::trim);
        found.extend(items.filter(|item| item.contains(char::is_whitespace)).map(|item| {
            format!("{list}: {item} allows nothing: {things} have no spaces; write commas between them")
        }));
    }
    let is_any = text("allow_origins").is_none_or(|origins| origins == "*");
    if is_any && by_metadata && conf.get("allow_origins_by_regex").is_some() {
        found.push(
            "allow_origins_by_regex has no effect with allow_origins_by_metadata while allow_origins is *; write null \
             there"
                .to_owned(),
        );
    }
    if conf.get("allow_credential") == Some(&Value::Bool(true)) {
        if text("allow_origins") == Some("**") && conf.get("allow_origins_by_regex").is_none() {
            found.push(
                "allow_origins ** with allow_credential: every site may read answers to a user who is logged in"
                    .to_owned(),
            );
        }
        let patterns = conf.get("allow_origins_by_regex").and_then(Value::as_array).into_iter().flatten();
        let open = patterns.filter_map(Value::as_str).filter(|pattern| !pattern.ends_with('$'));
        found.extend(open.map(|pattern| {
            format!(
                "allow_origins_by_regex: {pattern} matches longer origins too, and allow_credential lets \
                 them read \
                 answers to a user who is logged in; end it with $"
            )
        }));
    }
    found
}

fn build(conf: &Value, context: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let conf: Conf = typed(conf)?;
    let regex = |patterns: Option<Vec<String>>| {
        patterns.map(|patterns| regexes::any_of(&patterns, false)).transpose()
    };
    let known = context.metadata.and_then(|metadata| metadata.get("allow_origins"));
    let metadata_origins = conf.allow_origins_by_metadata.map(|keys| {
        let list = |key: &String| known?.get(key)?.as_str().map(Origins::new);
        keys.iter().filter_map(list).collect()
    });
    let methods = match conf.allow_methods.as_str() {
        "**" => "GET,POST,PUT,DELETE,PATCH,HEAD,OPTIONS,CONNECT,TRACE".to_owned(),
        _ => conf.allow_methods,
    };
    let mut fields = Head::new();
    fields.set("Access-Control-Allow-Methods", methods);
    fields.set("Access-Control-Max-Age", conf.max_age.to_string());
    if let Some(exposed) = conf.expose_headers.filter(|headers| !headers.is_empty()) {
        fields.set("Access-Control-Expose-Headers", exposed);
    }
    let allows_asked = conf.allow_headers == "**";
    if !allows_asked {
        fields.set(ALLOW_HEADERS, conf.allow_headers);
    }
    Ok(Arc::new(Cors {
        varies: conf.allow_origins != "*",
        origins: Origins::new(&conf.allow_origins),
        origins_regex: regex(conf.allow_origins_by_regex)?,
        metadata_origins,
        allow_origin: FieldName::new("Access-Control-Allow-Origin"),
        fields,
        allows_asked,
        allow_credential: conf.allow_credential,
        timing_origins: conf.timing_allow_origins.as_deref().map(Origins::new),
        timing_regex: regex(conf.timing_allow_origins_by_regex)?,
    }))
}

const ALLOW_HEADERS: &str = "Access-Control-Allow-Headers";

/// The client's `Origin`, for later plugins may change the header, and what the patterns of each instance say of it.
struct ClientOrigin {
    origin: Option<Vec<u8>>,
    judged: Vec<Judged>,
}

/// Judged before the request continues: one whose patterns give up is refused.
struct Judged {
    /// The address of the instance.
    by: usize,
    origin: bool,
    timing: bool,
}

impl Plugin for Cors {
    fn rewrite<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        let known = request.extensions.take::<ClientOrigin>().map(|known| known.judged);
        let origin = request.head.headers.known(HeaderId::Origin).map(<[u8]>::to_vec);
        let mut judged = known.unwrap_or_default();
        if self.origins_regex.is_some() || self.timing_regex.is_some() {
            match self.match_origin(origin.as_deref(), &request.search_time) {
                Ok(found) => judged.push(found),
                Err(GaveUp) => return Step::reply(Reply::page(500)),
            }
        }
        // Of a request from no other site there is nothing to remember.
        if origin.is_some() || !judged.is_empty() {
            request.extensions.insert(ClientOrigin { origin, judged });
        }
        if request.head.method == Method::Options { Step::reply(Reply::page(200)) } else { Step::Next }
    }

    fn header_filter(&self, request: &mut Request) {
        let Some(client) = request.extensions.take::<ClientOrigin>() else {
            return self.answer(request, None);
        };
        self.answer(request, Some(&client));
        // Another instance (of a global rule) may come after this one.
        request.extensions.insert(client);
    }

    fn foresee(&self, phase: Phases, request: &mut Request) -> Foresight {
        Foresight::by_running(self, phase, request)
    }
}

impl Cors {
    /// An instance is in one place while it is in use.
    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    fn match_origin(&self, origin: Option<&[u8]>, time: &SearchTime) -> Result<Judged, GaveUp> {
        let is_match = |regex: &Option<Regex>| match (regex, origin) {
            (Some(regex), Some(origin)) => regex.within(time).is_match(origin),
            _ => Ok(false),
        };
        let (origin, timing) = (is_match(&self.origins_regex)?, is_match(&self.timing_regex)?);
        Ok(Judged { by: self.address(), origin, timing })
    }

    fn answer(&self, request: &mut Request, client: Option<&ClientOrigin>) {
        let origin = client.and_then(|client| client.origin.as_deref());
        let mut judged = client.into_iter().flat_map(|client| &client.judged);
        let judged = judged.find(|judged| judged.by == self.address());
        let headers = &mut request.response.headers;
        if self.varies {
            headers.add("Vary", "Origin");
        }
        if let Some(allowed) = self.allowed(origin, judged) {
            headers.set_named(&self.allow_origin, |bytes| bytes.extend_from_slice(allowed));
            headers.set_distinct(&self.fields);
            if self.allows_asked {
                match request.head.headers.get("Access-Control-Request-Headers") {
                    Some(asked) => headers.set(ALLOW_HEADERS, asked),
                    None => drop(headers.remove(ALLOW_HEADERS)),
                }
            }
            if self.allow_credential {
                headers.set("Access-Control-Allow-Credentials", "true");
            }
        }
        if let Some(allowed) = self.timing(origin, judged).filter(|allowed| matches(origin, Some(allowed))) {
            headers.set("Timing-Allow-Origin", allowed);
        }
    }

    fn allowed<'a>(&'a self, origin: Option<&'a [u8]>, judged: Option<&Judged>) -> Option<&'a [u8]> {
        let by_metadata = || {
            let mut lists = self.metadata_origins.iter().flatten();
            lists.any(|list| matches(origin, list.answer(origin))).then_some(origin).flatten()
        };
        let mut allowed = None;
        let mut ask_own = self.metadata_origins.is_none();
        if !ask_own {
            allowed = by_metadata();
            ask_own = !matches(origin, allowed) && self.varies;
        }
        if ask_own {
            allowed = match &self.origins_regex {
                None => self.origins.answer(origin),
                Some(_) => origin.filter(|_| judged.is_some_and(|judged| judged.origin)),
            };
        }
        if matches(origin, allowed) { allowed } else { by_metadata() }
    }

    fn timing<'a>(&'a self, origin: Option<&'a [u8]>, judged: Option<&Judged>) -> Option<&'a [u8]> {
        match (&self.timing_regex, &self.timing_origins) {
            (Some(_), _) => origin.filter(|_| judged.is_some_and(|judged| judged.timing)),
            (None, Some(origins)) => origins.answer(origin),
            (None, None) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn options_that_overrule_each_other() {
        let one = "http://a";
        for (conf, expected) in [
            (json!({"allow_origins": "*", "allow_origins_by_regex": ["^http://a$"]}), None),
            (
                json!({"allow_origins": one, "allow_origins_by_regex": ["^http://a$"]}),
                Some("allow_origins has no effect with allow_origins_by_regex"),
            ),
            (
                json!({"timing_allow_origins": one, "timing_allow_origins_by_regex": ["a"]}),
                Some("timing_allow_origins has no effect with timing_allow_origins_by_regex"),
            ),
            (
                json!({"allow_origins_by_metadata": ["k"], "allow_origins_by_regex": ["a"]}),
                Some("allow_origins_by_regex has no effect with allow_origins_by_metadata"),
            ),
            (json!({"allow_origins": one, "allow_origins_by_metadata": ["k"]}), None),
            (json!({"allow_origins": "**"}), None),
            (json!({"allow_origins": "**", "allow_credential": true}), Some("allow_origins ** with")),
            (
                json!({"allow_origins_by_regex": ["^http://a$", "^http://b"], "allow_credential": true}),
                Some("allow_origins_by_regex: ^http://b matches longer origins"),
            ),
            (json!({"allow_origins_by_regex": ["^http://b"]}), None),
        ] {
            let found = remarks(&conf);
            assert_eq!(found.len(), usize::from(expected.is_some()), "{conf}: {found:?}");
            let starts = |start: &str| found.first().is_some_and(|found| found.starts_with(start));
            assert!(expected.is_none_or(starts), "{conf}: {found:?}");
        }
    }

    #[test]
    fn lists_of_origins() {
        let cases: &[(&str, Option<&str>, Option<&str>)] = &[
            ("*", Some("http://a"), Some("*")),
            ("**", Some("http://a"), Some("http://a")),
            ("**", None, Some("*")),
            ("http://a", Some("http://b"), Some("http://a")),
            ("http://a,http://b", Some("http://b"), Some("http://b")),
            ("http://a,http://b", Some("http://c"), None),
            ("http://a,http://b", None, None),
        ];
        for (list, origin, expected) in cases {
            let origins = Origins::new(list);
            let answer = origins.answer(origin.map(str::as_bytes));
            assert_eq!(answer, expected.map(str::as_bytes), "{list} {origin:?}");
        }
    }
}
