//! A connection to one broker: TLS, login, and one request at a time.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use rustls::ClientConfig;
use tidegate_clients::{
    http::{TlsWanted, tls_config},
    names,
};
use tidegate_plugin_api::{answers::BoundedBody, descriptors};
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
    /// `None`: the host is looked up.
    pub address: Option<SocketAddr>,
    pub credentials: Option<Credentials>,
}

pub(crate) struct Settings {
    pub brokers: Vec<Broker>,
    pub tls: Option<Tls>,
    /// For connecting and for each request.
    pub timeout: Duration,
    /// Who gets the answers in the end.
    pub client: Option<IpAddr>,
}

pub(crate) enum Tls {
    Wanted(TlsWanted),
    Ready(Arc<ClientConfig>),
}

impl Settings {
    /// A broker that metadata named.
    pub(crate) fn broker(&self, host: &str, port: u16) -> Broker {
        let known = self.brokers.iter().find(|broker| broker.host == host && broker.port == port);
        let credentials = known.and_then(|broker| broker.credentials.clone());
        Broker { host: host.to_owned(), port, address: None, credentials }
    }
}

/// Answers larger than this come from something that is not a broker.
const MAX_ANSWER_BYTES: usize = 16 << 20;

/// What is read at once.
const PIECE_BYTES: usize = 16 << 10;

trait Stream: AsyncRead + AsyncWrite + Send + Sync + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Sync + Unpin> Stream for T {}

pub(crate) struct Connection {
    stream: Box<dyn Stream>,
    correlation: i32,
    timeout: Duration,
    /// Whose part of the memory for answers counts.
    service: String,
    client: Option<IpAddr>,
}

impl Connection {
    /// Connects and logs in. A broker without credentials has those of the configured ones.
    pub(crate) async fn open(settings: &Settings, broker: &Broker) -> Result<Connection, String> {
        let Broker { host, port, address, credentials } = broker;
        let of_others = || settings.brokers.iter().find_map(|broker| broker.credentials.as_ref());
        let credentials = credentials.as_ref().or_else(of_others);
        let service = format!("{host}:{port}");
        let opening = async {
            let stream = match address {
                Some(address) => TcpStream::connect(address).await,
                None => names::connect(host, *port).await,
            };
            let stream = stream.and_then(descriptors::spared).map_err(|error| error.to_string())?;
            let _ = stream.set_nodelay(true);
            let stream: Box<dyn Stream> = match &settings.tls {
                None => Box::new(stream),
                Some(wanted) => {
                    let name = host.clone().try_into().map_err(|_| "invalid server name".to_owned())?;
                    let config = match wanted {
                        Tls::Wanted(wanted) => tls_config(wanted)?,
                        Tls::Ready(config) => config.clone(),
                    };
                    let secured = tidegate_tls::connect(config, name, stream).await;
                    Box::new(secured.map_err(|error| format!("TLS handshake: {error}"))?)
                }
            };
            let (timeout, client) = (settings.timeout, settings.client);
            let mut connection = Connection { stream, correlation: 0, timeout, service, client };
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
    pub(crate) async fn send_one_way(
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
    pub(crate) async fn ask(
        &mut self,
        api: (i16, i16),
        fill: impl FnOnce(&mut Writer) + Send,
    ) -> Result<Bytes, String> {
        self.correlation = self.correlation.wrapping_add(1);
        let correlation = self.correlation;
        let mut writer = Writer::request(api, correlation);
        fill(&mut writer);
        let request = writer.framed();
        let timeout = self.timeout;
        match tokio::time::timeout(timeout, self.exchange(&request, correlation)).await {
            Ok(answer) => answer,
            Err(_) => Err("timeout".to_owned()),
        }
    }

    async fn exchange(&mut self, request: &[u8], correlation: i32) -> Result<Bytes, String> {
        let said = |error: std::io::Error| error.to_string();
        self.stream.write_all(request).await.map_err(said)?;
        self.stream.flush().await.map_err(said)?;
        let length = self.stream.read_u32().await.map_err(said)? as usize;
        if !(4..=MAX_ANSWER_BYTES).contains(&length) {
            return Err("response has an invalid length".to_owned());
        }
        if self.stream.read_i32().await.map_err(said)? != correlation {
            return Err("response belongs to another request".to_owned());
        }
        let mut left = length - 4;
        let mut answer = BoundedBody::new(&self.service, self.client, MAX_ANSWER_BYTES);
        answer.expect(left as u64);
        let mut piece = vec![0; left.min(PIECE_BYTES)];
        while left > 0 {
            let room = piece.get_mut(..left.min(PIECE_BYTES)).unwrap_or_default();
            let count = self.stream.read(room).await.map_err(said)?;
            if count == 0 {
                return Err("the broker closed the connection within a response".to_owned());
            }
            let refused = answer.push(piece.get(..count).unwrap_or_default());
            refused.map_err(|reason| format!("response: {reason}"))?;
            left -= count;
        }
        Ok(answer.into_bytes())
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
