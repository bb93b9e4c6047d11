//! TLS settings of a run: which certificates are trusted, which protocol is offered.

use std::{fs, sync::Arc};

use rustls::{ClientConfig, client::Resumption, pki_types::ServerName};
use tidegate_tls::{Anchors, Trust};

use crate::{Problem, target::Origin};

/// What the command line says about TLS.
#[derive(Clone, Debug, Default)]
pub struct TlsOptions {
    /// PEM file with certificates to trust in place of the public ones.
    pub ca_file: Option<String>,
    /// Trusts every certificate; the handshake is real, the name on it is not looked at.
    pub insecure: bool,
    /// PEM files with the client's certificate and its key.
    pub client: Option<(String, String)>,
    /// Every connection makes a whole handshake.
    pub no_resumption: bool,
    /// Offers `h2` instead of `http/1.1`.
    pub http2: bool,
}

/// The error names the flag and the file.
pub fn config(options: &TlsOptions) -> Result<Arc<ClientConfig>, Problem> {
    let trust =
        if options.insecure { Trust::Anybody } else { Trust::Anchors(anchors(options.ca_file.as_deref())?) };
    let mut config = match &options.client {
        None => tidegate_tls::client_config(trust, None)
            .map_err(|error| Problem::failed(format!("tls: {error}")))?,
        Some((certificate, key)) => {
            let wrong = |flag: &str, file: &str, why: &dyn std::fmt::Display| {
                Problem::usage(format!("{flag} {file}: {why}"))
            };
            let chain = fs::read(certificate).map_err(|error| wrong("--cert", certificate, &error))?;
            let secret = fs::read(key).map_err(|error| wrong("--key", key, &error))?;
            tidegate_tls::client_config(trust, Some((&chain, &secret)))
                .map_err(|error| Problem::usage(format!("--cert {certificate} --key {key}: {error}")))?
        }
    };
    if options.no_resumption {
        config.resumption = Resumption::disabled();
    }
    config.alpn_protocols = vec![if options.http2 { b"h2".to_vec() } else { b"http/1.1".to_vec() }];
    Ok(Arc::new(config))
}

pub(crate) fn server_name(origin: &Origin) -> Result<ServerName<'static>, Problem> {
    ServerName::try_from(origin.host.clone())
        .map_err(|_| Problem::usage(format!("{:?} is neither a host name nor an address", origin.host)))
}

fn anchors(file: Option<&str>) -> Result<Anchors, Problem> {
    let Some(file) = file else {
        let mut anchors = Anchors::default();
        anchors.add_bare(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        return Ok(anchors);
    };
    let wrong = |why: &dyn std::fmt::Display| Problem::usage(format!("--cacert {file}: {why}"));
    Anchors::from_pem(&fs::read(file).map_err(|error| wrong(&error))?).map_err(|error| wrong(&error))
}
