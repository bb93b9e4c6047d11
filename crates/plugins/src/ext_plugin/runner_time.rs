//! How long the runner may take for a call, with all that it asks back.

use std::{
    cell::Cell,
    io,
    time::{Duration, Instant},
};

use tokio::time::timeout;

/// For a whole call.
const CALL: Duration = Duration::from_secs(60);

/// What is left of the time of one call. Only what waits for the runner spends it: a client may take longer to send a body
/// that the runner asks for.
pub(super) struct RunnerTime(Cell<Duration>);

impl RunnerTime {
    pub(super) fn new() -> RunnerTime {
        RunnerTime(Cell::new(CALL))
    }

    /// Waits for the runner.
    pub(super) async fn spend<T>(&self, work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
        self.within(CALL, work).await
    }

    /// As [`RunnerTime::spend`], and not longer than this.
    pub(super) async fn within<T>(
        &self,
        limit: Duration,
        work: impl Future<Output = io::Result<T>>,
    ) -> io::Result<T> {
        let begun = Instant::now();
        let done = timeout(self.0.get().min(limit), work).await;
        self.0.set(self.0.get().saturating_sub(begun.elapsed()));
        done.unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "timeout")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_was_spent_is_gone() {
        let time = RunnerTime(Cell::new(Duration::from_millis(40)));
        let pause = || async {
            tokio::time::sleep(Duration::from_millis(30)).await;
            Ok(())
        };
        assert!(time.spend(pause()).await.is_ok());
        let late = time.spend(pause()).await.map_err(|error| error.kind());
        assert_eq!(late, Err(io::ErrorKind::TimedOut));
        assert!(time.spend(std::future::pending::<io::Result<()>>()).await.is_err());
        let other = RunnerTime::new();
        assert!(other.within(Duration::from_millis(1), pause()).await.is_err());
        assert!(other.0.get() > CALL / 2);
    }
}
