//! Certificates of our own, of any version. The library's constructor takes X.509 v3 only.

use std::sync::Arc;

use rustls::{
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    sign::{CertifiedKey, SingleCertAndKey},
};

use crate::certificate::Certificate;

/// Why a chain and a key do not belong together. The texts name neither file nor object.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum PairError {
    /// The chain is empty or cannot be read, for this reason.
    #[error("certificate: {0}")]
    Certificate(String),
    /// The key cannot be read or used, for this reason.
    #[error("key: {0}")]
    Key(String),
    /// Both are readable, and the key is another certificate's. The subject of the leaf.
    #[error("the key does not match the certificate ({0})")]
    Mismatch(String),
}

/// From a PEM chain and a PEM key, which have to belong together.
pub fn certified_key(provider: &CryptoProvider, chain: &[u8], key: &[u8]) -> Result<CertifiedKey, PairError> {
    let bad_certificate = |reason: &dyn std::fmt::Display| PairError::Certificate(reason.to_string());
    let bad_key = |reason: &dyn std::fmt::Display| PairError::Key(reason.to_string());
    let chain = CertificateDer::pem_slice_iter(chain)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| bad_certificate(&error))?;
    let leaf = chain.first().ok_or_else(|| bad_certificate(&"none found; expected PEM"))?;
    let leaf = Certificate::parse(leaf).map_err(|error| bad_certificate(&error))?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| bad_key(&error))?;
    let key = provider.key_provider.load_private_key(key).map_err(|error| bad_key(&error))?;
    // If the library cannot derive the public key, a mismatch shows in the handshake.
    if key.public_key().is_some_and(|public| public.as_ref() != leaf.key) {
        return Err(PairError::Mismatch(leaf.subject_text()));
    }
    Ok(CertifiedKey::new(chain, key))
}

/// Presents the same certificate in every handshake.
pub fn single(key: CertifiedKey) -> Arc<SingleCertAndKey> {
    Arc::new(SingleCertAndKey::from(key))
}
