//! Sockets of sessions that have been silent for a while. The runtime keeps 256 bytes for each socket that it watches, which is a quarter of
//! an idle session for the two; here one epoll instance of the worker watches all sockets of such sessions, and the runtime watches that.

use std::{
    cell::{Cell, OnceCell},
    io,
    net::TcpStream as Socket,
    os::fd::OwnedFd,
    rc::Rc,
};

use rustix::{
    buffer::spare_capacity,
    event::{PollFd, PollFlags, Timespec, epoll, poll},
    io::Errno,
};
use tokio::{
    io::{Interest, unix::AsyncFd},
    net::TcpStream,
};

/// A worker parks so many in one tick: the four system calls of one take some two microseconds.
const MOST_A_TICK: u32 = 256;

/// Taken at once.
const EVENTS: usize = 256;

const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// Of one worker.
#[derive(Default)]
pub(crate) struct Parking {
    /// The inner `None`: the system has none to give.
    instance: OnceCell<Option<Rc<Instance>>>,
    tick_ms: Cell<u64>,
    parked: Cell<u32>,
}

impl Parking {
    /// Whether one more may be parked in this tick.
    pub(super) fn take_turn(&self, now_ms: u64) -> bool {
        if self.tick_ms.replace(now_ms) != now_ms {
            self.parked.set(0);
        }
        self.parked.set(self.parked.get().saturating_add(1));
        self.parked.get() <= MOST_A_TICK
    }

    /// `begin` is called with a new one.
    pub(super) fn instance(&self, begin: impl FnOnce(Rc<Instance>)) -> Option<&Instance> {
        let instance = self.instance.get_or_init(|| {
            let instance = Instance::new().map(Rc::new).ok();
            if let Some(instance) = &instance {
                begin(instance.clone());
            }
            instance
        });
        instance.as_deref()
    }
}

/// An epoll instance.
pub(super) struct Instance(AsyncFd<OwnedFd>);

impl Instance {
    fn new() -> io::Result<Instance> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        // SAFETY: it owns the descriptor, which nothing else closes.
        let watched = unsafe { AsyncFd::register_with_interest(epoll, Interest::READABLE) };
        Ok(Instance(watched?))
    }

    /// Calls `wake` with the slot of each session for which something has come, for as long as the worker lives.
    pub(super) async fn serve(&self, wake: impl Fn(u64)) {
        let mut events = Vec::with_capacity(EVENTS);
        while let Ok(mut ready) = self.0.readable().await {
            events.clear();
            let found = epoll::wait(&self.0, spare_capacity(&mut events), Some(&AT_ONCE));
            events.iter().for_each(|event| wake(event.data.u64()));
            // An interrupted call has found nothing, and says nothing of what is there.
            if events.len() < EVENTS && found != Err(Errno::INTR) {
                ready.clear_ready();
            }
            tokio::task::yield_now().await;
        }
    }
}

/// The sockets of a session that is parked.
pub(super) struct Parked {
    client: Socket,
    node: Socket,
}

impl Parked {
    /// `None`: the system does not take them.
    pub(super) fn new(client: TcpStream, node: TcpStream) -> Option<Parked> {
        Some(Parked { client: client.into_std().ok()?, node: node.into_std().ok()? })
    }

    /// Has the session with this slot woken up when something comes.
    pub(super) fn watch(&self, instance: &Instance, slot: u64) -> rustix::io::Result<()> {
        let wanted = epoll::EventFlags::IN | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        for socket in [&self.client, &self.node] {
            epoll::add(&instance.0, socket, epoll::EventData::new_u64(slot), wanted)?;
        }
        Ok(())
    }

    /// Whether something has come, an end or an error included.
    pub(super) fn has_news(&self) -> bool {
        let wanted = PollFlags::IN | PollFlags::RDHUP;
        let mut both = [PollFd::new(&self.client, wanted), PollFd::new(&self.node, wanted)];
        // An error is for those to find who read.
        poll(&mut both, Some(&AT_ONCE)).map_or(true, |count| count > 0)
    }

    /// Gives them back to the runtime. `None`: it does not take them.
    pub(super) fn leave(self, instance: &Instance) -> Option<(TcpStream, TcpStream)> {
        for socket in [&self.client, &self.node] {
            // One that was not added is not there to delete.
            let _ = epoll::delete(&instance.0, socket);
        }
        Some((TcpStream::from_std(self.client).ok()?, TcpStream::from_std(self.node).ok()?))
    }
}
