//! A response body held back until it is whole, for plugins that must see all of it.
//!
//! What is held counts in the budget of all bodies. A body that is too large is refused as a whole: a part of it would
//! show what the plugin was to remove. Nothing is sent before the body is whole, so the client sees an error page.

use std::net::IpAddr;

use bytes::Bytes;
use tidegate_plugin_api::{
    BodyChunk, Passage, Request,
    memory::{Full, Growing},
};
use tidegate_protocol::Method;
use tidegate_telemetry::error_log;

/// Pieces are put together in blocks of this size: none is copied for the next.
const BLOCK: usize = 256 << 10;

pub(crate) struct HeldBody {
    blocks: Vec<Growing>,
    len: usize,
    limit: usize,
    client: IpAddr,
    done: bool,
}

/// The whole body, in blocks.
pub(crate) struct Whole {
    blocks: Vec<Growing>,
    len: usize,
}

/// The status of an answer that its plugin cannot work on.
pub(crate) fn status(full: Full) -> u16 {
    match full {
        Full::Limit(_) => 502,
        Full::Spent => 503,
    }
}

impl HeldBody {
    /// Holds the answer of this request, its head too; `None` where it has no body.
    pub(crate) fn of(request: &mut Request, limit: usize) -> Option<HeldBody> {
        let response = &mut request.response;
        if request.head.method == Method::Head || matches!(response.status, 204 | 304) {
            return None;
        }
        response.head_waits = true;
        Some(HeldBody { blocks: Vec::new(), len: 0, limit, client: request.remote_addr, done: false })
    }

    /// Takes the chunk's data. With the last of it the plugin is asked for a new body, see [`HeldBody::whole`].
    pub(crate) fn take(&mut self, plugin: &str, chunk: &mut BodyChunk) {
        let piece = std::mem::take(&mut chunk.data);
        if self.done {
            return;
        }
        if let Err(full) = self.add(&piece) {
            self.done = true;
            self.blocks.clear();
            log(plugin, full);
            chunk.passage = Passage::Refused(status(full));
        } else if chunk.last {
            self.done = true;
            chunk.passage = Passage::Waits;
        }
    }

    fn add(&mut self, piece: &[u8]) -> Result<(), Full> {
        if self.len + piece.len() > self.limit {
            return Err(Full::Limit(self.limit));
        }
        self.len += piece.len();
        let mut rest = piece;
        while !rest.is_empty() {
            let block = match self.blocks.last_mut().filter(|block| block.len() < BLOCK) {
                Some(block) => block,
                None => {
                    self.blocks.push(Growing::new(BLOCK, self.client));
                    continue;
                }
            };
            let (now, later) = rest.split_at(rest.len().min(BLOCK - block.len()));
            block.push(now)?;
            rest = later;
        }
        Ok(())
    }

    pub(crate) fn whole(&mut self) -> Whole {
        Whole { blocks: std::mem::take(&mut self.blocks), len: self.len }
    }
}

fn log(plugin: &str, full: Full) {
    let reason = match full {
        Full::Limit(limit) => format!("it has more than {limit} bytes"),
        Full::Spent => "there is no memory left for bodies".to_owned(),
    };
    refuse(plugin, &reason);
}

/// Says why an answer is kept from the client.
pub(crate) fn refuse(plugin: &str, reason: &str) {
    error_log::log(
        error_log::Level::Error,
        format_args!("{plugin}: a response is not sent because it cannot be processed: {reason}"),
    );
}

impl Whole {
    pub(crate) fn length(&self) -> usize {
        self.len
    }

    /// In one piece. Copies a body of more than one block: not for a worker.
    pub(crate) fn join(self) -> Bytes {
        Growing::join(self.blocks).map(Growing::into_bytes).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(limit: usize) -> HeldBody {
        let client = IpAddr::from([192, 0, 2, 1]);
        HeldBody { blocks: Vec::new(), len: 0, limit, client, done: false }
    }

    #[test]
    fn pieces_until_the_end_or_the_limit() {
        let check = |limit, pieces: &[&str], expected: &[Passage]| {
            let mut body = held(limit);
            for (index, (piece, expected)) in pieces.iter().zip(expected).enumerate() {
                let mut chunk = BodyChunk::new(piece.as_bytes().to_vec(), index + 1 == pieces.len());
                body.take("test", &mut chunk);
                assert_eq!(chunk.passage, *expected, "{pieces:?}");
                assert!(chunk.data.is_empty());
            }
            body.whole().join()
        };
        let (free, waits) = (Passage::Free, Passage::Waits);
        assert_eq!(check(4, &["ab", "cd", ""], &[free, free, waits]), "abcd");
        assert_eq!(check(3, &["ab", "cd", "ef"], &[free, Passage::Refused(502), free]), "");
        assert_eq!(check(10, &[""], &[waits]), "");
    }

    #[test]
    fn blocks_are_joined_in_order() {
        let body: Vec<u8> = (0..3 * BLOCK / 2).map(|at| (at / 1000) as u8).collect();
        let mut whole = held(body.len());
        for (index, piece) in body.chunks(100_000).enumerate() {
            let mut chunk = BodyChunk::new(piece.to_vec(), (index + 1) * 100_000 >= body.len());
            whole.take("test", &mut chunk);
        }
        assert_eq!(whole.blocks.len(), 2);
        assert_eq!(whole.whole().join(), body);
    }
}
