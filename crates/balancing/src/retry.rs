//! When a failed attempt may be repeated on another node: nginx's `proxy_next_upstream error timeout` with
//! APISIX's defaults. The status of a response never causes a retry.

/// The bounds on further attempts: `retries` and `retry_timeout` of the upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Attempts after the first.
    pub retries: u32,
    /// From the first attempt; 0: no limit.
    pub timeout_ms: u64,
}

/// How far the failed attempt got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// No byte of the request was sent, so that repeating is safe for every method.
    NothingSent,
    /// The request went out, or part of it: repeated unless its method is not idempotent.
    RequestSent,
    /// Part of the response reached the client, or part of the request body is gone: never repeated.
    Committed,
}

/// What to do after a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryDecision {
    /// Another node may be tried.
    Retry,
    /// Answer with the failure itself (502 or 504).
    GiveUp,
    /// `retry_timeout` has passed: 502.
    TimedOut,
}

/// Attempts after the first, where no number is set: each of very many dead nodes would cost time and a line in the log.
const MOST_UNSET: u32 = 63;

impl RetryPolicy {
    /// Without a number of `retries` every other node is tried, up to 63.
    pub fn new(nodes: usize, retries: Option<u32>, timeout_ms: u64) -> Self {
        let nodes = u32::try_from(nodes).unwrap_or(u32::MAX);
        Self { retries: retries.unwrap_or(nodes.saturating_sub(1).min(MOST_UNSET)), timeout_ms }
    }

    /// `attempts` counts those made so far, the failed one included; `elapsed_ms` is the time since the first began.
    pub fn after_failure(
        &self,
        attempts: usize,
        method: &[u8],
        progress: Progress,
        elapsed_ms: u64,
    ) -> RetryDecision {
        let repeatable = match progress {
            Progress::NothingSent => true,
            Progress::RequestSent => is_repeatable(method),
            Progress::Committed => false,
        };
        if attempts > self.retries as usize || !repeatable {
            return RetryDecision::GiveUp;
        }
        if self.timeout_ms > 0 && elapsed_ms > self.timeout_ms {
            return RetryDecision::TimedOut;
        }
        RetryDecision::Retry
    }
}

/// RFC 9110 section 9.2.2, with nginx's list: POST, LOCK and PATCH are not sent twice.
pub fn is_repeatable(method: &[u8]) -> bool {
    !matches!(method, b"POST" | b"LOCK" | b"PATCH")
}

#[cfg(test)]
mod tests {
    use super::{Progress::*, RetryDecision::*, *};

    #[test]
    fn defaults_to_every_other_node() {
        for (count, retries, expected) in [
            (0, None, 0),
            (1, None, 0),
            (3, None, 2),
            (3, Some(0), 0),
            (1, Some(4), 4),
            (1000, None, 63),
            (1000, Some(99), 99),
        ] {
            assert_eq!(RetryPolicy::new(count, retries, 0).retries, expected);
        }
    }

    #[test]
    fn verdicts() {
        let policy = RetryPolicy { retries: 2, timeout_ms: 100 };
        for (attempts, method, progress, elapsed_ms, expected) in [
            (1, "GET", NothingSent, 0, Retry),
            (2, "GET", RequestSent, 100, Retry),
            (3, "GET", NothingSent, 0, GiveUp),
            (1, "POST", NothingSent, 0, Retry),
            (1, "POST", RequestSent, 0, GiveUp),
            (1, "LOCK", RequestSent, 0, GiveUp),
            (1, "PATCH", RequestSent, 0, GiveUp),
            (1, "PUT", RequestSent, 0, Retry),
            (1, "GET", Committed, 0, GiveUp),
            (1, "GET", RequestSent, 101, TimedOut),
        ] {
            let verdict = policy.after_failure(attempts, method.as_bytes(), progress, elapsed_ms);
            assert_eq!(verdict, expected, "{attempts} {method} {progress:?} {elapsed_ms}");
        }
    }
}
