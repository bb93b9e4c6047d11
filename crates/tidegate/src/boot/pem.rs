//! Certificates and keys that config.yaml names.

use std::borrow::Cow;

use rustls::sign::CertifiedKey;
use tidegate_config::Settings;
use tidegate_tls::PairError;

/// A key of config.yaml, and what is wrong with what it names.
pub(super) type Fault = (Cow<'static, str>, String);

/// Certificate chain and key from the files of two keys of config.yaml.
pub(super) fn pair(
    settings: &Settings,
    (certificate_name, certificate): (&'static str, &str),
    (key_name, key): (&'static str, &str),
) -> Result<CertifiedKey, Fault> {
    let chain = read(settings, certificate_name, certificate)?;
    let pem = read(settings, key_name, key)?;
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    tidegate_tls::certified_key(&provider, &chain, &pem).map_err(|error| match error {
        PairError::Certificate(_) => (certificate_name.into(), format!("{certificate}: {error}")),
        PairError::Key(_) | PairError::Mismatch(_) => {
            (key_name.into(), format!("{key}: {error}; give the PEM key of {certificate}"))
        }
    })
}

/// The content of a file that a key of config.yaml names.
pub(super) fn read(settings: &Settings, name: &'static str, path: &str) -> Result<Vec<u8>, Fault> {
    let path = settings.below_prefix(path);
    tidegate_config::bounded::read(&path)
        .map_err(|error| (name.into(), format!("cannot read {}: {error}", path.display())))
}
