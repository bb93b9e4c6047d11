//! What a conversion is given besides the text.

use crate::nginx::sites::Placement;

/// What a configuration names besides itself: certificates, proto files, included files.
pub trait Files {
    /// The text of a file, or why there is none. Relative names start where the other gateway starts them.
    fn read(&self, name: &str) -> Result<String, String>;

    /// The files that a pattern with `*`, `?` or `[…]` names, in their order. None in a folder that is there is fine.
    fn glob(&self, pattern: &str) -> Result<Vec<String>, String> {
        Err(format!("{pattern}: patterns are not supported here"))
    }

    /// A variable of the environment.
    fn variable(&self, _name: &str) -> Option<String> {
        None
    }

    /// Whether the user said that there is nothing in it.
    fn is_declared_empty(&self, _name: &str) -> bool {
        false
    }
}

impl<F: Fn(&str) -> Result<String, String>> Files for F {
    fn read(&self, name: &str) -> Result<String, String> {
        self(name)
    }
}

/// What importing a configuration may take into account.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Plugins that are left out knowingly, though they may guard; Kong.
    pub allow_missing: Vec<String>,
    /// Which listeners the gateway has; nginx.
    pub listeners: Placement,
}
