//! When one of our routes matches, and the path that its upstream sees.

use serde_json::{Map, Value, json};

use super::{
    entry::Entry,
    merge,
    node::{key_text, label},
    order::Path,
    pattern,
    upstreams::Target,
};
use crate::{
    fields::{self, Fields},
    imported::Imported,
    literal,
};

pub(super) fn conditions(entry: &Entry, native: bool, is_flat: bool, route: &mut Value) {
    let fields = Fields::new(entry.node, label("route", entry.node));
    let mut vars: Vec<Value> = entry.conditions.clone();
    let hosts: Vec<String> = entry.hosts.iter().map(|host| host.to_lowercase()).collect();
    let has_ports = hosts.iter().any(|host| host.contains(':'));
    if native && !has_ports && !hosts.is_empty() {
        route["hosts"] = hosts.into();
    } else if !hosts.is_empty() {
        let patterns: Vec<String> =
            hosts.iter().map(|host| regex::escape(host).replace("\\*", ".+")).collect();
        let variable = if has_ports { "http_host" } else { "host" };
        vars.push(json!([variable, "~*", format!("^({})$", patterns.join("|"))]));
    }
    let methods = fields.texts("methods");
    if !methods.is_empty() {
        route["methods"] = methods.into();
    }
    if let Some(headers) = fields.get("headers") {
        for header in fields::entries(headers) {
            let variable = format!("http_{}", header.key.to_lowercase().replace('-', "_"));
            let values = fields::texts(&header.value);
            let pattern = match values.as_slice() {
                [one] if one.starts_with("~*") => {
                    let pattern = one.trim_start_matches("~*");
                    // One that cannot be written out has closed the route.
                    let written = entry.is_rust.then(|| pattern::of_header(pattern).ok());
                    written.flatten().unwrap_or_else(|| pattern.to_owned())
                }
                all => {
                    // Of several fields, or values in one, any counts.
                    format!(
                        "(^|,\\s*)({})(\\s*,|$)",
                        all.iter().map(|value| regex::escape(value)).collect::<Vec<_>>().join("|")
                    )
                }
            };
            vars.push(json!([variable, "~*", pattern]));
        }
    }
    let snis = fields.texts("snis");
    if !snis.is_empty() {
        // Kong looks at names in handshakes only where there is one.
        vars.push(json!(["OR", ["scheme", "==", "http"], ["ssl_server_name", "in", snis]]));
    }
    let mut addresses = Vec::new();
    for source in fields.list("sources") {
        addresses.extend(key_text(source, "ip"));
    }
    if !addresses.is_empty() {
        route["remote_addrs"] = addresses.into();
    }
    match &entry.path {
        Path::Regex(pattern) => vars.push(json!([pattern::VARIABLE, "~~", pattern.text])),
        Path::Prefix(prefix) if is_flat => {
            vars.push(json!(["uri", "~~", format!("^{}", regex::escape(prefix))]));
        }
        Path::Prefix(_) => {}
    }
    if !vars.is_empty() {
        route["vars"] = vars.into();
    }
}

/// From the path of the request to the path at the upstream.
pub(super) fn rewrite(
    entry: &Entry,
    target: &Target,
    plugins: &mut Map<String, Value>,
    imported: &mut Imported,
) {
    let fields = Fields::new(entry.node, label("route", entry.node));
    let protocols = fields.texts("protocols");
    if !protocols.is_empty() && protocols.iter().all(|name| name == "https" || name == "grpcs") {
        let how = "plain HTTP is redirected to HTTPS with 301";
        imported.report.approximated(fields.line(), fields.subject(), how);
        merge::add(plugins, "redirect", json!({"http_to_https": true}));
    }
    if plugins.get("proxy-rewrite").is_some_and(|conf| conf.get("uri").is_some()) {
        return;
    }
    let is_glued = fields.text("path_handling").as_deref() == Some("v1") && !target.path.is_empty();
    if is_glued && entry.is_rust {
        let how = "`path_handling: v1` holds with `router_flavor: traditional` only; it is v0 here, as with the default";
        imported.report.approximated(fields.line(), fields.subject(), how);
    }
    let paths = Paths { target, is_glued: is_glued && !entry.is_rust };
    let pairs = match fields.flag("strip_path").unwrap_or(true) {
        true => paths.stripped(&entry.path),
        false => paths.whole(),
    };
    if !pairs.is_empty() {
        merge::add(plugins, "proxy-rewrite", json!({"regex_uri": pairs}));
    }
}

/// Expressions, each with the path that it makes.
struct Paths<'t> {
    target: &'t Target,
    /// Nothing stands between the service's path and the rest.
    is_glued: bool,
}

impl Paths<'_> {
    fn slash(&self) -> &'static str {
        if self.is_glued { "" } else { "/" }
    }

    fn whole(&self) -> Vec<String> {
        let base = &literal::in_replacement(&self.target.path);
        if base.is_empty() {
            return Vec::new();
        }
        let all = [r"(?s)^/(.*)$".to_owned(), format!("{base}{}$1", self.slash())];
        match self.target.has_slash || self.is_glued {
            true => all.to_vec(),
            // The root alone is the service's path.
            false => [r"^/\z".to_owned(), base.clone()].into_iter().chain(all).collect(),
        }
    }

    fn stripped(&self, path: &Path) -> Vec<String> {
        let (base, has_slash) = (&literal::in_replacement(&self.target.path), &self.target.has_slash);
        let (pattern, groups) = match path {
            Path::Prefix(prefix) if prefix == "/" && base.is_empty() => return Vec::new(),
            Path::Prefix(prefix) => (format!("^{}", regex::escape(prefix)), 0),
            // Without one the route is closed.
            Path::Regex(pattern) => pattern.strip.clone().unwrap_or_default(),
        };
        let bare = if base.is_empty() { "/" } else { base.as_str() };
        let mut pairs = Vec::new();
        // A slash at the end of the request's path stays, unless it is all of the path.
        let ends = match path {
            _ if base.is_empty() || self.is_glued => None,
            Path::Prefix(prefix) => {
                (prefix.ends_with('/') && (*has_slash || prefix != "/")).then(|| pattern.clone())
            }
            Path::Regex(_) if *has_slash => Some(format!("(?=(?s:.*)/\\z){pattern}")),
            Path::Regex(_) => Some(format!("(?=(?s:.+)/\\z){pattern}")),
        };
        if let Some(pattern) = ends {
            pairs.extend([format!("{pattern}\\z"), format!("{base}/")]);
        }
        // A line feed is a part of a path like any other.
        pairs.extend([format!("{pattern}\\z"), bare.to_owned()]);
        pairs.extend([format!("(?s){pattern}/?(.*)$"), format!("{base}{}${}", self.slash(), groups + 1)]);
        pairs
    }
}
