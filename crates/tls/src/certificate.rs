//! A certificate as verification reads it (RFC 5280 section 4.1, any version), without copies.
//!
//! Only the fields that decide about trust are decoded. Serial numbers and names stay bytes, because real ones break
//! the rules of the RFC in harmless ways.

use std::fmt;

use der::{
    Decode, Reader, SliceReader, Tag, Tagged,
    asn1::{AnyRef, BitStringRef, ObjectIdentifier, OctetStringRef},
};
use x509_cert::{
    ext::pkix::{BasicConstraints, ExtendedKeyUsage, KeyUsage},
    time::Time,
};

const KEY_USAGE: &str = "2.5.29.15";
const ALTERNATIVE_NAMES: &str = "2.5.29.17";
const BASIC_CONSTRAINTS: &str = "2.5.29.19";
const NAME_CONSTRAINTS: &str = "2.5.29.30";
const CRL_DISTRIBUTION_POINTS: &str = "2.5.29.31";
const EXTENDED_KEY_USAGE: &str = "2.5.29.37";
/// Policies, their mappings and constraints: known, and without effect, since no policy is asked for.
const POLICIES: [&str; 4] = ["2.5.29.32", "2.5.29.33", "2.5.29.36", "2.5.29.54"];
const NETSCAPE_TYPE: &str = "2.16.840.1.113730.1.1";

/// Real ones have a dozen. Each is compared with those before it.
const MOST_EXTENSIONS: usize = 64;
/// The most characters of a subject in a message.
const LONGEST_SUBJECT_CHARS: usize = 256;

/// One certificate. Slices that are named after an ASN.1 field hold its contents, without tag and length, unless
/// stated otherwise.
#[derive(Debug)]
pub struct Certificate<'a> {
    /// The whole certificate.
    pub der: &'a [u8],
    /// 1, 2 or 3.
    pub version: u8,
    /// With tag and length: what the signature covers.
    pub(crate) signed: &'a [u8],
    /// Serial number, as encoded.
    pub serial: &'a [u8],
    pub(crate) signature_algorithm: &'a [u8],
    pub(crate) signature: &'a [u8],
    /// Distinguished name of the issuer, in DER.
    pub issuer: &'a [u8],
    /// Distinguished name of the owner, in DER.
    pub subject: &'a [u8],
    /// Seconds since 1970.
    pub not_before: u64,
    /// Seconds since 1970.
    pub not_after: u64,
    /// `SubjectPublicKeyInfo`, with tag and length.
    pub(crate) key: &'a [u8],
    pub(crate) constraints: Option<BasicConstraints>,
    pub(crate) key_usage: Option<KeyUsage>,
    pub(crate) purposes: Option<Vec<ObjectIdentifier>>,
    /// First octet of the Netscape certificate type.
    pub(crate) netscape: Option<u8>,
    pub(crate) alternative_names: Option<&'a [u8]>,
    pub(crate) name_constraints: bool,
    pub(crate) unknown_critical: Option<ObjectIdentifier>,
}

/// Bytes that are not a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreadable;

impl fmt::Display for Unreadable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("not a readable X.509 certificate")
    }
}

impl std::error::Error for Unreadable {}

impl From<der::Error> for Unreadable {
    fn from(_: der::Error) -> Unreadable {
        Unreadable
    }
}

impl<'a> Certificate<'a> {
    /// Refuses what does not have the structure of RFC 5280 section 4.1; signatures are not checked.
    pub fn parse(der: &'a [u8]) -> Result<Certificate<'a>, Unreadable> {
        let mut outer = SliceReader::new(sequence(AnyRef::from_der(der)?)?)?;
        let signed = outer.tlv_bytes()?;
        let signature_algorithm = sequence(outer.decode()?)?;
        let signature: BitStringRef<'a> = outer.decode()?;
        let signature = signature.as_bytes().ok_or(Unreadable)?;
        if !outer.is_finished() {
            return Err(Unreadable);
        }
        let mut fields = SliceReader::new(sequence(AnyRef::from_der(signed)?)?)?;
        let version = version(&mut fields)?;
        let serial: AnyRef<'a> = fields.decode()?;
        // RFC 5280 section 4.1.1.2: the same algorithm inside and outside of what is signed.
        if serial.tag() != Tag::Integer || sequence(fields.decode()?)? != signature_algorithm {
            return Err(Unreadable);
        }
        let issuer = sequence(fields.decode()?)?;
        let mut validity = SliceReader::new(sequence(fields.decode()?)?)?;
        let (not_before, not_after): (Time, Time) = (validity.decode()?, validity.decode()?);
        let subject = sequence(fields.decode()?)?;
        let key = fields.tlv_bytes()?;
        let mut certificate = Certificate {
            der,
            version,
            signed,
            serial: serial.value(),
            signature_algorithm,
            signature,
            issuer,
            subject,
            not_before: not_before.to_unix_duration().as_secs(),
            not_after: not_after.to_unix_duration().as_secs(),
            key,
            constraints: None,
            key_usage: None,
            purposes: None,
            netscape: None,
            alternative_names: None,
            name_constraints: false,
            unknown_critical: None,
        };
        while !fields.is_finished() {
            let field: AnyRef<'a> = fields.decode()?;
            match field.tag() {
                Tag::ContextSpecific { number, .. } if matches!(number.value(), 1 | 2) && version > 1 => {}
                Tag::ContextSpecific { number, constructed: true } if number.value() == 3 && version == 3 => {
                    certificate.extensions(sequence(AnyRef::from_der(field.value())?)?)?;
                }
                _ => return Err(Unreadable),
            }
        }
        Ok(certificate)
    }

    /// Issued by itself, judging by names.
    pub(crate) fn is_self_issued(&self) -> bool {
        self.issuer == self.subject
    }

    /// Claims to be an authority.
    pub(crate) fn claims_authority(&self) -> bool {
        self.constraints.as_ref().is_some_and(|constraints| constraints.ca)
    }

    /// The subject as in `$ssl_client_s_dn`, for messages: a peer chose it, so it is cut.
    pub(crate) fn subject_text(&self) -> String {
        let subject = crate::rfc2253(self.subject).unwrap_or_default();
        subject.chars().take(LONGEST_SUBJECT_CHARS).collect()
    }

    fn extensions(&mut self, list: &'a [u8]) -> Result<(), Unreadable> {
        let mut list = SliceReader::new(list)?;
        let mut seen: Vec<ObjectIdentifier> = Vec::new();
        while !list.is_finished() {
            let mut extension = SliceReader::new(sequence(list.decode()?)?)?;
            let id: ObjectIdentifier = extension.decode()?;
            let critical = extension.peek_tag()? == Tag::Boolean && extension.decode::<bool>()?;
            let value: OctetStringRef<'a> = extension.decode()?;
            if !extension.is_finished() || seen.contains(&id) || seen.len() >= MOST_EXTENSIONS {
                return Err(Unreadable);
            }
            seen.push(id);
            self.extension(id, critical, value.as_bytes())?;
        }
        Ok(())
    }

    fn extension(&mut self, id: ObjectIdentifier, critical: bool, value: &'a [u8]) -> Result<(), Unreadable> {
        match id.to_string().as_str() {
            policy if POLICIES.contains(&policy) => {}
            KEY_USAGE => self.key_usage = Some(KeyUsage::from_der(value)?),
            ALTERNATIVE_NAMES => self.alternative_names = Some(sequence(AnyRef::from_der(value)?)?),
            BASIC_CONSTRAINTS => self.constraints = Some(BasicConstraints::from_der(value)?),
            NAME_CONSTRAINTS => self.name_constraints = true,
            CRL_DISTRIBUTION_POINTS => {}
            EXTENDED_KEY_USAGE => self.purposes = Some(ExtendedKeyUsage::from_der(value)?.0),
            NETSCAPE_TYPE => {
                let bits = BitStringRef::from_der(value)?;
                self.netscape = Some(bits.raw_bytes().first().copied().unwrap_or_default());
            }
            _ if critical && self.unknown_critical.is_none() => self.unknown_critical = Some(id),
            _ => {}
        }
        Ok(())
    }
}

/// `[0] EXPLICIT Version DEFAULT v1`
fn version(fields: &mut SliceReader<'_>) -> Result<u8, Unreadable> {
    match fields.peek_tag()? {
        Tag::ContextSpecific { number, constructed: true } if number.value() == 0 => {
            let field: AnyRef<'_> = fields.decode()?;
            match u8::from_der(field.value())? {
                number @ 0..=2 => Ok(number + 1),
                _ => Err(Unreadable),
            }
        }
        _ => Ok(1),
    }
}

fn sequence(any: AnyRef<'_>) -> Result<&[u8], Unreadable> {
    if any.tag() == Tag::Sequence { Ok(any.value()) } else { Err(Unreadable) }
}
