//! Sends the client to another URI.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use tidegate_model::header_text::Text;
use tidegate_model::random::random_below;
use tidegate_plugin_api::{
    BuildContext, Foresight, Location, Phases, Plugin, PluginDef, Reply, Request, SchemaKind, Step, Template,
    host, host::plugin_attribute, location::Origin,
};
use tidegate_protocol::{HeaderId, Method};
use tidegate_routing::expr::GaveUp;
use tidegate_telemetry::error_log;

use crate::common::{
    conf::typed,
    new_uri,
    regexes::{Regex, Replacement},
};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "redirect",
    version: 0.1,
    priority: 900,
    guards: false,
    answers: true,
    schema: include_str!("redirect.json"),
    phases: Phases::REWRITE,
    check,
    headers: &[("uri", Text::Value), ("regex_uri", Text::Value)],
    remarks,
    build,
    ..PluginDef::DEFAULT
};

#[derive(Deserialize)]
struct Conf {
    ret_code: u16,
    uri: Option<String>,
    regex_uri: Option<(String, String)>,
    #[serde(default)]
    http_to_https: bool,
    encode_uri: bool,
    append_query_string: bool,
}

struct Redirect {
    status: u16,
    to: To,
    encode_uri: bool,
    append_query_string: bool,
}

enum To {
    Uri(Template),
    Regex(Regex, Replacement),
    /// The same URI by HTTPS, on one of these ports.
    Https(Vec<u16>),
    Nowhere,
}

fn check(conf: &Value, _: SchemaKind) -> Result<(), String> {
    let texts = conf.get("regex_uri").and_then(Value::as_array);
    if let Some([Value::String(pattern), Value::String(replacement)]) = texts.map(Vec::as_slice)
        && !tidegate_model::schema::is_secret_reference(pattern)
    {
        Regex::new(pattern, false)
            .and_then(|_| Replacement::check(replacement))
            .map_err(|error| format!("invalid regex_uri ({pattern}, {replacement}), err:{error}"))?;
    }
    let is_on = |name: &str| conf.get(name) == Some(&Value::Bool(true));
    if is_on("http_to_https") && is_on("append_query_string") {
        return Err("only one of `http_to_https` and `append_query_string` can be configured.".to_owned());
    }
    Ok(())
}

/// A status that is not sent, and a plugin that redirects nothing. 302 is stored where no status was written.
fn remarks(conf: &Value) -> Vec<String> {
    let mut found = new_uri::remarks(conf);
    let has = |name: &str| conf.get(name).is_some_and(|value| !value.is_null());
    if conf.get("http_to_https") == Some(&Value::Bool(true)) {
        if conf.get("ret_code").and_then(Value::as_u64).is_some_and(|status| status != 302) {
            found.push(
                "ret_code has no effect with http_to_https: GET and HEAD are answered 301, others 308"
                    .to_owned(),
            );
        }
    } else if !has("uri") && !has("regex_uri") {
        found.push("it redirects nothing: set http_to_https to true, or give uri or regex_uri".to_owned());
    }
    found
}

fn build(conf: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let conf: Conf = typed(conf)?;
    let to = match (&conf.uri, &conf.regex_uri) {
        _ if conf.http_to_https => To::Https(https_ports()),
        (Some(uri), _) => To::Uri(Template::compile_simple(uri)),
        (None, Some((pattern, with))) => To::Regex(Regex::new(pattern, false)?, Replacement::new(with)),
        (None, None) => To::Nowhere,
    };
    Ok(Arc::new(Redirect {
        status: conf.ret_code,
        to,
        encode_uri: conf.encode_uri,
        append_query_string: conf.append_query_string,
    }))
}

/// `plugin_attr.redirect.https_port`, else where `apisix.ssl` listens.
fn https_ports() -> Vec<u16> {
    let port = |value: &Value| value.as_u64().and_then(|port| u16::try_from(port).ok());
    if let Some(configured) = plugin_attribute("redirect").and_then(|attribute| attribute.get("https_port")) {
        return port(configured).into_iter().collect();
    }
    let Some(ssl) = host().and_then(|host| host.settings.get("apisix")?.get("ssl")) else {
        return Vec::new();
    };
    if ssl.get("enable") != Some(&Value::Bool(true)) {
        return Vec::new();
    }
    let listen = ssl.get("listen").and_then(Value::as_array).into_iter().flatten();
    listen.filter_map(|entry| entry.get("port").and_then(port).or_else(|| port(entry))).collect()
}

impl Plugin for Redirect {
    fn rewrite<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        let (status, mut location) = match &self.to {
            To::Uri(template) => (self.status, template.location(request)),
            To::Regex(regex, with) => {
                match regex.within(&request.search_time).replace_for_location(request, with) {
                    Ok(Some(location)) => (self.status, location),
                    Ok(None) => return Step::Next,
                    Err(GaveUp) => return Step::reply(Reply::page(500)),
                }
            }
            To::Https(ports) => match https_location(request, ports) {
                Some(answer) => answer,
                None => return Step::Next,
            },
            To::Nowhere => return Step::Next,
        };
        let has_query = location.has_query();
        if self.encode_uri {
            location.encode_path();
        }
        if let Some(query) =
            request.head.query().filter(|query| self.append_query_string && !query.is_empty())
        {
            location.push(Origin::Author, if has_query { b"&" } else { b"?" });
            location.push(Origin::Client, query);
        }
        if location.is_unclear() {
            error_log::log(
                error_log::Level::Warn,
                format_args!(
                    "redirect: refused, the path has %2F and %252F, and a group may have either; use $uri in uri"
                ),
            );
            return Step::reply(Reply::page(400));
        }
        Step::reply(match location.finish() {
            Some(location) => Reply::page(status).header("Location", location),
            None => {
                error_log::log(
                    error_log::Level::Warn,
                    format_args!(
                        "redirect: refused, the client could choose the host; write the host into the \
                         template"
                    ),
                );
                Reply::page(400)
            }
        })
    }

    fn foresee(&self, phase: Phases, request: &mut Request) -> Foresight {
        Foresight::by_running(self, phase, request)
    }

    fn answers_all_in(&self) -> Option<Phases> {
        matches!(self.to, To::Uri(_)).then_some(Phases::REWRITE)
    }
}

/// `None` for a request that came by HTTPS, here or at a proxy before.
fn https_location(request: &Request, ports: &[u16]) -> Option<(u16, Location)> {
    let scheme = match request.head.headers.known(HeaderId::XForwardedProto) {
        Some(scheme) => scheme,
        None if request.https => b"https",
        None => b"http",
    };
    if scheme == b"https" {
        return None;
    }
    let mut location = Location::default();
    location.push(Origin::Author, b"https://");
    location.push(Origin::Site, &request.host);
    let port = ports.get(random_below(ports.len())).copied();
    if let Some(port) = port.filter(|port| !matches!(port, 0 | 443)) {
        location.push(Origin::Author, format!(":{port}").as_bytes());
    }
    // The same target: a text `%2F` of the client, written `%252F`, stays one.
    location.push(Origin::Client, &request.canonical_target());
    let status = if matches!(request.head.method, Method::Get | Method::Head) { 301 } else { 308 };
    Some((status, location))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_path_is_encoded() {
        let cases = [("/a b", "/a%20b"), ("/a b?c d", "/a%20b?c d"), ("/%41", "/%2541")];
        for (uri, expected) in cases {
            let mut location = Location::default();
            location.push(Origin::Author, uri.as_bytes());
            location.encode_path();
            assert_eq!(location.finish().as_deref(), Some(expected.as_bytes()), "{uri}");
        }
    }

    #[test]
    fn what_the_schema_cannot_say() {
        let cases = [
            (json!({"regex_uri": ["^/a/(.*)", "/$1"]}), None),
            (json!({"http_to_https": true, "append_query_string": true}), Some("only one of")),
            (
                json!({"regex_uri": ["^/a/(", "/$1"]}),
                Some("invalid regex_uri (^/a/(, /$1), err:pcre_compile()"),
            ),
        ];
        for (conf, expected) in cases {
            let error = check(&conf, SchemaKind::Plugin).err();
            assert_eq!(error.is_some(), expected.is_some(), "{conf}");
            assert!(error.unwrap_or_default().starts_with(expected.unwrap_or_default()), "{conf}");
        }
    }
}
