//! How long to wait before a registry that failed is asked again.

use std::time::Duration;

/// Short enough that an outage is over when it is over; a few gateways that ask so often burden no registry.
const LONGEST: Duration = Duration::from_secs(4);
const FIRST: Duration = Duration::from_millis(500);

#[derive(Default)]
pub(crate) struct Retry {
    failures: u32,
}

impl Retry {
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }

    /// Whether this is the first failure in a row, which is the one worth an error line.
    pub(crate) fn is_first(&self) -> bool {
        self.failures == 0
    }

    pub(crate) async fn wait(&mut self) {
        let delay = FIRST.saturating_mul(1 << self.failures.min(8)).min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        tokio::time::sleep(delay).await;
    }
}
