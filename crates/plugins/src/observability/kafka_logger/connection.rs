//! A connection to one broker: TLS, login, and one request at a time.

use std::time::Duration;

use tidegate_clients::http::{TlsWanted, tls_config};
use tidegate_plugin_api::descriptors;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
};

use super::{
    protocol::{self, Reader, SASL_AUTHENTICATE, SASL_HANDSHAKE, Writer},
    sasl::{Credentials, Scram},
};

#[derive(Clone, Debug)]
pub(crate) struct Broker {
    pub host: String,
    pub port: u16,
    pub credentials: Option<Credentials>,
}

pub(crate) struct Settings {
    pub brokers: Vec<Broker>,
    pub tls: Option<TlsWanted>,
    /// For connecting and for each request.
    pub timeout: Duration,
}

/// Answers larger than this come from something that is not a broker.
const MAX_ANSWER_BYTES: usize = 16 << 20;

trait Stream: AsyncRead + AsyncWrite + Send + Sync + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Sync + Unpin> Stream for T {}

pub(crate) struct Connection {
    stream: Box<dyn Stream>,
    correlation: i32,
    timeout: Duration,
}

impl Connection {
    /// Connects and logs in. Brokers that metadata named have the credentials of the configured ones.
    pub(crate) async fn open(settings: &Settings, host: &str, port: u16) -> Result<Connection, String> {
        let known = settings.brokers.iter().find(|broker| broker.host == host && broker.port == port);
        let credentials = known
            .and_then(|broker| broker.credentials.as_ref())
            .or_else(|| settings.brokers.iter().find_map(|broker| broker.credentials.as_ref()));
        let opening = async {
            let stream = TcpStream::connect((host, port)).await.and_then(descriptors::spared);
            let stream = stream.map_err(|error| error.to_string())?;
            let _ = stream.set_nodelay(true);
            let stream: Box<dyn Stream> = match &settings.tls {
                None => Box::new(stream),
                Some(wanted) => {
                    let name = host.to_owned().try_into().map_err(|_| "invalid server name".to_owned())?;
                    let secured = tidegate_tls::connect(tls_config(wanted)?, name, stream).await;
                    Box::new(secured.map_err(|error| format!("TLS handshake: {error}"))?)
                }
            };
            let mut connection = Connection { stream, correlation: 0, timeout: settings.timeout };
            if let Some(credentials) = credentials {
                connection.login(credentials).await?;
            }
            Ok::<_, String>(connection)
        };
        match tokio::time::timeout(settings.timeout, opening).await {
            Ok(result) => result.map_err(|reason| format!("broker {host}:{port}: {reason}")),
            Err(_) => Err(format!("broker {host}:{port}: timeout")),
        }
    }

    /// Sends a request that has no answer.
    pub(super) async fn send_one_way(
        &mut self,
        api: (i16, i16),
        fill: impl FnOnce(&mut Writer) + Send,
    ) -> Result<(), String> {
        self.correlation = self.correlation.wrapping_add(1);
        let mut writer = Writer::request(api, self.correlation);
        fill(&mut writer);
        let request = writer.framed();
        let sending = async {
            self.stream.write_all(&request).await?;
            self.stream.flush().await
        };
        match tokio::time::timeout(self.timeout, sending).await {
            Ok(sent) => sent.map_err(|error| error.to_string()),
            Err(_) => Err("timeout".to_owned()),
        }
    }

    /// Sends a request, reads its answer without the header.
    pub(super) async fn ask(
        &mut self,
        api: (i16, i16),
        fill: impl FnOnce(&mut Writer) + Send,
    ) -> Result<Vec<u8>, String> {
        self.correlation = self.correlation.wrapping_add(1);
        let correlation = self.correlation;
        let mut writer = Writer::request(api, correlation);
        fill(&mut writer);
        let request = writer.framed();
        let exchange = async {
            self.stream.write_all(&request).await?;
            self.stream.flush().await?;
            let length = self.stream.read_u32().await? as usize;
            if !(4..=MAX_ANSWER_BYTES).contains(&length) {
                return Err(std::io::Error::other("response has an invalid length"));
            }
            let mut answer = vec![0; length];
            self.stream.read_exact(&mut answer).await?;
            Ok(answer)
        };
        let mut answer = match tokio::time::timeout(self.timeout, exchange).await {
            Ok(answer) => answer.map_err(|error| error.to_string())?,
            Err(_) => return Err("timeout".to_owned()),
        };
        if Reader(&answer).i32()? != correlation {
            return Err("response belongs to another request".to_owned());
        }
        answer.drain(..4);
        Ok(answer)
    }

    async fn login(&mut self, credentials: &Credentials) -> Result<(), String> {
        let answer = self.ask(SASL_HANDSHAKE, |request| request.string(&credentials.mechanism)).await?;
        match Reader(&answer).i16()? {
            0 => {}
            code => return Err(protocol::error(code)),
        }
        if credentials.mechanism == "PLAIN" {
            return self.authenticate(&credentials.plain_token()).await.map(|_| ());
        }
        let mut scram = Scram::new(credentials);
        let challenge = self.authenticate(scram.first().as_bytes()).await?;
        // Deriving the key takes milliseconds; this is the control runtime.
        let response = scram.respond(&challenge)?;
        let last = self.authenticate(response.as_bytes()).await?;
        scram.verify(&last)
    }

    async fn authenticate(&mut self, token: &[u8]) -> Result<String, String> {
        let answer = self.ask(SASL_AUTHENTICATE, |request| request.bytes(token)).await?;
        let mut reader = Reader(&answer);
        let code = reader.i16()?;
        let message = reader.string()?;
        if code != 0 {
            return Err(message.unwrap_or_else(|| protocol::error(code)));
        }
        Ok(String::from_utf8_lossy(reader.bytes()?).into_owned())
    }
}
