//! The question: which certificate is meant, and where to ask.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use der::{
    Decode, Encode,
    asn1::{Null, ObjectIdentifier, OctetString},
};
use x509_cert::{
    Certificate,
    ext::pkix::{AuthorityInfoAccessSyntax, name::GeneralName},
    spki::AlgorithmIdentifierOwned,
};
use x509_ocsp::{CertId, OcspRequest, Request, TbsRequest, Version};

use super::Subject;

const AUTHORITY_INFO_ACCESS: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.1.1");
const OCSP: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.48.1");
/// Certificates are named by it in OCSP; nothing rests on its strength.
const SHA_1: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.14.3.2.26");

/// A request for the status of one certificate (RFC 6960 section 4.1).
#[derive(Debug)]
pub struct Question {
    /// Where the authority answers.
    pub url: String,
    /// The body of a POST with `application/ocsp-request`.
    pub body: Vec<u8>,
}

/// The error says what in the certificates is missing or cannot be read.
pub fn ask(subject: Subject<'_>) -> Result<Question, String> {
    let (certificate, issuer) = subject.parse()?;
    let url = responder(&certificate).ok_or("cert names no OCSP responder (authority information access)")?;
    let request = Request { req_cert: cert_id(&certificate, &issuer)?, single_request_extensions: None };
    let tbs_request = TbsRequest {
        version: Version::V1,
        requestor_name: None,
        request_list: vec![request],
        request_extensions: None,
    };
    let body = OcspRequest { tbs_request, optional_signature: None }.to_der();
    Ok(Question { url, body: body.map_err(|error| error.to_string())? })
}

fn responder(certificate: &Certificate) -> Option<String> {
    let extensions = certificate.tbs_certificate.extensions.as_ref()?;
    let access = extensions.iter().find(|extension| extension.extn_id == AUTHORITY_INFO_ACCESS)?;
    let access = AuthorityInfoAccessSyntax::from_der(access.extn_value.as_bytes()).ok()?;
    access.0.into_iter().filter(|entry| entry.access_method == OCSP).find_map(|entry| {
        match entry.access_location {
            GeneralName::UniformResourceIdentifier(url) => Some(url.to_string()),
            _ => None,
        }
    })
}

pub(super) fn cert_id(certificate: &Certificate, issuer: &Certificate) -> Result<CertId, String> {
    let hash = |bytes: &[u8]| OctetString::new(digest(&SHA1_FOR_LEGACY_USE_ONLY, bytes).as_ref());
    let name = issuer.tbs_certificate.subject.to_der().map_err(|error| error.to_string())?;
    let key = issuer.tbs_certificate.subject_public_key_info.subject_public_key.raw_bytes();
    Ok(CertId {
        hash_algorithm: AlgorithmIdentifierOwned { oid: SHA_1, parameters: Some(Null.into()) },
        issuer_name_hash: hash(&name).map_err(|error| error.to_string())?,
        issuer_key_hash: hash(key).map_err(|error| error.to_string())?,
        serial_number: certificate.tbs_certificate.serial_number.clone(),
    })
}
