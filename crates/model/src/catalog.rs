//! The facts about plugins that the resources need, without depending on any.

use serde_json::Value;

/// Which of a plugin's schemas a configuration is checked against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaKind {
    /// On a route, service, plugin config, consumer group, global rule.
    Plugin,
    /// On a consumer or credential of an authentication plugin.
    Consumer,
    /// In `plugin_metadata`.
    Metadata,
}

/// The facts of one plugin that schema and listing endpoints show.
pub struct PluginFacts<'a> {
    /// As in configurations, like `key-auth`.
    pub name: &'a str,
    /// APISIX's plugin version number, 0.1 for most.
    pub version: f64,
    /// Higher runs earlier.
    pub priority: i64,
    /// `Some("auth")` for authentication plugins.
    pub kind: Option<&'a str>,
    /// `Some("global")` for plugins that only make sense as global ones (batch-requests, log-rotate...).
    pub scope: Option<&'a str>,
    /// Of its configuration on routes, services and global rules.
    pub schema: &'a Value,
    /// Of its configuration on consumers and credentials; `None`: it does not authenticate.
    pub consumer_schema: Option<&'a Value>,
    /// Of its metadata; `None`: it has none.
    pub metadata_schema: Option<&'a Value>,
    /// Field paths that are encrypted at rest and secret in answers (`["key"]`, `["auth.header"]`).
    pub encrypt_fields: &'a [&'a str],
    /// Why only role admin may write its configurations; `None`: editors may as well.
    pub for_admins: Option<&'static str>,
    /// The configurations of other plugins inside of one.
    pub nested: fn(&Value) -> Vec<Nested<'_>>,
    /// Parts of a configuration that have no effect, as messages.
    pub remarks: fn(&Value) -> Vec<String>,
    /// The schemes of upstreams that it works with; empty: all.
    pub schemes: &'a [&'a str],
    /// Of stream routes: what it reads comes over TCP only.
    pub only_tcp: bool,
    /// Whether it may say which consumer a request is of.
    pub may_identify: bool,
    /// The part of a configuration that is about a consumer, and what happens to it where none is known, as a message.
    pub of_consumer: fn(&Value) -> Option<String>,
    /// Parts of the plugin itself that have no effect, as messages: of one that a user wrote as a file.
    pub of_itself: &'a [String],
}

/// A plugin's configuration inside of another plugin's.
pub struct Nested<'a> {
    /// Where: `auth_plugins[0].key-auth`.
    pub path: String,
    /// Of the plugin.
    pub name: &'a str,
    /// Its configuration within the other plugin's.
    pub conf: &'a Value,
}

/// For plugins whose configuration holds no other's.
pub fn no_nested(_: &Value) -> Vec<Nested<'_>> {
    Vec::new()
}

/// For plugins whose fields all have an effect.
pub fn no_remarks(_: &Value) -> Vec<String> {
    Vec::new()
}

/// For plugins that go by no consumer.
pub fn of_no_consumer(_: &Value) -> Option<String> {
    None
}

/// The message for a feature that this program was built without.
pub fn built_without(feature: &str) -> String {
    format!("this build does not include feature {feature}")
}

/// The plugins of this process. `registered` has every plugin built in, `enabled` those that config.yaml lists.
pub trait PluginCatalog: Send + Sync {
    /// `None`: no such plugin in this build.
    fn facts(&self, name: &str) -> Option<PluginFacts<'_>>;
    /// Whether it is in the list of plugins.
    fn is_enabled(&self, name: &str) -> bool;
    /// Names of the enabled plugins, highest priority first.
    fn enabled(&self) -> Vec<&str>;
    /// Checks `conf` (schema, then the plugin's own rules) and fills defaults into it.
    /// The error is the bare message: `property "key" is required`.
    fn check(&self, name: &str, kind: SchemaKind, conf: &mut Value) -> Result<(), String>;
    /// The feature of this program that a plugin of this name needs, where the program was built without it.
    fn missing_feature(&self, _: &str) -> Option<&'static str> {
        None
    }
    /// Whether a plugin that is not in the list of config.yaml has a file in `apisix.extra_lua_path`.
    fn has_unlisted_file(&self, _: &str) -> bool {
        false
    }
    /// A name in the list of config.yaml that no plugin has, and that is probably this one misspelled.
    fn misspelled_in_list(&self, _: &str) -> Option<String> {
        None
    }
    /// Why plugin public-api has no answer for a path, or for any that a path with `*` matches.
    fn unanswered(&self, _: &str) -> Option<String> {
        None
    }
    /// What an enabled plugin answers to a path of the Control API: a text, or JSON.
    fn control(&self, _path: &str, _query: &str) -> Option<Value> {
        None
    }
    /// A remark about a variable that no request has unless Lua sets it.
    fn variable_remark(&self, _: &str) -> Option<String> {
        None
    }
    /// Parts of a plugin's metadata that have no effect, as messages.
    fn metadata_remarks(&self, _name: &str, _conf: &Value) -> Vec<String> {
        Vec::new()
    }
    /// Parts of the Lua of a route's `script` that have no effect, as messages.
    fn script_remarks(&self, _: &str) -> Vec<String> {
        Vec::new()
    }
}
