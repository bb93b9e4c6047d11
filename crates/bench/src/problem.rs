//! Why a run cannot begin or does not count, and the exit code that says so.

use thiserror::Error;

/// What went wrong. The text names the thing and the remedy.
#[derive(Debug, Error)]
#[error("{text}")]
pub struct Problem {
    /// Decides the exit code.
    pub kind: Kind,
    /// For the user.
    pub text: String,
}

/// Why nothing was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Flags, files or templates that make no sense together.
    Usage,
    /// The target cannot be reached, or its certificate is refused.
    Unreachable,
    /// Anything else: a file that cannot be written, a limit of the system.
    Failed,
}

impl Problem {
    /// The command line cannot be run.
    pub fn usage(text: impl Into<String>) -> Problem {
        Problem { kind: Kind::Usage, text: text.into() }
    }

    /// The server does not answer.
    pub fn unreachable(text: impl Into<String>) -> Problem {
        Problem { kind: Kind::Unreachable, text: text.into() }
    }

    /// This machine failed.
    pub fn failed(text: impl Into<String>) -> Problem {
        Problem { kind: Kind::Failed, text: text.into() }
    }

    /// Of `tidegate bench`.
    pub fn exit_code(&self) -> u8 {
        match self.kind {
            Kind::Failed | Kind::Unreachable => 1,
            Kind::Usage => 2,
        }
    }
}
