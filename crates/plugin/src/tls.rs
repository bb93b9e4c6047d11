//! TLS toward servers: upstreams, and whatever plugins and probes talk to.
//!
//! One place makes every client configuration, so that there is one answer to what "verified" means.

use std::{path::Path, sync::Arc};

use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use trust::AnyCertificate;

/// Whom a client trusts.
pub enum Trust {
    /// Encrypts, trusts anybody: APISIX's default toward upstreams.
    Anybody,
    Roots(RootCertStore),
}

/// A configuration; `client` is the PEM of the certificate chain and key that are shown to the server.
pub fn client_config(trust: Trust, client: Option<(&str, &str)>) -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let builder = match trust {
        Trust::Roots(roots) => builder.with_root_certificates(roots),
        Trust::Anybody => builder.dangerous().with_custom_certificate_verifier(AnyCertificate::new(provider)),
    };
    let Some((chain, key)) = client else { return Ok(builder.with_no_client_auth()) };
    let chain = CertificateDer::pem_slice_iter(chain.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| format!("client certificate: {error}"))?;
    let key =
        PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|error| format!("client key: {error}"))?;
    builder.with_client_auth_cert(chain, key).map_err(|error| format!("client certificate: {error}"))
}

/// The authorities of `apisix.ssl.ssl_trusted_certificate`: PEM files separated by commas, `system` for the system's.
pub fn trusted_roots(setting: &str, prefix: &Path) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for name in setting.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        let path = match name {
            "system" => trust::system_authorities()
                .ok_or("no certificate authorities found: set apisix.ssl.ssl_trusted_certificate")?,
            name => prefix.join(name),
        };
        let pem = std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        // A bundle may hold certificates that are too old for the library; the others serve.
        let (added, _) =
            roots.add_parsable_certificates(CertificateDer::pem_slice_iter(&pem).filter_map(Result::ok));
        if added == 0 {
            return Err(format!("{}: no certificate in it", path.display()));
        }
    }
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trusted_files_are_listed_with_commas() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(folder.path().join("empty.pem"), "nothing").expect("a file");
        assert!(trusted_roots("system, ", folder.path()).is_ok_and(|roots| !roots.is_empty()));
        let error = trusted_roots("system,empty.pem", folder.path()).expect_err("no certificate");
        assert!(error.contains("empty.pem: no certificate"), "{error}");
        assert!(trusted_roots("absent.pem", folder.path()).is_err());
    }
}
