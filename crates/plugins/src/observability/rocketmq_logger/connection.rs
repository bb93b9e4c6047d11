//! A connection to a name server or broker: one request at a time.

use std::time::Duration;

use tidegate_clients::{
    http::{TlsWanted, tls_config},
    names,
};
use tidegate_plugin_api::descriptors;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::remoting::{Command, Credentials, RemotingResponse};

/// Routes of topics are the longest.
const MAX_ANSWER_BYTES: usize = 4 << 20;

/// Requests of the server that are passed over while an answer is waited for.
const MAX_OTHERS: usize = 64;

const NAME_SERVER_PORT: u16 = 9876;

pub(super) struct Settings {
    /// `host:port`
    pub nameservers: Vec<String>,
    pub tls: bool,
    pub credentials: Option<Credentials>,
    pub timeout: Duration,
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

pub(super) struct Connection {
    stream: Box<dyn Stream>,
    /// Of the last request.
    number: i32,
}

/// Host and port of an address.
fn parts(address: &str) -> Result<(&str, u16), String> {
    let (host, port) = match address.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => (host, Some(port)),
        _ => (address, None),
    };
    let port = port.map_or(Ok(NAME_SERVER_PORT), str::parse).map_err(|_| format!("{address}: bad port"))?;
    Ok((host.trim_matches(['[', ']']), port))
}

impl Connection {
    pub(super) async fn open(settings: &Settings, address: &str) -> Result<Connection, String> {
        let (host, port) = parts(address)?;
        let opening = async {
            let stream = names::connect(host, port).await.and_then(descriptors::spared);
            let stream = stream.map_err(|error| error.to_string())?;
            let _ = stream.set_nodelay(true);
            if !settings.tls {
                return Ok::<Box<dyn Stream>, String>(Box::new(stream));
            }
            // As in APISIX, certificates are not verified.
            let config = tls_config(&TlsWanted { verify: false, client: None })?;
            let name = host.to_owned().try_into().map_err(|_| "invalid server name".to_owned())?;
            let secured = tidegate_tls::connect(config, name, stream).await;
            Ok(Box::new(secured.map_err(|error| format!("TLS handshake: {error}"))?))
        };
        match tokio::time::timeout(settings.timeout, opening).await {
            Ok(Ok(stream)) => Ok(Connection { stream, number: 0 }),
            Ok(Err(reason)) => Err(format!("{address}: {reason}")),
            Err(_) => Err(format!("{address}: timeout")),
        }
    }

    pub(super) async fn ask(
        &mut self,
        settings: &Settings,
        command: Command<'_>,
    ) -> Result<RemotingResponse, String> {
        self.number = self.number.wrapping_add(1);
        let request = command.encode(self.number, settings.credentials.as_ref());
        match tokio::time::timeout(settings.timeout, self.exchange(&request)).await {
            Ok(answer) => answer,
            Err(_) => Err("timeout".to_owned()),
        }
    }

    async fn exchange(&mut self, request: &[u8]) -> Result<RemotingResponse, String> {
        let failed = |error: std::io::Error| error.to_string();
        self.stream.write_all(request).await.map_err(failed)?;
        self.stream.flush().await.map_err(failed)?;
        for _ in 0..MAX_OTHERS {
            let length = self.stream.read_u32().await.map_err(failed)? as usize;
            if length > MAX_ANSWER_BYTES {
                return Err("response of the server has an invalid length".to_owned());
            }
            let mut frame = vec![0; length];
            self.stream.read_exact(&mut frame).await.map_err(failed)?;
            let answer = RemotingResponse::decode(frame)?;
            if answer.answers(self.number) {
                return Ok(answer);
            }
        }
        Err("the server does not respond".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_addresses() {
        for (address, expected) in [
            ("a.test:1", Ok(("a.test", 1))),
            ("a.test", Ok(("a.test", 9876))),
            ("[::1]:2", Ok(("::1", 2))),
            ("::1", Ok(("::1", 9876))),
            ("a:b", Err("a:b: bad port".to_owned())),
        ] {
            assert_eq!(parts(address), expected, "{address}");
        }
    }
}
