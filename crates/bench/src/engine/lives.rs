//! How long connections lived, and how they ended.

use serde::{Deserialize, Serialize};

/// How many answers connections had when the server closed them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lives {
    pub closed: u64,
    /// Of these with `Connection: close` in the last answer.
    pub announced: u64,
    /// Of these with a request that had no answer.
    pub(crate) with_loss: u64,
    pub(crate) fewest: u64,
    pub most: u64,
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Announced,
    Idle,
    WithLoss,
}

impl Lives {
    pub(crate) fn ended(&mut self, answers: u64, end: End) {
        if answers == 0 {
            return;
        }
        self.fewest = if self.closed == 0 { answers } else { self.fewest.min(answers) };
        self.most = self.most.max(answers);
        self.closed += 1;
        self.announced += u64::from(end == End::Announced);
        self.with_loss += u64::from(end == End::WithLoss);
    }

    pub(crate) fn add(&mut self, other: &Lives) {
        if other.closed == 0 {
            return;
        }
        self.fewest = if self.closed == 0 { other.fewest } else { self.fewest.min(other.fewest) };
        self.most = self.most.max(other.most);
        self.closed += other.closed;
        self.announced += other.announced;
        self.with_loss += other.with_loss;
    }

    /// After how many answers the server closes, when it is always the same. With a request under way it may be one less.
    pub(crate) fn regular(&self) -> Option<u64> {
        let spread = self.most - self.fewest;
        (self.closed >= 3 && spread <= (self.most / 50).max(1)).then_some(self.most)
    }
}
