//! Who may use the Admin API.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Reader;

/// What a request to the Admin API has to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nothing: `admin_key_required: false`, and nothing else, says so.
    Open,
    /// One of these keys. An empty list lets no request in.
    Keys(Vec<AdminKey>),
}

/// A key of `deployment.admin.admin_key`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminKey {
    /// Shown in the audit log and the history.
    pub name: String,
    /// The text of `X-API-KEY`.
    pub key: Key,
    /// What its owner may do.
    pub role: AdminRole,
    /// Labels of the objects that it is for; empty: all objects.
    pub scope: BTreeMap<String, String>,
}

/// Where the text of a key is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Key {
    /// From config.yaml. Never empty.
    Configured(String),
    /// config.yaml has none: from a file below data/, once that was read or written. `None` matches no request.
    Generated(Option<String>),
}

/// What the owner of a key may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdminRole {
    /// Read and write, secrets included.
    Admin,
    /// Read and write, with secrets masked; no users.
    Editor,
    /// Read, with secrets masked.
    Viewer,
}

impl AdminRole {
    /// All, and how config.yaml names them.
    pub(crate) const NAMES: [(AdminRole, &str); 3] =
        [(AdminRole::Admin, "admin"), (AdminRole::Editor, "editor"), (AdminRole::Viewer, "viewer")];

    /// As it is written.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(role, _)| *role == self).map_or("admin", |(_, name)| name)
    }
}

impl Access {
    pub(super) fn read(reader: &Reader) -> Self {
        let at = |name: &str| format!("deployment.admin.{name}");
        // null and everything else that is not false ask for a key.
        if reader.value(&at("admin_key_required")) == Some(&Value::Bool(false)) {
            return Self::Open;
        }
        Self::Keys(reader.list(&at("admin_key")).iter().map(AdminKey::read).collect())
    }

    /// The keys; empty where the API is open.
    pub fn keys(&self) -> &[AdminKey] {
        match self {
            Self::Open => &[],
            Self::Keys(keys) => keys,
        }
    }

    pub(crate) fn keys_mut(&mut self) -> &mut [AdminKey] {
        match self {
            Self::Open => &mut [],
            Self::Keys(keys) => keys,
        }
    }

    /// A key that may do everything.
    pub fn admin_key(&self) -> Option<&AdminKey> {
        self.keys().iter().find(|key| key.role == AdminRole::Admin)
    }
}

impl AdminKey {
    fn read(item: &Value) -> Self {
        let reader = Reader::new(item);
        Self {
            name: reader.text("name").unwrap_or_else(|| "admin".to_owned()),
            key: reader.text("key").map_or(Key::Generated(None), Key::Configured),
            // Other words keep the gateway from starting.
            role: AdminRole::NAMES
                .into_iter()
                .find(|(_, name)| reader.text("role").as_deref() == Some(name))
                .map_or(AdminRole::Admin, |(role, _)| role),
            scope: labels(reader.value("scope")),
        }
    }

    /// The text of the key; `None` until a generated one has been read or written.
    pub fn value(&self) -> Option<&str> {
        match &self.key {
            Key::Configured(key) => Some(key),
            Key::Generated(key) => key.as_deref(),
        }
    }

    /// Whether config.yaml leaves the key to the gateway.
    pub fn is_generated(&self) -> bool {
        matches!(self.key, Key::Generated(_))
    }
}

/// Names and values of labels.
pub(super) fn labels(scope: Option<&Value>) -> BTreeMap<String, String> {
    let fields = scope.and_then(Value::as_object).into_iter().flatten();
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    fields.map(|(name, value)| (name.clone(), text(value))).collect()
}
