//! Copies of bodies that no request waits for, such as those for a mirror: they get what requests can do without. All of
//! them together get a quarter of the budget, those of one client half of its part, and no copy is made that would leave
//! too little for the body itself.

use std::{collections::HashMap, net::IpAddr, sync::LazyLock};

use parking_lot::Mutex;
use tidegate_telemetry::{
    error_log::{self, Level},
    limiter::Limiter,
};

use super::{BUDGET, CLIENT_PART, Relaxed, UNCOUNTED, network};

const PART: usize = 4;
const PART_OF_CLIENT: usize = 2;

#[derive(Default)]
struct Copies {
    all: usize,
    clients: HashMap<IpAddr, usize>,
}

static COPIES: LazyLock<Mutex<Copies>> = LazyLock::new(Mutex::default);

/// The right to hold on to a body for a copy. Dropping it gives it back.
#[derive(Debug)]
pub struct Copy {
    client: IpAddr,
    bytes: usize,
}

impl Copy {
    /// For a body of this length, read or not. `None`, with a line in the log: no copy is to be made.
    pub fn of(client: IpAddr, bytes: usize) -> Option<Copy> {
        let client = network(client);
        if bytes <= UNCOUNTED {
            return Some(Copy { client, bytes: 0 });
        }
        let copy = Copy::reserve(client, bytes);
        if copy.is_none() {
            warn_not_mirrored(client, bytes);
        }
        copy
    }

    fn reserve(client: IpAddr, bytes: usize) -> Option<Copy> {
        let limit = BUDGET.limit.load(Relaxed);
        let held = BUDGET.held.load(Relaxed);
        let held_by_client = BUDGET.clients.lock().get(&client).copied().unwrap_or_default();
        let mut copies = COPIES.lock();
        let of_client = copies.clients.get(&client).copied().unwrap_or_default() + bytes;
        let all = copies.all + bytes;
        // A body that is not read yet is in the copies only, one that is read in both: on the safe side.
        let fits = all <= limit / PART
            && of_client <= limit / CLIENT_PART / PART_OF_CLIENT
            && held.saturating_add(all) <= limit
            && held_by_client.saturating_add(of_client) <= limit / CLIENT_PART;
        if !fits {
            return None;
        }
        copies.all = all;
        copies.clients.insert(client, of_client);
        Some(Copy { client, bytes })
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        let mut copies = COPIES.lock();
        copies.all = copies.all.saturating_sub(self.bytes);
        let left = copies.clients.get(&self.client).map_or(0, |held| held.saturating_sub(self.bytes));
        match left {
            0 => copies.clients.remove(&self.client),
            left => copies.clients.insert(self.client, left),
        };
    }
}

#[cold]
fn warn_not_mirrored(client: IpAddr, bytes: usize) {
    static LINES: Limiter = Limiter::new(1, 1000);
    if let Some(others) = LINES.pass() {
        error_log::log(
            Level::Warn,
            format_args!(
                "a request from {client} is not mirrored: the share of the memory for bodies that mirrored \
                 requests may take (apisix.body_memory.total) has no {bytes} bytes left; {others} more since \
                 the previous line"
            ),
        );
    }
}
