//! Proof that a request comes from this process: a random number that is good once, while its sender keeps it.

use std::{collections::HashMap, fmt};

use parking_lot::Mutex;

use super::origin::Origin;

static UNDER_WAY: Mutex<Option<HashMap<u64, Origin>>> = Mutex::new(None);

/// Good until it is shown or dropped.
#[derive(Debug)]
pub struct Ticket(u64);

impl Ticket {
    pub(super) fn new(origin: Origin) -> Ticket {
        let number = random();
        UNDER_WAY.lock().get_or_insert_default().insert(number, Origin { is_proved: true, ..origin });
        Ticket(number)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let _ = redeem(self.0);
    }
}

impl fmt::Display for Ticket {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        write!(out, "{:016x}", self.0)
    }
}

/// The origin that its sender recorded. A ticket is valid once.
pub(super) fn redeem(number: u64) -> Option<Origin> {
    UNDER_WAY.lock().as_mut()?.remove(&number)
}

/// Not to be guessed from others.
pub(super) fn random() -> u64 {
    let mut bytes = [0; 8];
    // Without random numbers TLS does not start either.
    let _ = tidegate_model::random::fill_secret(&mut bytes);
    u64::from_ne_bytes(bytes)
}
