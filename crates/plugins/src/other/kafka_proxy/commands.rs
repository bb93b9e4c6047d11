//! Commands of clients and the answers to them, in Protocol Buffers: the messages of APISIX's `pubsub.proto`.

use bytes::Bytes;
use tidegate_telemetry::error_log::Level;

use super::{
    consumer::Consumer,
    said::log_some,
    wire::{write_bytes, write_number, write_tag, write_varint},
};

const PING: u64 = 32;
const FETCH: u64 = 33;
const LIST_OFFSET: u64 = 34;
const EMPTY: u64 = 31;

/// Members of the answer's `oneof`.
const ERROR: u64 = 31;
const PONG: u64 = 32;
const FETCHED: u64 = 33;
const LISTED: u64 = 34;

#[derive(Debug, PartialEq, Eq)]
struct Asked<'a> {
    sequence: i64,
    command: Option<Command<'a>>,
}

#[derive(Debug, PartialEq, Eq)]
enum Command<'a> {
    Empty,
    Ping(&'a [u8]),
    Fetch(Place<'a>),
    ListOffset(Place<'a>),
}

/// Of a message, or of a time.
#[derive(Debug, Default, PartialEq, Eq)]
struct Place<'a> {
    topic: &'a str,
    partition: i32,
    /// The offset, or the time.
    at: i64,
}

/// Answers one message. `None`: it has no command.
pub(super) async fn answer(consumer: &mut Consumer, message: &[u8]) -> Option<Bytes> {
    let Some(Asked { sequence, command }) = read(message) else {
        log_some(Level::Error, "pubsub server receives undecodable data");
        return Some(failed(0, "wrong command"));
    };
    let Some(command) = command else {
        log_some(Level::Warn, "pubsub server receives empty command");
        return None;
    };
    Some(match command {
        Command::Empty => {
            log_some(
                Level::Error,
                "pubsub callback handler not registered for the command, command: cmd_empty",
            );
            failed(sequence, "unknown command")
        }
        Command::Ping(state) => reply(sequence, PONG, |body| write_bytes(body, 1, state)),
        Command::ListOffset(Place { topic, partition, at }) => {
            match consumer.list_offset(topic, partition, at).await {
                Ok(offset) => reply(sequence, LISTED, |body| write_number(body, 1, offset)),
                Err(reason) => failed(
                    sequence,
                    &format!("failed to list offset, topic: {topic}, partition: {partition}, err: {reason}"),
                ),
            }
        }
        Command::Fetch(Place { topic, partition, at }) => {
            match consumer.fetch(topic, partition, at, |records| fetched(sequence, records)).await {
                Ok(answer) => answer,
                Err(reason) => failed(
                    sequence,
                    &format!(
                        "failed to fetch message, topic: {topic}, partition: {partition}, err: {reason}"
                    ),
                ),
            }
        }
    })
}

fn failed(sequence: i64, message: &str) -> Bytes {
    reply(sequence, ERROR, |body| write_bytes(body, 2, message.as_bytes()))
}

fn reply(sequence: i64, member: u64, fill: impl FnOnce(&mut Vec<u8>)) -> Bytes {
    let mut body = Vec::new();
    fill(&mut body);
    let mut out = Vec::with_capacity(body.len() + 24);
    write_number(&mut out, 1, sequence);
    write_tag(&mut out, member, 2);
    write_varint(&mut out, body.len() as u64);
    out.extend_from_slice(&body);
    out.into()
}

/// The head of an answer with records, and its length with them.
fn fetched(sequence: i64, length: usize) -> Vec<u8> {
    let mut out = Vec::new();
    write_number(&mut out, 1, sequence);
    write_tag(&mut out, FETCHED, 2);
    write_varint(&mut out, length as u64);
    out
}

enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    /// Of a kind that no field here has.
    Other,
}

/// `None`: it is not such a message.
fn read(message: &[u8]) -> Option<Asked<'_>> {
    let mut asked = Asked { sequence: 0, command: None };
    each_field(message, |number, value| {
        match (number, value) {
            (1, Value::Number(sequence)) => asked.sequence = sequence as i64,
            (EMPTY, Value::Bytes(_)) => asked.command = Some(Command::Empty),
            (PING, Value::Bytes(body)) => asked.command = Some(Command::Ping(state(body)?)),
            (FETCH, Value::Bytes(body)) => asked.command = Some(Command::Fetch(place(body)?)),
            (LIST_OFFSET, Value::Bytes(body)) => asked.command = Some(Command::ListOffset(place(body)?)),
            (1 | EMPTY..=LIST_OFFSET, _) => return None,
            _ => {}
        }
        Some(())
    })?;
    Some(asked)
}

fn state(body: &[u8]) -> Option<&[u8]> {
    let mut state = &[][..];
    each_field(body, |number, value| {
        match (number, value) {
            (1, Value::Bytes(bytes)) => state = bytes,
            (1, _) => return None,
            _ => {}
        }
        Some(())
    })?;
    Some(state)
}

fn place(body: &[u8]) -> Option<Place<'_>> {
    let mut place = Place::default();
    each_field(body, |number, value| {
        match (number, value) {
            (1, Value::Bytes(bytes)) => place.topic = str::from_utf8(bytes).ok()?,
            (2, Value::Number(partition)) => place.partition = partition as i32,
            (3, Value::Number(at)) => place.at = at as i64,
            (1..=3, _) => return None,
            _ => {}
        }
        Some(())
    })?;
    Some(place)
}

/// `None`: it breaks off, has a group, or `take` says so.
fn each_field<'a>(mut rest: &'a [u8], mut take: impl FnMut(u64, Value<'a>) -> Option<()>) -> Option<()> {
    while !rest.is_empty() {
        let tag = varint(&mut rest)?;
        let value = match tag & 7 {
            0 => Value::Number(varint(&mut rest)?),
            1 => cut(&mut rest, 8).map(|_| Value::Other)?,
            2 => {
                let length = usize::try_from(varint(&mut rest)?).ok()?;
                Value::Bytes(cut(&mut rest, length)?)
            }
            5 => cut(&mut rest, 4).map(|_| Value::Other)?,
            _ => return None,
        };
        take(tag >> 3, value)?;
    }
    Some(())
}

fn cut<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(length)?;
    *rest = left;
    Some(taken)
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, left) = rest.split_first()?;
        *rest = left;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read() {
        let place = |at| Place { topic: "t", partition: 2, at };
        // Sequence 7; topic, partition, and offset -2 in ten bytes.
        let mut message = vec![0x08, 7, 0x92, 0x02, 16, 0x0a, 1, b't', 0x10, 2, 0x18];
        message.extend([0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]);
        assert_eq!(
            read(&message),
            Some(Asked { sequence: 7, command: Some(Command::ListOffset(place(-2))) })
        );
        for end in [1, 4, 9, message.len() - 1] {
            assert_eq!(read(&message[..end]), None, "{end}");
        }
        let fetch = [0x8a, 0x02, 7, 0x0a, 1, b't', 0x10, 2, 0x18, 14];
        assert_eq!(read(&fetch), Some(Asked { sequence: 0, command: Some(Command::Fetch(place(14))) }));
        let ping = [0x82, 0x02, 3, 0x0a, 1, b's'];
        assert_eq!(read(&ping), Some(Asked { sequence: 0, command: Some(Command::Ping(b"s")) }));
        assert_eq!(read(&[0xfa, 0x01, 0]), Some(Asked { sequence: 0, command: Some(Command::Empty) }));
        assert_eq!(read(&[]), Some(Asked { sequence: 0, command: None }));
        // A field that is not known is passed over; a group, and a number for a text, are not.
        assert_eq!(read(&[0x20, 1]), Some(Asked { sequence: 0, command: None }));
        assert_eq!(read(&[0x23, 0x24]), None);
        assert_eq!(read(&[0x88, 0x02, 1]), None);
        assert_eq!(read(&[0x8a, 0x02, 3, 0x0a, 1, 0xff]), None, "a topic is text");
    }

    #[test]
    fn answers_are_written() {
        assert_eq!(failed(0, "no")[..], [0xfa, 0x01, 4, 0x12, 2, b'n', b'o']);
        let listed = reply(3, LISTED, |body| write_number(body, 1, 300));
        assert_eq!(listed[..], [0x08, 3, 0x92, 0x02, 3, 0x08, 0xac, 0x02]);
    }
}
