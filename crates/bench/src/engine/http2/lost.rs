//! Why a request has no answer.

use crate::engine::failure::{Broken, Failure};

/// Why a request has no answer that counts.
pub(super) enum Lost {
    /// The server ends the connection in an orderly way (GOAWAY) and did not look at the request: it is sent again.
    Unanswered,
    /// A call of gRPC with another code than 0, and what it said.
    Refused(u32, String),
    Failed(Broken),
}

pub(super) fn broken(error: h2::Error) -> Lost {
    if error.is_go_away() && error.reason() == Some(h2::Reason::NO_ERROR) {
        return Lost::Unanswered;
    }
    let failure = if error.is_reset() { Failure::Malformed } else { Failure::Closed };
    Lost::Failed(Broken::new(failure, format!("http/2: {error}")))
}
