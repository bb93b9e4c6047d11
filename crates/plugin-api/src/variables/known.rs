//! The known values of a request's body.

use std::{
    cell::{Cell, OnceCell, RefCell},
    net::IpAddr,
};

use bytes::Bytes;
use tidegate_routing::expr::Operand;

use crate::{
    Variable,
    document::limits::TooLarge,
    memory::{self, Lease, Spent},
};

/// Why a condition on the body is undecided.
#[derive(Clone, Copy)]
pub(super) enum Unjudged {
    /// The selected values exceed the limit.
    TooLarge(TooLarge),
    /// The body cannot be read here, but perhaps by the upstream; the status is the reason.
    Unreadable(u16),
}

pub(super) const BODY_TOO_LARGE: Unjudged = Unjudged::Unreadable(413);

pub(super) const MALFORMED: Unjudged = Unjudged::Unreadable(400);
/// Compressed, for example: many upstreams decode what `Content-Encoding` names (RFC 9110 section 8.4), but the
/// gateway does not.
pub(super) const CODED: Unjudged = Unjudged::Unreadable(415);

/// The values of its body that a request remembers.
#[derive(Default)]
pub(crate) struct BodyValues {
    /// A condition asked for a body that is still on the wire.
    pub(super) wants_body: Cell<bool>,
    /// The question can be asked again: values of a large body are noted as wanted instead of being looked up.
    pub(super) deferring: Cell<bool>,
    pub(super) wanted: RefCell<Vec<Variable>>,
    /// A condition asked for a body that cannot be read here, and why.
    pub(super) unreadable: Cell<Option<u16>>,
    known: OnceCell<Box<Known>>,
}

/// A value of a large body. A list, so that values can be added while others are borrowed.
struct Known {
    /// Kept, so that no other body can get the same address.
    body: Bytes,
    variable: Variable,
    value: Result<Operand<'static>, Unjudged>,
    /// The memory for bodies that the value takes, as long as the request may ask for it.
    _held: Lease,
    next: OnceCell<Box<Known>>,
}

impl BodyValues {
    pub(super) fn find(
        &self,
        body: &Bytes,
        variable: &Variable,
    ) -> Option<&Result<Operand<'static>, Unjudged>> {
        let mut known = self.known.get();
        while let Some(entry) = known {
            let same = entry.body.as_ptr() == body.as_ptr() && entry.body.len() == body.len();
            if same && entry.variable == *variable {
                return Some(&entry.value);
            }
            known = entry.next.get();
        }
        None
    }

    pub(super) fn add(
        &self,
        body: Bytes,
        variable: Variable,
        value: Result<Operand<'static>, Unjudged>,
        client: IpAddr,
    ) {
        let mut held = Lease::new(client);
        let value = value.and_then(|value| match bytes_of(&value) {
            bytes if bytes > memory::UNCOUNTED && held.grow_to(bytes) == Err(Spent) => {
                Err(Unjudged::TooLarge(TooLarge::Spent))
            }
            _ => Ok(value),
        });
        let mut slot = &self.known;
        while let Some(entry) = slot.get() {
            slot = &entry.next;
        }
        let _ = slot.set(Box::new(Known { body, variable, value, _held: held, next: OnceCell::new() }));
    }
}

/// The memory that a value takes.
fn bytes_of(value: &Operand<'_>) -> usize {
    let inside = match value {
        Operand::Bytes(bytes) => bytes.len(),
        Operand::List(items) => items.iter().map(bytes_of).sum(),
        _ => 0,
    };
    size_of::<Operand<'_>>() + inside
}
