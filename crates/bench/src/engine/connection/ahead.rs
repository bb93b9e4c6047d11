//! The next request before the last answer is read.
//!
//! A socket that is read acknowledges what was read with a segment of its own, when that was more than one segment:
//! a third of what a small request costs a client, and where the server is still busy with the same connection the
//! server pays for it. When the bytes that wait are an answer in whole, the next request is sent first and
//! carries the acknowledgement. The answer is then read and checked as any other; it has the time at which
//! its last byte was seen to be there.
//!
//! Linux would acknowledge at the arrival already if the window could open further
//! (`__tcp_ack_snd_check` in net/ipv4/tcp_input.c). So the buffer is a little larger while a request is sent, which
//! announces a window, than while its answer arrives.

use super::{
    Connection, Context, Failure, State,
    size::{Buffer, LARGE, NARROW, SMALL, WIDE},
};
use crate::engine::failure::Broken;

impl Connection {
    /// Sends the next request and then reads, if an answer is there in whole. `false`: read as usual.
    pub(super) fn go_ahead(&mut self, context: &mut Context) -> Result<bool, Broken> {
        let is_usual = self.size.buffer == Buffer::Narrow && self.in_flight.len() == 1;
        if !is_usual || self.state != State::Open || !self.partial.is_empty() || !self.out.is_empty() {
            return Ok(false);
        }
        let Some(socket) = &self.socket else { return Ok(false) };
        let (Some(missing), Some(queued)) = (self.reader.missing(self.size.last), socket.queued()) else {
            return Ok(false);
        };
        if queued < missing && queued > 0 {
            if !self.size.is_undecided {
                self.size.is_undecided = true;
                context.undecided.push((context.clock.now(), self.index));
            }
            return Ok(true);
        }
        self.size.is_undecided = false;
        if queued != missing || context.issue(1) == 0 {
            return Ok(false);
        }
        let now = context.clock.now();
        socket.set_receive_buffer(WIDE);
        self.try_send(1, now, now, context)?;
        if let Some(socket) = &self.socket {
            socket.set_receive_buffer(NARROW);
        }
        self.read_one(missing as usize, now, context)?;
        Ok(true)
    }

    /// Reads `length` bytes, which are there: what came after them is another answer, with a time of its own.
    fn read_one(&mut self, length: usize, now: u64, context: &mut Context) -> Result<(), Broken> {
        let mut buffer = std::mem::take(&mut context.receive);
        let part = buffer.get_mut(..length).unwrap_or_default();
        let received = match &self.socket {
            Some(socket) => socket.receive(part).map_err(|error| Broken::system(Failure::Closed, error)),
            None => Ok(None),
        };
        let result = match received {
            Ok(Some(count)) => {
                context.tally.bytes_in += count as u64;
                self.consume(part.get(..count).unwrap_or_default(), now, context)
            }
            Ok(None) => Ok(()),
            Err(broken) => Err(broken),
        };
        context.receive = buffer;
        result
    }

    /// Reads what is there, if nothing was decided since.
    pub(crate) fn decide(&mut self, context: &mut Context) {
        if std::mem::take(&mut self.size.is_undecided)
            && let Err(broken) = self.read(false, context)
        {
            self.fail(broken, context);
        }
    }

    /// A buffer for answers like the last one.
    pub(super) fn fit_buffer(&mut self, context: &Context) {
        if !context.ahead {
            return;
        }
        let Some(socket) = &self.socket else { return };
        let expected = self.size.last.max(self.size.current).max(self.reader.missing(0).unwrap_or_default());
        match self.size.buffer {
            Buffer::Automatic if expected <= SMALL && !self.reader.is_inside() => {
                self.size.buffer = Buffer::Narrow;
                socket.set_receive_buffer(NARROW);
            }
            Buffer::Narrow if expected > SMALL => {
                self.size.buffer = Buffer::Large;
                socket.set_receive_buffer(LARGE);
            }
            _ => {}
        }
    }
}
