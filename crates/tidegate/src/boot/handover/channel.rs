//! Messages and descriptors over a pair of sockets that keep the borders of messages.

use std::{
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::Duration,
};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair, sockopt,
};

use super::Message;

/// Descriptors in one message. The system's limit is 253.
pub(crate) const MOST_DESCRIPTORS: usize = 64;

const LONGEST_MESSAGE_BYTES: usize = 64 * 1024;

/// Both sides answer at once or not at all.
const SEND_LIMIT: Duration = Duration::from_secs(10);

pub(crate) struct Channel(OwnedFd);

impl Channel {
    /// The two ends.
    pub(crate) fn pair() -> io::Result<(Channel, OwnedFd)> {
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((Channel::over(ours)?, theirs))
    }

    /// An error when the descriptor is not such a socket.
    pub(crate) fn over(socket: OwnedFd) -> io::Result<Channel> {
        if sockopt::socket_type(&socket)? != SocketType::SEQPACKET {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(SEND_LIMIT))?;
        Ok(Channel(socket))
    }

    pub(crate) fn try_clone(&self) -> io::Result<Channel> {
        self.0.try_clone().map(Channel)
    }

    pub(crate) fn send(&self, message: &Message, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let text = serde_json::to_vec(message)?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        sendmsg(self.0.as_fd(), &[IoSlice::new(&text)], &mut control, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// The next message; `None` when the other side is gone.
    pub(crate) fn receive(&self) -> io::Result<Option<(Message, Vec<OwnedFd>)>> {
        let mut text = vec![0; LONGEST_MESSAGE_BYTES];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = loop {
            let mut parts = [IoSliceMut::new(&mut text)];
            match recvmsg(self.0.as_fd(), &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC) {
                Err(rustix::io::Errno::INTR) => {}
                // What an end that was closed with messages in it leaves behind.
                Err(rustix::io::Errno::CONNRESET) => return Ok(None),
                received => break received?,
            }
        };
        let mut descriptors = Vec::new();
        for part in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = part {
                descriptors.extend(rights);
            }
        }
        if received.bytes == 0 {
            return Ok(None);
        }
        let message = serde_json::from_slice(text.get(..received.bytes).unwrap_or_default())?;
        Ok(Some((message, descriptors)))
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs::File,
        io::{Read, Write},
    };

    use super::*;

    #[test]
    fn descriptors_arrive_with_their_message() {
        let (ours, theirs) = Channel::pair().unwrap();
        let theirs = Channel::over(theirs).unwrap();
        let (mut end, other_end) = std::io::pipe().unwrap();
        ours.send(&Message::Store, &[]).unwrap();
        let many: Vec<_> = (0..MOST_DESCRIPTORS).map(|_| other_end.as_fd()).collect();
        ours.send(&Message::Sockets { protocol: 1, more: false }, &many).unwrap();
        drop(other_end);
        drop(ours);
        assert!(matches!(theirs.receive().unwrap(), Some((Message::Store, none)) if none.is_empty()));
        let (message, descriptors) = theirs.receive().unwrap().unwrap();
        assert!(matches!(message, Message::Sockets { protocol: 1, more: false }));
        assert_eq!(descriptors.len(), MOST_DESCRIPTORS);
        for descriptor in descriptors {
            File::from(descriptor).write_all(b"x").unwrap();
        }
        let mut text = String::new();
        end.read_to_string(&mut text).unwrap();
        assert_eq!(text.len(), MOST_DESCRIPTORS);
        assert!(theirs.receive().unwrap().is_none());
    }

    #[test]
    fn other_descriptors_are_refused() {
        assert!(Channel::over(File::open("/dev/null").unwrap().into()).is_err());
    }
}
