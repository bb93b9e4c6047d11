//! Certificates and keys: that they are PEM around a plausible DER structure.
//!
//! Whether a key belongs to its certificate is checked where handshakes are prepared: a write tries that too.

use rustls_pki_types::pem::{PemObject, SectionKind};
use serde_json::Value;

use super::{
    addresses::server_name_fault,
    context::{Context, check_schema},
};
use crate::{Kind, schema::rules::is_secret_reference};

const BAD_CERTIFICATE: &str = "failed to parse cert: PEM_read_bio_X509_AUX() failed";
const BAD_KEY: &str = "failed to parse key: PEM_read_bio_PrivateKey() failed";

/// The plugin that allows the field of the same name.
const STAPLING: &str = "ocsp-stapling";

pub(super) fn check_ssl(context: &Context<'_>, conf: &mut Value) -> Result<(), String> {
    if conf.get("ocsp_stapling").is_some() && !context.plugins.is_enabled(STAPLING) {
        return Err("invalid configuration: additional properties forbidden, found ocsp_stapling".into());
    }
    check_schema(Kind::Ssl, conf)?;
    let text = |name: &str| conf.get(name).and_then(Value::as_str).unwrap_or_default();
    check_stored_pair(text("cert"), text("key"))?;
    if text("type") == "client" {
        return Ok(());
    }
    let names =
        conf.get("sni").into_iter().chain(conf.get("snis").and_then(Value::as_array).into_iter().flatten());
    if let Some(fault) = names.filter_map(Value::as_str).find_map(server_name_fault) {
        return Err(format!("invalid configuration: {fault}"));
    }
    let list = |name: &str| conf.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let (certificates, keys) = (list("certs"), list("keys"));
    if certificates.len() != keys.len() {
        return Err("mismatched number of certs and keys".into());
    }
    for (position, (certificate, key)) in certificates.iter().zip(keys).enumerate() {
        check_stored_pair(certificate.as_str().unwrap_or_default(), key.as_str().unwrap_or_default())
            .map_err(|error| format!("failed to handle cert-key pair[{}]: {error}", position + 1))?;
    }
    let authority = conf.pointer("/client/ca").and_then(Value::as_str);
    match authority {
        Some(authority) if !is_secret_reference(authority) => {
            check_pair(authority, None).map_err(|error| format!("failed to validate client_cert: {error}"))
        }
        _ => Ok(()),
    }
}

/// A pair with a secret reference in it is checked when the secret is known.
fn check_stored_pair(certificate: &str, key: &str) -> Result<(), String> {
    if is_secret_reference(certificate) || is_secret_reference(key) {
        return Ok(());
    }
    check_pair(certificate, Some(key))
}

/// Checks a PEM certificate (chain) and, if given, a PEM private key.
pub(crate) fn check_pair(certificate: &str, key: Option<&str>) -> Result<(), String> {
    let certificate = first_section(certificate, |kind| kind == SectionKind::Certificate);
    if !certificate.is_some_and(|der| is_certificate(&der)) {
        return Err(BAD_CERTIFICATE.into());
    }
    let Some(key) = key else { return Ok(()) };
    // Keys that an older version stored encrypted have no PEM armour.
    if !key.trim_start().starts_with("---") {
        return Err("failed to decrypt previous encrypted key".into());
    }
    let is_key = |kind| {
        matches!(kind, SectionKind::PrivateKey | SectionKind::RsaPrivateKey | SectionKind::EcPrivateKey)
    };
    let key = first_section(key, is_key);
    if key.is_some_and(|der| children(&der).is_some_and(|parts| parts.first() == Some(&INTEGER))) {
        return Ok(());
    }
    Err(BAD_KEY.into())
}

fn first_section(pem: &str, wanted: impl Fn(SectionKind) -> bool) -> Option<Vec<u8>> {
    let sections = <(SectionKind, Vec<u8>)>::pem_slice_iter(pem.as_bytes());
    sections.map_while(Result::ok).find(|(kind, _)| wanted(*kind)).map(|(_, der)| der)
}

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const SEQUENCE: u8 = 0x30;

/// `Certificate ::= SEQUENCE { tbsCertificate, signatureAlgorithm, signatureValue }`, RFC 5280.
fn is_certificate(der: &[u8]) -> bool {
    children(der).is_some_and(|parts| parts == [SEQUENCE, SEQUENCE, BIT_STRING])
}

/// The tags inside of the outer sequence; `None` when lengths do not add up.
fn children(der: &[u8]) -> Option<Vec<u8>> {
    let (tag, mut content, rest) = element(der)?;
    if tag != SEQUENCE || !rest.is_empty() {
        return None;
    }
    let mut tags = Vec::new();
    while !content.is_empty() {
        let (tag, _, rest) = element(content)?;
        tags.push(tag);
        content = rest;
    }
    Some(tags)
}

fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, rest) = der.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        short @ 0..=0x7f => (usize::from(*short), rest),
        long => {
            let count = usize::from(long & 0x7f);
            if !(1..=4).contains(&count) {
                return None;
            }
            let (bytes, rest) = rest.split_at_checked(count)?;
            (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
        }
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((*tag, content, rest))
}
