//! Why a peer is not trusted: as a message for the log, as an alert for the peer, and as OpenSSL's text for
//! variables.

use std::{fmt, io, sync::Arc};

use rustls::{
    CertificateError, Error, OtherError,
    pki_types::{ServerName, UnixTime},
};

use crate::purpose::Purpose;

/// One reason. Texts name the certificate by its subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Unreadable,
    Expired {
        now: u64,
        not_after: u64,
    },
    NotYetValid {
        now: u64,
        not_before: u64,
    },
    UnknownIssuer,
    WrongName {
        expected: ServerName<'static>,
        presented: Vec<String>,
    },
    /// The name is only in the subject, and an authority above constrains names.
    ConstrainedCommonName,
    NotAuthority(String),
    PathLength(String),
    Depth(usize),
    KeyUsage(String, &'static str),
    Purpose(String, Purpose),
    SmallKey(String, usize),
    SignatureAlgorithm(String),
    BadSignature,
    CriticalExtension(String, String),
    NameConstraints,
    TooMuchWork,
    Other(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Unreadable => formatter.write_str("the certificate cannot be read"),
            Refusal::Expired { .. } => formatter.write_str("a certificate of the chain has expired"),
            Refusal::NotYetValid { .. } => formatter.write_str("a certificate of the chain is not valid yet"),
            Refusal::UnknownIssuer => formatter.write_str("no trusted authority issued the certificate"),
            Refusal::WrongName { expected, .. } => {
                write!(formatter, "the certificate is not valid for {}", expected.to_str())
            }
            Refusal::ConstrainedCommonName => formatter.write_str(
                "the name is only in the subject's CN, which name constraints of an issuer do not cover; \
                 issue the certificate with a subjectAltName",
            ),
            Refusal::NotAuthority(who) => {
                write!(formatter, "{who} signed a certificate but is not a certificate authority")
            }
            Refusal::PathLength(who) => {
                write!(formatter, "the chain has more authorities below {who} than its pathlen allows")
            }
            Refusal::Depth(depth) => {
                write!(formatter, "the chain has more than {depth} intermediate certificates (client.depth)")
            }
            Refusal::KeyUsage(who, missing) => {
                write!(formatter, "the key usage of {who} does not include {missing}")
            }
            Refusal::Purpose(who, purpose) => {
                write!(formatter, "the extended key usage of {who} does not include {purpose}")
            }
            Refusal::SmallKey(who, bits) => {
                write!(formatter, "the RSA key of {who} has {bits} bits; 2048 are the least accepted")
            }
            Refusal::SignatureAlgorithm(algorithm) => {
                write!(
                    formatter,
                    "a certificate of the chain is signed with {algorithm}, which is not accepted"
                )
            }
            Refusal::BadSignature => formatter.write_str("a signature of the chain is wrong"),
            Refusal::CriticalExtension(who, id) => {
                write!(formatter, "{who} has the critical extension {id}, which is not supported")
            }
            Refusal::NameConstraints => {
                formatter.write_str("the certificate's names are outside of an issuer's name constraints")
            }
            Refusal::TooMuchWork => formatter.write_str("the chain takes too many signature checks"),
            Refusal::Other(reason) => formatter.write_str(reason),
        }
    }
}

impl std::error::Error for Refusal {}

fn unix(seconds: u64) -> UnixTime {
    UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds))
}

/// The library's own variants where there is one, since they choose the alert that the peer gets.
impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Error {
        Error::InvalidCertificate(match refusal {
            Refusal::Unreadable => CertificateError::BadEncoding,
            Refusal::Expired { now, not_after } => {
                CertificateError::ExpiredContext { time: unix(now), not_after: unix(not_after) }
            }
            Refusal::NotYetValid { now, not_before } => {
                CertificateError::NotValidYetContext { time: unix(now), not_before: unix(not_before) }
            }
            Refusal::UnknownIssuer => CertificateError::UnknownIssuer,
            Refusal::WrongName { expected, presented } => {
                CertificateError::NotValidForNameContext { expected, presented }
            }
            Refusal::BadSignature => CertificateError::BadSignature,
            other => CertificateError::Other(OtherError(Arc::new(other))),
        })
    }
}

impl From<webpki::Error> for Refusal {
    fn from(error: webpki::Error) -> Refusal {
        use webpki::Error as E;
        match error {
            E::BadDer | E::BadDerTime | E::TrailingData(_) => Refusal::Unreadable,
            E::CertExpired { time, not_after } => {
                Refusal::Expired { now: time.as_secs(), not_after: not_after.as_secs() }
            }
            E::CertNotValidYet { time, not_before } => {
                Refusal::NotYetValid { now: time.as_secs(), not_before: not_before.as_secs() }
            }
            E::UnknownIssuer => Refusal::UnknownIssuer,
            E::CertNotValidForName(context) => {
                Refusal::WrongName { expected: context.expected, presented: context.presented }
            }
            E::InvalidSignatureForPublicKey => Refusal::BadSignature,
            E::UnsupportedSignatureAlgorithmContext(context) => {
                Refusal::SignatureAlgorithm(algorithm_name(&context.signature_algorithm_id))
            }
            E::NameConstraintViolation => Refusal::NameConstraints,
            E::MaximumSignatureChecksExceeded
            | E::MaximumPathBuildCallsExceeded
            | E::MaximumNameConstraintComparisonsExceeded => Refusal::TooMuchWork,
            other => Refusal::Other(webpki_words(&other)),
        }
    }
}

fn webpki_words(error: &webpki::Error) -> String {
    use webpki::Error as E;
    match error {
        E::EndEntityUsedAsCa => {
            "a certificate of the chain signed another but is not a certificate authority"
        }
        E::PathLenConstraintViolated => "the chain has more authorities than a pathlen in it allows",
        E::RequiredEkuNotFoundContext(_) | E::EmptyEkuExtension => {
            "the extended key usage of the certificate does not allow this use"
        }
        E::UnsupportedCriticalExtension => "a certificate of the chain has an unsupported critical extension",
        E::UnsupportedSignatureAlgorithmForPublicKeyContext(_) => {
            "a certificate of the chain is signed with an algorithm that its issuer's key does not fit"
        }
        E::MaximumPathDepthExceeded => "the chain has too many intermediate certificates",
        other => return other.to_string(),
    }
    .to_owned()
}

/// The name of an algorithm by the contents of its `AlgorithmIdentifier`.
pub(crate) fn algorithm_name(identifier: &[u8]) -> String {
    use der::{Reader, SliceReader, asn1::ObjectIdentifier};
    let id = SliceReader::new(identifier).and_then(|mut reader| reader.decode::<ObjectIdentifier>());
    let Ok(id) = id else { return "an unreadable algorithm".to_owned() };
    match id.to_string().as_str() {
        "1.2.840.113549.1.1.2" => "MD2".to_owned(),
        "1.2.840.113549.1.1.4" => "MD5".to_owned(),
        "1.2.840.113549.1.1.5" | "1.2.840.10045.4.1" | "1.2.840.10040.4.3" => "SHA-1".to_owned(),
        "1.3.101.113" => "Ed448".to_owned(),
        other => format!("algorithm {other}"),
    }
}

const INVALID: &str = "invalid peer certificate: ";

fn date(time: UnixTime) -> String {
    let date = der::DateTime::from_unix_duration(std::time::Duration::from_secs(time.as_secs()));
    date.map_or_else(|_| "an impossible date".to_owned(), |date| date.to_string())
}

/// The message for the log. Errors that do not concern certificates keep the library's message.
pub fn reason(error: &io::Error) -> String {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
        Some(Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {
            format!("{INVALID}no trusted authority issued it, or its chain is incomplete")
        }
        Some(Error::InvalidCertificate(CertificateError::ExpiredContext { not_after, .. })) => {
            format!("{INVALID}a certificate of the chain expired on {}", date(*not_after))
        }
        Some(Error::InvalidCertificate(CertificateError::NotValidYetContext { not_before, .. })) => {
            format!("{INVALID}a certificate of the chain is valid from {} on", date(*not_before))
        }
        Some(Error::InvalidCertificate(CertificateError::Other(OtherError(inner)))) => {
            format!("{INVALID}{inner}")
        }
        Some(Error::NoCertificatesPresented) => "the peer presented no certificate".to_owned(),
        Some(Error::AlertReceived(alert)) => format!("the peer refused: TLS alert {alert:?}"),
        Some(Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType)) => {
            "the peer does not speak TLS".to_owned()
        }
        Some(other) => other.to_string(),
        None => error.to_string(),
    }
}

/// The text of nginx's `$ssl_client_verify` after `FAILED:`.
pub fn openssl_words(error: &Error, leaf: &[u8]) -> &'static str {
    use CertificateError as C;
    let Error::InvalidCertificate(error) = error else { return "application verification failure" };
    let refusal = match error {
        C::Other(OtherError(inner)) => inner.downcast_ref::<Refusal>(),
        _ => None,
    };
    match (error, refusal) {
        (C::ExpiredContext { .. } | C::Expired, _) => "certificate has expired",
        (C::NotValidYetContext { .. } | C::NotValidYet, _) => "certificate is not yet valid",
        (C::UnknownIssuer, _) => match crate::Certificate::parse(leaf) {
            Ok(leaf) if leaf.is_self_issued() => "self-signed certificate",
            _ => "unable to verify the first certificate",
        },
        (C::BadSignature, _) => "certificate signature failure",
        (_, Some(Refusal::NotAuthority(_))) => "invalid CA certificate",
        (_, Some(Refusal::PathLength(_))) => "path length constraint exceeded",
        (_, Some(Refusal::Depth(_))) => "certificate chain too long",
        (_, Some(Refusal::Purpose(..) | Refusal::KeyUsage(..))) => "unsuitable certificate purpose",
        (_, Some(Refusal::SmallKey(..))) => "EE certificate key too weak",
        (_, Some(Refusal::SignatureAlgorithm(_))) => "CA signature digest algorithm too weak",
        (_, Some(Refusal::CriticalExtension(..))) => "unhandled critical extension",
        (_, Some(Refusal::NameConstraints)) => "permitted subtree violation",
        _ => "application verification failure",
    }
}
