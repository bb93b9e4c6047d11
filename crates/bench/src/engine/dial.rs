//! Connects for the engines that wait with a runtime.

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, UnixStream},
    time::timeout,
};

use super::failure::{Broken, Failure, plain};
use crate::Plan;

/// Where a connection goes.
pub(super) struct Way {
    address: Option<SocketAddr>,
    unix: Option<PathBuf>,
    limit: Duration,
    pub tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
}

/// A socket that is connected.
pub(super) enum Raw {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Way {
    /// That of the connection with this number.
    pub(super) fn of(plan: &Plan, server_name: Option<&ServerName<'static>>, index: usize) -> Way {
        Way {
            address: plan.addresses.get(index % plan.addresses.len().max(1)).copied(),
            unix: plan.options.unix.clone(),
            limit: plan.timeout,
            tls: plan.tls.clone().zip(server_name.cloned()),
        }
    }

    pub(super) async fn connect(&self) -> Result<Raw, Broken> {
        let failed =
            |error: std::io::Error| Broken::new(Failure::Connect, format!("connect: {}", plain(&error)));
        if let Some(path) = &self.unix {
            let connected = timeout(self.limit, UnixStream::connect(path));
            let connected = connected.await.map_err(|_| self.late())?;
            return connected.map(Raw::Unix).map_err(failed);
        }
        let address = self.address.ok_or_else(|| Broken::new(Failure::Connect, "connect: no address"))?;
        let connected = timeout(self.limit, TcpStream::connect(address)).await.map_err(|_| self.late())?;
        let socket = connected.map_err(failed)?;
        socket.set_nodelay(true).map_err(failed)?;
        Ok(Raw::Tcp(socket))
    }

    /// Shakes hands.
    pub(super) async fn secure(
        &self,
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
        socket: TcpStream,
    ) -> Result<impl AsyncRead + AsyncWrite + Unpin + 'static, Broken> {
        let connected = timeout(self.limit, tidegate_tls::connect(config, name, socket));
        let session = connected.await.map_err(|_| self.late())?;
        session.map_err(|error| Broken::new(Failure::Tls, format!("tls: {}", plain(&error))))
    }

    fn late(&self) -> Broken {
        Broken::new(Failure::ConnectTimeout, format!("no connection after {:?}", self.limit))
    }
}
