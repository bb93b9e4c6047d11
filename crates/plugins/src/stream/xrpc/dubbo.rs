//! [Dubbo's protocol on TCP](https://dubbo.apache.org/en/overview/reference/protocols/tcp/): a header of 16 bytes with the length of what
//! follows. Requests have numbers, so that answers may come in any order.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::Value;
use tidegate_plugin_api::protocol::{Call, Conversation, Progress, Protocol, ProtocolDef, ProtocolRoute};

pub(crate) static PROTOCOL: ProtocolDef = ProtocolDef { name: "dubbo", build };

const HEADER_BYTES: usize = 16;
const MAGIC: [u8; 2] = [0xda, 0xbb];

const REQUEST: u8 = 0x80;
const TWO_WAY: u8 = 0x40;
/// A heartbeat.
const EVENT: u8 = 0x20;

/// Requests without an answer that are remembered.
const MOST_CALLS: usize = 1024;

struct Dubbo;

fn build(_: &Value, _: &ProtocolRoute<'_>) -> Result<Arc<dyn Protocol>, String> {
    Ok(Arc::new(Dubbo))
}

impl Protocol for Dubbo {
    fn open(&self) -> Box<dyn Conversation> {
        Box::new(Talk::default())
    }
}

#[derive(Default)]
struct Talk {
    requests: Messages,
    replies: Messages,
    open: BTreeMap<u64, Instant>,
}

impl Conversation for Talk {
    fn client_sent(&mut self, bytes: &[u8], over: &mut Vec<Call>) -> Result<Progress, String> {
        let (seen, message) =
            self.requests.next(bytes).map_err(|reason| format!("failed to read request: {reason}"))?;
        let Some(message) = message else { return Ok(Progress::More) };
        if message.flags & REQUEST != 0 && message.flags & EVENT == 0 {
            if message.flags & TWO_WAY == 0 {
                over.push(call(Duration::ZERO));
            } else if self.open.len() < MOST_CALLS {
                self.open.insert(message.id, Instant::now());
            }
        }
        Ok(Progress::Whole(seen, Duration::ZERO))
    }

    fn node_sent(&mut self, mut bytes: &[u8], over: &mut Vec<Call>) -> Result<(), String> {
        while !bytes.is_empty() {
            let (seen, message) =
                self.replies.next(bytes).map_err(|reason| format!("failed to handle upstream: {reason}"))?;
            bytes = bytes.get(seen..).unwrap_or_default();
            let Some(message) = message else { break };
            if message.flags & (REQUEST | EVENT) == 0 {
                over.extend(self.open.remove(&message.id).map(|began| call(began.elapsed())));
            }
        }
        Ok(())
    }

    fn close(&mut self) -> Vec<Call> {
        std::mem::take(&mut self.open).into_values().map(|began| call(began.elapsed())).collect()
    }
}

fn call(took: Duration) -> Call {
    Call { took, variables: Vec::new() }
}

/// Messages of one side.
#[derive(Default)]
struct Messages {
    header: Vec<u8>,
    /// Bytes behind the header that are still to come.
    left: usize,
}

struct Message {
    flags: u8,
    id: u64,
}

impl Messages {
    /// Reads to the end of a message, or of the bytes; returns how many of them.
    fn next(&mut self, bytes: &[u8]) -> Result<(usize, Option<Message>), String> {
        let wanted = HEADER_BYTES - self.header.len();
        let (header, rest) = bytes.split_at(wanted.min(bytes.len()));
        self.header.extend_from_slice(header);
        if let Some(magic) = self.header.first_chunk::<2>()
            && *magic != MAGIC
        {
            return Err(format!("unknown magic number: \"{:02x}{:02x}\"", magic[0], magic[1]));
        }
        let Some(whole) = self.header.first_chunk::<HEADER_BYTES>() else { return Ok((bytes.len(), None)) };
        let [_, _, flags, _, id @ .., a, b, c, d] = *whole;
        if wanted > 0 {
            let length = i32::from_be_bytes([a, b, c, d]);
            self.left = usize::try_from(length).map_err(|_| format!("invalid data length: {length}"))?;
        }
        let taken = self.left.min(rest.len());
        self.left -= taken;
        if self.left > 0 {
            return Ok((bytes.len(), None));
        }
        self.header.clear();
        Ok((header.len() + taken, Some(Message { flags, id: u64::from_be_bytes(id) })))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn message(flags: u8, id: u64, body: &[u8]) -> Vec<u8> {
        let length = (body.len() as u32).to_be_bytes();
        [&MAGIC[..], &[flags, 0], &id.to_be_bytes(), &length, body].concat()
    }

    fn talk() -> Box<dyn Conversation> {
        let route = ProtocolRoute { id: &"1".into(), counts: false, logs: true };
        build(&json!({}), &route).unwrap().open()
    }

    #[test]
    fn answers_end_calls_in_any_order() {
        let requests = [
            message(0xc2, 1, b"one"),
            message(0xe2, 2, b""),
            message(0xc2, 3, &[7; 300]),
            message(0x82, 4, b"x"),
        ];
        let answers =
            [message(0x02, 3, b"three"), message(0x22, 2, b""), message(0x02, 1, b""), message(0x02, 9, b"")];
        for size in [1, 5, 17, 10_000] {
            let (mut talk, mut over, mut whole) = (talk(), Vec::new(), 0);
            for mut piece in requests.concat().chunks(size) {
                while let Ok(Progress::Whole(seen, _)) = talk.client_sent(piece, &mut over) {
                    whole += 1;
                    piece = &piece[seen..];
                    if piece.is_empty() {
                        break;
                    }
                }
            }
            assert_eq!((whole, over.len()), (4, 1), "{size}: one wants no answer");
            for piece in answers.concat().chunks(size) {
                talk.node_sent(piece, &mut over).unwrap();
            }
            assert_eq!((over.len(), talk.close().len()), (3, 0), "{size}");
        }
    }

    #[test]
    fn what_is_no_message_ends_the_session() {
        let said = |bytes: &[u8]| talk().client_sent(bytes, &mut Vec::new()).unwrap_err();
        assert!(said(&[0xda, 0xbc]).ends_with("unknown magic number: \"dabc\""));
        assert!(
            said(&[&message(0xc2, 1, b"")[..12], &[0x80, 0, 0, 0]].concat()).contains("invalid data length")
        );
        assert_eq!(talk().client_sent(&[0xda], &mut Vec::new()), Ok(Progress::More));
    }
}
