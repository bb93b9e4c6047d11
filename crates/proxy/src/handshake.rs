//! TLS toward clients: the certificate is chosen by the name in the first message, from the snapshot in effect.
//!
//! A client without a certificate of ours gets the alert `unrecognized_name`, never a default certificate.

use std::{cell::OnceCell, io, net::SocketAddr, sync::Arc};

use rustls::server::Acceptor;
use tidegate_plugin_api::{
    Reply, Request,
    certificates::{ClientVerdict, TlsServer},
    connection::TlsFacts,
};
use tidegate_telemetry::{error_log, handshakes::Refused};
use tokio::{io::AsyncWriteExt, net::TcpStream};
use tokio_rustls::{LazyConfigAcceptor, server::TlsStream};

use crate::runtime::Runtime;

/// A fatal alert, `unrecognized_name`, as a complete record.
const UNRECOGNIZED_NAME: [u8; 7] = [21, 3, 3, 0, 2, 2, 112];

/// A failed handshake.
pub(crate) struct Failed {
    error: io::Error,
    server_name: Option<String>,
    server: Option<Arc<TlsServer>>,
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Failed {
        Failed { error, server_name: None, server: None }
    }
}

impl Failed {
    pub(crate) fn log(&self, client: SocketAddr) {
        let refused = Refused {
            client: &client.to_string(),
            server_name: self.server_name.as_deref().unwrap_or_default(),
            ssl: self.server.as_ref().map(|server| &*server.id).unwrap_or_default(),
            port: "",
        };
        refused.log(&self.error, &tidegate_tls::reason(&self.error));
    }
}

/// Whether the handshake offers the protocols of HTTP.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Alpn {
    Offered,
    /// What a stream route carries, only its two ends know.
    None,
}

pub(crate) async fn accept(
    worker: &Runtime,
    stream: TcpStream,
    alpn: Alpn,
) -> Result<(TlsStream<TcpStream>, TlsFacts), Failed> {
    let mut start = LazyConfigAcceptor::new(Acceptor::default(), stream).await?;
    let name = start.client_hello().server_name().map(normal_name);
    // An address is not a server name (RFC 6066 section 3), and the library hides it: it is the one that the client reached.
    let address = match (&name, &worker.settings.fallback_sni) {
        (None, None) => start.io.local_addr().ok().map(|local| local.ip().to_canonical().to_string()),
        _ => None,
    };
    let wanted = name.as_deref().or(worker.settings.fallback_sni.as_deref()).or(address.as_deref());
    let claim = wanted.and_then(|name| Some(worker.snapshot().certificates.find(name)?.server.clone()));
    let Some(Ok(server)) = claim else {
        // The client may be gone already; an error here has no consequence.
        let _ = start.io.write_all(&UNRECOGNIZED_NAME).await;
        let _ = start.io.shutdown().await;
        let reason = match (wanted, &claim) {
            (Some(name), Some(Err(id))) => format!("the certificate for {name}, ssls/{id}, cannot be used"),
            (Some(name), _) => format!("failed to find any SSL certificate by SNI: {name}"),
            (None, _) => {
                "failed to find SNI: the client sent none and apisix.ssl.fallback_sni is not set".to_owned()
            }
        };
        return Err(io::Error::new(io::ErrorKind::NotFound, reason).into());
    };
    let config = match alpn {
        Alpn::Offered => server.config.clone(),
        Alpn::None => {
            let mut config = (*server.config).clone();
            config.alpn_protocols.clear();
            Arc::new(config)
        }
    };
    let stream = match start.into_stream(config).await {
        Ok(stream) => stream,
        Err(error) => return Err(Failed { error, server_name: name, server: Some(server) }),
    };
    let facts = facts(stream.get_ref().1, name, server);
    Ok((stream, facts))
}

fn normal_name(name: &str) -> String {
    name.trim_end_matches('.').to_ascii_lowercase()
}

fn facts(
    session: &rustls::ServerConnection,
    server_name: Option<String>,
    server: Arc<TlsServer>,
) -> TlsFacts {
    let chain = session.peer_certificates();
    TlsFacts {
        server_name,
        protocol: match session.protocol_version() {
            Some(rustls::ProtocolVersion::TLSv1_2) => "TLSv1.2",
            _ => "TLSv1.3",
        },
        cipher: session
            .negotiated_cipher_suite()
            .map(|suite| openssl_name(suite.suite()))
            .unwrap_or_default(),
        client_certificate: chain.and_then(|chain| chain.first()).map(|cert| cert.to_vec()),
        alpn: session.alpn_protocol().map(<[u8]>::to_vec),
        client_verdict: match &server.client {
            None => ClientVerdict::None,
            // The handshake has verified it.
            Some(check) if check.skip.is_empty() => match chain.is_some_and(|chain| !chain.is_empty()) {
                true => ClientVerdict::Success,
                false => ClientVerdict::None,
            },
            Some(check) => check.verdict(chain),
        },
        server: Some(server),
        client: OnceCell::new(),
    }
}

/// `ECDHE-RSA-AES128-GCM-SHA256` for `TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256`: what access logs are searched for.
fn openssl_name(suite: rustls::CipherSuite) -> String {
    let name = suite.as_str().unwrap_or_default();
    match name.strip_prefix("TLS13_") {
        Some(rest) => format!("TLS_{rest}"),
        None => {
            let short = name.trim_start_matches("TLS_").replace("_WITH_", "_").replace("AES_", "AES");
            short.replace("POLY1305_SHA256", "POLY1305").replace('_', "-")
        }
    }
}

/// nginx's page (its status 496).
fn without_certificate() -> Reply {
    let page = "<html>\r\n<head><title>400 No required SSL certificate was sent</title></head>\r\n<body>\r\n\
                <center><h1>400 Bad Request</h1></center>\r\n\
                <center>No required SSL certificate was sent</center>\r\n</body>\r\n</html>\r\n";
    let mut reply = Reply::bytes(400, page);
    reply.headers.set("Content-Type", "text/html; charset=utf-8");
    reply
}

/// Checks what no handshake could decide: clients without a certificate, paths that need none, and a host that
/// asks for certificates on a connection whose handshake did not, because it was for another name or there was
/// none.
pub(crate) fn check_client(request: &Request) -> Result<(), Box<Reply>> {
    let tls = request.connection.tls.as_ref();
    let own = tls.and_then(|tls| tls.server.as_ref()).filter(|server| server.client.is_some());
    let certificates = &request.snapshot.certificates;
    if own.is_none() && !certificates.guards() {
        return Ok(());
    }
    let skips = |server: &TlsServer| {
        server.client.as_ref().is_some_and(|check| check.skips(&request.path, &request.search_time))
    };
    let verdict = tls.map_or(ClientVerdict::None, |tls| tls.client_verdict);
    let verified = verdict == ClientVerdict::Success;
    if let (false, Some(own)) = (verified, own)
        && !skips(own)
    {
        return refuse_unverified(request, verdict);
    }
    let Some(guard) = certificates.guard(&String::from_utf8_lossy(&request.host)) else { return Ok(()) };
    let Ok(server) = &guard.server else {
        return refuse(request, &"the ssl resource of the host cannot be used");
    };
    let Some(tls) = tls else {
        if skips(server) {
            return Ok(());
        }
        return refuse(
            request,
            &"the host requires a client certificate, which a plaintext connection cannot present",
        );
    };
    let same = own.is_none_or(|own| own.id == server.id);
    if tls.server_name.as_deref().map(str::as_bytes) != Some(&request.host) || !same {
        return refuse(request, &"the client certificate was verified for another server name than the host");
    }
    if verified || (own.is_some() && skips(server)) { Ok(()) } else { refuse_unverified(request, verdict) }
}

fn refuse_unverified(request: &Request, verdict: ClientVerdict) -> Result<(), Box<Reply>> {
    match verdict {
        ClientVerdict::None => {
            let _logged = refuse(request, &"client certificate was not present");
            Err(Box::new(without_certificate()))
        }
        _ => refuse(
            request,
            &format_args!("client certificate verification is not passed: {}", verdict.text()),
        ),
    }
}

fn refuse(request: &Request, reason: &dyn std::fmt::Display) -> Result<(), Box<Reply>> {
    error_log::log(error_log::Level::Error, format_args!("{reason}, client: {}", request.remote_addr));
    Err(Box::new(Reply::page(400)))
}

#[cfg(test)]
mod tests {
    use rustls::CipherSuite;

    use super::openssl_name;

    #[test]
    fn ciphers_are_called_as_openssl_does() {
        for (suite, name) in [
            (CipherSuite::TLS13_AES_256_GCM_SHA384, "TLS_AES_256_GCM_SHA384"),
            (CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, "ECDHE-RSA-AES128-GCM-SHA256"),
            (CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, "ECDHE-ECDSA-AES256-GCM-SHA384"),
            (CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256, "ECDHE-RSA-CHACHA20-POLY1305"),
        ] {
            assert_eq!(openssl_name(suite), name);
        }
    }
}
