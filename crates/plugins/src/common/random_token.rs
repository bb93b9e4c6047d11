//! Ids, states and nonces that no client can guess.

use data_encoding::HEXLOWER;
use tidegate_model::random::fill_secret;

/// 128 random bits in hex digits.
pub(crate) fn random_token() -> String {
    let mut bytes = [0; 16];
    // Without random numbers nothing here is safe; the library fails only where the system is broken.
    if fill_secret(&mut bytes).is_err() {
        std::process::abort();
    }
    HEXLOWER.encode(&bytes)
}
