//! What a browser shows to be known again.

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::BASE64URL_NOPAD;
use tidegate_model::random::fill_secret;

use crate::caller::SessionId;

/// 256 bits that cannot be guessed.
pub(crate) fn secret() -> Result<String, String> {
    let mut bytes = [0; 32];
    fill_secret(&mut bytes).map_err(|error| format!("no random numbers: {error}"))?;
    Ok(BASE64URL_NOPAD.encode(&bytes))
}

pub(crate) fn id_of(token: &str) -> SessionId {
    let mut id = [0; 32];
    id.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
    SessionId(id)
}
