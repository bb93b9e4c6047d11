//! The plugins of this process, with their schemas compiled.

pub(super) mod entries;
mod log_formats;

use std::sync::{Arc, OnceLock};

use rustc_hash::FxHashMap;
use serde_json::Value;
use tidegate_model::{
    PluginCatalog, SchemaKind, catalog::PluginFacts, check::unknown_remedy, nearest::nearest, schema::Schema,
};

use self::entries::{Checks, Entry};
use crate::{LuaCompiler, PluginDef, PluginFile};

pub use self::entries::Catalog;

impl Catalog {
    /// `enabled`: the `plugins` list of config.yaml; `None` enables every plugin that is on by default or registered.
    pub fn new(defs: &[&'static PluginDef], enabled: Option<&[String]>) -> Result<Catalog, String> {
        let mut entries = FxHashMap::default();
        for &def in defs {
            entries.insert(def.name, entry(def)?);
        }
        let catalog = Catalog {
            entries,
            files: OnceLock::new(),
            enabled: arc_swap::ArcSwap::default(),
            absent: arc_swap::ArcSwap::default(),
            lua: None,
            missing: &[],
            unlisted: OnceLock::new(),
        };
        catalog.enable(enabled);
        Ok(catalog)
    }

    /// Adds the plugins that users wrote as files, once, in place of those with the same names.
    pub fn add_files(&self, defs: &[&'static PluginDef], enabled: Option<&[String]>) -> Result<(), String> {
        let files: Result<FxHashMap<_, _>, String> =
            defs.iter().map(|&def| Ok((def.name, entry(def)?))).collect();
        if self.files.set(files?).is_err() {
            return Err("the plugins of files are there already".to_owned());
        }
        self.enable(enabled);
        Ok(())
    }

    /// `has_file` tells whether a plugin that is in no list has a file: the message for an unknown one says so.
    pub fn look_for_files(&self, has_file: impl Fn(&str) -> bool + Send + Sync + 'static) {
        let _ = self.unlisted.set(Box::new(has_file));
    }

    fn entry(&self, name: &str) -> Option<&Entry> {
        let file = self.files.get().and_then(|files| files.get(name));
        file.or_else(|| self.entries.get(name))
    }

    fn entries(&self) -> impl Iterator<Item = &Entry> {
        let files = self.files.get();
        let replaced = move |name: &str| files.is_some_and(|files| files.contains_key(name));
        let own = self.entries.iter().filter(move |(name, _)| !replaced(name)).map(|(_, entry)| entry);
        own.chain(files.into_iter().flat_map(FxHashMap::values))
    }

    /// With the compiler that finds parts of scripts without effect.
    #[must_use]
    pub fn with_lua(self, lua: Option<Arc<dyn LuaCompiler>>) -> Catalog {
        Catalog { lua, ..self }
    }

    /// With the names of plugins that this program was built without, and the feature that each needs.
    #[must_use]
    pub fn without(self, missing: &'static [(&'static str, &'static str)]) -> Catalog {
        Catalog { missing, ..self }
    }

    /// Why there is no plugin of this name.
    pub fn unknown(&self, name: &str) -> String {
        format!("unknown plugin{}", unknown_remedy(name, self))
    }

    /// Replaces the list of enabled plugins (apisix.yaml may carry one). Unknown names are ignored.
    pub fn enable(&self, names: Option<&[String]>) {
        let mut enabled: Vec<&PluginDef> = self
            .entries()
            .map(|entry| entry.def)
            .filter(|def| {
                def.file.is_some_and(PluginFile::is_listed_elsewhere)
                    || names.is_none_or(|names| names.iter().any(|name| name == def.name))
            })
            .collect();
        let is_absent = |name: &&String| self.entry(name).is_none();
        let absent = names.into_iter().flatten().filter(is_absent).cloned().collect();
        self.absent.store(Arc::new(absent));
        enabled.sort_by(|a, b| b.priority.cmp(&a.priority).then_with(|| a.name.cmp(b.name)));
        self.enabled.store(Arc::new(enabled.into_iter().map(|def| def.name).collect()));
    }

    /// The plugin of that name, if it is enabled.
    pub fn def(&self, name: &str) -> Option<&'static PluginDef> {
        self.entry(name).map(|entry| entry.def)
    }

    /// Those enabled, by name.
    pub fn defs(&self) -> impl Iterator<Item = &'static PluginDef> {
        self.entries().map(|entry| entry.def)
    }

    /// The handler of a plugin-provided URI, for `public-api`.
    pub fn api(&self, method: &str, uri: &str) -> Option<&'static crate::Api> {
        let enabled = self.enabled.load();
        let apis = enabled.iter().filter_map(|name| self.def(name)).flat_map(apis);
        let mut apis = apis
            .filter(|(at, api)| is_at(at, uri) && (api.methods.is_empty() || api.methods.contains(&method)));
        apis.next().map(|(_, api)| api)
    }
}

fn entry(def: &'static PluginDef) -> Result<Entry, String> {
    let parse = |text: &str| {
        serde_json::from_str::<Value>(text).map_err(|error| format!("schema of plugin {}: {error}", def.name))
    };
    Ok(Entry {
        def,
        schema: with_meta(parse(def.schema)?),
        consumer_schema: def.consumer_schema.map(parse).transpose()?,
        metadata_schema: def.metadata_schema.map(parse).transpose()?,
        checks: Checks::default(),
    })
}

/// Whether an API answers this URI: its own one, or one below it where it ends with `*`.
fn is_at(api: &str, uri: &str) -> bool {
    api.strip_suffix('*').map_or(api == uri, |start| uri.starts_with(start))
}

/// The URIs that a plugin answers, after any move by the configuration.
fn apis(def: &'static PluginDef) -> impl Iterator<Item = (&'static str, &'static crate::Api)> {
    // `plugin_attr.NAME.uri` moves a plugin's only API.
    let attribute = crate::host::plugin_attribute(def.name).filter(|_| def.apis.len() == 1);
    let moved = attribute
        .and_then(|attribute| ["uri", "export_uri"].iter().find_map(|name| attribute.get(name)?.as_str()));
    def.apis.iter().map(move |api| (moved.unwrap_or(api.uri), api))
}

/// Every plugin's configuration may carry `_meta`.
fn with_meta(mut schema: Value) -> Value {
    let meta = serde_json::json!({
        "type": "object",
        "properties": {
            "disable": { "type": "boolean" },
            "error_response": { "oneOf": [{ "type": "string" }, { "type": "object" }] },
            "filter": { "type": "array" },
            "pre_function": { "type": "string" },
            "priority": { "type": "integer" }
        },
        "additionalProperties": false
    });
    if let Some(schema) = schema.as_object_mut() {
        let properties = schema.entry("properties").or_insert_with(|| Value::Object(Default::default()));
        if let Some(properties) = properties.as_object_mut() {
            properties.insert("_meta".to_owned(), meta);
        }
    }
    schema
}

impl PluginCatalog for Catalog {
    fn facts(&self, name: &str) -> Option<PluginFacts<'_>> {
        let entry = self.entry(name)?;
        Some(PluginFacts {
            name: entry.def.name,
            version: entry.def.version,
            priority: entry.def.priority,
            kind: entry.def.kind,
            scope: entry.def.scope,
            schema: &entry.schema,
            consumer_schema: entry.consumer_schema.as_ref(),
            metadata_schema: entry.metadata_schema.as_ref(),
            encrypt_fields: entry.def.encrypt_fields,
            for_admins: entry.def.for_admins,
            nested: entry.def.nested,
            remarks: entry.def.remarks,
            schemes: entry.def.schemes,
            only_tcp: entry.def.only_tcp,
            may_identify: entry.def.may_identify(),
            of_consumer: entry.def.of_consumer,
            of_itself: entry.def.file.map(|file| file.remarks()).unwrap_or_default(),
        })
    }

    fn is_enabled(&self, name: &str) -> bool {
        self.enabled.load().contains(&name)
    }

    fn enabled(&self) -> Vec<&str> {
        self.enabled.load().to_vec()
    }

    fn missing_feature(&self, name: &str) -> Option<&'static str> {
        self.missing.iter().find(|(missing, _)| *missing == name).map(|(_, feature)| *feature)
    }

    fn has_unlisted_file(&self, name: &str) -> bool {
        let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
        is_plain && self.facts(name).is_none() && self.unlisted.get().is_some_and(|has_file| has_file(name))
    }

    fn misspelled_in_list(&self, name: &str) -> Option<String> {
        let absent = self.absent.load();
        nearest(name, absent.iter().map(String::as_str)).map(str::to_owned)
    }

    fn unanswered(&self, path: &str) -> Option<String> {
        let stands_for = |uri: &str| match path.strip_suffix('*') {
            Some(start) => uri.starts_with(start),
            None => is_at(uri, path),
        };
        let has = |name: &&&str| self.def(name).is_some_and(|def| apis(def).any(|(uri, _)| stands_for(uri)));
        if self.enabled.load().iter().any(|name| has(&name)) || path.contains(':') {
            return None;
        }
        let off = self
            .entries()
            .map(|entry| entry.def.name)
            .find(|name| has(&name))
            .map(|name| format!(": add {name} to plugins in config.yaml"));
        Some(format!("no enabled plugin answers {path}, so that it is 404{}", off.unwrap_or_default()))
    }

    fn control(&self, path: &str, query: &str) -> Option<Value> {
        let enabled = self.enabled.load();
        let mut paths = enabled.iter().filter_map(|name| self.def(name)).flat_map(|def| def.control);
        paths.find(|known| known.uri == path).map(|known| (known.handler)(query))
    }

    fn variable_remark(&self, name: &str) -> Option<String> {
        crate::Variable::remark(name)
    }

    fn metadata_remarks(&self, name: &str, conf: &Value) -> Vec<String> {
        let mut found = log_formats::remarks(conf);
        found.extend(self.entry(name).into_iter().flat_map(|entry| (entry.def.metadata_remarks)(conf)));
        found
    }

    fn script_remarks(&self, source: &str) -> Vec<String> {
        self.lua.as_ref().map(|lua| lua.script_remarks(source)).unwrap_or_default()
    }

    fn check(&self, name: &str, kind: SchemaKind, conf: &mut Value) -> Result<(), String> {
        let entry = self.entry(name).ok_or_else(|| format!("unknown plugin [{name}]"))?;
        let (schema, compiled) = match kind {
            SchemaKind::Plugin => (Some(&entry.schema), &entry.checks.plugin),
            SchemaKind::Consumer if entry.consumer_schema.is_some() => {
                (entry.consumer_schema.as_ref(), &entry.checks.consumer)
            }
            // Other plugins are configured on a consumer as on a route.
            SchemaKind::Consumer => (Some(&entry.schema), &entry.checks.plugin),
            SchemaKind::Metadata => (entry.metadata_schema.as_ref(), &entry.checks.metadata),
        };
        if let Some(schema) = schema {
            let compiled = compiled.get_or_init(|| Schema::compile(schema)).as_ref();
            let checked = compiled.map_err(String::clone)?.check(conf);
            checked.map_err(|reason| (entry.def.explain)(conf, reason))?;
        }
        if kind == SchemaKind::Consumer && entry.def.identifies() {
            refuse_empty(conf)?;
        }
        if kind == SchemaKind::Plugin && entry.def.guards {
            entry.def.encrypt_fields.iter().try_for_each(|path| refuse_blank(conf, path))?;
        }
        entry.def.check_accepted(conf, kind)
    }
}

/// HMAC pads a key with zeros: one of NULs is as an empty one.
fn is_guessed(letter: char) -> bool {
    letter.is_whitespace() || letter.is_control()
}

/// A secret of blanks can be guessed. An empty one may mean that there is none, as for `redis_password`.
fn refuse_blank(conf: &Value, path: &str) -> Result<(), String> {
    let text = path.split('.').try_fold(conf, |conf, name| conf.get(name)).and_then(Value::as_str);
    match text.is_some_and(|text| !text.is_empty() && text.chars().all(is_guessed)) {
        true => Err(format!("property \"{path}\" should not be blank")),
        false => Ok(()),
    }
}

/// An empty key or password is what clients without credentials send.
fn refuse_empty(conf: &Value) -> Result<(), String> {
    let mut fields = conf.as_object().into_iter().flatten();
    let is_blank = |value: &Value| value.as_str().is_some_and(|text| text.chars().all(is_guessed));
    match fields.find(|(_, value)| is_blank(value)) {
        Some((name, _)) => Err(format!("property \"{name}\" should not be empty or blank")),
        None => Ok(()),
    }
}
