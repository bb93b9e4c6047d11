//! Signatures in messages (XML Signature 1.1, as SAML narrows it: core, section 5.4) and of targets (bindings, section 3.4.4.1).
//!
//! A signature counts for the element that it stands in, and nothing is looked up by an id: so there is no other element that could
//! be meant. What is read of a message is read of the element whose signature was checked.

use std::collections::HashSet;

use aws_lc_rs::digest;
use tidegate_clients::{
    jws::{Algorithm, VerifyingKey},
    nginx_base64,
};

use super::{canonical, tree::Element};

const DSIG: &str = "http://www.w3.org/2000/09/xmldsig#";
const EXCLUSIVE: &str = "http://www.w3.org/2001/10/xml-exc-c14n#";
const ENVELOPED: &str = "http://www.w3.org/2000/09/xmldsig#enveloped-signature";
/// More than any signature names.
const MAX_PREFIXES: usize = 32;
/// What this gateway signs with, as APISIX does.
pub(super) const RSA_SHA512: &str = "http://www.w3.org/2001/04/xmldsig-more#rsa-sha512";
const ALGORITHMS: [(&str, Algorithm); 3] = [
    ("http://www.w3.org/2001/04/xmldsig-more#rsa-sha256", Algorithm::Rs256),
    ("http://www.w3.org/2001/04/xmldsig-more#rsa-sha384", Algorithm::Rs384),
    (RSA_SHA512, Algorithm::Rs512),
];
const DIGESTS: [(&str, &digest::Algorithm); 3] = [
    ("http://www.w3.org/2001/04/xmlenc#sha256", &digest::SHA256),
    ("http://www.w3.org/2001/04/xmldsig-more#sha384", &digest::SHA384),
    ("http://www.w3.org/2001/04/xmlenc#sha512", &digest::SHA512),
];

/// The identity provider's key. What a message says of its key itself does not count.
pub(super) struct ProviderKey(Vec<(Algorithm, VerifyingKey)>);

impl ProviderKey {
    /// Of a certificate in PEM.
    pub(super) fn new(certificate: &str) -> Result<ProviderKey, String> {
        let of = |(_, algorithm): (&str, Algorithm)| {
            VerifyingKey::from_pem(algorithm, certificate).map(|key| (algorithm, key))
        };
        let keys: Vec<_> = ALGORITHMS.into_iter().filter_map(|entry| of(entry).ok()).collect();
        match keys.is_empty() {
            true => Err(of(ALGORITHMS[0]).err().unwrap_or_default()),
            false => Ok(ProviderKey(keys)),
        }
    }

    /// `method`: the URI of the algorithm.
    pub(super) fn verify(&self, method: &str, message: &[u8], signature: &str) -> Result<(), String> {
        let wanted = ALGORITHMS.iter().find(|(uri, _)| *uri == method).map(|(_, algorithm)| *algorithm);
        let wanted = wanted.ok_or_else(|| format!("signatures with {method:?} are not accepted"))?;
        let (_, key) =
            self.0.iter().find(|(algorithm, _)| *algorithm == wanted).ok_or("the key is too short")?;
        match key.verifies(message, &bytes(signature)?) {
            true => Ok(()),
            false => Err("the signature is not of the identity provider's key".to_owned()),
        }
    }
}

/// Base64 with white space in it.
pub(super) fn bytes(text: &str) -> Result<Vec<u8>, String> {
    let text: String = text.split_ascii_whitespace().collect();
    nginx_base64::decode(text.as_bytes()).ok_or_else(|| "it is not base64".to_owned())
}

/// Refuses a document in which two elements have one id, or a signature stands in another place than these elements.
pub(super) fn check_places(root: &Element, signed: &[&Element]) -> Result<(), String> {
    let (mut ids, mut signatures) = (HashSet::new(), 0);
    for element in root.descendants() {
        if ["ID", "Id", "id"].iter().filter_map(|name| element.attribute(name)).any(|id| !ids.insert(id)) {
            return Err("an id is duplicated".to_owned());
        }
        signatures += usize::from(element.is(DSIG, "Signature"));
    }
    let known: usize = signed.iter().map(|element| element.all(DSIG, "Signature").count()).sum();
    match known == signatures {
        true => Ok(()),
        false => Err("a signature stands where none belongs".to_owned()),
    }
}

/// Whether the element has a signature, which then is the provider's and covers all of the element.
pub(super) fn is_signed(element: &Element, key: &ProviderKey) -> Result<bool, String> {
    if element.all(DSIG, "Signature").next().is_none() {
        return Ok(false);
    }
    let signature = element.only(DSIG, "Signature")?;
    let info = signature.only(DSIG, "SignedInfo")?;
    let parts = ["SignedInfo", "SignatureValue", "KeyInfo"];
    if signature.elements().any(|part| !parts.iter().any(|name| part.is(DSIG, name))) {
        return Err("a signature has more in it than a signature".to_owned());
    }
    check_reference(element, signature, info.only(DSIG, "Reference")?)?;
    let method = info.only(DSIG, "SignatureMethod")?.attribute("Algorithm").unwrap_or_default();
    let how = info.only(DSIG, "CanonicalizationMethod")?;
    let text = canonical::of(info, None, &inclusive(how)?)?;
    key.verify(method, text.as_bytes(), signature.only(DSIG, "SignatureValue")?.text()?)?;
    Ok(true)
}

/// The reference is to the element in which the signature stands, without the signature.
fn check_reference(element: &Element, signature: &Element, reference: &Element) -> Result<(), String> {
    let id = element.attribute("ID").filter(|id| !id.is_empty()).ok_or("what is signed has no ID")?;
    if reference.attribute("URI").and_then(|uri| uri.strip_prefix('#')) != Some(id) {
        return Err("a signature refers to another element than the one that it is in".to_owned());
    }
    let transforms: Vec<&Element> = reference.only(DSIG, "Transforms")?.elements().collect();
    let [enveloped, how] = transforms.as_slice() else {
        return Err("a signature has other transforms than two".to_owned());
    };
    if !enveloped.is(DSIG, "Transform") || enveloped.attribute("Algorithm") != Some(ENVELOPED) {
        return Err("the first transform of a signature is not enveloped-signature".to_owned());
    }
    let text = canonical::of(element, Some(signature), &inclusive(how)?)?;
    let method = reference.only(DSIG, "DigestMethod")?.attribute("Algorithm").unwrap_or_default();
    let digest = DIGESTS.iter().find(|(uri, _)| *uri == method);
    let (_, digest) = digest.ok_or_else(|| format!("digests with {method:?} are not accepted"))?;
    let expected = bytes(reference.only(DSIG, "DigestValue")?.text()?)?;
    match digest::digest(digest, text.as_bytes()).as_ref() == expected {
        true => Ok(()),
        false => Err("what is signed was changed".to_owned()),
    }
}

/// The prefixes that an exclusive canonicalization treats as used; others than exclusive are refused.
fn inclusive(how: &Element) -> Result<Vec<&str>, String> {
    let algorithm = how.attribute("Algorithm").unwrap_or_default();
    if algorithm != EXCLUSIVE {
        return Err(format!("canonicalization with {algorithm:?} is not accepted"));
    }
    let mut prefixes = Vec::new();
    for part in how.elements() {
        if !part.is(EXCLUSIVE, "InclusiveNamespaces") {
            return Err("a canonicalization has parameters that are not known".to_owned());
        }
        prefixes.extend(part.attribute("PrefixList").unwrap_or_default().split_ascii_whitespace());
    }
    // Each of them is looked for at each element.
    if prefixes.len() > MAX_PREFIXES {
        return Err("a canonicalization has too many prefixes".to_owned());
    }
    Ok(prefixes.into_iter().map(|prefix| if prefix == "#default" { "" } else { prefix }).collect())
}
