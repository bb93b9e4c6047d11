//! From a leaf to a trusted authority.
//!
//! webpki does it wherever it can. It refuses two kinds of leaf for what they are, not for who issued them: X.509 v1 and
//! v2, and certificates that claim to be authorities. For those, and for a leaf that is itself trusted, paths are built
//! here, by names and signatures alone; what webpki checks beyond is either in `policy.rs` (dates, authority, path length,
//! purpose, extensions) or refuses the path (name constraints).

use std::cell::RefCell;

use rustls::{
    crypto::WebPkiSupportedAlgorithms,
    pki_types::{CertificateDer, SubjectPublicKeyInfoDer, UnixTime},
};

use crate::{
    Anchors,
    certificate::Certificate,
    policy::{Candidate, Rules},
    purpose::Purpose,
    refusal::{Refusal, algorithm_name},
};

/// Certificates between leaf and anchor, as in webpki.
const MOST_INTERMEDIATES: usize = 6;
/// Signature checks for one leaf, as in webpki: certificates that name each other cost time.
const MOST_SIGNATURES: u32 = 100;

/// The question about a peer.
pub(crate) struct Question<'q> {
    pub anchors: &'q Anchors,
    pub algorithms: &'q WebPkiSupportedAlgorithms,
    pub purpose: Purpose,
    pub depth: Option<usize>,
}

/// The facts about a valid path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verified {
    /// An authority in it constrains names.
    pub name_constraints: bool,
}

impl Question<'_> {
    pub(crate) fn verify(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<Verified, Refusal> {
        let parsed = Certificate::parse(leaf).map_err(|_| Refusal::Unreadable)?;
        let rules = Rules { purpose: self.purpose, now: now.as_secs(), depth: self.depth };
        if parsed.version < 3 || parsed.claims_authority() || self.anchors.holds(leaf) {
            Own { question: self, intermediates, rules, signatures: 0 }.verify(parsed)
        } else {
            self.by_library(leaf, intermediates, now, &rules)
        }
    }

    fn by_library(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
        rules: &Rules,
    ) -> Result<Verified, Refusal> {
        let refused = RefCell::new(None);
        let verified = RefCell::new(Verified::default());
        let judge = |path: &webpki::VerifiedPath<'_>| {
            let judged = self.check_path(leaf, path, rules);
            judged.map(|found| *verified.borrow_mut() = found).map_err(|refusal| {
                *refused.borrow_mut() = Some(refusal);
                // Other paths may be better.
                webpki::Error::UnknownIssuer
            })
        };
        let end = webpki::EndEntityCert::try_from(leaf)?;
        let found = end.verify_for_usage(
            self.algorithms.all,
            self.anchors.for_library(),
            intermediates,
            now,
            self.purpose.usage(),
            None,
            Some(&judge),
        );
        match found {
            Ok(_) => Ok(verified.into_inner()),
            Err(error) => Err(refused.into_inner().unwrap_or_else(|| error.into())),
        }
    }

    fn check_path(
        &self,
        leaf: &[u8],
        path: &webpki::VerifiedPath<'_>,
        rules: &Rules,
    ) -> Result<Verified, Refusal> {
        let anchor = self.anchors.certificate_of(path.anchor());
        let intermediates: Vec<_> = path.intermediate_certificates().map(webpki::Cert::der).collect();
        let ders = std::iter::once(leaf).chain(intermediates.iter().map(AsRef::as_ref)).chain(anchor);
        let certificates = ders.map(Certificate::parse).collect::<Result<Vec<_>, _>>();
        let certificates = certificates.map_err(|_| Refusal::Unreadable)?;
        rules.check(&Candidate { path: &certificates, rooted: anchor.is_some() })?;
        let constrained = path.anchor().name_constraints.is_some()
            || certificates.iter().skip(1).any(|certificate| certificate.name_constraints);
        Ok(Verified { name_constraints: constrained })
    }
}

/// A search of our own.
struct Own<'a> {
    question: &'a Question<'a>,
    intermediates: &'a [CertificateDer<'a>],
    rules: Rules,
    signatures: u32,
}

impl<'a> Own<'a> {
    fn verify(&mut self, leaf: Certificate<'a>) -> Result<Verified, Refusal> {
        if leaf.is_self_issued() && self.question.anchors.holds(leaf.der) {
            self.check_signature(&leaf, leaf.key)?;
            self.rules.check(&Candidate { path: &[leaf], rooted: false })?;
            return Ok(Verified::default());
        }
        self.extend(&mut vec![leaf])
    }

    /// Tries every issuer of the last certificate, anchors first. The error is the reason why the last path that had
    /// one was refused.
    fn extend(&mut self, path: &mut Vec<Certificate<'a>>) -> Result<Verified, Refusal> {
        let issuer = path.last().map(|head| head.issuer).unwrap_or_default();
        let mut refusal = Refusal::UnknownIssuer;
        for anchor in self.question.anchors.named(issuer) {
            match self.end(path, anchor) {
                Err(Refusal::TooMuchWork) => return Err(Refusal::TooMuchWork),
                Err(why) => refusal = why,
                verified => return verified,
            }
        }
        if path.len() > MOST_INTERMEDIATES {
            return Err(refusal);
        }
        for der in self.intermediates {
            let Ok(next) = Certificate::parse(der) else { continue };
            // The same authority twice is a loop: RFC 4158 section 5.2.
            let seen = path.iter().any(|it| it.subject == next.subject && it.key == next.key);
            if next.subject != issuer || seen {
                continue;
            }
            match self.step(path, next) {
                Err(Refusal::TooMuchWork) => return Err(Refusal::TooMuchWork),
                Err(Refusal::UnknownIssuer) => {}
                Err(why) => refusal = why,
                verified => return verified,
            }
        }
        Err(refusal)
    }

    fn step(&mut self, path: &mut Vec<Certificate<'a>>, next: Certificate<'a>) -> Result<Verified, Refusal> {
        if let Some(head) = path.last() {
            self.check_signature(head, next.key)?;
        }
        path.push(next);
        let verified = self.extend(path);
        path.pop();
        verified
    }

    fn end(&mut self, path: &mut Vec<Certificate<'a>>, anchor: &'a [u8]) -> Result<Verified, Refusal> {
        let anchor = Certificate::parse(anchor).map_err(|_| Refusal::Unreadable)?;
        if let Some(head) = path.last() {
            self.check_signature(head, anchor.key)?;
        }
        path.push(anchor);
        let judged = self.rules.check(&Candidate { path, rooted: true });
        let constrained = path.iter().skip(1).any(|certificate| certificate.name_constraints);
        path.pop();
        judged?;
        if constrained {
            let reason = "an issuer has name constraints, which are evaluated for X.509 v3 certificates that are no \
                          authorities only";
            return Err(Refusal::Other(reason.to_owned()));
        }
        Ok(Verified::default())
    }

    /// That the holder of `key` signed `certificate`.
    fn check_signature(&mut self, certificate: &Certificate<'_>, key: &[u8]) -> Result<(), Refusal> {
        self.signatures += 1;
        if self.signatures > MOST_SIGNATURES {
            return Err(Refusal::TooMuchWork);
        }
        let key = SubjectPublicKeyInfoDer::from(key);
        let key = webpki::RawPublicKeyEntity::try_from(&key).map_err(|_| Refusal::Unreadable)?;
        let named = certificate.signature_algorithm;
        let mut refusal = Refusal::SignatureAlgorithm(algorithm_name(named));
        for algorithm in self.question.algorithms.all {
            if algorithm.signature_alg_id().as_ref() != named {
                continue;
            }
            match key.verify_signature(*algorithm, certificate.signed, certificate.signature) {
                Ok(()) => return Ok(()),
                Err(error @ webpki::Error::InvalidSignatureForPublicKey) => return Err(error.into()),
                // For example, the key is of another curve.
                Err(error) => refusal = error.into(),
            }
        }
        Err(refusal)
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

    use super::*;

    fn authority(name: &str) -> CertificateParams {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        params
    }

    /// Six authorities, each signed by all others: the number of paths is factorial.
    #[test]
    fn certificates_that_vouch_for_each_other_end_the_search() {
        let names = ["a", "b", "c", "d", "e", "f"];
        let keys: Vec<KeyPair> = names.iter().map(|_| KeyPair::generate().expect("a key")).collect();
        let issuers: Vec<_> =
            names.iter().zip(&keys).map(|(name, key)| Issuer::new(authority(name), key)).collect();
        let mut intermediates = Vec::new();
        for (name, key) in names.iter().zip(&keys) {
            for issuer in &issuers {
                let certificate = authority(name).signed_by(key, issuer).expect("a certificate");
                intermediates.push(certificate.der().clone());
            }
        }
        let key = KeyPair::generate().expect("a key");
        let leaf = authority("leaf").signed_by(&key, &issuers[0]).expect("a certificate");
        let algorithms = rustls::crypto::aws_lc_rs::default_provider().signature_verification_algorithms;
        let anchors = Anchors::default();
        let question =
            Question { anchors: &anchors, algorithms: &algorithms, purpose: Purpose::Server, depth: None };
        let refused = question.verify(leaf.der(), &intermediates, UnixTime::now());
        assert_eq!(refused, Err(Refusal::TooMuchWork));
    }
}
