//! The body of an answer without its framing.

use tidegate_protocol::{
    BodyLength, Head,
    chunked::{ChunkedDecoder, Event},
};

use crate::engine::failure::{Broken, Failure, malformed};

pub(super) struct Body {
    framing: Framing,
    trailers: Head,
    ended: bool,
}

enum Framing {
    Fixed(u64),
    Chunked(ChunkedDecoder),
    UntilClose,
}

impl Body {
    pub(super) fn of(length: BodyLength) -> Body {
        let framing = match length {
            BodyLength::Fixed(length) => Framing::Fixed(length),
            BodyLength::Chunked => Framing::Chunked(ChunkedDecoder::default()),
            BodyLength::UntilClose => Framing::UntilClose,
        };
        Body { framing, trailers: Head::new(), ended: length == BodyLength::Fixed(0) }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Hands over the data in `input`; how much of it is used up.
    pub(super) fn take(&mut self, input: &[u8], mut data: impl FnMut(&[u8])) -> Result<usize, Broken> {
        let mut used = 0;
        while !self.ended {
            let rest = input.get(used..).unwrap_or_default();
            let length = match &mut self.framing {
                Framing::Fixed(left) => {
                    let length = (*left).min(rest.len() as u64);
                    *left -= length;
                    self.ended = *left == 0;
                    length as usize
                }
                Framing::UntilClose => rest.len(),
                Framing::Chunked(decoder) => {
                    let event = decoder.next(rest, &mut self.trailers);
                    match event.map_err(|error| malformed(error.reason))? {
                        Event::NeedMore { skip } => return Ok(used + skip),
                        Event::Data { skip, length } => {
                            used += skip;
                            length
                        }
                        Event::End { skip } => {
                            self.ended = true;
                            used += skip;
                            0
                        }
                    }
                }
            };
            if length == 0 {
                return Ok(used);
            }
            data(input.get(used..used + length).unwrap_or_default());
            used += length;
        }
        Ok(used)
    }

    /// The connection ended, which may be the end of the body.
    pub(super) fn closed(&mut self) -> Result<(), Broken> {
        if matches!(self.framing, Framing::UntilClose) {
            self.ended = true;
            return Ok(());
        }
        Err(Broken::new(Failure::Closed, "closed early: before the body ended"))
    }
}
