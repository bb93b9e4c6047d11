//! Whether a certificate has been revoked, asked of its authority (OCSP, RFC 6960): the question, and what to make of
//! the answer. Sending and keeping them is done elsewhere; nothing here does I/O.

mod answer;
mod question;

use der::Decode;
use x509_cert::Certificate;

pub use answer::verify_response;
pub use question::{Question, ask};

/// A certificate and the one it was signed with, both DER.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// In DER.
    pub certificate: &'a [u8],
    /// The certificate's issuer, in DER.
    pub issuer: &'a [u8],
}

impl Subject<'_> {
    fn parse(&self) -> Result<(Certificate, Certificate), String> {
        let certificate =
            Certificate::from_der(self.certificate).map_err(|error| format!("cert: {error}"))?;
        let issuer = Certificate::from_der(self.issuer)
            .map_err(|error| format!("the issuer's certificate: {error}"))?;
        Ok((certificate, issuer))
    }
}
