//! Trailers of clients, without claims.

use std::sync::atomic::AtomicU64;

use tidegate_protocol::Head;

use crate::{runtime::Runtime, stats};

pub(crate) fn count(counter: &AtomicU64, by: usize) {
    if by > 0 {
        stats::add(counter, by as u64);
    }
}

/// Removes claims from received trailers.
pub(crate) fn clean_trailers(runtime: &Runtime, trailers: &mut Head) {
    if trailers.is_empty() {
        return;
    }
    let (claims, underscored) = tidegate_protocol::trailers::retain_clients_own(
        trailers,
        runtime.settings.reading.limits.underscores,
    );
    count(&runtime.stats.dropped.trailer, claims);
    count(&runtime.stats.dropped.underscore, underscored);
}
