//! Ctrl-C ends a run, not the program: what was measured is still printed. A second one ends the program.

use std::sync::{Arc, atomic::AtomicBool};

use signal_hook::consts::{SIGINT, SIGTERM};

use crate::Problem;

/// A flag that SIGINT and SIGTERM set.
pub fn flag() -> Result<Arc<AtomicBool>, Problem> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // Registered first, so that it sees the flag as it was before this signal.
        let armed = signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&stop));
        armed
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
            .map_err(|error| Problem::failed(format!("cannot handle signals: {error}")))?;
    }
    Ok(stop)
}
