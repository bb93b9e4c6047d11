//! Certificates made on the spot.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, PKCS_RSA_SHA256, RsaKeySize,
};

/// A certificate chain and its key, both PEM.
pub(crate) struct Pair {
    pub cert: String,
    pub key: String,
}

/// Signs certificates.
pub(crate) struct Authority {
    pub cert: String,
    pub key: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let params = authority_params("root");
        let key = KeyPair::generate().expect("a key");
        let cert = params.self_signed(&key).expect("an authority").pem();
        Authority { cert, key: key.serialize_pem(), issuer: Issuer::new(params, key) }
    }

    /// An authority below this one.
    pub(crate) fn intermediate(&self) -> Self {
        let params = authority_params("intermediate");
        let key = KeyPair::generate().expect("a key");
        let cert = params.signed_by(&key, &self.issuer).expect("an authority").pem();
        Authority { cert, key: key.serialize_pem(), issuer: Issuer::new(params, key) }
    }

    pub(crate) fn issue(&self, name: &str) -> Pair {
        self.issue_with(name, |_| {})
    }

    pub(crate) fn issue_with(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> Pair {
        let key = KeyPair::generate().expect("a key");
        let mut params = leaf_params(name);
        change(&mut params);
        let cert = params.signed_by(&key, &self.issuer).expect("a certificate");
        Pair { cert: cert.pem(), key: key.serialize_pem() }
    }
}

/// Signed by itself, with an ECDSA key.
pub(crate) fn self_signed(name: &str) -> Pair {
    signed_with(name, KeyPair::generate().expect("a key"))
}

/// Signed by itself, with an RSA key.
pub(crate) fn self_signed_rsa(name: &str) -> Pair {
    signed_with(name, KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048).expect("a key"))
}

fn signed_with(name: &str, key: KeyPair) -> Pair {
    let cert = leaf_params(name).self_signed(&key).expect("a certificate");
    Pair { cert: cert.pem(), key: key.serialize_pem() }
}

fn leaf_params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

fn authority_params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

/// A YAML or JSON string in double quotes.
pub(crate) fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\n', "\\n"))
}
