//! For whom a job is done.

use std::net::IpAddr;

/// Whose job it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Whose {
    /// A client's, by its address; of IPv6, by its network.
    Client(IpAddr),
    /// The gateway's own, such as the entries of logs.
    Ours,
}

impl From<IpAddr> for Whose {
    fn from(client: IpAddr) -> Whose {
        Whose::Client(crate::memory::network(client))
    }
}
