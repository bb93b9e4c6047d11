//! Values as sealed texts, which clients keep and cannot read or change: sessions, logins under way.

use aws_lc_rs::{
    aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    hmac,
};
use serde::{Serialize, de::DeserializeOwned};
use tidegate_clients::nginx_base64::{decode_url, encode_url};
use tidegate_model::random::fill_secret;

pub(crate) struct SealingKey {
    /// The first one seals; each of them opens.
    keys: Vec<LessSafeKey>,
    /// What a sealed value is authentic for, such as the cookie's name, the provider and the client. Another configuration with
    /// the same secret takes it only where all of them agree.
    place: Vec<u8>,
}

impl SealingKey {
    /// `purpose`: other uses of the same secret have other keys. The first secret seals; the others are older ones, which still
    /// open.
    pub(crate) fn new(purpose: &str, secrets: &[&str], place: Vec<u8>) -> Result<SealingKey, String> {
        let derive = |secret: &&str| {
            let secret = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
            UnboundKey::new(&AES_256_GCM, hmac::sign(&secret, purpose.as_bytes()).as_ref())
                .map(LessSafeKey::new)
                .map_err(|_| "the secret is not usable".to_owned())
        };
        Ok(SealingKey { keys: secrets.iter().map(derive).collect::<Result<_, _>>()?, place })
    }

    /// `id`: where it is kept. It opens in no other place.
    pub(crate) fn seal(&self, value: &impl Serialize, id: &str) -> Result<String, String> {
        let mut sealed = serde_json::to_vec(value).map_err(|error| error.to_string())?;
        let mut nonce = [0; NONCE_LEN];
        fill_secret(&mut nonce).map_err(|error| error.to_string())?;
        let key = self.keys.first().ok_or("there is no secret to seal with")?;
        key.seal_in_place_append_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(self.place_of(id)),
            &mut sealed,
        )
        .map_err(|_| "sealing failed")?;
        Ok(encode_url([&nonce[..], &sealed].concat()))
    }

    pub(crate) fn open<T: DeserializeOwned>(&self, text: &[u8], id: &str) -> Option<T> {
        let bytes = decode_url(text)?;
        self.keys.iter().find_map(|key| {
            // A key that does not fit leaves nothing of what it was given.
            let mut bytes = bytes.clone();
            let (nonce, sealed) = bytes.split_at_mut_checked(NONCE_LEN)?;
            let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
            let opened = key.open_in_place(nonce, Aad::from(self.place_of(id)), sealed).ok()?;
            serde_json::from_slice(opened).ok()
        })
    }

    fn place_of(&self, id: &str) -> Vec<u8> {
        [self.place.as_slice(), id.as_bytes()].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_secrets_open_and_do_not_seal() {
        let key = |secrets: &[&str]| SealingKey::new("test", secrets, b"here".to_vec()).expect("a key");
        let sealed = key(&["old"]).seal(&7, "").expect("sealed");
        assert_eq!(key(&["new", "old"]).open(sealed.as_bytes(), ""), Some(7));
        assert_eq!(key(&["new"]).open::<i32>(sealed.as_bytes(), ""), None);
        let fresh = key(&["new", "old"]).seal(&8, "").expect("sealed");
        assert_eq!(key(&["old"]).open::<i32>(fresh.as_bytes(), ""), None);
        let other = SealingKey::new("other", &["old"], b"here".to_vec()).expect("a key");
        assert_eq!(other.open::<i32>(sealed.as_bytes(), ""), None, "another purpose");
    }
}
