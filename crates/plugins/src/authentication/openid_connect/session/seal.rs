//! Sessions as sealed texts.

use aws_lc_rs::{
    aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    hmac,
};
use tidegate_clients::nginx_base64::{decode_url, encode_url};
use tidegate_model::random::fill_secret;

use super::contents::Session;

pub(super) struct SealingKey {
    key: LessSafeKey,
    /// What a sealed session is authentic for: the cookie's name, the provider and the client. Another route with the same
    /// secret takes it only when all three agree.
    place: Vec<u8>,
}

impl SealingKey {
    pub(super) fn new(secret: &hmac::Key, place: Vec<u8>) -> Result<SealingKey, String> {
        let derived = hmac::sign(secret, b"tidegate openid-connect session v1");
        let key =
            UnboundKey::new(&AES_256_GCM, derived.as_ref()).map_err(|_| "session.secret is not usable")?;
        Ok(SealingKey { key: LessSafeKey::new(key), place })
    }

    /// `id`: where it is kept. It opens in no other place.
    pub(super) fn seal(&self, session: &Session, id: &str) -> Result<String, String> {
        let mut sealed = serde_json::to_vec(session).map_err(|error| error.to_string())?;
        let mut nonce = [0; NONCE_LEN];
        fill_secret(&mut nonce).map_err(|error| error.to_string())?;
        self.key
            .seal_in_place_append_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(self.place_of(id)),
                &mut sealed,
            )
            .map_err(|_| "sealing the session failed")?;
        Ok(encode_url([&nonce[..], &sealed].concat()))
    }

    pub(super) fn open(&self, text: &[u8], id: &str) -> Option<Session> {
        let mut bytes = decode_url(text)?;
        let (nonce, sealed) = bytes.split_at_mut_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let opened = self.key.open_in_place(nonce, Aad::from(self.place_of(id)), sealed).ok()?;
        serde_json::from_slice(opened).ok()
    }

    fn place_of(&self, id: &str) -> Vec<u8> {
        [self.place.as_slice(), id.as_bytes()].concat()
    }
}
