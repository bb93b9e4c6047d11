//! The memory of HTTP/2 requests whose answers may never be read: bounded in all and for each address, over all workers.
//!
//! An address may have as many at work as are free (dynamic thresholds, Choudhury and Hahne 1998), which is half of what others
//! leave. In line, where waiting is all that happens, the shares are equal (max-min fairness): once the line is more than half
//! full, addresses with more than an equal share of that half give up the rest, and new ones find room.
//!
//! A request under way holds its task, its head and the state of its streams, whatever else is held for it. It is *open* in its
//! first second, when it is unknown whether its client will take the answer, and whenever it waits for its client
//! ([`super::places`] records that); after that second it is *slow* until its answer begins. Of both there are only so many;
//! beyond that each connection has [`ALWAYS`], and others wait in line ([`super::line`]). Open requests whose clients have
//! taken nothing for a second are *left*: of those there are fewer, and the rest are cut, so that clients who read find room.

use std::{
    collections::HashMap,
    net::IpAddr,
    rc::Rc,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use parking_lot::Mutex;
use tidegate_telemetry::{
    error_log::{self, Level},
    limiter::Limiter,
};

/// The memory of a request, without its body and the held part of its answer.
pub(super) const STREAM_BYTES: usize = 20 * 1024;
/// The memory of a request in line: its received head, and one stream.
pub(super) const LINED_BYTES: usize = 3 * 1024;
/// Requests that a connection may have whatever others hold: about what a connection of HTTP/1 costs. They are not counted.
pub(super) const ALWAYS: usize = 4;
/// Open ones together: one part in so many of `apisix.body_memory.total`.
const PART: usize = 4;
/// Those in line together.
const LINED_PART: usize = 2;
/// Slow ones together: they wait for upstreams, not for clients.
const SLOW_PART: usize = 2;
/// Those whose clients have taken nothing for a second: one part in so many of the open ones.
const LEFT_PART: usize = 2;
/// The line is full beyond one part in so many: the rest is for addresses that have less than an equal share.
const SHARED_PART: usize = 2;

/// The number of requests; one with a body counts as many times as its size demands.
#[derive(Default)]
struct Counts {
    open: AtomicUsize,
    slow: AtomicUsize,
    lined: AtomicUsize,
    /// Addresses with requests in line.
    lined_addresses: AtomicUsize,
    left: AtomicUsize,
    /// Connections that count here.
    accounts: AtomicUsize,
}

static ALL: LazyLock<Counts> = LazyLock::new(Counts::default);
static ADDRESSES: LazyLock<Mutex<HashMap<IpAddr, Arc<Counts>>>> = LazyLock::new(Mutex::default);

fn most_open() -> usize {
    tidegate_plugin_api::memory::limit() / PART / STREAM_BYTES
}

fn most_slow() -> usize {
    tidegate_plugin_api::memory::limit() / SLOW_PART / STREAM_BYTES
}

fn most_lined() -> usize {
    tidegate_plugin_api::memory::limit() / LINED_PART / LINED_BYTES
}

/// The requests of a connection at work, in units of [`STREAM_BYTES`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    pub open: usize,
    pub slow: usize,
}

impl Held {
    pub(crate) fn all(self) -> usize {
        self.open + self.slow
    }

    /// The part beyond what a connection may always have.
    pub(crate) fn beyond(self) -> Held {
        let beyond = self.all().saturating_sub(ALWAYS);
        let slow = self.slow.min(beyond);
        Held { open: beyond - slow, slow }
    }
}

fn change(count: &AtomicUsize, before: usize, now: usize) {
    match now.checked_sub(before) {
        Some(0) => {}
        Some(more) => _ = count.fetch_add(more, Relaxed),
        None => _ = count.fetch_sub(before - now, Relaxed),
    }
}

/// The counts that the connections of an address share.
pub(crate) struct Account {
    address: IpAddr,
    counts: Arc<Counts>,
    all: &'static Counts,
}

impl Account {
    pub(crate) fn of(address: IpAddr) -> Rc<Account> {
        Account::among(&ALL, address)
    }

    fn among(all: &'static Counts, address: IpAddr) -> Rc<Account> {
        let address = crate::admission::network(address);
        let mut addresses = ADDRESSES.lock();
        let counts = addresses.entry(address).or_default().clone();
        // Changed under the lock only.
        counts.accounts.fetch_add(1, Relaxed);
        Rc::new(Account { address, counts, all })
    }

    /// Whether no more requests begin beyond those that every connection may have.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full_of(Held { open: most_open(), slow: most_slow() })
    }

    fn is_full_of(&self, most: Held) -> bool {
        let reached = |which: fn(&Counts) -> &AtomicUsize, most: usize| {
            which(&self.counts).load(Relaxed) >= most.saturating_sub(which(self.all).load(Relaxed))
        };
        reached(|counts| &counts.open, most.open) || reached(|counts| &counts.slow, most.slow)
    }

    /// Updates what a connection holds beyond what it may always have: from `before` to `now`.
    pub(crate) fn change(&self, before: Held, now: Held) {
        for counts in [self.all, &self.counts] {
            change(&counts.open, before.open, now.open);
            change(&counts.slow, before.slow, now.slow);
        }
    }

    /// More are in line than all may fill, or half of that is of this address.
    pub(crate) fn is_line_crowded(&self) -> bool {
        let shared = most_lined() / SHARED_PART;
        self.all.lined.load(Relaxed) > shared || self.counts.lined.load(Relaxed) > shared / 2
    }

    /// `None`: too many are in line. A large head counts as several requests.
    pub(crate) fn line_up(self: &Rc<Account>, head_bytes: usize) -> Option<Lined> {
        self.line_up_within(1 + head_bytes / LINED_BYTES, most_lined())
    }

    fn line_up_within(self: &Rc<Account>, units: usize, most: usize) -> Option<Lined> {
        let shared = most / SHARED_PART;
        let lined = Lined::new(self, units);
        let (all, own) = (self.all.lined.load(Relaxed), self.counts.lined.load(Relaxed));
        // A single request may be larger than a share. Dropping it removes it again.
        let fits = all <= shared || own <= self.share(shared).max(units);
        (all <= most && fits).then_some(lined)
    }

    /// Whether the address has more in line than its equal share, and others want the room.
    pub(crate) fn exceeds_share(&self) -> bool {
        self.exceeds_share_of(most_lined())
    }

    fn exceeds_share_of(&self, most: usize) -> bool {
        let shared = most / SHARED_PART;
        self.all.lined.load(Relaxed) > shared && self.counts.lined.load(Relaxed) > self.share(shared)
    }

    fn share(&self, shared: usize) -> usize {
        shared / self.all.lined_addresses.load(Relaxed).max(1)
    }

    /// `None`: too many are left.
    pub(crate) fn leave(self: &Rc<Account>, units: usize) -> Option<Left> {
        self.leave_within(units, most_open() / LEFT_PART)
    }

    fn leave_within(self: &Rc<Account>, units: usize, most: usize) -> Option<Left> {
        let left = Left::new(self, units, most);
        if left.is_none() {
            self.warn_cut();
        }
        left
    }

    /// Logs that a request waits, or is refused.
    #[cold]
    pub(crate) fn warn_full(&self) {
        static LINES: Limiter = Limiter::new(1, 1000);
        if let Some(others) = LINES.pass() {
            error_log::log(
                Level::Warn,
                format_args!(
                    "HTTP/2 requests that are new, or whose responses are not read, use up their share of \
                     apisix.body_memory.total: on connections with more than {ALWAYS} of them further ones \
                     wait, and are refused after 10 s or when too many wait, client: {}; {others} more since \
                     the previous line",
                    self.address
                ),
            );
        }
    }

    #[cold]
    fn warn_cut(&self) {
        static LINES: Limiter = Limiter::new(1, 1000);
        if let Some(others) = LINES.pass() {
            error_log::log(
                Level::Warn,
                format_args!(
                    "HTTP/2 responses that clients do not read use up their share of \
                     apisix.body_memory.total: those without progress for a second are reset, client: {}; \
                     {others} more since the previous line",
                    self.address
                ),
            );
        }
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        let mut addresses = ADDRESSES.lock();
        if self.counts.accounts.fetch_sub(1, Relaxed) == 1 {
            addresses.remove(&self.address);
        }
    }
}

/// A request whose client has left its answer.
pub(crate) struct Left {
    account: Rc<Account>,
    units: usize,
}

impl Left {
    fn new(account: &Rc<Account>, units: usize, most: usize) -> Option<Left> {
        let left = Left { account: account.clone(), units };
        let all = account.all.left.fetch_add(units, Relaxed);
        let own = account.counts.left.fetch_add(units, Relaxed);
        // A single request may be larger than the part of an address. Dropping it removes it again.
        let fits = own == 0 || own + units <= most.saturating_sub(all);
        (all + units <= most && fits).then_some(left)
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        self.account.all.left.fetch_sub(self.units, Relaxed);
        self.account.counts.left.fetch_sub(self.units, Relaxed);
    }
}

/// A request in line.
pub(crate) struct Lined {
    account: Rc<Account>,
    units: usize,
}

impl Lined {
    fn new(account: &Rc<Account>, units: usize) -> Lined {
        account.all.lined.fetch_add(units, Relaxed);
        if account.counts.lined.fetch_add(units, Relaxed) == 0 {
            account.all.lined_addresses.fetch_add(1, Relaxed);
        }
        Lined { account: account.clone(), units }
    }
}

impl Drop for Lined {
    fn drop(&mut self) {
        let Account { all, counts, .. } = &*self.account;
        all.lined.fetch_sub(self.units, Relaxed);
        if counts.lined.fetch_sub(self.units, Relaxed) == self.units {
            all.lined_addresses.fetch_sub(1, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_has_its_part_and_gives_it_back() {
        let all: &'static Counts = Box::leak(Box::default());
        let address = |last: u8| IpAddr::from([192, 0, 2, last]);
        let account = |last: u8| Account::among(all, address(last));
        let (one, two, three) = (account(1), account(2), account(3));
        let leave = |account: &Rc<Account>| account.leave_within(1, 8);
        let first: Vec<_> = (0..4).map(|_| leave(&one).expect("room")).collect();
        assert!(leave(&one).is_none() && leave(&account(1)).is_none());
        let second: Vec<_> = (0..2).map(|_| leave(&two).expect("room")).collect();
        assert!(leave(&two).is_none(), "no more than are free");
        let third = leave(&three).expect("some are free");
        assert!(leave(&three).is_none());
        drop((first, second, third));
        assert!(leave(&three).is_some());
        let large = one.leave_within(7, 8).expect("alone");
        assert!(leave(&one).is_none() && leave(&two).is_some());
        drop(large);

        let held = |open, slow| Held { open, slow };
        let is_full = |account: &Rc<Account>| account.is_full_of(held(8, 16));
        one.change(held(0, 0), held(4, 0));
        assert!(is_full(&one) && !is_full(&two));
        two.change(held(0, 0), held(4, 0));
        assert!(is_full(&three));
        one.change(held(4, 0), held(1, 8));
        assert!(is_full(&one) && !is_full(&three) && is_full(&two));
        one.change(held(1, 8), held(0, 7));
        assert!(!is_full(&one));
        one.change(held(0, 7), held(0, 0));
        two.change(held(4, 0), held(0, 0));
        assert_eq!(held(5, 9).beyond(), held(1, 9));
        assert_eq!((held(1, 9).beyond(), held(3, 1).beyond()), (held(0, 6), held(0, 0)));
        let held = [&all.open, &all.slow, &all.left, &one.counts.open, &one.counts.left];
        assert_eq!(held.map(|count| count.load(Relaxed)), [0; 5]);
        drop((one, two, three));
        assert!((1..=3).all(|last| !ADDRESSES.lock().contains_key(&address(last))));
    }

    #[test]
    fn shares_of_the_line_are_equal() {
        let all: &'static Counts = Box::leak(Box::default());
        let account = |last: u8| Account::among(all, IpAddr::from([192, 0, 3, last]));
        let (one, two, three) = (account(1), account(2), account(3));
        let line_up = |account: &Rc<Account>, units: usize| account.line_up_within(units, 24);
        let mut first: Vec<_> = std::iter::from_fn(|| line_up(&one, 1)).collect();
        assert_eq!(first.len(), 12, "who is alone has the half that all share");
        assert!(!one.exceeds_share_of(24));
        let second: Vec<_> = std::iter::from_fn(|| line_up(&two, 2)).collect();
        assert_eq!(second.len(), 3, "an equal share, beyond that half");
        assert!(one.exceeds_share_of(24) && !two.exceeds_share_of(24));
        while one.exceeds_share_of(24) {
            first.pop();
        }
        assert_eq!(first.len(), 6);
        let third = line_up(&three, 7).expect("one that is larger than a share");
        assert!(line_up(&three, 1).is_none() && line_up(&one, 1).is_none());
        assert_eq!(all.lined_addresses.load(Relaxed), 3);
        drop((first, second, third));
        assert_eq!(
            [&all.lined, &all.lined_addresses, &one.counts.lined].map(|count| count.load(Relaxed)),
            [0; 3]
        );
    }
}
