//! The text of conf/config.yaml: every key, commented out, with its default and a word on what it is for. And those that
//! `tidegate init` writes: the same, with some keys set.

use std::fmt::Write;

use serde_json::Value;

use crate::keys::{
    self,
    key::{Fate, Key, Preset, Takes},
};

const HEAD: &str = "\
# The configuration of this gateway. Only what differs from the defaults needs to be here.
#
# Lines with a blank after the # are words. All others that begin with # are keys: take the # away, and that of the
# keys above, to set one. They show the defaults; where a key has none, an example, marked so.
#
# ${{NAME}} and ${{NAME:=default}} stand for environment variables. The same file works for Apache APISIX, except for
# config_provider: embedded.

deployment:
  admin:
    admin_key:
      - name: admin
        key: ''   # empty: a random key is generated and kept in data/admin.key
        role: admin
    admin_listen:
      ip: 127.0.0.1   # 0.0.0.0 by default; who may use it is allow_admin's matter
      port: 9180
";

const RESOURCES: &str = "\
# The objects of this gateway. Changes take effect within a second; the last line says that the file is complete.
routes:
  - id: hello
    uri: /hello
    plugins:
      mocking:
        content_type: text/plain
        response_example: \"hello from tidegate\\n\"
#END
";

const KEYRING: &str = "apisix.data_encryption.keyring";

/// Above it, where an etcd cluster keeps the objects.
const SHARED_KEYRING: &str = "    \
    # All gateways that share the etcd, those of APISIX too, need the same keyring. Before the first object is written, copy the
    # key below to each of them. If they have written objects already, put their keyring here in place of it.
";

const ACTIVE: [&str; 7] = [
    "deployment",
    "deployment.admin",
    "deployment.admin.admin_key",
    "deployment.admin.admin_listen",
    "deployment.admin.admin_listen.ip",
    "deployment.admin.admin_listen.port",
    "deployment.admin.admin_listen.listen",
];

/// What a configuration starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Starter {
    /// Admin API and the embedded store.
    Embedded,
    /// Routes from conf/apisix.yaml.
    Standalone,
    /// Admin API and an etcd cluster.
    Etcd,
}

impl Starter {
    /// Keys that are set, and to what: JSON.
    fn set(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Embedded => &[],
            Self::Standalone => &[
                ("deployment.role", "\"data_plane\""),
                ("deployment.role_data_plane.config_provider", "\"yaml\""),
            ],
            Self::Etcd => &[
                ("deployment.role_traditional.config_provider", "\"etcd\""),
                ("deployment.etcd.host", "[\"http://127.0.0.1:2379\"]"),
            ],
        }
    }
}

/// A config.yaml to start from. The store encrypts with the first of `keys`; `plugins` are on by default. Without keys it is
/// conf/config.yaml of this repository.
pub fn starter(kind: Starter, keys: &[&str], plugins: &[&str]) -> String {
    let keyring = (!keys.is_empty()).then(|| Value::from(keys).to_string());
    let keyring = keyring.iter().map(|json| (KEYRING, json.as_str()));
    let set: Vec<(&str, &str)> = kind.set().iter().copied().chain(keyring).collect();
    // Without an Admin API its keys are of no use.
    let (head, written) = match (kind, HEAD.split_once("  admin:\n")) {
        (Starter::Standalone, Some((head, _))) => (head, ACTIVE.get(..1).unwrap_or_default()),
        _ => (HEAD, ACTIVE.as_slice()),
    };
    let mut text = head.to_owned();
    for key in keys::all() {
        // The head has these; items of lists are described by their list.
        if !written.contains(&key.path) && !key.path.contains('[') && is_shown(key) {
            if kind == Starter::Etcd && key.path == KEYRING {
                text.push_str(SHARED_KEYRING);
            }
            render(&mut text, key, &set, plugins);
        }
    }
    text
}

/// conf/apisix.yaml, where routes come from there.
pub fn starter_resources(kind: Starter) -> Option<&'static str> {
    (kind == Starter::Standalone).then_some(RESOURCES)
}

/// Keys without effect have no place in a file to start from; docs/config.md has them.
fn is_shown(key: &Key) -> bool {
    let served = |key: &Key| match (key.fate, key.value) {
        (Fate::Served | Fate::Not(..), _) => true,
        (Fate::Only(value, _), Preset::Default(shown) | Preset::Example(shown)) => value == shown,
        (Fate::NoEffect(_) | Fate::Refused(_), _) => false,
    };
    let below = |other: &Key| other.path.strip_prefix(key.path).is_some_and(|rest| rest.starts_with('.'));
    let within = |other: &Key| {
        let inside = key.path.strip_prefix(other.path).is_some_and(|rest| rest.starts_with('.'));
        let (Preset::Default(shown) | Preset::Example(shown)) = other.value;
        inside && matches!(other.takes, Takes::FreeTable) && shown != "{}"
    };
    match key.takes {
        // Its table shows it.
        _ if keys::all().any(within) => false,
        // A table is for what stands in it.
        Takes::Table if keys::all().any(below) => {
            keys::all().any(|other| below(other) && !matches!(other.takes, Takes::Table) && served(other))
        }
        _ => served(key),
    }
}

fn render(text: &mut String, key: &Key, set: &[(&str, &str)], plugins: &[&str]) {
    let depth = key.path.matches('.').count();
    let indent = "  ".repeat(depth);
    let name = key.path.rsplit('.').next().unwrap_or(key.path);
    if depth == 0 {
        text.push('\n');
    }
    let (json, example) = match key.value {
        Preset::Default(json) => (json, ""),
        Preset::Example(json) => (json, if matches!(key.takes, Takes::Table) { "" } else { "Example. " }),
    };
    let value = set.iter().find(|(path, _)| *path == key.path).map(|(_, json)| *json);
    let above =
        set.iter().any(|(path, _)| path.strip_prefix(key.path).is_some_and(|rest| rest.starts_with('.')));
    let off = if value.is_some() || above { "" } else { "#" };
    let (json, example) = value.map_or((json, example), |json| (json, ""));
    let _ = writeln!(text, "{indent}# {example}{}", key.about);
    let list = match key.path {
        "plugins" => Some(plugins),
        _ => None,
    };
    // Keys that have keys of their own below them in the table.
    let parent = matches!(key.takes, Takes::Table) || (json == "{}" && !keys::children(key.path).is_empty());
    match (list, parent) {
        (Some(names), _) => {
            let _ = writeln!(text, "{indent}#{name}:");
            names.iter().for_each(|plugin| {
                let _ = writeln!(text, "{indent}  #- {plugin}");
            });
        }
        (None, true) => {
            let _ = writeln!(text, "{indent}{off}{name}:");
        }
        (None, false) => {
            let value: Value = serde_json::from_str(json).unwrap_or_default();
            let _ = writeln!(text, "{indent}{off}{name}: {}", flow(&value));
        }
    }
}

/// JSON is YAML; only single-quoted where that reads better.
fn flow(value: &Value) -> String {
    match value {
        Value::String(text) if text.contains('"') => format!("'{}'", text.replace('\'', "''")),
        Value::String(text) if is_plain(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(flow).collect::<Vec<_>>().join(", ")),
        Value::Object(map) => {
            let pairs = map.iter().map(|(key, value)| format!("{key}: {}", flow(value)));
            format!("{{{}}}", pairs.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

/// Whether a text may stand without quotes.
fn is_plain(text: &str) -> bool {
    let first = text.chars().next().is_some_and(|first| first.is_ascii_alphabetic() || first == '/');
    let safe = |letter: char| letter.is_ascii_alphanumeric() || "-_./".contains(letter);
    first
        && text.chars().all(safe)
        && !matches!(text, "on" | "off" | "yes" | "no" | "true" | "false" | "null")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{Source, load_with};

    const PLUGINS: [&str; 2] = ["cors", "prometheus"];

    #[test]
    fn starters_are_what_they_say() {
        use crate::{Provider, Role};
        for (kind, role, provider, admin) in [
            (Starter::Embedded, Role::Traditional, Provider::Embedded, true),
            (Starter::Standalone, Role::DataPlane, Provider::Yaml, false),
            (Starter::Etcd, Role::Traditional, Provider::Etcd, true),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("config.yaml");
            fs::write(&path, starter(kind, &["0123456789abcdef"], &PLUGINS)).unwrap();
            let source = Source { file: Some(path), plugins: PLUGINS.to_vec(), ..Source::default() };
            let loaded = load_with(&source, &|_| None).unwrap_or_else(|error| panic!("{error}"));
            // One role and one provider leave the keys of the others idle.
            let idle = |warning: &&String| {
                warning.contains("has no effect: deployment.role says") || warning.contains("not from etcd")
            };
            assert_eq!(
                loaded.warnings.iter().filter(|warning| !idle(warning)).collect::<Vec<_>>(),
                Vec::<&String>::new()
            );
            let settings = loaded.settings;
            assert_eq!((settings.role, settings.provider), (role, provider));
            assert_eq!(settings.admin.listen.is_some(), admin);
        }
    }

    /// With every key switched on, the file must load without a word, and every default must be what it says.
    #[test]
    fn the_keys_it_shows_are_good() {
        let mut all = String::new();
        // The active part ends before the first key that is off.
        for line in starter(Starter::Embedded, &[], &PLUGINS).lines() {
            let trimmed = line.trim_start();
            match trimmed.strip_prefix('#') {
                Some(key) if !key.starts_with(' ') && !key.is_empty() => {
                    let indent = " ".repeat(line.len() - trimmed.len());
                    all.push_str(&format!("{indent}{key}\n"));
                }
                _ => all.push_str(&format!("{line}\n")),
            }
        }
        // Examples that exclude each other or name files.
        let all = all.replace("https_admin: true", "https_admin: false");
        // The shipped file is stricter than the default here.
        let all = all.replace("ip: 127.0.0.1   # 0.0.0.0 by", "ip: 0.0.0.0   # by");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.yaml");
        fs::write(&path, &all).unwrap();
        let source = Source { file: Some(path), ..Source::default() };
        let loaded = load_with(&source, &|_| None).unwrap_or_else(|error| panic!("{error}"));
        // One role, one provider, one proxy_mode and the plugins that are on leave other keys idle; the keyring is the published
        // one.
        let idle = |warning: &&String| {
            warning.contains("has no effect: deployment.role says")
                || warning.contains("no effect: ") && warning.contains("write http&stream")
                || warning.contains("has no effect: plugin ")
                || warning.contains("not from etcd")
                || warning.contains("encrypts with a key that is published")
        };
        assert_eq!(
            loaded.warnings.iter().filter(|warning| !idle(warning)).collect::<Vec<_>>(),
            Vec::<&String>::new()
        );
        let mut defaults = keys::defaults();
        keys::set(&mut defaults, "plugins", PLUGINS.as_slice().into());
        compare(&defaults, &loaded.settings.raw, "");
    }

    fn compare(default: &Value, found: &Value, path: &str) {
        match default.as_object() {
            Some(map) => map.iter().for_each(|(key, value)| {
                compare(value, found.get(key).unwrap_or(&Value::Null), &format!("{path}.{key}"));
            }),
            // Sizes and times have one form after loading.
            None if default.is_number() && found.is_string() => {
                assert_eq!(Some(default.to_string().as_str()), found.as_str(), "{path}");
            }
            None => assert_eq!(default, found, "{path}"),
        }
    }
}
