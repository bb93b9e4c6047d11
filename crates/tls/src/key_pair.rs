//! Certificates of our own, of any version. The library's constructor takes X.509 v3 only.

use std::sync::Arc;

use rustls::{
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    sign::{CertifiedKey, SingleCertAndKey},
};

use crate::certificate::Certificate;

/// From a PEM chain and a PEM key, which have to belong together.
pub fn certified_key(provider: &CryptoProvider, chain: &[u8], key: &[u8]) -> Result<CertifiedKey, String> {
    let chain = CertificateDer::pem_slice_iter(chain)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| format!("certificate: {error}"))?;
    let leaf = chain.first().ok_or("certificate: none in it; PEM is expected")?;
    let leaf = Certificate::parse(leaf).map_err(|error| format!("certificate: {error}"))?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| format!("key: {error}"))?;
    let key = provider.key_provider.load_private_key(key).map_err(|error| format!("key: {error}"))?;
    // If the library cannot derive the public key, a mismatch shows in the handshake.
    if key.public_key().is_some_and(|public| public.as_ref() != leaf.key) {
        return Err(format!("the key does not belong to the certificate ({})", leaf.subject_text()));
    }
    Ok(CertifiedKey::new(chain, key))
}

/// Presents the same certificate in every handshake.
pub fn single(key: CertifiedKey) -> Arc<SingleCertAndKey> {
    Arc::new(SingleCertAndKey::from(key))
}
