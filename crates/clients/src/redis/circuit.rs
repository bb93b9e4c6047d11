//! Which requests may ask a Redis server that does not answer.
//!
//! A server that hangs costs each request the whole time limit, a second as a rule. So after one such failure all other
//! requests are refused at once, with the same error, for [`PAUSE`]; then one request tries, and the others are refused
//! until it has its result. The plugin decides what a refused request does (`allow_degradation` and the like).
//!
//! Failures that cost no time, a refused connection above all, open nothing: the server is asked again at once.

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

use super::error::Error;

/// A server that recovers is asked again after so long at the latest: while it hangs, one request waits for it most of the
/// time.
const PAUSE: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Closed,
    /// No request tries before then.
    OpenUntil(Instant),
    /// One request is trying.
    Trying,
}

/// One worker's, for one setting.
#[derive(Default)]
pub(crate) struct Circuit {
    state: Cell<State>,
}

/// The right to ask.
pub(super) struct Attempt<'a> {
    circuit: &'a Circuit,
    /// The one that tries for all; until it has ended.
    alone: bool,
}

impl Circuit {
    pub(super) fn enter(&self) -> Result<Attempt<'_>, Error> {
        match self.state.get() {
            State::Closed => Ok(Attempt { circuit: self, alone: false }),
            State::OpenUntil(until) if Instant::now() >= until => {
                self.state.set(State::Trying);
                Ok(Attempt { circuit: self, alone: true })
            }
            State::OpenUntil(_) | State::Trying => Err(Error::TimedOut),
        }
    }

    fn open(&self) {
        self.state.set(State::OpenUntil(Instant::now() + PAUSE));
    }
}

impl Attempt<'_> {
    pub(super) fn ended<T>(mut self, result: &Result<T, Error>) {
        if matches!(result, Err(Error::TimedOut)) {
            self.circuit.open();
        } else if self.alone {
            self.circuit.state.set(State::Closed);
        }
        self.alone = false;
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        // Its client left before Redis answered: the next request tries.
        if self.alone {
            self.circuit.state.set(State::OpenUntil(Instant::now()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeout() -> Result<(), Error> {
        Err(Error::TimedOut)
    }

    #[test]
    fn one_tries_after_the_pause() {
        let circuit = Circuit::default();
        let (first, late) = (circuit.enter().expect("closed"), circuit.enter().expect("closed"));
        first.ended(&Err::<(), _>(Error::NotListening));
        assert!(circuit.enter().is_ok(), "what costs no time opens nothing");
        late.ended(&timeout());
        assert!(circuit.enter().is_err());
        circuit.state.set(State::OpenUntil(Instant::now()));
        let trying = circuit.enter().expect("the pause is over");
        assert!(circuit.enter().is_err(), "one tries, the others do not");
        trying.ended(&timeout());
        assert!(circuit.enter().is_err(), "a further pause");
        circuit.state.set(State::OpenUntil(Instant::now()));
        drop(circuit.enter().expect("the pause is over"));
        circuit.enter().expect("whoever left says nothing about Redis").ended(&Ok(()));
        assert!(circuit.enter().is_ok() && circuit.enter().is_ok());
    }
}
