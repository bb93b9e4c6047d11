//! Fields of objects that are accepted and have no effect, in one table. They are logged when the object is
//! written, and when it is loaded.

mod beside;
mod branches;
mod chosen_addresses;
mod conditions;
mod exempt_paths;
mod matching;
mod metadata;
mod names;
mod needs;
mod overruled;
mod own_place;
mod public;
mod references;
mod sessions;
mod together;
pub(crate) mod unknown;
mod vain;
mod values;
mod without;

use serde_json::Value;

use crate::{Kind, Object, Objects, PluginCatalog, catalog::PluginFacts, encrypt::encrypted_fields, mask};

/// A field without effect.
#[derive(Debug, PartialEq, Eq)]
pub struct Field {
    /// Of the object.
    pub kind: Kind,
    /// JSON pointer; empty: the whole object.
    pub path: &'static str,
    /// The values without effect, all texts; empty: any value.
    pub values: &'static [&'static str],
    /// Completes "has no effect: ".
    pub why: &'static str,
}

const NO_STREAM: &str = "TCP and UDP are proxied where apisix.proxy_mode has stream";
const ONLY_HTTP: &str = "it is for sessions of streams, and requests are answered 500";
const NO_TYPE: &str = "all answers and failures of requests count, whatever the type";
const NOT_HTTP: &[&str] = &["tcp", "udp", "tls"];
const PASSIVE: &[&str] = &["tcp", "https"];

const fn field(kind: Kind, path: &'static str, values: &'static [&'static str], why: &'static str) -> Field {
    Field { kind, path, values, why }
}

/// The fields of objects that are accepted and have no effect.
#[rustfmt::skip]
pub const FIELDS: &[Field] = &[
    field(Kind::StreamRoute, "", &[], NO_STREAM),
    field(Kind::Route, "/script_id", &[], "there are no scripts to refer to; use script"),
    field(Kind::Service, "/script", &[], "scripts run on routes only, as in APISIX"),
    field(Kind::Upstream, "/scheme", NOT_HTTP, ONLY_HTTP),
    field(Kind::Route, "/upstream/scheme", NOT_HTTP, ONLY_HTTP),
    field(Kind::Service, "/upstream/scheme", NOT_HTTP, ONLY_HTTP),
    field(Kind::Upstream, "/checks/passive/type", PASSIVE, NO_TYPE),
    field(Kind::Route, "/upstream/checks/passive/type", PASSIVE, NO_TYPE),
    field(Kind::Service, "/upstream/checks/passive/type", PASSIVE, NO_TYPE),
];

impl Field {
    /// The message for one object.
    pub fn in_words(&self) -> String {
        let name = self.name();
        let what = if name.is_empty() { "it" } else { &name };
        format!("{what} has no effect: {}", self.why)
    }

    /// Its name in the message: `upstream.scheme`; empty for a whole object.
    pub fn name(&self) -> String {
        self.path.trim_start_matches('/').replace('/', ".")
    }

    /// Whether it has an effect on sessions of TCP and UDP.
    fn is_of_streams(&self) -> bool {
        self.kind == Kind::StreamRoute || (self.kind != Kind::Route && self.why == ONLY_HTTP)
    }

    fn is_in(&self, object: &Object) -> bool {
        if object.kind != self.kind {
            return false;
        }
        // Most objects have none of them: a search of the text shows that without parsing it.
        let last = self.path.rsplit('/').next().unwrap_or_default();
        let needles = if self.values.is_empty() { &[last][..] } else { self.values };
        if !last.is_empty() && !needles.iter().any(|needle| object.document.may_have(needle)) {
            return false;
        }
        match object.value().pointer(self.path) {
            None | Some(Value::Null) => false,
            Some(_) if self.values.is_empty() => true,
            Some(value) => value.as_str().is_some_and(|text| self.values.contains(&text)),
        }
    }
}

pub use self::{
    matching::{Listeners, Matching, Ports},
    metadata::catalog_of,
    names::split_upstreams,
    vain::{is_about_place, path as doubt_of_path},
};
pub(crate) use values::is_text as is_text_variable;

/// All parts of an object that have no effect, as messages. `catalog`: for a stream route that of stream routes.
pub fn of(
    object: &Object,
    matching: Matching,
    catalog: &dyn PluginCatalog,
    all: &dyn Objects,
) -> Vec<String> {
    let mut found = vain::of(object, matching, catalog);
    if matching.is_document {
        found.extend(encrypted(object, catalog));
    }
    found.extend(masked(object, catalog));
    found.extend(own_place::patterns(object, matching));
    found.extend(own_place::block_rules(object, matching));
    found.extend(overruled::of(object));
    found.extend(exempt_paths::of(object));
    found.extend(references::of(object, catalog));
    found.extend(public::of(object, catalog));
    found.extend(without::of(object, catalog));
    found.extend(sessions::of(object, matching, catalog, all));
    found.extend(names::of(object, catalog, all));
    found.extend(chosen_addresses::of(object, all));
    found.extend(beside::of(object, catalog, all));
    found.extend(remarks(object, catalog));
    found.extend(metadata::of(object, catalog));
    found.extend(script(object, catalog));
    found.extend(unknown::of(object, catalog));
    found
}

/// Secrets that were probably copied from a store. Plain texts may look the same.
fn encrypted(object: &Object, catalog: &dyn PluginCatalog) -> impl Iterator<Item = String> {
    let fields = encrypted_fields(object.kind, &object.id, &object.value(), catalog).into_iter();
    fields.map(|(field, _)| {
        format!("{field} looks encrypted but is not decrypted here; the text itself is used as the secret")
    })
}

/// A mask that an older version stored as a secret; it is refused when it is written.
fn masked(object: &Object, catalog: &dyn PluginCatalog) -> Option<String> {
    if !object.document.text().contains(crate::mask::fields::MASK) {
        return None;
    }
    let place = mask::masked_place(object.kind, &object.id, &object.value(), catalog)?;
    Some(format!(
        "{place} is {:?}, the mask that viewers see in place of a secret; anyone can guess it, write the \
         secret",
        crate::mask::fields::MASK
    ))
}

/// The remarks about a route's `script`.
fn script(object: &Object, catalog: &dyn PluginCatalog) -> Vec<String> {
    if object.kind != Kind::Route || !object.document.may_have("script") {
        return Vec::new();
    }
    let value = object.value();
    let source = value.get("script").and_then(Value::as_str);
    source.map(|source| catalog.script_remarks(source)).unwrap_or_default()
}

/// The remarks of its plugins about their own configurations.
fn remarks(object: &Object, catalog: &dyn PluginCatalog) -> Vec<String> {
    let value = object.value();
    let mut found = Vec::new();
    for (name, conf) in value.get("plugins").and_then(Value::as_object).into_iter().flatten() {
        let Some(facts) = catalog.facts(name) else { continue };
        // The consumer is known before plugins of consumers and groups run.
        let is_late = match object.kind {
            Kind::ConsumerGroup => facts.consumer_schema.is_some() || name == "multi-auth",
            Kind::Consumer => name == "multi-auth",
            _ => false,
        };
        if is_late {
            found.push(format!(
                "plugin {name} has no effect here: write it on a route, a service or as a global rule"
            ));
        }
        let all = |facts: &PluginFacts<'_>, name: &str, conf: &Value| {
            [facts.of_itself, &(facts.remarks)(conf), &needs::of(name, conf)].concat()
        };
        found.extend(all(&facts, name, conf).iter().map(|remark| format!("plugin {name}: {remark}")));
        for nested in (facts.nested)(conf) {
            let remarks = catalog.facts(nested.name).map(|facts| all(&facts, nested.name, nested.conf));
            let place = &nested.path;
            found.extend(remarks.iter().flatten().map(|remark| format!("plugin {name}: {place}: {remark}")));
        }
    }
    found
}

/// The fields of an object that have no effect.
pub fn fields(object: &Object, matching: Matching) -> impl Iterator<Item = &'static Field> {
    FIELDS.iter().filter(move |field| !(matching.stream && field.is_of_streams()) && field.is_in(object))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Document;

    fn check(kind: Kind, value: Value, expected: &[&str]) {
        let document = Document::new(&value);
        let object =
            Object { kind, id: "1".into(), document, created: 1, modified: 1, fault: None, unread: None };
        let found: Vec<String> = fields(&object, Matching::default()).map(Field::name).collect();
        assert_eq!(found, expected, "{value}");
    }

    #[test]
    fn objects() {
        check(Kind::Route, json!({"uri": "/", "script_id": 1}), &["script_id"]);
        check(Kind::Route, json!({"uri": "/script_id", "upstream": {"scheme": "http"}}), &[]);
        check(
            Kind::Route,
            json!({"upstream": {"scheme": "tls", "checks": {"passive": {"type": "tcp"}}}}),
            &["upstream.scheme", "upstream.checks.passive.type"],
        );
        check(Kind::Upstream, json!({"scheme": "grpc", "checks": {"active": {"type": "tcp"}}}), &[]);
        check(Kind::Service, json!({"script": "return {}", "desc": "tcp"}), &["script"]);
        check(Kind::StreamRoute, json!({"server_port": 9100}), &[""]);
        check(Kind::Consumer, json!({"username": "script_id"}), &[]);
    }

    /// A field of the table that no schema has would be a typing error.
    #[test]
    fn paths_are_those_of_schemas() {
        for field in FIELDS.iter().filter(|field| !field.path.is_empty()) {
            let schema = crate::schemas::name_of_kind(field.kind).and_then(crate::schemas::document);
            let schema = schema.expect("a schema");
            let name = field.path.rsplit('/').next().unwrap_or_default();
            assert!(schema.to_string().contains(&format!("\"{name}\"")), "{}", field.path);
        }
    }
}
