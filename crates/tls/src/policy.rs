//! Rules for every chain, however it was built: OpenSSL's `check_chain` and security level 2.

use der::{
    Reader, SliceReader, Tag, Tagged,
    asn1::{AnyRef, BitStringRef, ObjectIdentifier},
};

use super::purpose::Purpose;
use crate::{certificate::Certificate, refusal::Refusal};

/// Shorter RSA keys can be broken: 112 bits of security, NIST SP 800-57.
const LEAST_RSA_BITS: usize = 2048;

const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");

/// Bits of the Netscape certificate type.
const NETSCAPE_CLIENT: u8 = 0x80;
const NETSCAPE_SERVER: u8 = 0x40;

/// A path from the leaf (first) to the anchor (last), every signature of which is right. `rooted`: the anchor is in it.
pub(crate) struct Candidate<'c, 'a> {
    pub path: &'c [Certificate<'a>],
    pub(crate) rooted: bool,
}

pub(crate) struct Rules {
    pub purpose: Purpose,
    /// Seconds since 1970.
    pub now: u64,
    /// Intermediate certificates at most.
    pub depth: Option<usize>,
}

impl Rules {
    pub(crate) fn check(&self, candidate: &Candidate<'_, '_>) -> Result<(), Refusal> {
        let Candidate { path, rooted } = candidate;
        // Intermediates that were not issued by themselves, below the certificate at hand: RFC 5280 section 6.1.4 (l).
        let mut below = 0;
        for (position, certificate) in path.iter().enumerate() {
            self.check_dates(certificate)?;
            self.check_purpose(certificate)?;
            check_key(certificate)?;
            if let Some(id) = &certificate.unknown_critical {
                return Err(Refusal::CriticalExtension(certificate.subject_text(), id.to_string()));
            }
            if position == 0 {
                self.check_leaf(certificate)?;
                continue;
            }
            check_authority(certificate, *rooted && position + 1 == path.len())?;
            let limit = certificate.constraints.as_ref().and_then(|it| it.path_len_constraint);
            if limit.is_some_and(|limit| below > usize::from(limit)) {
                return Err(Refusal::PathLength(certificate.subject_text()));
            }
            below += usize::from(!certificate.is_self_issued());
        }
        let intermediates = path.len().saturating_sub(1 + usize::from(*rooted));
        match self.depth {
            Some(depth) if intermediates > depth => Err(Refusal::Depth(depth)),
            _ => Ok(()),
        }
    }

    fn check_dates(&self, certificate: &Certificate<'_>) -> Result<(), Refusal> {
        let Certificate { not_before, not_after, .. } = *certificate;
        if self.now < not_before {
            return Err(Refusal::NotYetValid { now: self.now, not_before });
        }
        if self.now > not_after {
            return Err(Refusal::Expired { now: self.now, not_after });
        }
        Ok(())
    }

    /// Also checked for authorities: one that is limited to a purpose vouches for no other.
    fn check_purpose(&self, certificate: &Certificate<'_>) -> Result<(), Refusal> {
        match &certificate.purposes {
            Some(purposes) if !purposes.contains(&self.purpose.id()) => {
                Err(Refusal::Purpose(certificate.subject_text(), self.purpose))
            }
            _ => Ok(()),
        }
    }

    fn check_leaf(&self, certificate: &Certificate<'_>) -> Result<(), Refusal> {
        let netscape = match self.purpose {
            Purpose::Server => NETSCAPE_SERVER,
            Purpose::Client => NETSCAPE_CLIENT,
        };
        if certificate.netscape.is_some_and(|kind| kind & netscape == 0) {
            return Err(Refusal::Purpose(certificate.subject_text(), self.purpose));
        }
        let Some(usage) = &certificate.key_usage else { return Ok(()) };
        let (enough, missing) = match self.purpose {
            Purpose::Server => (
                usage.digital_signature() || usage.key_encipherment() || usage.key_agreement(),
                "digitalSignature, keyEncipherment or keyAgreement",
            ),
            Purpose::Client => {
                (usage.digital_signature() || usage.key_agreement(), "digitalSignature or keyAgreement")
            }
        };
        if enough { Ok(()) } else { Err(Refusal::KeyUsage(certificate.subject_text(), missing)) }
    }
}

/// Checks that it may sign certificates. A configured anchor may be older than the extension for that.
fn check_authority(certificate: &Certificate<'_>, anchor: bool) -> Result<(), Refusal> {
    let signs = certificate.key_usage.as_ref().map(x509_cert::ext::pkix::KeyUsage::key_cert_sign);
    if signs == Some(false) {
        return Err(Refusal::KeyUsage(certificate.subject_text(), "keyCertSign"));
    }
    let allowed = match &certificate.constraints {
        Some(constraints) => constraints.ca,
        None if !anchor => false,
        None => signs == Some(true) || (certificate.version == 1 && certificate.is_self_issued()),
    };
    if allowed { Ok(()) } else { Err(Refusal::NotAuthority(certificate.subject_text())) }
}

fn check_key(certificate: &Certificate<'_>) -> Result<(), Refusal> {
    match rsa_bits(certificate.key) {
        Ok(Some(bits)) if bits < LEAST_RSA_BITS => Err(Refusal::SmallKey(certificate.subject_text(), bits)),
        Ok(_) => Ok(()),
        Err(_) => Err(Refusal::Unreadable),
    }
}

/// Length of the modulus; `None` for other keys, whose curves the signature algorithms limit.
fn rsa_bits(key: &[u8]) -> der::Result<Option<usize>> {
    let wrong = || der::Error::from(der::ErrorKind::Failed);
    let mut fields = SliceReader::new(key)?.decode::<AnyRef<'_>>()?.sequence(|reader| {
        let algorithm = reader.decode::<AnyRef<'_>>()?;
        let key = reader.decode::<BitStringRef<'_>>()?;
        let id = SliceReader::new(algorithm.value())?.decode::<ObjectIdentifier>()?;
        if id != RSA {
            // Nothing more of it is read.
            return Ok(None);
        }
        let key = key.as_bytes().ok_or_else(wrong)?;
        Ok(Some(SliceReader::new(key)?.decode::<AnyRef<'_>>()?))
    })?;
    let Some(key) = fields.take() else { return Ok(None) };
    let modulus: AnyRef<'_> = SliceReader::new(key.value())?.decode()?;
    if modulus.tag() != Tag::Integer {
        return Err(wrong());
    }
    let digits = modulus.value();
    let first = digits.iter().position(|byte| *byte != 0).unwrap_or(digits.len());
    let bits = digits.get(first..).unwrap_or_default();
    Ok(Some(bits.first().map_or(0, |byte| bits.len() * 8 - byte.leading_zeros() as usize)))
}
