//! Who is next among jobs that wait: addresses take turns, so that one client's many jobs delay another's single one by one job
//! and not by all.

use std::collections::{HashMap, VecDeque};

use parking_lot::Mutex;
use tidegate_telemetry::{
    error_log::{Level, log},
    limiter::Limiter,
};
use tokio::sync::oneshot;

use super::whose::Whose;

/// Jobs of one client that wait; further ones are not done.
const MOST_WAITING: usize = 128;

pub(super) struct Turns(Mutex<State>);

struct State {
    free: usize,
    /// Everyone with jobs that wait, once, in the order of their turns.
    order: VecDeque<Whose>,
    waiting: HashMap<Whose, VecDeque<oneshot::Sender<Place>>>,
}

/// The right to run a job. Dropping it lets the next one run.
pub(super) struct Place(&'static Turns);

impl Turns {
    pub(super) fn new(places: usize) -> Turns {
        Turns(Mutex::new(State { free: places, order: VecDeque::new(), waiting: HashMap::new() }))
    }

    /// `None`: too many of this client wait.
    pub(super) async fn place(&'static self, whose: Whose) -> Option<Place> {
        let turn = {
            let mut state = self.0.lock();
            if state.free > 0 {
                state.free -= 1;
                return Some(Place(self));
            }
            match state.wait(whose) {
                Some(turn) => turn,
                None => {
                    drop(state);
                    refuse(whose);
                    return None;
                }
            }
        };
        turn.await.ok()
    }
}

impl State {
    fn wait(&mut self, whose: Whose) -> Option<oneshot::Receiver<Place>> {
        let jobs = self.waiting.entry(whose).or_default();
        if jobs.is_empty() {
            self.order.push_back(whose);
        } else if whose != Whose::Ours && jobs.len() >= MOST_WAITING {
            // Some may have no caller any more.
            jobs.retain(|job| !job.is_closed());
            if jobs.len() >= MOST_WAITING {
                return None;
            }
        }
        let (sender, receiver) = oneshot::channel();
        jobs.push_back(sender);
        Some(receiver)
    }

    /// The job whose turn it is.
    fn next(&mut self) -> Option<oneshot::Sender<Place>> {
        loop {
            let whose = self.order.pop_front()?;
            let Some(jobs) = self.waiting.get_mut(&whose) else { continue };
            let job = jobs.pop_front();
            if jobs.is_empty() {
                self.waiting.remove(&whose);
            } else {
                self.order.push_back(whose);
            }
            // Without a job, all of them have been left.
            if let Some(job) = job.filter(|job| !job.is_closed()) {
                return Some(job);
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.0.0.lock();
        let Some(job) = state.next() else {
            state.free += 1;
            return;
        };
        drop(state);
        // A caller that has just left drops the place, which comes here again.
        drop(job.send(Place(self.0)));
    }
}

#[cold]
fn refuse(whose: Whose) {
    static LINES: Limiter = Limiter::new(1, 1000);
    if let Some(others) = LINES.pass()
        && let Whose::Client(client) = whose
    {
        log(
            Level::Error,
            format_args!(
                "{MOST_WAITING} large bodies of client {client} wait to be read, a further one is not; {others} more since the \
                 previous line"
            ),
        );
    }
}

#[cfg(test)]
mod tests {
    use std::{
        net::IpAddr,
        pin::pin,
        task::{Context, Poll, Waker},
    };

    use super::*;

    fn client(last: u8) -> Whose {
        IpAddr::from([192, 0, 2, last]).into()
    }

    fn ready<T>(future: impl Future<Output = T>) -> Option<T> {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    #[test]
    fn addresses_take_turns() {
        let turns: &'static Turns = Box::leak(Box::new(Turns::new(1)));
        let first = ready(turns.place(client(1))).flatten().expect("it is free");
        let wait = |whose| turns.0.lock().wait(whose).expect("room");
        let mut many: Vec<_> = (0..3).map(|_| wait(client(1))).collect();
        let (left, mut other, mut ours) = (wait(client(2)), wait(client(3)), wait(Whose::Ours));
        drop(left);
        drop(first);
        let mut seen = Vec::new();
        let mut look = |name: &'static str, turn: &mut oneshot::Receiver<Place>| {
            if let Ok(place) = turn.try_recv() {
                seen.push(name);
                drop(place);
            }
        };
        for _ in 0..3 {
            for turn in &mut many {
                look("many", turn);
            }
            look("other", &mut other);
            look("ours", &mut ours);
        }
        assert_eq!(seen, ["many", "other", "ours", "many", "many"]);
        let state = turns.0.lock();
        assert_eq!((state.free, state.order.len(), state.waiting.len()), (1, 0, 0));
    }

    #[test]
    fn one_client_has_so_many_that_wait() {
        let turns: &'static Turns = Box::leak(Box::new(Turns::new(1)));
        let _busy = ready(turns.place(client(1))).flatten().expect("it is free");
        let mut waiting: Vec<_> = (0..MOST_WAITING).map(|_| turns.0.lock().wait(client(1))).collect();
        assert!(waiting.iter().all(Option::is_some));
        assert!(turns.0.lock().wait(client(1)).is_none());
        assert!(turns.0.lock().wait(client(2)).is_some());
        waiting.pop();
        assert!(turns.0.lock().wait(client(1)).is_some(), "one has left");
    }
}
