//! How messages travel (SAML 2.0 bindings, sections 3.4 and 3.5): in a target, deflated and signed there, or in a form.

use std::io::{Read, Write};

use flate2::{Compression, read::DeflateDecoder, write::DeflateEncoder};
use tidegate_clients::{jws_sign::SigningKey, nginx_base64};
use tidegate_protocol::uri::{encoded_component, percent_decode, query_pairs};

use super::{
    message::Message,
    signature::{ProviderKey, RSA_SHA512, bytes},
};

/// Of a form, and of a document that was deflated.
pub(super) const MOST_BYTES: usize = 1 << 20;

/// What a browser brought from the identity provider.
pub(super) struct Brought {
    pub(super) message: Message,
    pub(super) relay_state: Option<String>,
}

/// The arguments of a redirect to the identity provider. `name`: `SAMLRequest` or `SAMLResponse`.
pub(super) fn signed_arguments(
    name: &str,
    document: &str,
    relay_state: &str,
    key: &SigningKey,
) -> Result<String, String> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    let deflated = encoder.write_all(document.as_bytes()).and_then(|()| encoder.finish());
    let deflated = deflated.map_err(|error| error.to_string())?;
    let signed = format!(
        "{name}={}&RelayState={}&SigAlg={}",
        encoded_component(&nginx_base64::encode(deflated)),
        encoded_component(relay_state),
        encoded_component(RSA_SHA512)
    );
    let signature = nginx_base64::encode(key.signature_of(signed.as_bytes())?);
    Ok(format!("{signed}&Signature={}", encoded_component(&signature)))
}

/// An argument or field as it is written. `Err`: it is there twice.
fn written<'q>(query: &'q [u8], name: &str) -> Result<Option<&'q [u8]>, String> {
    let mut found = query_pairs(query).filter(|(key, _)| percent_decode(key, true) == name.as_bytes());
    match (found.next(), found.next()) {
        (_, Some(_)) => Err(format!("{name} is duplicated")),
        (found, None) => Ok(found.map(|(_, value)| value.unwrap_or_default())),
    }
}

fn text(written: &[u8]) -> Result<String, String> {
    String::from_utf8(percent_decode(written, true)).map_err(|_| "it is not UTF-8".to_owned())
}

/// `None`: no parameter has this name. A message in a query string must be signed.
pub(super) fn of_target(query: &[u8], name: &str, key: &ProviderKey) -> Result<Option<Brought>, String> {
    let Some(message) = written(query, name)? else { return Ok(None) };
    let relay_state = written(query, "RelayState")?;
    let method = written(query, "SigAlg")?.ok_or("the target has no SigAlg")?;
    let signature = written(query, "Signature")?.ok_or("the target has no Signature")?;
    // As they were sent: there are several ways to encode a text.
    let parts = [(name, Some(message)), ("RelayState", relay_state), ("SigAlg", Some(method))];
    let parts = parts.into_iter().filter_map(|(name, value)| Some([name.as_bytes(), b"=", value?].concat()));
    let signed = parts.collect::<Vec<_>>().join(&b'&');
    key.verify(&text(method)?, &signed, &text(signature)?)?;
    let mut document = Vec::new();
    let deflated = bytes(&text(message)?)?;
    let most = u64::try_from(MOST_BYTES).unwrap_or(u64::MAX);
    let read = DeflateDecoder::new(deflated.as_slice()).take(most + 1).read_to_end(&mut document);
    if read.is_err() || document.len() > MOST_BYTES {
        return Err(format!("{name} is not deflated, or too large"));
    }
    let message = Message { document, is_signed: true };
    Ok(Some(Brought { message, relay_state: relay_state.map(text).transpose()? }))
}

/// The same of a form, where the document itself has to be signed.
pub(super) fn of_form(form: &[u8], name: &str) -> Result<Option<Brought>, String> {
    let Some(message) = written(form, name)? else { return Ok(None) };
    let message = Message { document: bytes(&text(message)?)?, is_signed: false };
    Ok(Some(Brought { message, relay_state: written(form, "RelayState")?.map(text).transpose()? }))
}
