//! Variables in the texts of plugins that nothing gives a value: a header or a field of a log stays empty.

use serde_json::Value;
use tidegate_model::{Kind, mask::mask_resource, resources};
use tidegate_plugin_api::{
    PluginDef, Session, Variable, upstream::HashKey, variables::noted::variables_of_texts,
};
use tidegate_telemetry::error_log::Level;

use crate::{Compiler, object::Key, upstreams::hash_key};

impl Compiler {
    /// Builds a plugin of an object, and says which variables of its texts no request has, or no session.
    pub(crate) fn with_texts<R>(&mut self, key: &Key, def: &PluginDef, build: impl FnOnce() -> R) -> R {
        let (built, noted) = variables_of_texts(build);
        if !self.trial && !noted.is_empty() {
            self.remark_on_texts(key, def, &noted);
        }
        built
    }

    /// What an upstream hashes; it says which of that no request has.
    pub(crate) fn hash_key(&mut self, key: &Key, conf: &resources::Upstream) -> HashKey {
        let (hash_key, noted) = variables_of_texts(|| hash_key(conf));
        // Sessions may use the same upstream.
        for name in noted.iter().filter(|name| !Session::knows(&Variable::resolve(name))) {
            if let Some(text) = Variable::remark(name) {
                self.remark(key, Level::Warn, format!("the key of the upstream: {text}"));
            }
        }
        hash_key
    }

    fn remark_on_texts(&mut self, key: &Key, def: &PluginDef, noted: &[Box<str>]) {
        let unknown = noted.iter().filter_map(|name| {
            let text = if key.0 == Kind::StreamRoute {
                (!Session::knows(&Variable::resolve(name)))
                    .then(|| format!("no session has a variable ${name}"))
            } else {
                Variable::remark(name)
            };
            Some((name, text?))
        });
        let unknown: Vec<(&Box<str>, String)> = unknown.collect();
        let Some(object) = self.object(key.0, &key.1).filter(|_| !unknown.is_empty()) else { return };
        // What readers may not see is not repeated.
        let mut shown = Value::clone(&object.value());
        mask_resource(key.0, &key.1, &mut shown, self.catalog.as_ref());
        let Some(conf) = shown.get("plugins").and_then(|plugins| plugins.get(def.name)) else { return };
        let said = (def.remarks)(conf);
        for (name, text) in unknown {
            let is_said = said.iter().any(|said| said.contains(&text));
            if is_said || is_set_by_functions(&shown, name) {
                continue;
            }
            // The others are of the plugin's metadata: its write has the warning.
            if let Some(place) = place_of(conf, name) {
                self.remark(key, Level::Warn, format!("plugin {}: {place}: {text}", def.name));
            }
        }
    }
}

/// The first text with the variable: `headers.set.X-User`.
fn place_of(value: &Value, name: &str) -> Option<String> {
    let below = |place: String, item: &Value| {
        let rest = place_of(item, name)?;
        let dot = if rest.is_empty() || rest.starts_with('[') { "" } else { "." };
        Some(format!("{place}{dot}{rest}"))
    };
    match value {
        Value::String(text) => refers_to(text, name).then(String::new),
        Value::Array(items) => items.iter().enumerate().find_map(|(at, item)| below(format!("[{at}]"), item)),
        Value::Object(fields) => fields.iter().find_map(|(field, item)| below(field.clone(), item)),
        _ => None,
    }
}

fn refers_to(text: &str, name: &str) -> bool {
    text == name
        || text.match_indices(name).any(|(at, _)| {
            let before = text.get(..at).unwrap_or_default().trim_end();
            before.ends_with('$') || before.ends_with("${")
        })
}

/// Whether Lua in the same object may give the variable its value.
fn is_set_by_functions(value: &Value, name: &str) -> bool {
    match value {
        Value::String(text) => {
            text.contains("function") && text.contains(name) && !text.contains(&format!("${name}"))
        }
        Value::Array(items) => items.iter().any(|item| is_set_by_functions(item, name)),
        Value::Object(fields) => fields.values().any(|item| is_set_by_functions(item, name)),
        _ => false,
    }
}
