//! WebSocket: a message, and the time until it comes back.

mod frames;
mod upgrade;

use std::ops::ControlFlow;

use tokio::time::{sleep, timeout};

use self::frames::{CLOSE, Incoming, PONG, Reader, TEXT};
use super::{
    line::Line,
    shared::{Common, FIRST_RETRY, LAST_RETRY, Shared, open},
};
use crate::engine::{
    answered::Answered,
    failure::{Broken, Failure, malformed},
    local::wait_until,
};

/// What answers have in place of a status: that of the upgrade.
const STATUS: u16 = 101;
const GOING_AWAY: [u8; 2] = 1001u16.to_be_bytes();

/// A message to send.
struct Message {
    text: Vec<u8>,
    /// In a closed loop when it is sent.
    due: Option<u64>,
}

/// Why a connection is unusable.
enum Lost {
    /// With a message on the way.
    Asked(Broken),
    /// Before the message was sent.
    Idle(Broken),
}

impl Shared {
    /// The next message; `None` when all are taken.
    fn take(&mut self, connection: usize) -> Option<Message> {
        let due = self.take_turn(connection)?;
        self.source.connection = connection;
        let mut text = Vec::new();
        self.message.as_ref()?.render(&mut text, &mut self.source);
        self.advance();
        Some(Message { text, due })
    }

    /// How many messages came back on a connection.
    fn echoes(&self, connection: usize) -> u64 {
        self.connections.get(connection).map_or(0, |place| place.usual.count)
    }

    /// Counts why a connection is gone; breaks when its message is lost with it.
    fn count(&mut self, connection: usize, lost: &Lost, is_good: bool) -> ControlFlow<()> {
        self.place(connection, |place| place.asked = None);
        match lost {
            // The server had enough of the connection; the message is sent on the next one.
            Lost::Idle(_) if is_good => {
                self.tally.server_closes += 1;
                ControlFlow::Continue(())
            }
            Lost::Idle(broken) | Lost::Asked(broken) => {
                self.tally.fail(broken.failure, &broken.message);
                self.place(connection, |place| place.taken = None);
                ControlFlow::Break(())
            }
        }
    }

    fn mask(&mut self) -> [u8; 4] {
        (self.source.random.number() as u32).to_be_bytes()
    }
}

/// Keeps one connection open and sends one message after the other on it, until nothing is left.
pub(super) async fn connection(index: usize, common: Common) {
    let (mut wait, mut pending) = (FIRST_RETRY, None);
    loop {
        if pending.is_none() {
            pending = common.borrow_mut().take(index);
        }
        if pending.is_none() {
            return;
        }
        let before = common.borrow().echoes(index);
        let lost = match begin(index, &common).await {
            Ok(line) => converse(index, line, &mut pending, &common).await,
            Err(broken) => Err(Lost::Asked(broken)),
        };
        let is_good = common.borrow().echoes(index) > before;
        let Err(lost) = lost else { return };
        if common.borrow_mut().count(index, &lost, is_good).is_break() {
            pending = None;
        }
        wait = if is_good { FIRST_RETRY } else { wait };
        sleep(wait).await;
        wait = (wait * 2).min(LAST_RETRY);
    }
}

async fn begin(index: usize, common: &Common) -> Result<Line, Broken> {
    let begun = common.borrow().clock.now();
    let mut line = open(index, common).await?;
    upgrade::ask(index, &mut line, common).await?;
    let mut shared = common.borrow_mut();
    let took = shared.clock.now() - begun;
    shared.tally.beyond.echo.upgraded(took);
    Ok(line)
}

/// Sends messages and waits for each of them; ends well when none is left.
async fn converse(
    index: usize,
    mut line: Line,
    pending: &mut Option<Message>,
    common: &Common,
) -> Result<(), Lost> {
    let (clock, limit) = {
        let shared = common.borrow();
        (shared.clock, shared.plan.timeout)
    };
    let mut reader = Reader::default();
    while let Some(message) = pending.take().or_else(|| common.borrow_mut().take(index)) {
        if let Some(due) = message.due
            && let Err(broken) = idle(&mut line, &mut reader, due, common).await
        {
            *pending = Some(message);
            return Err(Lost::Idle(broken));
        }
        let sent = clock.now();
        let due = message.due.unwrap_or(sent);
        common.borrow_mut().place(index, |place| (place.taken, place.asked) = (None, Some((sent, due))));
        let late = |_| Broken::new(Failure::Timeout, format!("no echo after {limit:?}"));
        let echoed = timeout(limit, echo(&mut line, &mut reader, &message.text, common)).await;
        echoed.map_err(late).and_then(|result| result).map_err(Lost::Asked)?;
        let now = clock.now();
        let mut shared = common.borrow_mut();
        shared.tally.complete(&Answered { now, sent, due, first_byte: 0, status: STATUS, request: 0 });
        shared.tally.bytes_in += line.came();
        shared.tally.body_bytes += message.text.len() as u64;
        shared.place(index, |place| {
            place.asked = None;
            place.usual.add(now - sent);
        });
    }
    let mut farewell = Vec::new();
    frames::write(&mut farewell, CLOSE, &GOING_AWAY, common.borrow_mut().mask());
    // Whether the server hears it makes no difference to the run.
    let _ = line.send(&farewell).await;
    Ok(())
}

/// Waits for the moment at which a message is due, and answers pings meanwhile.
async fn idle(line: &mut Line, reader: &mut Reader, due: u64, common: &Common) -> Result<(), Broken> {
    let clock = common.borrow().clock;
    loop {
        tokio::select! {
            () = wait_until(due, &clock) => return Ok(()),
            received = line.receive() => {
                if received? == 0 {
                    return Err(Broken::new(Failure::Closed, "closed early: between two messages"));
                }
            }
        }
        hear(line, reader, None, common).await?;
    }
}

/// Sends a message and waits until it has come back.
async fn echo(line: &mut Line, reader: &mut Reader, text: &[u8], common: &Common) -> Result<(), Broken> {
    let mut frame = Vec::with_capacity(text.len() + frames::MAX_HEAD);
    {
        let mut shared = common.borrow_mut();
        frames::write(&mut frame, TEXT, text, shared.mask());
        shared.tally.bytes_out += frame.len() as u64;
    }
    line.send(&frame).await?;
    while !hear(line, reader, Some(text), common).await? {
        if line.receive().await? == 0 {
            return Err(Broken::new(Failure::Closed, "closed early: before the echo"));
        }
    }
    Ok(())
}

/// Looks at the frames that came: whether the message is among them that is waited for.
async fn hear(
    line: &mut Line,
    reader: &mut Reader,
    expected: Option<&[u8]>,
    common: &Common,
) -> Result<bool, Broken> {
    loop {
        let (used, incoming) = reader.next(&line.received).map_err(malformed)?;
        line.received.drain(..used);
        match incoming {
            None => return Ok(false),
            Some(Incoming::Message(message)) => {
                if expected == Some(message.as_slice()) {
                    return Ok(true);
                }
                common.borrow_mut().tally.beyond.echo.others += 1;
            }
            Some(Incoming::Ping(payload)) => {
                let mut pong = Vec::new();
                frames::write(&mut pong, PONG, &payload, common.borrow_mut().mask());
                line.send(&pong).await?;
            }
            Some(Incoming::Pong) => {}
            Some(Incoming::Close(why)) => {
                return Err(Broken::new(Failure::Closed, format!("closed early: {why}")));
            }
        }
    }
}
