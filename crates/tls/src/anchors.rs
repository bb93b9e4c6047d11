//! The certificates that are trusted by configuration.

use std::{
    borrow::Cow,
    path::{Path, PathBuf},
};

use rustls::{
    DistinguishedName,
    pki_types::{CertificateDer, TrustAnchor, pem::PemObject},
};

use crate::certificate::Certificate;

/// Where distributions keep the authorities: Debian, Red Hat, Alpine.
const SYSTEM_AUTHORITIES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// The PEM file with the system's authorities, when there is one.
pub(crate) fn system_authorities() -> Option<PathBuf> {
    SYSTEM_AUTHORITIES.iter().map(Path::new).find(|path| path.exists()).map(Path::to_owned)
}

/// Trusted certificates. Each of them is trusted directly, whether self-issued or not.
#[derive(Clone, Debug, Default)]
pub struct Anchors {
    /// In the library's form; the certificate of each has the same index in `certificates`.
    library: Vec<TrustAnchor<'static>>,
    /// `None`: only name and key are known.
    certificates: Vec<Option<CertificateDer<'static>>>,
}

impl Anchors {
    /// The certificates of a PEM text, and how many were added. In a bundle those that cannot be read are left out.
    pub(crate) fn add_bundle(&mut self, pem: &[u8]) -> usize {
        let found = CertificateDer::pem_slice_iter(pem).filter_map(Result::ok);
        found.filter(|certificate| self.add(certificate.clone()).is_ok()).count()
    }

    /// All certificates of a PEM text. One that cannot be read is an error, since a user chose each of them.
    pub fn from_pem(pem: &[u8]) -> Result<Anchors, String> {
        let mut anchors = Anchors::default();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            anchors.add(certificate.map_err(|error| format!("not PEM: {error}"))?)?;
        }
        if anchors.is_empty() {
            return Err("no certificate found; expected PEM".to_owned());
        }
        Ok(anchors)
    }

    /// `apisix.ssl.ssl_trusted_certificate`: PEM files below `prefix`, separated by commas; `system` for the system's.
    pub fn from_setting(setting: &str, prefix: &Path) -> Result<Anchors, String> {
        let mut anchors = Anchors::default();
        for name in setting.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            let path = match name {
                "system" => Cow::Owned(
                    system_authorities()
                        .ok_or("no certificate authorities found: set apisix.ssl.ssl_trusted_certificate")?,
                ),
                name => Cow::Owned(prefix.join(name)),
            };
            anchors.add_file(&path)?;
        }
        Ok(anchors)
    }

    /// The certificates of a PEM file. The error names the file.
    pub fn add_file(&mut self, path: &Path) -> Result<(), String> {
        let pem = std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        match self.add_bundle(&pem) {
            0 => Err(format!("{}: no certificate found; expected PEM", path.display())),
            _ => Ok(()),
        }
    }

    /// Authorities of which only names and keys are known.
    pub fn add_bare(&mut self, anchors: impl IntoIterator<Item = TrustAnchor<'static>>) {
        for anchor in anchors {
            self.library.push(anchor);
            self.certificates.push(None);
        }
    }

    /// Trusts a certificate, an authority or not. The error says why it cannot be read.
    pub fn add(&mut self, certificate: CertificateDer<'static>) -> Result<(), String> {
        let parsed = Certificate::parse(&certificate).map_err(|error| error.to_string())?;
        let anchor = webpki::anchor_from_trusted_cert(&certificate)
            .map_err(|error| format!("{}: {error}", parsed.subject_text()))?
            .to_owned();
        self.library.push(anchor);
        self.certificates.push(Some(certificate));
        Ok(())
    }

    /// Whether nothing is trusted.
    pub fn is_empty(&self) -> bool {
        self.library.is_empty()
    }

    pub(crate) fn for_library(&self) -> &[TrustAnchor<'static>] {
        &self.library
    }

    /// The certificate behind one of [`Anchors::for_library`]: that one, since a renewed authority has the name and the key
    /// of the one that expired.
    pub(crate) fn certificate_of(&self, anchor: &TrustAnchor<'_>) -> Option<&[u8]> {
        let found = self.library.iter().position(|it| std::ptr::eq(it, anchor))?;
        self.certificates.get(found)?.as_deref()
    }

    /// Whether exactly this certificate is trusted.
    pub(crate) fn holds(&self, der: &[u8]) -> bool {
        self.certificates.iter().flatten().any(|certificate| certificate.as_ref() == der)
    }

    /// The certificates with this subject (the contents of the name).
    pub(crate) fn named<'a>(&'a self, subject: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        let pairs = self.library.iter().zip(&self.certificates);
        pairs
            .filter(move |(anchor, _)| anchor.subject.as_ref() == subject)
            .filter_map(|(_, it)| it.as_deref())
    }

    /// For a server's request for certificates.
    pub(crate) fn names(&self) -> Vec<DistinguishedName> {
        self.library.iter().map(|anchor| DistinguishedName::in_sequence(&anchor.subject)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trusted_files_are_listed_with_commas() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(folder.path().join("empty.pem"), "nothing").expect("a file");
        assert!(Anchors::from_setting("system, ", folder.path()).is_ok_and(|roots| !roots.is_empty()));
        let error = Anchors::from_setting("system,empty.pem", folder.path()).expect_err("no certificate");
        assert!(error.contains("empty.pem: no certificate"), "{error}");
        assert!(Anchors::from_setting("absent.pem", folder.path()).is_err());
    }

    /// This crate reads every certificate of the system's bundle that the library reads.
    #[test]
    fn every_authority_of_the_system_is_read() {
        let path = system_authorities().expect("ca-certificates is installed");
        let pem = std::fs::read(path).expect("readable");
        let mut anchors = Anchors::default();
        assert_eq!(anchors.add_bundle(&pem), CertificateDer::pem_slice_iter(&pem).count());
    }
}
