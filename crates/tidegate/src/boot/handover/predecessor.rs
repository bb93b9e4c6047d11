//! The new process's side: what it gets from the one before it.

use std::{
    env,
    fs::File,
    io::{self, Read},
    net::{SocketAddr, TcpListener},
    os::fd::{AsFd, OwnedFd},
};

use anyhow::{Context, bail};
use serde_json::Value;

use super::{Message, PROTOCOL, VARIABLE, channel::Channel};

/// Characters.
const LONGEST_REASON: usize = 8192;

pub(crate) struct Predecessor {
    channel: Channel,
    pub sockets: Vec<TcpListener>,
    /// Locked by both while both live.
    pub pid_file: Option<File>,
}

/// For the reason of a failure, when the rest is gone already.
pub(crate) struct Messenger(Channel);

impl Messenger {
    pub(crate) fn failed(&self, reason: &str) {
        let reason = reason.chars().take(LONGEST_REASON).collect();
        let _ = self.0.send(&Message::Failed { reason }, &[]);
    }
}

impl Predecessor {
    pub(crate) fn messenger(&self) -> io::Result<Messenger> {
        self.channel.try_clone().map(Messenger)
    }

    /// `None` for a process that was started in another way.
    pub(crate) fn connect() -> anyhow::Result<Option<Predecessor>> {
        if env::var_os(VARIABLE).is_none() {
            return Ok(None);
        }
        let stdin = io::stdin().as_fd().try_clone_to_owned()?;
        let channel = Channel::over(stdin).with_context(|| {
            format!("{VARIABLE} is set, but stdin is not a channel to another gateway; unset it")
        })?;
        // No other code should read from it.
        rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
        let mut predecessor = Predecessor { channel, sockets: Vec::new(), pid_file: None };
        predecessor.take_sockets()?;
        Ok(Some(predecessor))
    }

    fn take_sockets(&mut self) -> anyhow::Result<()> {
        loop {
            let Some((Message::Sockets { protocol, more }, descriptors)) = self.channel.receive()? else {
                bail!(
                    "the old process ended, or sent an unexpected message, before it handed over its sockets"
                );
            };
            if protocol != PROTOCOL {
                bail!(
                    "the old process uses handover protocol {protocol}, this program uses {PROTOCOL}; quit \
                     it and start this one"
                );
            }
            let mut descriptors = descriptors.into_iter();
            if self.pid_file.is_none() {
                self.pid_file = descriptors.next().map(File::from);
            }
            self.sockets.extend(descriptors.map(TcpListener::from));
            if !more {
                return Ok(());
            }
        }
    }

    /// Waits until the old process has closed its store; the document of the API-driven mode, if there is one.
    pub(crate) fn take_store(&self) -> anyhow::Result<Option<Value>> {
        self.send(&Message::Store);
        match self.channel.receive()? {
            Some((Message::StoreReleased, descriptors)) => {
                descriptors.into_iter().next().map(read).transpose()
            }
            // It ended: then its store is closed, too.
            None => Ok(None),
            Some((other, _)) => bail!("the old process replied {other:?} when asked for its store"),
        }
    }

    /// Everything that can fail has not. Returns when this process may accept.
    pub(crate) fn prepared(&self, left: Vec<SocketAddr>, objects: usize) -> anyhow::Result<()> {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        self.send(&Message::Prepared { version, left, objects: Some(objects) });
        match self.channel.receive()? {
            Some((Message::Serve, _)) | None => Ok(()),
            Some((other, _)) => bail!("the old process replied {other:?} instead of letting this one serve"),
        }
    }

    /// Returns when the old process accepts no more.
    pub(crate) fn serving(&self) {
        self.send(&Message::Serving);
        // Whatever it says or does not say: there is no way back from here.
        let _ = self.channel.receive();
    }

    /// A predecessor that is gone needs no word.
    fn send(&self, message: &Message) {
        let _ = self.channel.send(message, &[]);
    }
}

fn read(descriptor: OwnedFd) -> anyhow::Result<Value> {
    let mut text = String::new();
    File::from(descriptor).read_to_string(&mut text)?;
    serde_json::from_str(&text).context("the old process handed over a document that is not JSON")
}
