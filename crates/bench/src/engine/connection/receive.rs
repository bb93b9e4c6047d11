//! What comes in on a connection, and the answers in it.

use super::{Connection, Context, Sent, State};
use crate::engine::{
    answer::ParsedResponse,
    answered::Answered,
    failure::{Broken, Failure},
    lives::End,
};

impl Connection {
    /// Reads until the socket has no more. A short read means that, unless the peer has closed.
    pub(super) fn read(&mut self, gone: bool, context: &mut Context) -> Result<(), Broken> {
        let mut buffer = std::mem::take(&mut context.receive);
        let result = self.read_into(&mut buffer, gone, context);
        context.receive = buffer;
        result
    }

    fn read_into(&mut self, buffer: &mut [u8], gone: bool, context: &mut Context) -> Result<(), Broken> {
        let generation = self.generation;
        loop {
            let Some(socket) = &self.socket else { return Ok(()) };
            let length = match socket.receive(buffer) {
                Ok(None) => return Ok(()),
                Ok(Some(length)) => length,
                Err(error) => return Err(Broken::system(Failure::Closed, error)),
            };
            if length == 0 {
                return self.ended(context);
            }
            context.tally.bytes_in += length as u64;
            let received = buffer.get(..length).unwrap_or_default();
            if socket.is_tls() {
                self.read_encrypted(received, context)?;
            } else {
                self.consume(received, context.clock.now(), context)?;
            }
            if self.generation != generation || (length < buffer.len() && !gone) {
                return Ok(());
            }
        }
    }

    fn read_encrypted(&mut self, received: &[u8], context: &mut Context) -> Result<(), Broken> {
        let Some(socket) = &mut self.socket else { return Ok(()) };
        let mut plain = Vec::new();
        socket.decrypt(received, &mut plain)?;
        if self.state == State::Handshaking {
            socket.encrypt(&[], &mut self.out)?;
            let done = !socket.is_handshaking();
            self.flush()?;
            if !done {
                return Ok(());
            }
            let now = context.clock.now();
            context.tally.handshake.saturating_record(now - self.connect_started);
            self.opened(now, context);
        }
        if plain.is_empty() { Ok(()) } else { self.consume(&plain, context.clock.now(), context) }
    }

    pub(super) fn consume(&mut self, received: &[u8], now: u64, context: &mut Context) -> Result<(), Broken> {
        if self.partial.is_empty() {
            let used = self.answers(received, now, context)?;
            self.partial.extend_from_slice(received.get(used..).unwrap_or_default());
        } else {
            let mut whole = std::mem::take(&mut self.partial);
            whole.extend_from_slice(received);
            let used = self.answers(&whole, now, context)?;
            whole.drain(..used);
            self.partial = whole;
        }
        if self.state == State::Open {
            self.fit_buffer(context);
            self.fill_after_answers(context);
        } else if self.state == State::Closed {
            self.partial.clear();
            self.start(context);
        }
        Ok(())
    }

    fn fill_after_answers(&mut self, context: &mut Context) {
        if self.in_flight.len() < context.depth && !self.reader.is_inside() {
            context.refill.push(self.index);
        }
    }

    /// Takes whole answers from the input; how much of it is used up.
    fn answers(&mut self, input: &[u8], now: u64, context: &mut Context) -> Result<usize, Broken> {
        let mut used = 0;
        while used < input.len() {
            let Some(sent) = self.in_flight.front().copied() else {
                return Err(Broken::new(Failure::Malformed, "malformed: bytes that no request asked for"));
            };
            let rest = input.get(used..).unwrap_or_default();
            let (taken, answer) =
                self.reader.next(rest, sent.is_head, &mut context.parser).map_err(|error| {
                    let text = error.reason.replace("upstream", "server");
                    Broken::new(Failure::Malformed, format!("malformed answer: {text}"))
                })?;
            used += taken;
            self.size.current += taken as u64;
            let Some(answer) = answer else {
                if self.first_byte == 0 {
                    self.first_byte = now;
                }
                return Ok(used);
            };
            self.complete(sent, now, answer, context);
            if answer.close || !context.keep_alive {
                context.tally.server_closes += u64::from(answer.close);
                if answer.close {
                    context.tally.lives.ended(self.answers, End::Announced);
                }
                self.close(context);
                return Ok(input.len());
            }
        }
        Ok(used)
    }

    pub(super) fn complete(&mut self, sent: Sent, now: u64, answer: ParsedResponse, context: &mut Context) {
        self.in_flight.pop_front();
        self.size.learn();
        self.answers += 1;
        context.outstanding -= 1;
        context.tally.complete(&Answered {
            now,
            sent: sent.at,
            due: sent.due,
            first_byte: std::mem::take(&mut self.first_byte),
            status: answer.status,
            request: sent.request,
        });
        context.tally.body_bytes += answer.body;
        self.usual.add(now - sent.at);
    }

    /// The peer closed.
    fn ended(&mut self, context: &mut Context) -> Result<(), Broken> {
        if let (Some(answer), Some(sent)) = (self.reader.closed(), self.in_flight.front().copied()) {
            self.complete(sent, context.clock.now(), answer, context);
            context.tally.server_closes += 1;
            context.tally.lives.ended(self.answers, End::Idle);
            self.close(context);
            self.start(context);
            return Ok(());
        }
        if self.state == State::Handshaking {
            return Err(Broken::new(Failure::Tls, "tls: the server closed during the handshake"));
        }
        if self.in_flight.is_empty() && self.state == State::Open {
            context.tally.server_closes += 1;
            context.tally.lives.ended(self.answers, End::Idle);
            self.close(context);
            self.start(context);
            return Ok(());
        }
        let begun = self.reader.is_inside() || !self.partial.is_empty();
        let what = if begun { "in the middle of an answer" } else { "without an answer" };
        Err(Broken::new(Failure::Closed, format!("the server closed {what}")))
    }
}
