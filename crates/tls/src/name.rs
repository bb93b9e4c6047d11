//! Whether a server's certificate is for the name that was asked for.
//!
//! The names are those of the subjectAltName extension (RFC 6125). Where it has no DNS name the subject's CN counts, as in
//! OpenSSL and so in APISIX: private authorities still issue such certificates, and the public ones never do. An address is
//! never looked for in a CN.

use der::{Reader, SliceReader, Tag, Tagged, asn1::AnyRef};
use rustls::pki_types::{CertificateDer, ServerName};

use crate::{certificate::Certificate, distinguished_name, refusal::Refusal};

/// `[2] dNSName` of a GeneralName.
const DNS_NAME: u8 = 2;

pub(crate) fn check(
    der: &CertificateDer<'_>,
    wanted: &ServerName<'_>,
    constrained: bool,
) -> Result<(), Refusal> {
    let leaf = Certificate::parse(der).map_err(|_| Refusal::Unreadable)?;
    match wanted {
        ServerName::DnsName(name) if !has_dns_names(&leaf)? => {
            let presented = common_names(&leaf);
            if !presented.iter().any(|pattern| matches(pattern, name.as_ref())) {
                return Err(Refusal::WrongName { expected: wanted.to_owned(), presented });
            }
            // OpenSSL compares the constraints with the CN; here nothing does.
            if constrained { Err(Refusal::ConstrainedCommonName) } else { Ok(()) }
        }
        _ if leaf.version < 3 => {
            Err(Refusal::WrongName { expected: wanted.to_owned(), presented: common_names(&leaf) })
        }
        _ => Ok(webpki::EndEntityCert::try_from(der)?.verify_is_valid_for_subject_name(wanted)?),
    }
}

fn has_dns_names(leaf: &Certificate<'_>) -> Result<bool, Refusal> {
    let Some(names) = leaf.alternative_names else { return Ok(false) };
    let read = || -> der::Result<bool> {
        let mut names = SliceReader::new(names)?;
        while !names.is_finished() {
            let name: AnyRef<'_> = names.decode()?;
            if matches!(name.tag(), Tag::ContextSpecific { number, .. } if number.value() == DNS_NAME) {
                return Ok(true);
            }
        }
        Ok(false)
    };
    read().map_err(|_| Refusal::Unreadable)
}

fn common_names(leaf: &Certificate<'_>) -> Vec<String> {
    distinguished_name::common_names(leaf.subject)
}

/// `*.example.com` for one label below a domain of at least two labels.
fn matches(pattern: &str, name: &str) -> bool {
    let name = name.trim_end_matches('.');
    if pattern.eq_ignore_ascii_case(name) {
        return !name.is_empty();
    }
    let Some(parent) = pattern.strip_prefix("*.").filter(|parent| parent.contains('.')) else { return false };
    name.split_once('.').is_some_and(|(label, rest)| !label.is_empty() && rest.eq_ignore_ascii_case(parent))
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn common_names_match_as_in_openssl() {
        for (pattern, name, expected) in [
            ("a.test", "A.test", true),
            ("a.test", "b.test", false),
            ("*.example.test", "a.example.test", true),
            ("*.example.test", "a.b.example.test", false),
            ("*.example.test", "example.test", false),
            ("*.test", "a.test", false),
            ("*", "test", false),
            ("", "", false),
            ("a*.example.test", "ab.example.test", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
