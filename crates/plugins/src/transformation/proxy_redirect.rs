//! Translates what upstreams say of themselves, in `Location`, `Refresh` and `Set-Cookie`, to the names that clients know:
//! nginx's `proxy_redirect`, `proxy_cookie_path` and `proxy_cookie_domain` with plain texts.
//!
//! Of each list the first rule that fits counts. Answers of the gateway itself stay unchanged.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use tidegate_plugin_api::{BuildContext, Phases, Plugin, PluginDef, Request, Source, Template, location};

use crate::common::conf::typed;

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "proxy-redirect",
    version: 0.1,
    priority: 1007,
    guards: false,
    schema: include_str!("proxy_redirect.json"),
    phases: Phases::HEADER_FILTER,
    remarks,
    build,
    ..PluginDef::DEFAULT
};

#[derive(Deserialize)]
struct Conf {
    #[serde(default)]
    locations: Vec<Rule>,
    #[serde(default)]
    cookie_paths: Vec<Rule>,
    #[serde(default)]
    cookie_domains: Vec<Rule>,
}

#[derive(Deserialize)]
struct Rule {
    from: String,
    to: String,
}

struct ProxyRedirect {
    locations: Vec<(Vec<u8>, Template)>,
    cookie_paths: Vec<Rule>,
    cookie_domains: Vec<Rule>,
}

fn remarks(conf: &Value) -> Vec<String> {
    let is_empty = conf.as_object().is_none_or(|conf| conf.keys().all(|key| key == "_meta"));
    is_empty.then(|| "it has no entries and translates nothing".to_owned()).into_iter().collect()
}

fn build(conf: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let conf: Conf = typed(conf)?;
    let compiled = |rule: Rule| (rule.from.into_bytes(), Template::compile(&rule.to));
    let mut cookie_domains = conf.cookie_domains;
    for rule in &mut cookie_domains {
        // A dot in front says the same since RFC 6265.
        rule.from = rule.from.trim_start_matches('.').to_owned();
    }
    Ok(Arc::new(ProxyRedirect {
        locations: conf.locations.into_iter().map(compiled).collect(),
        cookie_paths: conf.cookie_paths,
        cookie_domains,
    }))
}

impl Plugin for ProxyRedirect {
    fn header_filter(&self, request: &mut Request) {
        if request.response.source != Source::Upstream {
            return;
        }
        if !self.locations.is_empty() {
            for (name, behind) in [("Location", ""), ("Refresh", "url=")] {
                let value = request.response.headers.get(name).map(<[u8]>::to_vec);
                if let Some(value) = value.and_then(|value| self.location(&value, behind, request)) {
                    request.response.headers.set(name, value);
                }
            }
        }
        if !self.cookie_paths.is_empty() || !self.cookie_domains.is_empty() {
            self.cookies(request);
        }
    }
}

impl ProxyRedirect {
    /// The address stands behind a word, in upper or lower case, or is the whole value.
    fn location(&self, value: &[u8], behind: &str, request: &Request) -> Option<Vec<u8>> {
        let start = match behind.len() {
            0 => 0,
            length => {
                length
                    + value.windows(length).position(|part| part.eq_ignore_ascii_case(behind.as_bytes()))?
            }
        };
        let (before, address) = value.split_at_checked(start)?;
        let (from, to) = self.locations.iter().find(|(from, _)| address.starts_with(from))?;
        let rest = address.get(from.len()..)?;
        Some([before, &location::field("location", to, request)?, rest].concat())
    }

    fn cookies(&self, request: &mut Request) {
        let all: Vec<Vec<u8>> = request.response.headers.get_all("Set-Cookie").map(<[u8]>::to_vec).collect();
        let changed: Vec<Option<Vec<u8>>> = all.iter().map(|cookie| self.cookie(cookie)).collect();
        if changed.iter().all(Option::is_none) {
            return;
        }
        request.response.headers.remove("Set-Cookie");
        for (old, new) in all.into_iter().zip(changed) {
            request.response.headers.add("Set-Cookie", new.unwrap_or(old));
        }
    }

    /// `None`: nothing changes. The name and value of the cookie, in front, are not an attribute.
    fn cookie(&self, cookie: &[u8]) -> Option<Vec<u8>> {
        let mut changed = false;
        let mut parts = Vec::new();
        for (index, part) in cookie.split(|byte| *byte == b';').enumerate() {
            let part = part.trim_ascii();
            let at = part.iter().position(|byte| *byte == b'=').unwrap_or(part.len());
            let (name, value) =
                (part[..at].trim_ascii_end(), part.get(at + 1..).map(<[u8]>::trim_ascii_start));
            let new = value.filter(|_| index > 0).and_then(|value| self.attribute(name, value));
            changed |= new.is_some();
            parts.push(new.map_or_else(|| part.to_vec(), |new| [name, b"=", &new].concat()));
        }
        changed.then(|| parts.join(&b"; "[..]))
    }

    fn attribute(&self, name: &[u8], value: &[u8]) -> Option<Vec<u8>> {
        if name.eq_ignore_ascii_case(b"path") {
            let fits = |rule: &&Rule| value.starts_with(rule.from.as_bytes());
            let rule = self.cookie_paths.iter().find(fits)?;
            return Some([rule.to.as_bytes(), value.get(rule.from.len()..)?].concat());
        }
        if name.eq_ignore_ascii_case(b"domain") {
            let bare = value.strip_prefix(b".").unwrap_or(value);
            let rule =
                self.cookie_domains.iter().find(|rule| bare.eq_ignore_ascii_case(rule.from.as_bytes()))?;
            let dot = value.get(..value.len() - bare.len())?;
            return Some([dot, rule.to.as_bytes()].concat());
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(from: &str, to: &str) -> Rule {
        Rule { from: from.to_owned(), to: to.to_owned() }
    }

    #[test]
    fn cookies_are_moved() {
        let plugin = ProxyRedirect {
            locations: Vec::new(),
            cookie_paths: vec![rule("/app/", "/"), rule("/app", "/a")],
            cookie_domains: vec![rule("inner.example", "outer.example")],
        };
        for (cookie, wanted) in [
            ("a=b; Path=/app/x; HttpOnly", Some("a=b; Path=/x; HttpOnly")),
            ("a=b;path=/app;Secure", Some("a=b; path=/a; Secure")),
            ("a=b; Domain=.INNER.example", Some("a=b; Domain=.outer.example")),
            ("a=b; Domain=x.inner.example; Path=/", None),
            ("path=/app/; Max-Age=3", None),
            ("a=b; Path", None),
        ] {
            let found =
                plugin.cookie(cookie.as_bytes()).map(|found| String::from_utf8_lossy(&found).into_owned());
            assert_eq!(found.as_deref(), wanted, "{cookie}");
        }
    }
}
