//! What a caller may do.

/// What the owner of a key, or a user, may do: each all that the one before it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// May only `GET`.
    Viewer,
    /// Read and write, without secrets and users.
    Editor,
    /// Read and write, secrets included.
    Admin,
}

impl Role {
    /// As it is written.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Role::Viewer => "viewer",
            Role::Editor => "editor",
            Role::Admin => "admin",
        }
    }

    /// The role of that name.
    pub(crate) fn of(name: &str) -> Option<Role> {
        [Role::Viewer, Role::Editor, Role::Admin].into_iter().find(|role| role.name() == name)
    }
}
