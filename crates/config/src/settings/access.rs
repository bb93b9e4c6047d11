//! Who may use the Admin API.

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

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminKey {
    pub name: String,
    pub key: Key,
    pub role: AdminRole,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Key {
    /// From config.yaml. Never empty.
    Configured(String),
    /// config.yaml has none: from a file below data/, once that was read or written. `None` matches no request.
    Generated(Option<String>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdminRole {
    Admin,
    Viewer,
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

    /// A key that may write.
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
            role: match reader.text("role").as_deref() {
                Some("viewer") => AdminRole::Viewer,
                _ => AdminRole::Admin,
            },
        }
    }

    pub fn value(&self) -> Option<&str> {
        match &self.key {
            Key::Configured(key) => Some(key),
            Key::Generated(key) => key.as_deref(),
        }
    }

    pub fn is_generated(&self) -> bool {
        matches!(self.key, Key::Generated(_))
    }
}
