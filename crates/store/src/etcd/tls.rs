//! TLS with etcd: whom to trust, what to show.

use std::path::{Path, PathBuf};

use rustls::ClientConfig;
use tidegate_tls::{Anchors, Trust};

use super::options::TlsOptions;

/// Reads the files. The error names the file.
pub(super) fn client_config(options: &TlsOptions) -> Result<ClientConfig, String> {
    let trust =
        if options.verify { Trust::Anchors(authorities(&options.authorities)?) } else { Trust::Anybody };
    let mut config = match &options.client {
        None => tidegate_tls::client_config(trust, None)?,
        Some((certificate, key)) => {
            let (chain, secret) = (read(certificate)?, read(key)?);
            tidegate_tls::client_config(trust, Some((&chain, &secret))).map_err(|error| {
                let (certificate, key) = (certificate.display(), key.display());
                format!("deployment.etcd.tls.cert ({certificate}) and key ({key}): {error}")
            })?
        }
    };
    // gRPC servers refuse connections that do not ask for HTTP/2.
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
}

fn authorities(files: &[PathBuf]) -> Result<Anchors, String> {
    if files.is_empty() {
        return Anchors::from_setting("system", Path::new(""));
    }
    let mut anchors = Anchors::default();
    files.iter().try_for_each(|file| anchors.add_file(file))?;
    Ok(anchors)
}

fn read(file: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(file).map_err(|error| format!("cannot read {}: {error}", file.display()))
}
