//! Bytes that grow up to a limit, in memory that is counted before it is allocated.

use std::net::IpAddr;

use bytes::Bytes;

use super::{Held, Lease, Spent, UNCOUNTED};

/// Why there is no room for more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// One body may have this many bytes.
    Limit(usize),
    /// The memory for all bodies is spent.
    Spent,
}

impl From<Spent> for Full {
    fn from(Spent: Spent) -> Full {
        Full::Spent
    }
}

/// A body that is being collected, counted over all workers as it grows.
#[derive(Debug)]
pub struct Growing {
    bytes: Vec<u8>,
    lease: Lease,
    limit: usize,
    /// The expected number of bytes: up to it the memory does not move.
    expected: usize,
}

impl Growing {
    /// Empty, of at most `limit` bytes.
    pub fn new(limit: usize, client: IpAddr) -> Growing {
        Growing { bytes: Vec::new(), lease: Lease::new(client), limit, expected: 0 }
    }

    /// Reserves for a `Content-Length` when the first bytes come, within the limit.
    pub fn with_expected(self, expected: Option<usize>) -> Growing {
        Growing { expected: expected.unwrap_or_default(), ..self }
    }

    /// What has been collected so far.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes collected so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether nothing has been collected.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Appends, or refuses without having changed anything.
    pub fn push(&mut self, more: &[u8]) -> Result<(), Full> {
        let needed = self.bytes.len().saturating_add(more.len());
        if needed > self.limit {
            return Err(Full::Limit(self.limit));
        }
        let capacity = self.bytes.capacity();
        if needed > capacity {
            let room = match self.expected.min(self.limit) {
                expected if expected >= needed => expected,
                _ => needed.max(capacity.saturating_mul(2).min(self.limit)),
            };
            if room > UNCOUNTED {
                self.lease.grow_to(room)?;
            }
            self.bytes.reserve_exact(room - self.bytes.len());
        }
        self.bytes.extend_from_slice(more);
        Ok(())
    }

    /// The parts of one client in one piece; each is given back as soon as it is copied.
    pub fn join(parts: Vec<Growing>) -> Option<Growing> {
        let length = parts.iter().map(Growing::len).sum();
        let mut parts = parts.into_iter();
        let mut whole = parts.next()?;
        whole.limit = length;
        whole.bytes.reserve_exact(length - whole.bytes.len());
        for Growing { bytes, lease, .. } in parts {
            whole.bytes.extend_from_slice(&bytes);
            whole.lease.take_over(lease);
        }
        Some(whole)
    }

    /// The memory is counted elsewhere from now on.
    pub fn into_vec(self) -> Vec<u8> {
        self.bytes
    }

    /// Its memory is given back with the last copy.
    pub fn into_bytes(self) -> Bytes {
        Bytes::from_owner(Held { bytes: self.bytes, _lease: self.lease })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_up_to_its_limit() {
        let mut text = Growing::new(40_000, IpAddr::from([192, 0, 2, 99]));
        assert_eq!(text.push(&[1; 30_000]), Ok(()));
        assert_eq!(text.lease.bytes, 30_000);
        assert_eq!(text.push(&[2; 10_000]), Ok(()));
        assert_eq!(text.lease.bytes, 40_000);
        assert_eq!(text.push(&[3]), Err(Full::Limit(40_000)));
        let mut other = Growing::new(20_000, IpAddr::from([192, 0, 2, 99]));
        assert_eq!(other.push(&[3; 20_000]), Ok(()));
        let joined = Growing::join(vec![text, other]).unwrap();
        assert_eq!((joined.len(), joined.lease.bytes), (60_000, 60_000));
        let bytes = joined.into_bytes();
        assert_eq!((bytes.get(29_999), bytes.get(30_000), bytes.get(40_000)), (Some(&1), Some(&2), Some(&3)));
    }
}
