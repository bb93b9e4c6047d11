//! An address to listen on.

/// An address to listen on. The address is as written: an IP without brackets.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Listener {
    /// An IP address, without brackets.
    pub ip: String,
    /// 0 has the system choose.
    pub port: u16,
    /// IPv6 beside an IPv4 port that names no address: where the machine has no IPv6, it is left out.
    pub implied: bool,
}

impl Listener {
    /// An address that the configuration names.
    pub fn new(ip: &str, port: u16) -> Self {
        Self { ip: ip.to_owned(), port, implied: false }
    }
}

/// Whether both would take the same connections. `0.0.0.0` and `::` do not overlap: listeners for IPv6 take IPv6 only.
pub(crate) fn overlap(a: &Listener, b: &Listener) -> bool {
    let same_family = a.ip.contains(':') == b.ip.contains(':');
    a.port == b.port && same_family && (a.ip == b.ip || is_everywhere(&a.ip) || is_everywhere(&b.ip))
}

pub(crate) fn is_everywhere(ip: &str) -> bool {
    matches!(ip, "0.0.0.0" | "::")
}
