//! Which part of the sockets a server has.

use super::super::condition::Condition;

/// Routes of a server for some of its sockets and names.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    /// Empty: any.
    pub hosts: Vec<String>,
    pub condition: Condition,
    pub is_default: bool,
}

/// Which listeners the gateway has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// As the file says.
    Written,
    /// One public listener of the gateway's own, and one for TLS, in place of the file's.
    /// With a port: in place of those at this one.
    Replaced(Option<u16>),
    /// Those of a running gateway: routes answer where the file says, if it listens there.
    Running,
    /// Those of a gateway to come: what is public here is public there, the rest answers where the file says.
    #[default]
    Elsewhere,
}

impl Placement {
    /// A router that goes by paths first would give a server names that belong to others.
    pub(super) fn router_is_unknown(self) -> bool {
        matches!(self, Placement::Running | Placement::Elsewhere)
    }
}
