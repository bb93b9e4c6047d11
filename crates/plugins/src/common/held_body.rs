//! A response body held back until it is whole, for plugins that must see all of it.

use plugin::BodyChunk;

/// Collects pieces up to a limit. A body that reaches the limit is cut there and taken as whole, as in APISIX.
pub struct HeldBody {
    data: Vec<u8>,
    limit: usize,
    done: bool,
}

impl HeldBody {
    pub fn new(limit: usize) -> HeldBody {
        HeldBody { data: Vec::new(), limit, done: false }
    }

    /// Takes the chunk's data; the whole body once it is there.
    pub fn take(&mut self, chunk: &mut BodyChunk) -> Option<Vec<u8>> {
        let piece = std::mem::take(&mut chunk.data);
        if self.done {
            return None;
        }
        if self.data.is_empty() {
            self.data = piece;
        } else {
            self.data.extend_from_slice(&piece);
        }
        if self.data.len() >= self.limit || chunk.last {
            self.data.truncate(self.limit);
            self.done = true;
            return Some(std::mem::take(&mut self.data));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_until_the_end_or_the_limit() {
        let cases: &[(usize, &[&str], &[Option<&str>])] = &[
            (10, &["ab", "cd", ""], &[None, None, Some("abcd")]),
            (3, &["ab", "cd", "ef"], &[None, Some("abc"), None]),
            (10, &[""], &[Some("")]),
        ];
        for (limit, pieces, expected) in cases {
            let mut body = HeldBody::new(*limit);
            for (index, (piece, expected)) in pieces.iter().zip(*expected).enumerate() {
                let mut chunk =
                    BodyChunk { data: piece.as_bytes().to_vec(), last: index + 1 == pieces.len() };
                assert_eq!(body.take(&mut chunk).as_deref(), expected.map(str::as_bytes));
                assert!(chunk.data.is_empty());
            }
        }
    }
}
